//! Sizes in bytes and rates in bits a second.

use crate::text::{self, ParseUnitError, Scale};
use crate::{Duration, PICOS_PER_SECOND};
use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub};
use core::str::FromStr;

/// What sizes are printed in: binary, as memory is counted.
const BINARY: [Scale; 5] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// What sizes are read in. A bare number counts bytes.
const SIZES: [Scale; 11] = [
    ("B", 1),
    ("", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// What rates are printed in: decimal, as links are sold.
const BIT_RATES: [Scale; 5] = [
    ("bit/s", 1),
    ("kbit/s", 1_000),
    ("Mbit/s", 1_000_000),
    ("Gbit/s", 1_000_000_000),
    ("Tbit/s", 1_000_000_000_000),
];

/// What rates are read in: bits or bytes a second.
const RATES: [Scale; 11] = [
    BIT_RATES[0],
    BIT_RATES[1],
    BIT_RATES[2],
    BIT_RATES[3],
    BIT_RATES[4],
    ("B/s", 8),
    ("kB/s", 8_000),
    ("KB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
    ("TB/s", 8_000_000_000_000),
];

/// A size in whole bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteCount(u64);

/// A rate in whole bits a second. Zero is not a rate: a link that carries nothing is not a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BitRate(core::num::NonZeroU64);

impl ByteCount {
    /// A size of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Whole bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Whole bytes, for indexing memory.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    /// How many pieces of at most `piece` bytes this size makes: packets of an MTU, messages of a window.
    ///
    /// # Panics
    /// If `piece` is zero.
    pub const fn pieces_of(self, piece: Self) -> u64 {
        self.0.div_ceil(piece.0)
    }
}

impl Add for ByteCount {
    type Output = Self;
    /// Saturating.
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for ByteCount {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for ByteCount {
    type Output = Self;
    /// Saturating: there is no size below nothing.
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl Mul<u64> for ByteCount {
    type Output = Self;
    /// Saturating.
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl Div<u64> for ByteCount {
    type Output = Self;
    /// Rounded down.
    fn div(self, rhs: u64) -> Self {
        Self(self.0 / rhs)
    }
}

impl Sum for ByteCount {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self(0), Add::add)
    }
}

impl FromStr for ByteCount {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        text::parse(text, &SIZES, "a size in whole bytes such as 512B, 4KiB, 16MiB, 1GB or 4096").map(Self)
    }
}

/// The largest binary unit that divides the size: `16MiB`, `1500B`.
impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::print_whole(f, self.0, &BINARY)
    }
}

impl BitRate {
    /// A rate of `bits` bits a second; `None` for zero.
    pub const fn new(bits: u64) -> Option<Self> {
        match core::num::NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Bits a second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// How long `size` takes to pass at this rate, rounded up to the picosecond, saturating.
    pub fn time_for(self, size: ByteCount) -> Duration {
        // A frame's picoseconds fit into 64 bits, whose division is the faster one.
        if let Some(scaled) = size.bytes().checked_mul(8 * PICOS_PER_SECOND) {
            return Duration::from_picos(scaled.div_ceil(self.0.get()));
        }
        let picos =
            (u128::from(size.bytes()) * 8 * u128::from(PICOS_PER_SECOND)).div_ceil(u128::from(self.0.get()));
        Duration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// How many whole bytes pass in `time`, saturating: with a round-trip time, the bandwidth-delay product.
    pub fn bytes_in(self, time: Duration) -> ByteCount {
        let bytes =
            u128::from(self.0.get()) * u128::from(time.as_picos()) / (8 * u128::from(PICOS_PER_SECOND));
        ByteCount(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The rate at which `size` passes in `time`, rounded down, saturating; `None` if either is nothing, or if it is
    /// less than one bit a second.
    pub fn of_transfer(size: ByteCount, time: Duration) -> Option<Self> {
        let bits = u128::from(size.bytes()) * 8 * u128::from(PICOS_PER_SECOND);
        let rate = bits.checked_div(u128::from(time.as_picos()))?;
        Self::new(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Gigabytes (10^9) a second as people read them: the unit of algbw and busbw.
    pub fn as_gigabytes_per_second_f64(self) -> f64 {
        self.0.get() as f64 / 8e9
    }
}

impl FromStr for BitRate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        const EXPECTED: &str =
            "a rate above zero in whole bits a second such as 500Mbit/s, 100Gbit/s or 56GB/s";
        let bits = text::parse(text, &RATES, EXPECTED)?;
        Self::new(bits).ok_or_else(|| ParseUnitError { expected: EXPECTED, found: text.into() })
    }
}

/// Bits a second in the largest decimal unit reached: `500Mbit/s`, `2.5Gbit/s`.
impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::print_decimal(f, self.0.get(), &BIT_RATES, BIT_RATES[0])
    }
}
