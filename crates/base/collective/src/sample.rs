//! Data for tests and measurements, the same for the same arguments everywhere.

use crate::quarter::{E4M3, E5M2, Quarter};
use crate::simd::{bf16_from_f32, f16_from_f32};
use crate::{BlockFormat, DataType, Numbers, Rank, ReduceOp, Reduction};
use alloc::vec::Vec;

/// A rank's vector of small whole numbers (-3 to 4), other ones for every rank: sums over up to 64 ranks are exact in every type and so
/// the same in every order. Types of 8 bits count no further than 8, so that of these at most eight of 64 ranks have another number
/// than zero at a place: one or minus one. Blocks of formats that share scales have sums of 1.5 instead. `length` is in bytes.
///
/// # Panics
/// If `length` is not whole elements.
pub fn pattern(rank: Rank, length: usize, data_type: DataType) -> Numbers {
    if let Some(format) = data_type.block_format() {
        return tiles(rank, length, format);
    }
    let mut small = Small::new(rank);
    let mut place = 0;
    fill(length, data_type, || {
        let whole = i64::from(small.draw()) - 3;
        place = (place + 1) % TURNS;
        match data_type {
            DataType::F8E4M3 | DataType::F8E5M2 if place != rank.0 % TURNS => 0,
            DataType::F8E4M3 | DataType::F8E5M2 => bits(whole.signum(), data_type),
            _ => bits(whole, data_type),
        }
    })
}

/// A rank's vector for a reduction whose result over up to 64 ranks is exact, and so the same in every order: a [`pattern`], or what can be
/// multiplied without growing too large.
///
/// # Panics
/// If `length` is not whole elements.
pub fn exact(rank: Rank, length: usize, reduction: Reduction) -> Numbers {
    match reduction.op {
        ReduceOp::Product => factors(rank, length, reduction.data_type),
        _ => pattern(rank, length, reduction.data_type),
    }
}

/// A rank's vector to be multiplied with those of others: ones and minus ones, and at every eighth place, another one for its neighbours, a
/// two. So at most eight of 64 ranks have a two at a place.
fn factors(rank: Rank, length: usize, data_type: DataType) -> Numbers {
    let mut small = Small::new(rank);
    let mut place = 0;
    fill(length, data_type, || {
        place = (place + 1) % TURNS;
        let factor = if place == rank.0 % TURNS { 2 } else { 1 };
        bits(if small.draw() & 1 == 0 { factor } else { -factor }, data_type)
    })
}

/// A rank's [`pattern`] in a block format: 1.5 or -1.5 at every 32nd place, another one for its neighbours, and zeros. So two of 64 ranks have something
/// at a place, up to three of any, and blocks of 0, 1.5, 3 and 4.5 are exact in both formats.
fn tiles(rank: Rank, length: usize, format: BlockFormat) -> Numbers {
    check_whole(length, format.data_type());
    const TURNS: usize = 32;
    let mut small = Small::new(rank);
    let values = length / format.tile() * format.values();
    let value = |place: usize| {
        let sign = if small.draw() & 1 == 0 { 1.5 } else { -1.5 };
        if place % TURNS == rank.index() % TURNS { sign } else { 0.0 }
    };
    format.quantize(&(0..values).map(value).collect::<Vec<f32>>()).into()
}

/// Ranks take turns in having something at a place.
const TURNS: u16 = 8;

/// Numbers below eight.
struct Small {
    state: SplitMix64,
    bits: u64,
    left: u8,
}

impl Small {
    const fn new(rank: Rank) -> Self {
        Self { state: SplitMix64::new(0x9e1e_c7ed ^ (rank.0 as u64) << 32), bits: 0, left: 0 }
    }

    /// Sixteen small numbers come out of one step of the generator: this also fills gigabytes.
    fn draw(&mut self) -> u8 {
        if self.left == 0 {
            (self.bits, self.left) = (self.state.draw(), 16);
        }
        let small = self.bits as u8 & 7;
        (self.bits, self.left) = (self.bits >> 4, self.left - 1);
        small
    }
}

/// A small whole number as an element.
fn bits(whole: i64, data_type: DataType) -> u64 {
    match data_type {
        DataType::F64 => (whole as f64).to_bits(),
        _ if data_type.is_float() => float_bits(whole as f32, data_type),
        _ => whole as u64,
    }
}

/// A number as an element of a floating-point type, rounded to it.
fn float_bits(float: f32, data_type: DataType) -> u64 {
    match data_type {
        DataType::F16 => f16_from_f32(float).into(),
        DataType::Bf16 => bf16_from_f32(float).into(),
        DataType::F8E4M3 => E4M3::narrow(float).into(),
        DataType::F8E5M2 => E5M2::narrow(float).into(),
        _ => float.to_bits().into(),
    }
}

/// Arbitrary numbers, whose sums depend on the order: any integer, or floating-point numbers of both signs between
/// 2^-8 and 2^8 with all their digits. `length` is in bytes.
///
/// # Panics
/// If `length` is not whole elements.
pub fn noise(seed: u64, length: usize, data_type: DataType) -> Numbers {
    if let Some(format) = data_type.block_format() {
        check_whole(length, data_type);
        let values = noise(seed, 4 * (length / format.tile() * format.values()), DataType::F32);
        let values = values.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        return format.quantize(&values.collect::<Vec<_>>()).into();
    }
    let mut state = SplitMix64::new(seed);
    fill(length, data_type, || {
        let bits = state.draw();
        let exponent = 127 - 8 + ((bits >> 32) as u32 & 15);
        let float = f32::from_bits(bits as u32 & 0x807f_ffff | exponent << 23);
        match data_type {
            DataType::F64 => {
                let exponent = 1023 - 8 + (bits >> 52 & 15);
                bits & 0x800f_ffff_ffff_ffff | exponent << 52
            }
            _ if data_type.is_float() => float_bits(float, data_type),
            _ => bits,
        }
    })
}

fn fill(length: usize, data_type: DataType, mut element: impl FnMut() -> u64) -> Numbers {
    check_whole(length, data_type);
    let size = data_type.size();
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        bytes.extend_from_slice(&element().to_le_bytes()[..size]);
    }
    Numbers::from(bytes)
}

fn check_whole(length: usize, data_type: DataType) {
    let size = data_type.size();
    assert!(length.is_multiple_of(size), "{length} bytes are not whole elements of {size}");
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
