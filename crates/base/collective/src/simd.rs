//! SIMD: combining blocks of elements with vector instructions.
//!
//! Nearly everything is plain safe code over unaligned bytes without branches, which the compiler turns into vector
//! instructions; `multiversion` compiles it once per vector width and picks at run time. Half-precision numbers are
//! widened and narrowed by the processor's own instructions or by integer arithmetic rather than by `half`, whose
//! conversions the compiler cannot vectorise across elements; the tests compare with it over every bit pattern.

use crate::quarter::{E4M3, E5M2, Quarter};
use crate::{BlockFormat, DataType, ReduceOp, Reduction, blocks};
use multiversion::multiversion;
use multiversion::target::match_target;

/// Combines integers of a type.
macro_rules! integers {
    ($type:ty, $op:expr, $target:expr, $source:expr) => {{
        const SIZE: usize = size_of::<$type>();
        let read = <$type>::from_le_bytes;
        match $op {
            ReduceOp::Sum => {
                zip::<SIZE>($target, $source, |a, b| read(a).wrapping_add(read(b)).to_le_bytes())
            }
            ReduceOp::Product => {
                zip::<SIZE>($target, $source, |a, b| read(a).wrapping_mul(read(b)).to_le_bytes())
            }
            ReduceOp::Min => zip::<SIZE>($target, $source, |a, b| read(a).min(read(b)).to_le_bytes()),
            ReduceOp::Max => zip::<SIZE>($target, $source, |a, b| read(a).max(read(b)).to_le_bytes()),
            ReduceOp::BitAnd => zip::<SIZE>($target, $source, |a, b| (read(a) & read(b)).to_le_bytes()),
            ReduceOp::BitOr => zip::<SIZE>($target, $source, |a, b| (read(a) | read(b)).to_le_bytes()),
            ReduceOp::BitXor => zip::<SIZE>($target, $source, |a, b| (read(a) ^ read(b)).to_le_bytes()),
        }
    }};
}

/// Combines `source` into `target`, element by element. `multiversion` takes the wider of the two only on processors
/// that do not slow down for it.
///
/// # Panics
/// If the lengths differ or are not whole elements.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
pub(crate) fn reduce(target: &mut [u8], source: &[u8], reduction: Reduction) {
    combine(target, source, reduction, add_f16, add_bf16);
}

/// Instructions that [`reduce_without`] leaves alone.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Without {
    /// Vectors of 512 bits.
    Avx512,
    /// These and vectors of 256 bits: what every processor has.
    Avx2,
}

/// Combines as [`Payload::reduce`](crate::Payload::reduce) does on a processor without some vectors, to measure that and to hold the results against
/// each other.
///
/// # Panics
/// As that does.
#[doc(hidden)]
pub fn reduce_without(without: Without, target: &mut [u8], source: &[u8], reduction: Reduction) {
    match without {
        Without::Avx512 => reduce_by_avx2(target, source, reduction),
        Without::Avx2 => combine(target, source, reduction, add_f16_one_by_one, add_bf16_in_pairs),
    }
}

#[multiversion(targets("x86_64+avx2"))]
fn reduce_by_avx2(target: &mut [u8], source: &[u8], reduction: Reduction) {
    combine(target, source, reduction, add_f16_by_f16c, add_bf16_in_pairs);
}

/// The body of what is compiled for each kind of vectors, but for the sums of 16-bit floating-point numbers, which have kinds of their own.
#[inline(always)]
fn combine(
    target: &mut [u8],
    source: &[u8],
    reduction: Reduction,
    add_f16: impl Fn(&mut [u8], &[u8]),
    add_bf16: impl Fn(&mut [u8], &[u8]),
) {
    let size = reduction.data_type.size();
    assert_eq!(target.len(), source.len(), "combining blocks of different lengths");
    assert!(target.len().is_multiple_of(size), "{} bytes are not whole elements of {size}", target.len());
    match (reduction.data_type, reduction.op) {
        (DataType::F16, ReduceOp::Sum) => add_f16(target, source),
        (DataType::Bf16, ReduceOp::Sum) => add_bf16(target, source),
        (DataType::F32, op) => binary32(op, target, source),
        (DataType::F64, op) => binary64(op, target, source),
        (DataType::F16, op) => halves(op, target, source, F16_INFINITY, f16_to_f32, f16_from_f32),
        (DataType::Bf16, op) => halves(op, target, source, BF16_INFINITY, bf16_to_f32, bf16_from_f32),
        (DataType::F8E4M3, op) => quarters::<E4M3>(op, target, source),
        (DataType::F8E5M2, op) => quarters::<E5M2>(op, target, source),
        (DataType::Mxfp8, ReduceOp::Sum) => blocks::add(BlockFormat::Mxfp8, target, source),
        (DataType::Nvfp4, ReduceOp::Sum) => blocks::add(BlockFormat::Nvfp4, target, source),
        (DataType::Mxfp8 | DataType::Nvfp4, op) => undefined(op),
        (DataType::I64, op) => integers!(i64, op, target, source),
        (DataType::U64, op) => integers!(u64, op, target, source),
        (DataType::I32, op) => integers!(i32, op, target, source),
        (DataType::U32, op) => integers!(u32, op, target, source),
        (DataType::I16, op) => integers!(i16, op, target, source),
        (DataType::I8, op) => integers!(i8, op, target, source),
        (DataType::U8, op) => integers!(u8, op, target, source),
    }
}

/// Divides every element: integers towards zero, floating-point numbers in binary32, or binary64 as they are.
///
/// # Panics
/// If these are not whole elements, or `by` is zero.
pub(crate) fn divide(target: &mut [u8], by: u16, data_type: DataType) {
    let size = data_type.size();
    assert!(by > 0, "division by zero");
    assert!(target.len().is_multiple_of(size), "{} bytes are not whole elements of {size}", target.len());
    macro_rules! divide {
        ($type:ty, $quotient:expr) => {
            for bytes in target.as_chunks_mut::<{ size_of::<$type>() }>().0 {
                let quotient: fn($type, u16) -> $type = $quotient;
                *bytes = quotient(<$type>::from_le_bytes(*bytes), by).to_le_bytes();
            }
        };
    }
    match data_type {
        DataType::F64 => divide!(f64, |a, by| a / f64::from(by)),
        DataType::F32 => divide!(f32, |a, by| a / f32::from(by)),
        DataType::F16 => divide!(u16, |a, by| f16_from_f32(f16_to_f32(a) / f32::from(by))),
        DataType::Bf16 => divide!(u16, |a, by| bf16_from_f32(bf16_to_f32(a) / f32::from(by))),
        DataType::F8E4M3 => divide!(u8, |a, by| E4M3::narrow(E4M3::widen(a) / f32::from(by))),
        DataType::F8E5M2 => divide!(u8, |a, by| E5M2::narrow(E5M2::widen(a) / f32::from(by))),
        DataType::Mxfp8 => blocks::divide(BlockFormat::Mxfp8, target, by),
        DataType::Nvfp4 => blocks::divide(BlockFormat::Nvfp4, target, by),
        DataType::I64 => divide!(i64, |a, by| a / i64::from(by)),
        DataType::U64 => divide!(u64, |a, by| a / u64::from(by)),
        DataType::I32 => divide!(i32, |a, by| a / i32::from(by)),
        DataType::U32 => divide!(u32, |a, by| a / u32::from(by)),
        // A divisor may be more than the type holds.
        DataType::I16 => divide!(i16, |a, by| (i32::from(a) / i32::from(by)) as i16),
        DataType::I8 => divide!(i8, |a, by| (i32::from(a) / i32::from(by)) as i8),
        DataType::U8 => divide!(u8, |a, by| (u16::from(a) / by) as u8),
    }
}

/// What [`Reduction::is_defined`] says no to, which no door lets in.
#[cold]
fn undefined(op: ReduceOp) -> ! {
    panic!("{op} of a type for which it is not defined")
}

#[inline(always)]
fn binary32(op: ReduceOp, target: &mut [u8], source: &[u8]) {
    let result = |value: f32| if value.is_nan() { F32_NAN } else { value.to_bits() };
    match op {
        ReduceOp::Sum => zip4(target, source, |a, b| result(f32::from_bits(a) + f32::from_bits(b))),
        ReduceOp::Product => zip4(target, source, |a, b| result(f32::from_bits(a) * f32::from_bits(b))),
        ReduceOp::Min => zip4(target, source, |a, b| {
            // Equal numbers have equal bits but for zeros, of which either sign makes the minimum negative.
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let min = if x < y { a } else { b } | if y < x { b } else { a };
            if x.is_nan() | y.is_nan() { F32_NAN } else { min }
        }),
        ReduceOp::Max => zip4(target, source, |a, b| {
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let max = if x > y { a } else { b } & if y > x { b } else { a };
            if x.is_nan() | y.is_nan() { F32_NAN } else { max }
        }),
        _ => undefined(op),
    }
}

/// As [`binary32`], twice as wide.
#[inline(always)]
fn binary64(op: ReduceOp, target: &mut [u8], source: &[u8]) {
    let result = |value: f64| if value.is_nan() { F64_NAN } else { value.to_bits() };
    match op {
        ReduceOp::Sum => zip8(target, source, |a, b| result(f64::from_bits(a) + f64::from_bits(b))),
        ReduceOp::Product => zip8(target, source, |a, b| result(f64::from_bits(a) * f64::from_bits(b))),
        ReduceOp::Min => zip8(target, source, |a, b| {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let min = if x < y { a } else { b } | if y < x { b } else { a };
            if x.is_nan() | y.is_nan() { F64_NAN } else { min }
        }),
        ReduceOp::Max => zip8(target, source, |a, b| {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            let max = if x > y { a } else { b } & if y > x { b } else { a };
            if x.is_nan() | y.is_nan() { F64_NAN } else { max }
        }),
        _ => undefined(op),
    }
}

/// 16-bit floating-point numbers, of which one kind of infinity says which. Widening keeps order, so the smaller and the larger need no
/// conversion.
#[inline(always)]
fn halves(
    op: ReduceOp,
    target: &mut [u8],
    source: &[u8],
    infinity: u16,
    widen: impl Fn(u16) -> f32,
    narrow: impl Fn(f32) -> u16,
) {
    match op {
        ReduceOp::Sum => zip2(target, source, |a, b| narrow(widen(a) + widen(b))),
        ReduceOp::Product => zip2(target, source, |a, b| narrow(widen(a) * widen(b))),
        ReduceOp::Min => zip2(target, source, |a, b| pick16(a, b, key16(a) < key16(b), infinity)),
        ReduceOp::Max => zip2(target, source, |a, b| pick16(a, b, key16(a) > key16(b), infinity)),
        _ => undefined(op),
    }
}

/// 8-bit floating-point numbers.
#[inline(always)]
fn quarters<F: Quarter>(op: ReduceOp, target: &mut [u8], source: &[u8]) {
    let pick = |a: u8, b: u8, first: bool| {
        if F::is_nan(a) | F::is_nan(b) {
            F::NAN
        } else if first {
            a
        } else {
            b
        }
    };
    let key = |bits: u8| (bits ^ (((bits as i8 >> 7) as u8) >> 1)) as i8;
    match op {
        ReduceOp::Sum => zip1(target, source, |a, b| F::narrow(F::widen(a) + F::widen(b))),
        ReduceOp::Product => zip1(target, source, |a, b| F::narrow(F::widen(a) * F::widen(b))),
        ReduceOp::Min => zip1(target, source, |a, b| pick(a, b, key(a) < key(b))),
        ReduceOp::Max => zip1(target, source, |a, b| pick(a, b, key(a) > key(b))),
        _ => undefined(op),
    }
}

/// Adds binary16 numbers: with the conversion instructions where there are some, sixteen or eight at a time.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl"))]
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
        _ => 0,
    };
    add_f16_by_f16c(&mut target[whole..], &source[whole..]);
}

/// The same eight at a time.
#[multiversion(targets("x86_64+avx2+f16c"))]
fn add_f16_by_f16c(target: &mut [u8], source: &[u8]) {
    let whole = match_target! {
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
    add_f16_one_by_one(&mut target[whole..], &source[whole..]);
}

/// The same by arithmetic.
#[inline(always)]
fn add_f16_one_by_one(target: &mut [u8], source: &[u8]) {
    zip2(target, source, |a, b| f16_from_f32(f16_to_f32(a) + f16_to_f32(b)));
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
#[cfg(target_arch = "x86_64")]
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
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn words<const WORDS: usize>(bytes: &[u8]) -> [i64; WORDS] {
    let (eights, _) = bytes.as_chunks::<8>();
    core::array::from_fn(|at| i64::from_le_bytes(eights[at]))
}

/// The opposite: one store.
#[cfg(target_arch = "x86_64")]
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

const F64_NAN: u64 = 0x7ff8_0000_0000_0000;
const F32_NAN: u32 = 0x7fc0_0000;
const F16_NAN: u16 = 0x7e00;
const BF16_NAN: u16 = 0x7fc0;
const F32_INFINITY: u32 = 0x7f80_0000;
const F16_INFINITY: u16 = 0x7c00;
const BF16_INFINITY: u16 = 0x7f80;

#[inline(always)]
fn zip<const SIZE: usize>(
    target: &mut [u8],
    source: &[u8],
    combine: impl Fn([u8; SIZE], [u8; SIZE]) -> [u8; SIZE],
) {
    for (a, b) in target.as_chunks_mut::<SIZE>().0.iter_mut().zip(source.as_chunks::<SIZE>().0) {
        *a = combine(*a, *b);
    }
}

#[inline(always)]
fn zip8(target: &mut [u8], source: &[u8], combine: impl Fn(u64, u64) -> u64) {
    zip(target, source, |a, b| combine(u64::from_le_bytes(a), u64::from_le_bytes(b)).to_le_bytes());
}

#[inline(always)]
fn zip4(target: &mut [u8], source: &[u8], combine: impl Fn(u32, u32) -> u32) {
    zip(target, source, |a, b| combine(u32::from_le_bytes(a), u32::from_le_bytes(b)).to_le_bytes());
}

#[inline(always)]
fn zip2(target: &mut [u8], source: &[u8], combine: impl Fn(u16, u16) -> u16) {
    zip(target, source, |a, b| combine(u16::from_le_bytes(a), u16::from_le_bytes(b)).to_le_bytes());
}

#[inline(always)]
fn zip1(target: &mut [u8], source: &[u8], combine: impl Fn(u8, u8) -> u8) {
    zip(target, source, |[a], [b]| [combine(a, b)]);
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
            hold_all_sums(
                &[add_f16, add_f16_by_f16c, |a, b| add_f16_one_by_one(a, b)],
                other,
                expected,
                |bits| f16_from_f32(f16_to_f32(bits) + f16_to_f32(other)),
            );
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
