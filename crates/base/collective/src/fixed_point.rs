//! Fixed point: how binary32 values travel through switches that add integers alone.
//!
//! A value is multiplied by a power of two and rounded to the nearest 32-bit integer, ties to even. Who adds integers up stops at the
//! largest and the smallest instead of wrapping. Ranks agree on the power for each block of values by its largest exponent (SwitchML,
//! "scaling factor"): [`FixedPoint::for_block`] leaves room for the sum of all ranks, so that nothing saturates, and the result is off
//! by [`FixedPoint::error_bound`] at most. With a power that nobody chose by the values ([`FixedPoint::new`]) what is too large saturates.

use alloc::vec::Vec;

/// The exponent of a block with a NaN or an infinity: all of its sum reads as NaN, so that one bad rank is seen by all.
pub const NOT_FINITE: u8 = u8::MAX;

/// The largest sum of a block whose exponent is agreed on: one bit below what an integer holds, for what rounding adds.
const SUM_BITS: i32 = 30;

/// Bytes of a value, and of the integer that it becomes.
const SIZE: usize = 4;

/// A power of two that values are multiplied by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FixedPoint {
    fraction_bits: i16,
}

impl FixedPoint {
    /// So many bits of an integer are behind the point; a negative number leaves out as many before it.
    pub const fn new(fraction_bits: i8) -> Self {
        Self { fraction_bits: fraction_bits as i16 }
    }

    /// What fits blocks of `ranks` ranks none of which has a value of a larger exponent than `exponent`, as [`largest_exponent`] says it.
    pub const fn for_block(exponent: u8, ranks: u16) -> Self {
        let ranks = if ranks == 0 { 1 } else { ranks as u32 };
        let rank_bits = ranks.next_power_of_two().trailing_zeros() as i32;
        // A value of biased exponent e is below 2^(e - 126).
        Self { fraction_bits: (SUM_BITS - rank_bits + 126 - exponent as i32) as i16 }
    }

    /// By how much the sum of `ranks` values may be off, if nothing saturates: half a step for each. The sum itself is rounded to binary32.
    pub fn error_bound(self, ranks: u16) -> f64 {
        f64::from(ranks) / 2.0 * self.power(-1)
    }

    /// Two to the fraction bits, or to as many less than none.
    fn power(self, sign: i64) -> f64 {
        // At most 284 either way, where binary64 has no subnormal numbers.
        f64::from_bits(((1023 + sign * i64::from(self.fraction_bits)) as u64) << 52)
    }

    /// The integer of a value; a NaN has none and becomes zero.
    pub fn integer(self, value: f32) -> i32 {
        // Adding 1.5 * 2^52 puts the ones at the end of the fraction, so that the addition itself rounds.
        const ROUNDING: f64 = 6_755_399_441_055_744.0;
        let scaled = f64::from(value) * self.power(1);
        let inside = scaled.clamp(f64::from(i32::MIN), f64::from(i32::MAX));
        (inside + ROUNDING - ROUNDING) as i32
    }

    /// The value of an integer, rounded to binary32.
    pub fn value(self, integer: i32) -> f32 {
        (f64::from(integer) * self.power(-1)) as f32
    }

    /// The integers of values, as they lie in memory.
    ///
    /// # Panics
    /// If these are not whole values.
    pub fn integers(self, values: &[u8]) -> Vec<u8> {
        each(values, |bytes| self.integer(f32::from_le_bytes(bytes)).to_le_bytes())
    }

    /// The values of integers, as they lie in memory.
    ///
    /// # Panics
    /// If these are not whole integers.
    pub fn values(self, integers: &[u8]) -> Vec<u8> {
        each(integers, |bytes| self.value(i32::from_le_bytes(bytes)).to_le_bytes())
    }
}

/// The largest biased exponent of values as they lie in memory: zero if all are below 2^-126, [`NOT_FINITE`] if one is no number.
///
/// # Panics
/// If these are not whole values.
pub fn largest_exponent(values: &[u8]) -> u8 {
    let (values, rest) = values.as_chunks::<SIZE>();
    assert!(rest.is_empty(), "whole values, found {} bytes more", rest.len());
    let largest = values.iter().fold(0, |largest, bytes| largest.max(u32::from_le_bytes(*bytes) << 1));
    (largest >> 24) as u8
}

/// Adds integers to others, each stopping at the largest and the smallest there is.
///
/// # Panics
/// If these are not as many whole integers.
pub(crate) fn add_saturating(sum: &mut [u8], terms: &[u8]) {
    assert_eq!(sum.len(), terms.len(), "as many integers");
    let (sum, rest) = sum.as_chunks_mut::<SIZE>();
    assert!(rest.is_empty(), "whole integers, found {} bytes more", rest.len());
    for (sum, term) in sum.iter_mut().zip(terms.as_chunks::<SIZE>().0) {
        *sum = i32::from_le_bytes(*sum).saturating_add(i32::from_le_bytes(*term)).to_le_bytes();
    }
}

fn each(bytes: &[u8], of: impl Fn([u8; SIZE]) -> [u8; SIZE]) -> Vec<u8> {
    let (elements, rest) = bytes.as_chunks::<SIZE>();
    assert!(rest.is_empty(), "whole elements, found {} bytes more", rest.len());
    elements.iter().flat_map(|element| of(*element)).collect()
}
