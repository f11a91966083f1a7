//! Data for tests and measurements, the same for the same arguments everywhere.

use crate::simd::{bf16_from_f32, f16_from_f32};
use crate::{DataType, Numbers, Rank};
use alloc::vec::Vec;

/// A rank's vector of small whole numbers (-3 to 4), other ones for every rank: sums over up to 64 ranks are exact in
/// every type and so the same in every order. `length` is in bytes.
///
/// # Panics
/// If `length` is not whole elements.
pub fn pattern(rank: Rank, length: usize, data_type: DataType) -> Numbers {
    // Sixteen small numbers come out of one step of the generator: this also fills gigabytes.
    let mut state = SplitMix64::new(0x9e1e_c7ed ^ u64::from(rank.0) << 32);
    let (mut bits, mut left) = (0, 0);
    fill(length, data_type, || {
        if left == 0 {
            (bits, left) = (state.draw(), 16);
        }
        let whole = (bits & 7) as i32 - 3;
        (bits, left) = (bits >> 4, left - 1);
        match data_type {
            DataType::F32 => (whole as f32).to_bits(),
            DataType::F16 => u32::from(f16_from_f32(whole as f32)),
            DataType::Bf16 => u32::from(bf16_from_f32(whole as f32)),
            DataType::I32 => whole as u32,
        }
    })
}

/// Arbitrary numbers, whose sums depend on the order: any integer, or floating-point numbers of both signs between
/// 2^-8 and 2^8 with all their digits. `length` is in bytes.
///
/// # Panics
/// If `length` is not whole elements.
pub fn noise(seed: u64, length: usize, data_type: DataType) -> Numbers {
    let mut state = SplitMix64::new(seed);
    fill(length, data_type, || {
        let bits = state.draw();
        let exponent = 127 - 8 + ((bits >> 32) as u32 & 15);
        let float = f32::from_bits(bits as u32 & 0x807f_ffff | exponent << 23);
        match data_type {
            DataType::F32 => float.to_bits(),
            DataType::F16 => u32::from(f16_from_f32(float)),
            DataType::Bf16 => u32::from(bf16_from_f32(float)),
            DataType::I32 => bits as u32,
        }
    })
}

fn fill(length: usize, data_type: DataType, mut element: impl FnMut() -> u32) -> Numbers {
    let size = data_type.size();
    assert!(length.is_multiple_of(size), "{length} bytes are not whole elements of {size}");
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        bytes.extend_from_slice(&element().to_le_bytes()[..size]);
    }
    Numbers::from(bytes)
}

/// Steele, Lea and Flood's generator ("Fast splittable pseudorandom number generators", 2014): 64 bits of state, every
/// output once in its period. Whoever needs chance that replays holds one, seeded by what it is for.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The generator that `seed` begins.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
