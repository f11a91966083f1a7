//! What has come from one source in a dispatch or a combine, and what it has announced.
//!
//! ```text
//!  31 |    30    |     29 .. 28     | 27 .. 0
//!   0 | combines | number by four   | count
//! ```
//!
//! The number is zero where all is announced before it comes: there is nothing to tell apart.

use alloc::vec::Vec;

/// What a rank says before it writes: what follows, and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Announcement {
    /// Results of a combine follow, not tokens of a dispatch.
    pub(crate) combines: bool,
    /// How many.
    pub(crate) count: usize,
}

impl Announcement {
    const COMBINES: u32 = 1 << 30;
    const NUMBER: u32 = 28;

    /// As an immediate says it, with the number of the collective by four that it is about.
    ///
    /// # Panics
    /// If there are 2^28 or more.
    pub(crate) fn to_immediate(self, collective: Round) -> u32 {
        let count = self.count as u32;
        assert!(count as usize == self.count && count < 1 << Self::NUMBER, "slots are in memory");
        let kind = if self.combines { Self::COMBINES } else { 0 };
        kind | u32::from(collective.0) << Self::NUMBER | count
    }

    /// What an immediate without [`ALL_HERE`] says.
    pub(crate) fn from_immediate(immediate: u32) -> (Self, Round) {
        let count = (immediate & ((1 << Self::NUMBER) - 1)) as usize;
        let round = Round((immediate >> Self::NUMBER & 3) as u8);
        (Self { combines: immediate & Self::COMBINES != 0, count }, round)
    }
}

/// The number of a collective by four: ranks are one apart at most, so that this tells the last one, this one and the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Round(u8);

impl Round {
    pub(crate) const fn next(self) -> Self {
        Self((self.0 + 1) % 4)
    }

    /// How far it is ahead of another: 3 is one behind.
    pub(crate) const fn ahead_of(self, other: Self) -> u8 {
        (self.0 + 4 - other.0) % 4
    }
}

/// A set of a source's slots.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Slots {
    /// A bit for each.
    words: Vec<u64>,
    count: usize,
}

impl Slots {
    /// Adds a slot; whether it is new.
    pub(crate) fn insert(&mut self, slot: usize) -> bool {
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.count += usize::from(is_new);
        is_new
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.words.len() * 64).filter(|slot| self.words[slot / 64] & 1 << (slot % 64) != 0)
    }

    pub(crate) fn assert_invariants(&self) {
        let bits: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        assert_eq!(bits as usize, self.count, "each slot is counted once");
    }
}

/// What has come from one source.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Arrivals {
    /// Once it has said so.
    pub(crate) announced: Option<Announcement>,
    /// Where something has come.
    pub(crate) slots: Slots,
    /// How long each of it is.
    length: usize,
}

impl Arrivals {
    /// Notes the arrival of `length` bytes. Returns whether that agrees with the other arrivals.
    pub(crate) fn take(&mut self, slot: usize, length: usize) -> bool {
        if self.slots.len() == 0 {
            self.length = length;
        }
        self.length == length && self.slots.insert(slot) && self.is_within()
    }

    /// Notes an announcement. Returns whether it agrees with the arrivals so far.
    pub(crate) fn announce(&mut self, announced: Announcement) -> bool {
        let is_first = self.announced.is_none();
        self.announced = Some(announced);
        is_first && self.is_within()
    }

    fn is_within(&self) -> bool {
        self.announced.is_none_or(|announced| self.slots.len() <= announced.count)
    }

    /// Whether all of it has `length` bytes.
    pub(crate) fn is_of(&self, length: usize) -> bool {
        self.slots.len() == 0 || self.length == length
    }

    /// Whether all that was announced has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.announced.is_some_and(|announced| self.slots.len() == announced.count)
    }
}
