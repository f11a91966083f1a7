//! Element types and the operations that combine them.

use crate::block_format::BlockFormat;
use crate::name::{ParseNameError, find};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// What one element of a vector is, little-endian. The first four are those that EPIC's chips add up (appendix N), the others what
/// programs have beside them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DataType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16; combined in binary32 and rounded back to nearest, ties to even.
    F16,
    /// bfloat16; combined in binary32 and rounded back to nearest, ties to even.
    Bf16,
    /// Two's complement 32-bit integer, wrapping.
    I32,
    /// IEEE 754 binary64.
    F64,
    /// Two's complement 64-bit integer, wrapping.
    I64,
    /// Unsigned 64-bit integer, wrapping.
    U64,
    /// Unsigned 32-bit integer, wrapping.
    U32,
    /// Two's complement 16-bit integer, wrapping.
    I16,
    /// Two's complement 8-bit integer, wrapping.
    I8,
    /// Unsigned 8-bit integer, wrapping.
    U8,
    /// E4M3 of the OCP 8-bit floating point specification 1.0: no infinities, up to 448; combined in binary32 and rounded back to
    /// nearest, ties to even. What is too large becomes a NaN, so that all see it.
    F8E4M3,
    /// E5M2 of the same: combined likewise, and what is too large becomes infinite.
    F8E5M2,
    /// MXFP8 of the OCP Microscaling specification 1.0 with elements E4M3, in tiles of 1,024 bytes, each an element here
    /// ([`BlockFormat::Mxfp8`]): added up in binary32, and quantised anew.
    Mxfp8,
    /// As NVFP4, but without a scale of the whole tensor, in tiles of 64 bytes ([`BlockFormat::Nvfp4`]): the same.
    Nvfp4,
}

/// How two elements become one (EPIC appendix N has the first three).
///
/// All give the same bits in every build and on every machine, and all but `Sum` and `Product` in every order too, of integers these
/// as well: of floating-point numbers, a NaN on either side gives the positive quiet NaN without payload (so that one bad rank is
/// seen by all), and minus zero is less than plus zero (IEEE 754-2019 minimum and maximum).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReduceOp {
    /// Addition. A NaN that comes in or comes about is the positive quiet NaN without payload.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Multiplication, with NaNs as addition has them.
    Product,
    /// Bits that both have; of integers alone.
    BitAnd,
    /// Bits that one has; of integers alone.
    BitOr,
    /// Bits that one has and not the other; of integers alone.
    BitXor,
}

/// An operation on elements of a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reduction {
    /// What to do.
    pub op: ReduceOp,
    /// To what.
    pub data_type: DataType,
}

/// What an application asks for: an operation of the network, or the average, for which every rank divides the sum when it has it
/// ([`Numbers::divide`](crate::Numbers::divide)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// As the network does it.
    Reduce(ReduceOp),
    /// The sum divided by the number of ranks.
    Average,
}

impl DataType {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::I32,
        Self::F64,
        Self::I64,
        Self::U64,
        Self::U32,
        Self::I16,
        Self::I8,
        Self::U8,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::Mxfp8,
        Self::Nvfp4,
    ];

    /// Bytes of the longest number there is. Tiles of block formats are multiples of it.
    pub const LONGEST: usize = 8;

    const NAMES: [(&'static str, Self); 15] = [
        ("f32", Self::F32),
        ("f16", Self::F16),
        ("bf16", Self::Bf16),
        ("i32", Self::I32),
        ("f64", Self::F64),
        ("i64", Self::I64),
        ("u64", Self::U64),
        ("u32", Self::U32),
        ("i16", Self::I16),
        ("i8", Self::I8),
        ("u8", Self::U8),
        ("e4m3", Self::F8E4M3),
        ("e5m2", Self::F8E5M2),
        ("mxfp8", Self::Mxfp8),
        ("nvfp4", Self::Nvfp4),
    ];

    /// Bytes of an element; of a block format, of a tile.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::Mxfp8 => BlockFormat::Mxfp8.tile(),
            Self::Nvfp4 => BlockFormat::Nvfp4.tile(),
        }
    }

    /// The format, if elements share scales.
    pub const fn block_format(self) -> Option<BlockFormat> {
        match self {
            Self::Mxfp8 => Some(BlockFormat::Mxfp8),
            Self::Nvfp4 => Some(BlockFormat::Nvfp4),
            _ => None,
        }
    }

    /// Which operations are defined for the type, in words, for whoever asks for another one.
    pub const fn defined_operations(self) -> &'static str {
        match self {
            Self::Mxfp8 | Self::Nvfp4 => "sum or avg of block formats",
            _ if self.is_float() => "sum, min, max, prod or avg of floating-point numbers",
            _ => "sum, min, max, prod, band, bor, bxor or avg of integers",
        }
    }

    /// Whether each element is a floating-point number.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F64 | Self::F32 | Self::F16 | Self::Bf16 | Self::F8E4M3 | Self::F8E5M2)
    }

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

impl BlockFormat {
    /// The type of its tiles.
    pub const fn data_type(self) -> DataType {
        match self {
            Self::Mxfp8 => DataType::Mxfp8,
            Self::Nvfp4 => DataType::Nvfp4,
        }
    }
}

impl ReduceOp {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Sum, Self::Min, Self::Max, Self::Product, Self::BitAnd, Self::BitOr, Self::BitXor];

    const NAMES: [(&'static str, Self); 7] = [
        ("sum", Self::Sum),
        ("min", Self::Min),
        ("max", Self::Max),
        ("prod", Self::Product),
        ("band", Self::BitAnd),
        ("bor", Self::BitOr),
        ("bxor", Self::BitXor),
    ];

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

impl Reduction {
    /// Whether the operation is defined for the type: bits are those of integers, and block formats are added up alone. Of two numbers the
    /// smaller one would be neither any more once it is quantised under another scale.
    pub const fn is_defined(self) -> bool {
        if self.data_type.block_format().is_some() {
            return matches!(self.op, ReduceOp::Sum);
        }
        !(self.data_type.is_float()
            && matches!(self.op, ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor))
    }

    /// All that are defined.
    pub fn all() -> impl Iterator<Item = Self> {
        let of = |data_type| ReduceOp::ALL.into_iter().map(move |op| Self { op, data_type });
        DataType::ALL.into_iter().flat_map(of).filter(|reduction| reduction.is_defined())
    }
}

impl Op {
    /// What switches and ranks do on the way.
    pub const fn on_the_way(self) -> ReduceOp {
        match self {
            Self::Reduce(op) => op,
            Self::Average => ReduceOp::Sum,
        }
    }

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reduce(op) => op.name(),
            Self::Average => "avg",
        }
    }
}

impl From<ReduceOp> for Op {
    fn from(op: ReduceOp) -> Self {
        Self::Reduce(op)
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
        find(
            &Self::NAMES,
            "f32, f16, bf16, i32, f64, i64, u64, u32, i16, i8, u8, e4m3, e5m2, mxfp8, nvfp4",
            text,
        )
    }
}

impl FromStr for ReduceOp {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        find(&Self::NAMES, "sum, min, max, prod, band, bor, bxor", text)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Op {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let known = ReduceOp::NAMES.iter().map(|(name, op)| (*name, Self::Reduce(*op)));
        let others = [("avg", Self::Average), ("product", Self::Reduce(ReduceOp::Product))];
        let table: Vec<_> = known.chain(others).collect();
        find(&table, "sum, min, max, prod, band, bor, bxor, avg", text)
    }
}
