//! Rust's types whose values are elements.

use half::{bf16, f16};
use quincunx_collective::DataType;

/// A type of Rust's whose values are elements.
pub trait Numeric: Copy + Send + 'static + sealed::Sealed {
    /// Which.
    const DATA_TYPE: DataType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numeric {
    ($($type:ty => $data_type:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Numeric for $type {
            const DATA_TYPE: DataType = DataType::$data_type;
        })*
    };
}
numeric!(f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32, f64 => F64, i64 => I64, u64 => U64, u32 => U32, i16 => I16, i8 => I8, u8 => U8);
