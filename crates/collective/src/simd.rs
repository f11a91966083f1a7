//! SIMD: combining blocks of elements with vector instructions.
//!
//! Everything is plain safe code over unaligned bytes without branches, which the compiler turns into vector
//! instructions; `multiversion` compiles it once per vector width and picks at run time. Half-precision numbers are
//! widened and narrowed by the processor's own instructions or by integer arithmetic rather than by `half`, whose
//! conversions the compiler cannot vectorise across elements; the tests compare with it over every bit pattern.

use crate::{DataType, ReduceOp, Reduction};
use multiversion::multiversion;
use multiversion::target::match_target;

/// Combines `source` into `target`, element by element. `multiversion` takes the wider of the two only on processors
/// that do not slow down for it.
///
/// # Panics
/// If the lengths differ or are not whole elements.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
pub(crate) fn reduce(target: &mut [u8], source: &[u8], reduction: Reduction) {
    let size = reduction.data_type.size();
    assert_eq!(target.len(), source.len(), "combining blocks of different lengths");
    assert!(target.len().is_multiple_of(size), "{} bytes are not whole elements of {size}", target.len());
    match (reduction.data_type, reduction.op) {
        (DataType::F32, ReduceOp::Sum) => zip4(target, source, |a, b| {
            let sum = f32::from_bits(a) + f32::from_bits(b);
            if sum.is_nan() { F32_NAN } else { sum.to_bits() }
        }),
        (DataType::F32, ReduceOp::Min) => zip4(target, source, |a, b| {
            // Equal numbers have equal bits but for zeros, of which either sign makes the minimum negative.
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let min = if x < y { a } else { b } | if y < x { b } else { a };
            if x.is_nan() | y.is_nan() { F32_NAN } else { min }
        }),
        (DataType::F32, ReduceOp::Max) => zip4(target, source, |a, b| {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let max = if x > y { a } else { b } & if y > x { b } else { a };
            if x.is_nan() | y.is_nan() { F32_NAN } else { max }
        }),
        (DataType::I32, ReduceOp::Sum) => zip4(target, source, u32::wrapping_add),
        (DataType::I32, ReduceOp::Min) => zip4(target, source, |a, b| (a as i32).min(b as i32) as u32),
        (DataType::I32, ReduceOp::Max) => zip4(target, source, |a, b| (a as i32).max(b as i32) as u32),
        (DataType::F16, ReduceOp::Sum) => add_f16(target, source),
        (DataType::Bf16, ReduceOp::Sum) => {
            zip2(target, source, |a, b| bf16_from_f32(bf16_to_f32(a) + bf16_to_f32(b)))
        }
        // Widening keeps order, so the smaller and the larger need no conversion.
        (DataType::F16, ReduceOp::Min) => {
            zip2(target, source, |a, b| pick16(a, b, key16(a) < key16(b), F16_INFINITY))
        }
        (DataType::F16, ReduceOp::Max) => {
            zip2(target, source, |a, b| pick16(a, b, key16(a) > key16(b), F16_INFINITY))
        }
        (DataType::Bf16, ReduceOp::Min) => {
            zip2(target, source, |a, b| pick16(a, b, key16(a) < key16(b), BF16_INFINITY))
        }
        (DataType::Bf16, ReduceOp::Max) => {
            zip2(target, source, |a, b| pick16(a, b, key16(a) > key16(b), BF16_INFINITY))
        }
    }
}

/// Adds binary16 numbers: with the conversion instructions where there are some, eight at a time.
#[multiversion(targets("x86_64+avx2+f16c"))]
fn add_f16(target: &mut [u8], source: &[u8]) {
    let whole = match_target! {
        "x86_64+avx2+f16c" => {
            use core::arch::x86_64::*;
            let load = |eight: &[u8; 16]| {
                let (halves, _) = eight.as_chunks::<8>();
                let [low, high] = [halves[0], halves[1]].map(i64::from_le_bytes);
                _mm256_cvtph_ps(_mm_set_epi64x(high, low))
            };
            let nan = _mm256_set1_ps(f32::NAN);
            let (eights, _) = target.as_chunks_mut::<16>();
            for (a, b) in eights.iter_mut().zip(source.as_chunks::<16>().0) {
                let sum = _mm256_add_ps(load(a), load(b));
                let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(sum, sum);
                let sum = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_blendv_ps(sum, nan, is_nan));
                let (low, high) = a.split_at_mut(8);
                low.copy_from_slice(&_mm_cvtsi128_si64(sum).to_le_bytes());
                high.copy_from_slice(&_mm_extract_epi64::<1>(sum).to_le_bytes());
            }
            16 * eights.len()
        },
        _ => 0,
    };
    zip2(&mut target[whole..], &source[whole..], |a, b| f16_from_f32(f16_to_f32(a) + f16_to_f32(b)));
}

const F32_NAN: u32 = 0x7fc0_0000;
const F16_NAN: u16 = 0x7e00;
const BF16_NAN: u16 = 0x7fc0;
const F32_INFINITY: u32 = 0x7f80_0000;
const F16_INFINITY: u16 = 0x7c00;
const BF16_INFINITY: u16 = 0x7f80;

#[inline(always)]
fn zip4(target: &mut [u8], source: &[u8], combine: impl Fn(u32, u32) -> u32) {
    for (a, b) in target.as_chunks_mut::<4>().0.iter_mut().zip(source.as_chunks::<4>().0) {
        *a = combine(u32::from_le_bytes(*a), u32::from_le_bytes(*b)).to_le_bytes();
    }
}

#[inline(always)]
fn zip2(target: &mut [u8], source: &[u8], combine: impl Fn(u16, u16) -> u16) {
    for (a, b) in target.as_chunks_mut::<2>().0.iter_mut().zip(source.as_chunks::<2>().0) {
        *a = combine(u16::from_le_bytes(*a), u16::from_le_bytes(*b)).to_le_bytes();
    }
}

/// An integer that orders floating-point bit patterns, minus zero below plus zero: the magnitude of a negative
/// number is turned over.
#[inline(always)]
fn key16(bits: u16) -> i16 {
    (bits ^ (((bits as i16 >> 15) as u16) >> 1)) as i16
}

/// The first or the second, or the NaN of the type whose infinity is given if either is one.
#[inline(always)]
fn pick16(a: u16, b: u16, first: bool, infinity: u16) -> u16 {
    let picked = if first { a } else { b };
    let nan = (a & !(1 << 15) > infinity) | (b & !(1 << 15) > infinity);
    // The quiet bit is the top bit of the fraction: half of the lowest exponent bit.
    let quiet = (infinity & infinity.wrapping_neg()) >> 1;
    if nan { infinity | quiet } else { picked }
}

/// Widens binary16 to binary32, exactly. A NaN stays one; its payload is of no interest to a reduction.
#[inline(always)]
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff);
    let sign = u32::from(half & 0x8000) << 16;
    let shifted = magnitude << 13;
    // Normal: add 112 to the exponent. Subnormal: give it the exponent of 2^-14 and subtract the leading one that
    // this brought in, so that no binary32 subnormal, which processors multiply slowly, ever comes up.
    let normal = shifted + (112 << 23);
    let subnormal = f32::from_bits(shifted | (113 << 23)) - f32::from_bits(113 << 23);
    let finite = if magnitude < 0x0400 { subnormal.to_bits() } else { normal };
    let special = if magnitude >= u32::from(F16_INFINITY) { F32_INFINITY } else { 0 };
    f32::from_bits(finite | special | sign)
}

/// Narrows binary32 to binary16, to nearest, ties to even.
#[inline(always)]
pub(crate) fn f16_from_f32(single: f32) -> u16 {
    let bits = single.to_bits();
    let magnitude = bits & !(1 << 31);
    let sign = (bits >> 16) as u16 & 0x8000;
    // Normal: take 112 off the exponent and round by adding just under half a last place, or half if it is odd.
    let odd = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13) as u16;
    // Subnormal: adding 0.5 puts the last place of a binary16 subnormal (2^-24) at the end of the fraction, so that
    // the addition itself rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits()) as u16;
    let finite = if magnitude < (113 << 23) { subnormal } else { normal };
    // From 65520 on, numbers round to infinity.
    let large = if magnitude >= 65520.0f32.to_bits() { F16_INFINITY } else { finite };
    if magnitude > F32_INFINITY { F16_NAN } else { large | sign }
}

/// Widens bfloat16 to binary32, exactly.
#[inline(always)]
pub(crate) fn bf16_to_f32(brain: u16) -> f32 {
    f32::from_bits(u32::from(brain) << 16)
}

/// Narrows binary32 to bfloat16, to nearest, ties to even.
#[inline(always)]
pub(crate) fn bf16_from_f32(single: f32) -> u16 {
    let bits = single.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = (bits.wrapping_add(0x7fff + odd) >> 16) as u16;
    if bits & !(1 << 31) > F32_INFINITY { BF16_NAN } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use half::{bf16, f16};

    #[test]
    fn adding_many_halves_is_adding_them_one_by_one() {
        // Every bit pattern beside one of each kind: zeros, subnormal, odd last place, largest, infinity, NaN.
        for other in [0x0000u16, 0x8000, 0x8001, 0x3c01, 0xbbff, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0xfd55] {
            let mut sums: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            let others: Vec<u8> = (0..=u16::MAX).flat_map(|_| other.to_le_bytes()).collect();
            add_f16(&mut sums, &others);
            for (bits, sum) in (0..=u16::MAX).zip(sums.as_chunks::<2>().0) {
                let exact = f16::from_bits(bits).to_f32() + f16::from_bits(other).to_f32();
                let expected = if exact.is_nan() { F16_NAN } else { f16::from_f32(exact).to_bits() };
                assert_eq!(u16::from_le_bytes(*sum), expected, "{bits:#06x} + {other:#06x}");
                assert_eq!(f16_from_f32(f16_to_f32(bits) + f16_to_f32(other)), expected, "one by one");
            }
        }
    }

    #[test]
    fn widening_agrees_with_half_on_every_bit_pattern() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f16_to_f32(bits), f16::from_bits(bits).to_f32());
            assert!(
                ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                "f16 {bits:#06x}"
            );
            let (ours, theirs) = (bf16_to_f32(bits), bf16::from_bits(bits).to_f32());
            assert!(
                ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan(),
                "bf16 {bits:#06x}"
            );
        }
    }

    #[test]
    fn narrowing_agrees_with_half_around_every_rounding_boundary() {
        // The upper 16 bits take every value; the lower ones lie on and beside every tie that binary16 and bfloat16
        // can have there.
        for high in 0..=u16::MAX {
            for low in
                [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xffff]
            {
                let single = f32::from_bits(u32::from(high) << 16 | low);
                let expected = if single.is_nan() { F16_NAN } else { f16::from_f32(single).to_bits() };
                assert_eq!(f16_from_f32(single), expected, "f16 of {:#010x}", single.to_bits());
                let expected = if single.is_nan() { BF16_NAN } else { bf16::from_f32(single).to_bits() };
                assert_eq!(bf16_from_f32(single), expected, "bf16 of {:#010x}", single.to_bits());
            }
        }
    }
}
