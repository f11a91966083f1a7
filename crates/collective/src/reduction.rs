//! Element types and the operations that combine them.

/// What one element of a vector is (EPIC appendix N).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DataType {
    /// IEEE 754 binary32, little-endian.
    F32,
    /// IEEE 754 binary16, little-endian.
    F16,
    /// bfloat16, little-endian.
    Bf16,
    /// Two's complement 32-bit integer, little-endian, wrapping.
    I32,
}

/// How two elements become one (EPIC appendix N).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReduceOp {
    /// Addition.
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
