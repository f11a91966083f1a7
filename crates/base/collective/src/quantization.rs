//! Block quantization of floating-point vectors, and what quantised AllReduces must give.
//!
//! A vector is cut into blocks, each of which becomes small integers, its codes, and one scale (SCIN 3.4, "Implementation
//! of INQ All-Reduce"). Every result is defined by arithmetic alone, without a tolerance, so that a switch, a host and a
//! circuit agree to the bit:
//!
//! - The *scale* is the smallest binary16 number, zero and subnormal ones included, that times the largest code is no less
//!   than the largest magnitude of the block. The paper gives its size alone (128 bytes for a wave of 4096 values in blocks
//!   of 64); that it is rounded up keeps every value within the codes, so that nothing is clipped.
//! - The *code* of a value is the whole number nearest to value over scale, ties to even; in a block of zeros it is zero.
//! - Code times scale is exact in binary32, and off by at most half a scale.
//! - A block with a NaN, an infinity or a magnitude that no finite scale reaches has the quiet NaN as its scale and zeros
//!   as codes. All of it reads as NaN, after any sum too, so that one bad rank is seen by all (as in `ReduceOp`).

use crate::simd::{f16_from_f32, f16_to_f32};
use alloc::vec;
use alloc::vec::Vec;
use multiversion::multiversion;

/// What the code of a value is: a two's complement integer of a range symmetric about zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CodeType {
    /// A byte from -127 to 127.
    Int8,
    /// Four bits from -7 to 7, two in a byte: the first of them in the lower half. The upper half that an odd number of
    /// values leaves over is zero.
    Int4,
}

/// How a vector is quantised: what its codes are, and how many values share a scale. The last block of a vector may be
/// shorter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockQuantization {
    code: CodeType,
    block: usize,
}

/// A quantised vector as it lies in memory: codes and scales in regions of their own (SCIN 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quantized<B = Vec<u8>> {
    /// The codes of all values.
    pub codes: B,
    /// The scale of each block, binary16, little-endian.
    pub scales: B,
}

/// A block is too small, too large or no power of two.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a block of 32, 64, 128, 256 or 512 values, found {0}")]
pub struct BlockSizeError(pub usize);

/// Bytes of a scale.
const SCALE: usize = 2;
const F16_NAN: u16 = 0x7e00;
const F16_INFINITY: u16 = 0x7c00;
const F32_INFINITY: u32 = 0x7f80_0000;

impl CodeType {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Int8, Self::Int4];

    /// The largest code; the smallest is its negative.
    pub const fn largest(self) -> u8 {
        match self {
            Self::Int8 => 127,
            Self::Int4 => 7,
        }
    }

    /// Codes in a byte.
    const fn per_byte(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int4 => 2,
        }
    }
}

impl BlockQuantization {
    /// What SCIN chooses (section 4.2): INT8 in blocks of 64, 1.94 times smaller than binary16.
    pub const INT8_BY_64: Self = Self { code: CodeType::Int8, block: 64 };

    /// Codes of this type with a scale for every `block` values: a power of two from 32 to 512, those of SCIN's table 1.
    pub const fn new(code: CodeType, block: usize) -> Result<Self, BlockSizeError> {
        match block {
            32 | 64 | 128 | 256 | 512 => Ok(Self { code, block }),
            _ => Err(BlockSizeError(block)),
        }
    }

    /// What the codes are.
    pub const fn code(self) -> CodeType {
        self.code
    }

    /// Values that share a scale.
    pub const fn block(self) -> usize {
        self.block
    }

    /// Bytes of the codes of so many values.
    pub const fn code_bytes(self, values: usize) -> usize {
        values.div_ceil(self.code.per_byte())
    }

    /// Values whose codes so many bytes hold.
    pub const fn values(self, code_bytes: usize) -> usize {
        code_bytes * self.code.per_byte()
    }

    /// Bytes of the scales of so many values.
    pub const fn scale_bytes(self, values: usize) -> usize {
        SCALE * values.div_ceil(self.block)
    }

    /// Quantises a vector.
    pub fn quantize(self, values: &[f32]) -> Quantized {
        let mut codes = vec![0; self.code_bytes(values.len())];
        let mut scales = vec![0; self.scale_bytes(values.len())];
        let blocks = values.chunks(self.block).zip(codes.chunks_mut(self.code_bytes(self.block)));
        for ((values, codes), scale) in blocks.zip(scales.as_chunks_mut::<SCALE>().0) {
            *scale = quantize_block(values, codes, self.code).to_le_bytes();
        }
        Quantized { codes, scales }
    }

    /// The vector of `values` values that a quantised one stands for. Any codes and scales are read, those too that
    /// [`quantize`](Self::quantize) never gives: a code of -128 or -8, a negative scale, and an infinite one as the NaN.
    ///
    /// # Panics
    /// If there are not as many codes and scales as that takes: engines check lengths at their doors.
    pub fn dequantize<B: AsRef<[u8]>>(self, quantized: &Quantized<B>, values: usize) -> Vec<f32> {
        let (codes, scales) = (quantized.codes.as_ref(), quantized.scales.as_ref());
        let expected = (self.code_bytes(values), self.scale_bytes(values));
        assert_eq!((codes.len(), scales.len()), expected, "bytes of codes and scales of {values} values");
        let mut vector = vec![0.0; values];
        let blocks = vector.chunks_mut(self.block).zip(codes.chunks(self.code_bytes(self.block)));
        for ((vector, codes), scale) in blocks.zip(scales.as_chunks::<SCALE>().0) {
            dequantize_block(vector, codes, self.code, u16::from_le_bytes(*scale));
        }
        vector
    }

    /// What the switch does with the ranks' quantised vectors of `values` values (SCIN 3.4): dequantise them, add them up
    /// in binary32 from the first to the last, quantise the sum.
    ///
    /// # Panics
    /// If there is no vector, or the lengths do not fit.
    pub fn sum<B: AsRef<[u8]>>(self, vectors: &[Quantized<B>], values: usize) -> Quantized {
        let (first, others) = vectors.split_first().expect("at least one rank");
        let mut sum = self.dequantize(first, values);
        for other in others {
            add(&mut sum, &self.dequantize(other, values));
        }
        self.quantize(&sum)
    }

    /// What every rank has after an AllReduce that is quantised in the network (INQ): each rank quantises once, and the
    /// switch once more, however many ranks there are.
    ///
    /// # Panics
    /// If there is no input, or the lengths differ.
    pub fn inq_all_reduce<V: AsRef<[f32]>>(self, inputs: &[V]) -> Vec<f32> {
        let values = length(inputs);
        let vectors: Vec<_> = inputs.iter().map(|input| self.quantize(input.as_ref())).collect();
        self.dequantize(&self.sum(&vectors, values), values)
    }

    /// What every rank has after an AllReduce on a ring whose links carry quantised data (RQ; SCIN 2.1, item 3). The
    /// vector is cut at blocks into as many chunks as there are ranks, of equal length as far as that goes. Chunk c
    /// starts at rank c. At each of the n - 1 hops of the reduce-scatter it is quantised, dequantised, and the vector of
    /// the rank that it has come to is added in binary32; what the last rank has is quantised once more for the
    /// all-gather, which passes codes on as they are.
    ///
    /// # Panics
    /// If there is no input, or the lengths differ.
    pub fn rq_all_reduce<V: AsRef<[f32]>>(self, inputs: &[V]) -> Vec<f32> {
        let (values, ranks) = (length(inputs), inputs.len());
        let blocks = values.div_ceil(self.block);
        let start = |chunk: usize| values.min(self.block * (blocks * chunk / ranks));
        let mut result = Vec::with_capacity(values);
        for chunk in 0..ranks {
            let range = start(chunk)..start(chunk + 1);
            let requantized = |values: &[f32]| self.dequantize(&self.quantize(values), values.len());
            let mut sum = inputs[chunk].as_ref()[range.clone()].to_vec();
            for hop in 1..ranks {
                sum = requantized(&sum);
                add(&mut sum, &inputs[(chunk + hop) % ranks].as_ref()[range.clone()]);
            }
            result.extend(requantized(&sum));
        }
        result
    }
}

/// The length of all of the inputs.
fn length<V: AsRef<[f32]>>(inputs: &[V]) -> usize {
    let length = inputs.first().expect("at least one rank").as_ref().len();
    assert!(inputs.iter().all(|input| input.as_ref().len() == length), "expected inputs of one length");
    length
}

fn add(sum: &mut [f32], vector: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(vector) {
        *sum += value;
    }
}

/// The smallest binary16 number that times `largest_code` is no less than `magnitude`; the quiet NaN if there is none.
fn scale_for(magnitude: f32, largest_code: f32) -> u16 {
    // The product is exact, and the nearest binary16 number to the quotient is at most one below the one that is looked for.
    let nearest = f16_from_f32(magnitude / largest_code);
    let scale = nearest + u16::from(f16_to_f32(nearest) * largest_code < magnitude);
    if scale < F16_INFINITY { scale } else { F16_NAN }
}

/// Quantises one block and gives its scale.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn quantize_block(values: &[f32], codes: &mut [u8], code: CodeType) -> u16 {
    // Magnitudes are ordered as their bits are, infinity and NaN above all numbers; integers have a maximum that can be
    // taken of many at once.
    let magnitude = values.iter().fold(0, |largest, value| (value.to_bits() & !(1 << 31)).max(largest));
    if magnitude == 0 || magnitude >= F32_INFINITY {
        codes.fill(0);
        return if magnitude == 0 { 0 } else { F16_NAN };
    }
    let scale = scale_for(f32::from_bits(magnitude), f32::from(code.largest()));
    if scale == F16_NAN {
        codes.fill(0);
        return scale;
    }
    let step = f16_to_f32(scale);
    match code {
        CodeType::Int8 => {
            for (code, value) in codes.iter_mut().zip(values) {
                *code = nearest_even(value / step);
            }
        }
        CodeType::Int4 => {
            let (pairs, last) = values.as_chunks::<2>();
            for (byte, [low, high]) in codes.iter_mut().zip(pairs) {
                *byte = nearest_even(low / step) & 15 | nearest_even(high / step) << 4;
            }
            if let [last] = last {
                codes[pairs.len()] = nearest_even(last / step) & 15;
            }
        }
    }
    scale
}

/// The whole number nearest to a small one, ties to even, as a byte of two's complement.
#[inline(always)]
fn nearest_even(number: f32) -> u8 {
    // Adding 1.5 * 2^23 puts the ones at the end of the fraction, so that the addition itself rounds. The quotient that
    // comes in has been rounded already, but never onto a tie that it was not: a tie times the scale is a binary32 number.
    (number + 12_582_912.0).to_bits() as u8
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn dequantize_block(values: &mut [f32], codes: &[u8], code: CodeType, scale: u16) {
    let step = f16_to_f32(scale);
    if !step.is_finite() {
        values.fill(f32::NAN);
        return;
    }
    match code {
        CodeType::Int8 => {
            for (value, code) in values.iter_mut().zip(codes) {
                *value = f32::from(*code as i8) * step;
            }
        }
        CodeType::Int4 => {
            let low = |byte: u8| f32::from((byte << 4) as i8 >> 4);
            let high = |byte: u8| f32::from(byte as i8 >> 4);
            let (pairs, last) = values.as_chunks_mut::<2>();
            for (pair, byte) in pairs.iter_mut().zip(codes) {
                *pair = [low(*byte) * step, high(*byte) * step];
            }
            if let [last] = last {
                *last = low(codes[codes.len() - 1]) * step;
            }
        }
    }
}
