//! Sizes in bytes and rates in bits a second.

use crate::Duration;

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
        let picos = (u128::from(size.bytes()) * 8 * 1_000_000_000_000).div_ceil(u128::from(self.0.get()));
        Duration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}
