//! Element types and the operations that combine them.

use crate::name::{ParseNameError, find};
use core::fmt;
use core::str::FromStr;

/// What one element of a vector is (EPIC appendix N).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DataType {
    /// IEEE 754 binary32, little-endian.
    F32,
    /// IEEE 754 binary16, little-endian; combined in binary32 and rounded back to nearest, ties to even.
    F16,
    /// bfloat16, little-endian; combined in binary32 and rounded back to nearest, ties to even.
    Bf16,
    /// Two's complement 32-bit integer, little-endian, wrapping.
    I32,
}

/// How two elements become one (EPIC appendix N).
///
/// All three give the same bits in every build and on every machine, and `Min` and `Max` in every order too: of
/// floating-point numbers, a NaN on either side gives the positive quiet NaN without payload (so that one bad rank is
/// seen by all), and minus zero is less than plus zero (IEEE 754-2019 minimum and maximum).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReduceOp {
    /// Addition. A NaN that comes in or comes about is the positive quiet NaN without payload.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

/// An operation on elements of a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reduction {
    /// What to do.
    pub op: ReduceOp,
    /// To what.
    pub data_type: DataType,
}

impl DataType {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::I32];

    const NAMES: [(&'static str, Self); 4] =
        [("f32", Self::F32), ("f16", Self::F16), ("bf16", Self::Bf16), ("i32", Self::I32)];

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

impl ReduceOp {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Min, Self::Max];

    const NAMES: [(&'static str, Self); 3] = [("sum", Self::Sum), ("min", Self::Min), ("max", Self::Max)];

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DataType {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        find(&Self::NAMES, "f32, f16, bf16, i32", text)
    }
}

impl FromStr for ReduceOp {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        find(&Self::NAMES, "sum, min, max", text)
    }
}
