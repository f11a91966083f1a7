//! Types of elements and operations: those that the network adds up, and those that ranks add up themselves.

use crate::CommError;
use half::{bf16, f16};
use quincunx_collective::{DataType, ReduceOp, Reduction};

/// What one element of a vector is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Element {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// Signed, 32 bits.
    I32,
    /// IEEE 754 binary64.
    F64,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 16 bits.
    I16,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
}

/// How two elements become one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Addition; integers wrap.
    Sum,
    /// The smaller.
    Min,
    /// The larger.
    Max,
    /// Multiplication; integers wrap.
    Product,
    /// Bits that both have.
    BitAnd,
    /// Bits that one has.
    BitOr,
    /// Bits that one has and not the other.
    BitXor,
}

/// A type of Rust's whose values are elements.
pub trait Numeric: Copy + Send + 'static + sealed::Sealed {
    /// Which.
    const ELEMENT: Element;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! numeric {
    ($($type:ty => $element:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Numeric for $type {
            const ELEMENT: Element = Element::$element;
        })*
    };
}
numeric!(f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32, f64 => F64, i64 => I64, u64 => U64, u32 => U32, i16 => I16, i8 => I8, u8 => U8);

impl Element {
    /// All of them.
    pub const ALL: [Self; 11] = [
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
    ];

    /// Bytes of one.
    pub const fn size(self) -> usize {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 8,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F16 | Self::Bf16 | Self::I16 => 2,
            Self::I8 | Self::U8 => 1,
        }
    }

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
            Self::F64 => "f64",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::I16 => "i16",
            Self::I8 => "i8",
            Self::U8 => "u8",
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::F64)
    }

    /// The type as the network has it.
    const fn on_the_network(self) -> Option<DataType> {
        match self {
            Self::F32 => Some(DataType::F32),
            Self::F16 => Some(DataType::F16),
            Self::Bf16 => Some(DataType::Bf16),
            Self::I32 => Some(DataType::I32),
            _ => None,
        }
    }
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Sum, Self::Min, Self::Max, Self::Product, Self::BitAnd, Self::BitOr, Self::BitXor];

    /// The name that people type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Product => "product",
            Self::BitAnd => "band",
            Self::BitOr => "bor",
            Self::BitXor => "bxor",
        }
    }

    /// What switches are told, if they know this operation for this type.
    pub fn on_the_network(self, element: Element) -> Option<Reduction> {
        let op = match (self, element) {
            (Self::Sum, _) => ReduceOp::Sum,
            // The sum of unsigned integers has the same bits as that of signed ones, but they order otherwise.
            (Self::Min, _) => ReduceOp::Min,
            (Self::Max, _) => ReduceOp::Max,
            _ => return None,
        };
        let data_type = match (self, element) {
            (Self::Sum, Element::U32) => DataType::I32,
            _ => element.on_the_network()?,
        };
        Some(Reduction { op, data_type })
    }

    /// Refuses what is not defined: bits of floating-point numbers.
    ///
    /// # Errors
    /// If that is so.
    pub fn check(self, element: Element) -> Result<(), CommError> {
        let is_bitwise = matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor);
        if is_bitwise && element.is_float() {
            return Err(CommError::misuse(
                "sum, min, max or product of floating-point numbers",
                format!("{} of {}", self.name(), element.name()),
                "take another operation, or view the data as integers",
            ));
        }
        Ok(())
    }

    /// Combines `source` into `target`, element by element: what ranks do themselves where the network does not.
    ///
    /// # Panics
    /// If lengths differ or are no whole elements, or the operation is not defined for the type.
    pub(crate) fn fold(self, element: Element, target: &mut [u8], source: &[u8]) {
        assert_eq!(target.len(), source.len(), "vectors of one length");
        assert!(target.len().is_multiple_of(element.size()), "whole elements");
        match element {
            Element::F32 => {
                zip(target, source, f32::from_le_bytes, f32::to_le_bytes, |a, b| self.float32(a, b))
            }
            Element::F64 => {
                zip(target, source, f64::from_le_bytes, f64::to_le_bytes, |a, b| self.float64(a, b))
            }
            Element::F16 => zip(target, source, f16::from_le_bytes, f16::to_le_bytes, |a, b| {
                f16::from_f32(self.float32(a.to_f32(), b.to_f32()))
            }),
            Element::Bf16 => zip(target, source, bf16::from_le_bytes, bf16::to_le_bytes, |a, b| {
                bf16::from_f32(self.float32(a.to_f32(), b.to_f32()))
            }),
            Element::I64 => self.integers(target, source, i64::from_le_bytes, i64::to_le_bytes),
            Element::U64 => self.integers(target, source, u64::from_le_bytes, u64::to_le_bytes),
            Element::I32 => self.integers(target, source, i32::from_le_bytes, i32::to_le_bytes),
            Element::U32 => self.integers(target, source, u32::from_le_bytes, u32::to_le_bytes),
            Element::I16 => self.integers(target, source, i16::from_le_bytes, i16::to_le_bytes),
            Element::I8 => self.integers(target, source, i8::from_le_bytes, i8::to_le_bytes),
            Element::U8 => self.integers(target, source, u8::from_le_bytes, u8::to_le_bytes),
        }
    }

    fn float32(self, a: f32, b: f32) -> f32 {
        // What is exact in binary64 is rounded once.
        self.float64(a.into(), b.into()) as f32
    }

    fn float64(self, a: f64, b: f64) -> f64 {
        match self {
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            Self::Sum => a + b,
            Self::Product => a * b,
            Self::Min => {
                if a < b || (a == b && a.is_sign_negative()) {
                    a
                } else {
                    b
                }
            }
            Self::Max => {
                if a > b || (a == b && a.is_sign_positive()) {
                    a
                } else {
                    b
                }
            }
            Self::BitAnd | Self::BitOr | Self::BitXor => unreachable!("refused at the door"),
        }
    }

    fn integers<T: Integer, const N: usize>(
        self,
        target: &mut [u8],
        source: &[u8],
        parse: fn([u8; N]) -> T,
        emit: fn(T) -> [u8; N],
    ) {
        zip(target, source, parse, emit, |a, b| match self {
            Self::Sum => a.sum(b),
            Self::Product => a.product(b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::BitAnd => a & b,
            Self::BitOr => a | b,
            Self::BitXor => a ^ b,
        });
    }
}

trait Integer:
    Copy
    + Ord
    + std::ops::BitAnd<Output = Self>
    + std::ops::BitOr<Output = Self>
    + std::ops::BitXor<Output = Self>
{
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($type:ty),*) => {
        $(impl Integer for $type {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        })*
    };
}
integer!(i64, u64, i32, u32, i16, i8, u8);

fn zip<T, const N: usize>(
    target: &mut [u8],
    source: &[u8],
    parse: fn([u8; N]) -> T,
    emit: fn(T) -> [u8; N],
    combine: impl Fn(T, T) -> T,
) {
    for (a, b) in target.as_chunks_mut::<N>().0.iter_mut().zip(source.as_chunks::<N>().0) {
        *a = emit(combine(parse(*a), parse(*b)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_network_adds_up_ranks_add_up_to_the_same_bits() {
        use quincunx_collective::{Numbers, Payload, noise};
        for element in Element::ALL {
            for op in [Op::Sum, Op::Min, Op::Max] {
                let Some(reduction) = op.on_the_network(element) else { continue };
                let [a, b] = [1, 2].map(|seed| noise(seed, 4096, reduction.data_type));
                let mut network: Numbers = a.clone();
                network.reduce(0, b.view(0..4096), reduction);
                let mut ranks = a.bytes().to_vec();
                op.fold(element, &mut ranks, b.bytes());
                let wrong =
                    quincunx_collective::wrong_elements(&network, &Numbers::from(ranks), reduction.data_type);
                assert_eq!(wrong, 0, "{} of {}", op.name(), element.name());
            }
        }
    }

    #[test]
    fn bits_of_floating_point_numbers_are_refused() {
        assert!(Op::BitOr.check(Element::F64).is_err());
        assert!(Op::BitOr.check(Element::I64).is_ok());
    }
}
