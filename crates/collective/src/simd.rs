//! SIMD: combining blocks of elements with vector instructions.
//!
//! Nearly everything is plain safe code over unaligned bytes without branches, which the compiler turns into vector
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
        (DataType::Bf16, ReduceOp::Sum) => add_bf16(target, source),
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

/// Adds binary16 numbers: with the conversion instructions where there are some, sixteen or eight at a time.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2+f16c"))]
fn add_f16(target: &mut [u8], source: &[u8]) {
    let whole = match_target! {
        "x86_64+avx512f+avx512bw+avx512vl" => {
            use core::arch::x86_64::*;
            let load = |half: &[u8; 32]| {
                let [a, b, c, d] = words(half);
                _mm512_cvtph_ps(_mm256_set_epi64x(d, c, b, a))
            };
            let nan = _mm512_set1_ps(f32::NAN);
            let (blocks, _) = target.as_chunks_mut::<32>();
            for (a, b) in blocks.iter_mut().zip(source.as_chunks::<32>().0) {
                let sum = _mm512_add_ps(load(a), load(b));
                let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(sum, sum);
                let sum = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_mask_blend_ps(is_nan, sum, nan));
                put(a, [
                    _mm256_extract_epi64::<0>(sum),
                    _mm256_extract_epi64::<1>(sum),
                    _mm256_extract_epi64::<2>(sum),
                    _mm256_extract_epi64::<3>(sum),
                ]);
            }
            32 * blocks.len()
        },
        "x86_64+avx2+f16c" => {
            use core::arch::x86_64::*;
            let load = |eight: &[u8; 16]| {
                let [low, high] = words(eight);
                _mm256_cvtph_ps(_mm_set_epi64x(high, low))
            };
            let nan = _mm256_set1_ps(f32::NAN);
            let (eights, _) = target.as_chunks_mut::<16>();
            for (a, b) in eights.iter_mut().zip(source.as_chunks::<16>().0) {
                let sum = _mm256_add_ps(load(a), load(b));
                let is_nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(sum, sum);
                let sum = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_blendv_ps(sum, nan, is_nan));
                put(a, [_mm_cvtsi128_si64(sum), _mm_extract_epi64::<1>(sum)]);
            }
            16 * eights.len()
        },
        _ => 0,
    };
    zip2(&mut target[whole..], &source[whole..], |a, b| f16_from_f32(f16_to_f32(a) + f16_to_f32(b)));
}

/// Adds bfloat16 numbers: with the conversion instruction where there is one, 32 at a time.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512bf16",
    "x86_64+avx512f+avx512bw+avx512vl",
    "x86_64+avx2"
))]
fn add_bf16(target: &mut [u8], source: &[u8]) {
    let whole = match_target! {
        "x86_64+avx512f+avx512bw+avx512dq+avx512bf16" => {
            use core::arch::x86_64::*;
            let load = |block: &[u8; 64]| {
                let [a, b, c, d, e, f, g, h] = words(block);
                _mm512_set_epi64(h, g, f, e, d, c, b, a)
            };
            // Numbers at even places widen by a shift, those at odd ones by clearing what is below them.
            let even = |block| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(block));
            let upper = _mm512_set1_epi32(0xffff_0000_u32 as i32);
            let odd = |block| _mm512_castsi512_ps(_mm512_and_si512(block, upper));
            let alternating = _mm512_set_epi16(
                31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2,
                17, 1, 16, 0,
            );
            let (blocks, _) = target.as_chunks_mut::<64>();
            for (a, b) in blocks.iter_mut().zip(source.as_chunks::<64>().0) {
                let (x, y) = (load(a), load(b));
                let (odds, evens) = (_mm512_add_ps(odd(x), odd(y)), _mm512_add_ps(even(x), even(y)));
                // The instruction takes subnormal sums for zeros and keeps what a NaN carries, which the reference does not.
                if _mm512_fpclass_ps_mask::<NAN_OR_SUBNORMAL>(odds) | _mm512_fpclass_ps_mask::<NAN_OR_SUBNORMAL>(evens) != 0 {
                    add_bf16_in_pairs(a, b);
                    continue;
                }
                let sums = bits_of(_mm512_cvtne2ps_pbh(odds, evens));
                let sums = _mm512_permutexvar_epi16(alternating, sums);
                let (low, high) = a.split_at_mut(32);
                let (lower, upper) = (_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64::<1>(sums));
                for (half, quarter) in [(low, lower), (high, upper)] {
                    put(half, [
                        _mm256_extract_epi64::<0>(quarter),
                        _mm256_extract_epi64::<1>(quarter),
                        _mm256_extract_epi64::<2>(quarter),
                        _mm256_extract_epi64::<3>(quarter),
                    ]);
                }
            }
            64 * blocks.len()
        },
        _ => 0,
    };
    add_bf16_in_pairs(&mut target[whole..], &source[whole..]);
}

/// What `vfpclassps` looks for: either kind of NaN (bits 0 and 7), and subnormal numbers (bit 5).
const NAN_OR_SUBNORMAL: i32 = 0b1010_0001;

/// The bits of a vector of bfloat16 numbers, for which there is no instruction because none is needed.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "core::arch has no cast between these two types")]
#[inline(always)]
fn bits_of(vector: core::arch::x86_64::__m512bh) -> core::arch::x86_64::__m512i {
    // SAFETY: both are 64 bytes of which every pattern is a value.
    unsafe { core::mem::transmute(vector) }
}

/// Bytes as little-endian words, which compile to one load of a vector.
#[inline(always)]
fn words<const WORDS: usize>(bytes: &[u8]) -> [i64; WORDS] {
    let (eights, _) = bytes.as_chunks::<8>();
    core::array::from_fn(|at| i64::from_le_bytes(eights[at]))
}

/// The opposite: one store.
#[inline(always)]
fn put<const WORDS: usize>(bytes: &mut [u8], words: [i64; WORDS]) {
    for (eight, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *eight = word.to_le_bytes();
    }
}

/// Adds bfloat16 numbers two by two, each pair one word of 32 bits: neither has to move to another place of a vector.
#[inline(always)]
fn add_bf16_in_pairs(target: &mut [u8], source: &[u8]) {
    let rounded = |sum: f32| {
        let bits = sum.to_bits();
        let odd = (bits >> 16) & 1;
        if sum.is_nan() { u32::from(BF16_NAN) << 16 } else { bits.wrapping_add(0x7fff + odd) }
    };
    zip4(target, source, |a, b| {
        let high = rounded(f32::from_bits(a & 0xffff_0000) + f32::from_bits(b & 0xffff_0000));
        let low = rounded(f32::from_bits(a << 16) + f32::from_bits(b << 16));
        high & 0xffff_0000 | low >> 16
    });
    let whole = target.len() / 4 * 4;
    zip2(&mut target[whole..], &source[whole..], |a, b| bf16_from_f32(bf16_to_f32(a) + bf16_to_f32(b)));
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

    /// Zeros, subnormals, an odd last place, what cancels to a subnormal, largest, infinity, NaN.
    const F16_KINDS: [u16; 12] =
        [0, 0x8000, 0x0001, 0x8001, 0x83ff, 0x0400, 0x3c01, 0xbbff, 0x7bff, 0xfbff, 0xfc00, 0xfd55];
    const BF16_KINDS: [u16; 14] = [
        0, 0x8000, 0x0001, 0x8001, 0x807f, 0x0080, 0x0081, 0x8101, 0x3f81, 0xbf7f, 0x7f7f, 0xff7f, 0xff80,
        0xffc1,
    ];

    type Way = fn(&mut [u8], &[u8]);

    /// Adds every bit pattern to `other` at once, by each way that there is, and holds the sums against `expected`.
    fn hold_all_sums(
        ways: &[Way],
        other: u16,
        expected: impl Fn(u16) -> u16,
        one_by_one: impl Fn(u16) -> u16,
    ) {
        let others: Vec<u8> = (0..=u16::MAX).flat_map(|_| other.to_le_bytes()).collect();
        for way in ways {
            let mut sums: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
            // Neither the vectors' blocks nor pairs divide the length.
            let (first, rest) = sums.split_at_mut(62);
            way(first, &others[..62]);
            way(rest, &others[62..]);
            for (bits, sum) in (0..=u16::MAX).zip(sums.as_chunks::<2>().0) {
                assert_eq!(u16::from_le_bytes(*sum), expected(bits), "{bits:#06x} + {other:#06x}");
            }
        }
        for bits in 0..=u16::MAX {
            assert_eq!(one_by_one(bits), expected(bits), "{bits:#06x} + {other:#06x}, one by one");
        }
    }

    #[test]
    fn adding_many_halves_is_adding_them_one_by_one() {
        for other in F16_KINDS {
            let sum = |bits| f16::from_bits(bits).to_f32() + f16::from_bits(other).to_f32();
            let expected =
                |bits| if sum(bits).is_nan() { F16_NAN } else { f16::from_f32(sum(bits)).to_bits() };
            hold_all_sums(&[add_f16], other, expected, |bits| {
                f16_from_f32(f16_to_f32(bits) + f16_to_f32(other))
            });
        }
    }

    #[test]
    fn adding_many_brain_floats_is_adding_them_one_by_one() {
        for other in BF16_KINDS {
            let sum = |bits| bf16::from_bits(bits).to_f32() + bf16::from_bits(other).to_f32();
            let expected =
                |bits| if sum(bits).is_nan() { BF16_NAN } else { bf16::from_f32(sum(bits)).to_bits() };
            hold_all_sums(&[add_bf16, |a, b| add_bf16_in_pairs(a, b)], other, expected, |bits| {
                bf16_from_f32(bf16_to_f32(bits) + bf16_to_f32(other))
            });
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
