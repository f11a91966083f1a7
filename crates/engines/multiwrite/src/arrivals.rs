//! What has come from one source in a dispatch or a combine, and what it has announced.

use alloc::vec::Vec;

use crate::barrier::ALL_HERE;

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

    /// As an immediate says it.
    ///
    /// # Panics
    /// If there are 2^30 or more.
    pub(crate) fn to_immediate(self) -> u32 {
        let count = self.count as u32;
        assert!(count as usize == self.count && count < Self::COMBINES, "slots are in memory");
        if self.combines { Self::COMBINES | count } else { count }
    }

    /// What an immediate without [`ALL_HERE`] says.
    pub(crate) fn from_immediate(immediate: u32) -> Self {
        let count = (immediate & !(Self::COMBINES | ALL_HERE)) as usize;
        Self { combines: immediate & Self::COMBINES != 0, count }
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
