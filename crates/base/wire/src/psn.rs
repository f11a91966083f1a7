//! Packet sequence numbers: counters of a few bits that wrap, compared by the shorter way round.

/// A sequence number of `BITS` bits (1 to 32) that wraps. RoCE uses 24; tests use 4, so that wrap-around happens every run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SequenceNumber<const BITS: u32>(u32);

/// RoCE's 24-bit packet sequence number (InfiniBand Architecture 9.7.1).
pub type Psn = SequenceNumber<24>;

impl<const BITS: u32> SequenceNumber<BITS> {
    const MASK: u32 = u32::MAX >> (32 - BITS);

    /// The number `value` modulo 2^BITS.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The number's value, less than 2^BITS.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// A counter of 32 bits that begins at this number and wraps with it: numbers of the upper half are as far before zero.
    pub const fn extended(self) -> u32 {
        (((self.0 << (32 - BITS)) as i32) >> (32 - BITS)) as u32
    }

    /// The number `count` further on.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & Self::MASK)
    }

    /// The number `count` before.
    #[must_use]
    pub const fn minus(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count) & Self::MASK)
    }

    /// The signed way from `other` to here, in -2^(BITS-1) .. 2^(BITS-1).
    pub const fn distance_from(self, other: Self) -> i32 {
        let ahead = self.0.wrapping_sub(other.0) << (32 - BITS);
        (ahead as i32) >> (32 - BITS)
    }

    /// The low bits of an unbounded count.
    pub const fn from_count(count: u64) -> Self {
        Self(count as u32 & Self::MASK)
    }

    /// The unbounded count nearest to `near` whose low bits are this number; never below zero.
    pub const fn to_count_near(self, near: u64) -> u64 {
        let step = self.distance_from(Self::from_count(near)) as i64;
        match near.checked_add_signed(step) {
            Some(count) => count,
            None => self.0 as u64,
        }
    }
}
