//! A bit for each place of a buffer.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Bits, all clear at first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    pub(crate) fn get(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 != 0
    }

    pub(crate) fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn clear(&mut self, range: Range<usize>) {
        for index in range {
            self.0[index / 64] &= !(1 << (index % 64));
        }
    }

    /// Whether every bit that is set here is set there.
    pub(crate) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own & !other == 0)
    }
}
