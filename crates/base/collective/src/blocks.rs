//! Vectors whose elements share scales block by block: MXFP8 (OCP Microscaling specification 1.0) and one like NVFP4.
//!
//! ```text
//!           byte 0    byte 1       byte 2       ...  byte n-1
//! row 0    |  zero  | scale of 1 | scale of 2 | ... | scale of n-1 |
//! row 1    |            elements of the first block                |
//!  ...
//! row n-1  |            elements of the last block                 |
//! ```
//!
//! Blocks lie in *tiles* of n rows of n bytes: n is 32 for MXFP8 and 8 for NVFP4. A tile is what a network must not cut: it holds all that
//! its elements need, and its size is a power of two, so that packets of any RoCE MTU that is no shorter hold whole ones. That costs the first
//! byte of a tile, one in 1,024 or one in 64. A tile of zero bytes is one of zeros.
//!
//! | | block | element | scale | values in a tile |
//! |---|---|---|---|---|
//! | MXFP8 | 32 | E4M3 | E8M0 | 992 in 1,024 B |
//! | NVFP4 | 16, two in a byte, the first in its lower half | E2M1 | E4M3 | 112 in 64 B |
//!
//! NVFP4 as NVIDIA has it multiplies a whole tensor by a binary32 scale besides. Here is none: a network sees pieces of vectors. So magnitudes
//! beyond 2,688 have no place; a program that has some scales its vectors first, by the same factor at all ranks.
//!
//! Every result is defined by arithmetic alone, as of [`BlockQuantization`](crate::BlockQuantization), which does the same with codes and
//! scales in regions of their own:
//!
//! - The *scale* is the smallest that, times the largest element (448 or 6), is no less than the largest magnitude of the block. OCP's 6.3
//!   rounds it down instead, and clips what is then too large, by up to an eighth of it.
//! - An *element* is the one nearest to value over scale, ties to even; zeros keep their sign.
//! - A *sum* adds in binary32 what both stand for, and quantises that anew.
//! - A block with a NaN, an infinity or a magnitude that no scale reaches has the NaN as its scale and zeros as elements: all of it reads as
//!   NaN, after any sum too. An element may be a NaN, too, where others made it.

use crate::block_format::{BlockFormat, MXFP8_ROWS, NVFP4_ROWS};
use crate::quarter::{E4M3, Quarter};
use alloc::vec;
use alloc::vec::Vec;
use multiversion::multiversion;

impl BlockFormat {
    /// Quantises values; zeros fill the last tile.
    pub fn quantize(self, values: &[f32]) -> Vec<u8> {
        let mut tiles = vec![0; self.bytes(values.len())];
        let mut padded = vec![0.0; self.values()];
        for (tile, values) in tiles.chunks_exact_mut(self.tile()).zip(values.chunks(self.values())) {
            padded[..values.len()].copy_from_slice(values);
            padded[values.len()..].fill(0.0);
            quantize_tile(self, tile, &padded);
        }
        tiles
    }

    /// The values that tiles stand for, those that fill the last one among them. Any bytes are read, also what [`quantize`](Self::quantize) never
    /// gives: elements that are NaNs, a negative scale, larger scales than were needed.
    ///
    /// # Panics
    /// If these are not whole tiles.
    pub fn dequantize(self, tiles: &[u8]) -> Vec<f32> {
        assert!(tiles.len().is_multiple_of(self.tile()), "{} bytes are not whole tiles", tiles.len());
        let mut values = vec![0.0; tiles.len() / self.tile() * self.values()];
        for (tile, values) in tiles.chunks_exact(self.tile()).zip(values.chunks_exact_mut(self.values())) {
            dequantize_tile(self, tile, values);
        }
        values
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn quantize_tile(format: BlockFormat, tile: &mut [u8], values: &[f32]) {
    match format {
        BlockFormat::Mxfp8 => write::<Mxfp8, MXFP8_ROWS, MXFP8_ROWS>(tile, values),
        BlockFormat::Nvfp4 => write::<Nvfp4, NVFP4_ROWS, { 2 * NVFP4_ROWS }>(tile, values),
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn dequantize_tile(format: BlockFormat, tile: &[u8], values: &mut [f32]) {
    match format {
        BlockFormat::Mxfp8 => read::<Mxfp8, MXFP8_ROWS, MXFP8_ROWS>(tile, values),
        BlockFormat::Nvfp4 => read::<Nvfp4, NVFP4_ROWS, { 2 * NVFP4_ROWS }>(tile, values),
    }
}

/// Adds tiles to tiles. Whoever calls it compiles it for the processor's vectors.
///
/// # Panics
/// If these are not whole tiles.
#[inline(always)]
pub(crate) fn add(format: BlockFormat, target: &mut [u8], source: &[u8]) {
    match format {
        BlockFormat::Mxfp8 => add_tiles::<Mxfp8, MXFP8_ROWS, MXFP8_ROWS>(target, source),
        BlockFormat::Nvfp4 => add_tiles::<Nvfp4, NVFP4_ROWS, { 2 * NVFP4_ROWS }>(target, source),
    }
}

/// Divides what tiles stand for, and quantises it anew.
pub(crate) fn divide(format: BlockFormat, target: &mut [u8], by: u16) {
    let mut values = format.dequantize(target);
    values.iter_mut().for_each(|value| *value /= f32::from(by));
    target.copy_from_slice(&format.quantize(&values));
}

/// A block: `ROW` bytes that stand for `VALUES` values, which are in the order that suits vector instructions.
trait Block<const ROW: usize, const VALUES: usize> {
    /// Where a value of the vector is among those of its block here.
    fn place(value: usize) -> usize;

    /// What elements stand for under a scale.
    fn widen(row: &[u8; ROW], scale: u8) -> [f32; VALUES];

    /// The scale for a largest magnitude, whose bits are given; [`NAN`](Self::NAN) if there is none.
    fn scale(largest: u32) -> u8;

    /// The nearest elements under a scale that is none too small.
    fn narrow(values: &[f32; VALUES], scale: u8) -> [u8; ROW];

    /// The scale that says that nothing in the block is a number.
    const NAN: u8;
}

/// A tile as rows; the first one has the scales of the others.
#[inline(always)]
fn rows<const ROW: usize>(tile: &[u8]) -> (&[u8; ROW], &[[u8; ROW]]) {
    let (scales, blocks) = tile.as_chunks::<ROW>().0.split_first().expect("a tile has rows");
    (scales, blocks)
}

/// Quantises a block of values: its scale and its elements.
#[inline(always)]
fn narrowed<B: Block<ROW, VALUES>, const ROW: usize, const VALUES: usize>(
    values: &[f32; VALUES],
) -> (u8, [u8; ROW]) {
    // Magnitudes order as their bits do, and NaNs lie above the infinity.
    let magnitude = |largest: u32, value: &f32| largest.max(value.to_bits() & !(1 << 31));
    let largest = values.iter().fold(0, magnitude);
    let scale = if largest < f32::INFINITY.to_bits() { B::scale(largest) } else { B::NAN };
    if scale == B::NAN { (scale, [0; ROW]) } else { (scale, B::narrow(values, scale)) }
}

#[inline(always)]
fn write<B: Block<ROW, VALUES>, const ROW: usize, const VALUES: usize>(tile: &mut [u8], values: &[f32]) {
    let (scales, blocks) = tile.as_chunks_mut::<ROW>().0.split_first_mut().expect("a tile has rows");
    for ((scale, block), values) in scales[1..].iter_mut().zip(blocks).zip(values.as_chunks::<VALUES>().0) {
        (*scale, *block) = narrowed::<B, ROW, VALUES>(&placed::<B, ROW, VALUES>(values));
    }
}

/// Values in the order that they have in a block.
#[inline(always)]
fn placed<B: Block<ROW, VALUES>, const ROW: usize, const VALUES: usize>(
    values: &[f32; VALUES],
) -> [f32; VALUES] {
    let mut placed = [0.0; VALUES];
    for (value, of) in values.iter().enumerate() {
        placed[B::place(value)] = *of;
    }
    placed
}

#[inline(always)]
fn read<B: Block<ROW, VALUES>, const ROW: usize, const VALUES: usize>(tile: &[u8], values: &mut [f32]) {
    let (scales, blocks) = rows::<ROW>(tile);
    for ((scale, block), values) in scales[1..].iter().zip(blocks).zip(values.as_chunks_mut::<VALUES>().0) {
        let placed = B::widen(block, *scale);
        *values = core::array::from_fn(|value| placed[B::place(value)]);
    }
}

#[inline(always)]
fn add_tiles<B: Block<ROW, VALUES>, const ROW: usize, const VALUES: usize>(target: &mut [u8], source: &[u8]) {
    let tiles = target.chunks_exact_mut(ROW * ROW).zip(source.chunks_exact(ROW * ROW));
    for (target, source) in tiles {
        let (scales, blocks) = target.as_chunks_mut::<ROW>().0.split_first_mut().expect("a tile has rows");
        let (others, addends) = rows::<ROW>(source);
        // What others may have put there is no part of a sum.
        scales[0] = 0;
        let scales = scales[1..].iter_mut().zip(&others[1..]);
        for ((scale, other), (block, addend)) in scales.zip(blocks.iter_mut().zip(addends)) {
            let (mut sum, addend) = (B::widen(block, *scale), B::widen(addend, *other));
            sum.iter_mut().zip(&addend).for_each(|(sum, value)| *sum += value);
            (*scale, *block) = narrowed::<B, ROW, VALUES>(&sum);
        }
    }
}

/// Elements E4M3, a power of two as scale.
enum Mxfp8 {}

impl Block<MXFP8_ROWS, MXFP8_ROWS> for Mxfp8 {
    const NAN: u8 = 0xff;

    #[inline(always)]
    fn place(value: usize) -> usize {
        value
    }

    #[inline(always)]
    fn widen(row: &[u8; MXFP8_ROWS], scale: u8) -> [f32; MXFP8_ROWS] {
        // The smallest scale, 2^-127, is no normal number, which processors multiply slowly: the two factors are.
        let (first, second) = match scale {
            0 => (0.5, f32::MIN_POSITIVE),
            Self::NAN => (1.0, f32::NAN),
            _ => (1.0, f32::from_bits(u32::from(scale) << 23)),
        };
        let mut values = [0.0; MXFP8_ROWS];
        for (value, element) in values.iter_mut().zip(row) {
            *value = E4M3::widen(*element) * first * second;
        }
        values
    }

    #[inline(always)]
    fn scale(largest: u32) -> u8 {
        // 448 is 1.75 times 2^8: whatever has a larger fraction than 0.75 needs the next power of two.
        const UP: u32 = (1 << 23) - 1 - 0x60_0000;
        ((largest + UP) >> 23).saturating_sub(8) as u8
    }

    #[inline(always)]
    fn narrow(values: &[f32; MXFP8_ROWS], scale: u8) -> [u8; MXFP8_ROWS] {
        // No scale of a sum is above 2^120, so that its reciprocal is a normal number.
        let reciprocal = f32::from_bits((254 - u32::from(scale)) << 23);
        let mut row = [0; MXFP8_ROWS];
        for (element, value) in row.iter_mut().zip(values) {
            *element = E4M3::narrow(value * reciprocal);
        }
        row
    }
}

/// Elements E2M1, E4M3 as scale.
enum Nvfp4 {}

/// The largest element.
const E2M1_LARGEST: f32 = 6.0;

impl Block<NVFP4_ROWS, { 2 * NVFP4_ROWS }> for Nvfp4 {
    const NAN: u8 = 0x7f;

    /// Those of the lower halves of bytes come first.
    #[inline(always)]
    fn place(value: usize) -> usize {
        value / 2 + value % 2 * NVFP4_ROWS
    }

    #[inline(always)]
    fn widen(row: &[u8; NVFP4_ROWS], scale: u8) -> [f32; 2 * NVFP4_ROWS] {
        let half = E4M3::widen(scale) * 0.5;
        let value = |element: u32| {
            // Twice the magnitude of each element is a whole number of four bits: 0, 1, 2, 3, 4, 6, 8, 12.
            let doubled = (0xc864_3210_u32 >> (4 * (element & 7))) & 15;
            f32::from_bits((doubled as f32).to_bits() | (element & 8) << 28) * half
        };
        let mut values = [0.0; 2 * NVFP4_ROWS];
        let (lower, upper) = values.split_at_mut(NVFP4_ROWS);
        for ((lower, upper), byte) in lower.iter_mut().zip(upper).zip(row) {
            (*lower, *upper) = (value(u32::from(*byte)), value(u32::from(*byte >> 4)));
        }
        values
    }

    #[inline(always)]
    fn scale(largest: u32) -> u8 {
        let largest = f32::from_bits(largest);
        let nearest = E4M3::narrow(largest / E2M1_LARGEST);
        // The next one, which behind the largest is the NaN: of that nothing is smaller.
        if E4M3::widen(nearest) * E2M1_LARGEST < largest { nearest + 1 } else { nearest }
    }

    #[inline(always)]
    fn narrow(values: &[f32; 2 * NVFP4_ROWS], scale: u8) -> [u8; NVFP4_ROWS] {
        // Under a scale of zero all values are zeros, and lie below any bound.
        let step = if scale == 0 { f32::INFINITY } else { E4M3::widen(scale) };
        // Halfway between neighbours, where the one whose last bit is zero gets the tie.
        let element = |value: f32| {
            let magnitude = value.abs();
            let reached = |bound: f32| u32::from(magnitude >= bound * step);
            let passed = |bound: f32| u32::from(magnitude > bound * step);
            let code = passed(0.25)
                + reached(0.75)
                + passed(1.25)
                + reached(1.75)
                + passed(2.5)
                + reached(3.5)
                + passed(5.0);
            code | value.to_bits() >> 28 & 8
        };
        let mut row = [0; NVFP4_ROWS];
        let (lower, upper) = values.split_at(NVFP4_ROWS);
        for (byte, (lower, upper)) in row.iter_mut().zip(lower.iter().zip(upper)) {
            *byte = (element(*lower) | element(*upper) << 4) as u8;
        }
        row
    }
}
