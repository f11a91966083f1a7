//! Who a MultiWrite is for: a bitmap by rank (MultiWrite 4.1, "Encoding scheme of metadata").
//!
//! In groups of up to 32 ranks the bitmap is the immediate of a Write with Immediate, which costs nothing (6.4); bit `r`, counted from
//! the lowest, is rank `r`. On a memory fabric the same bits are the operand of a MultiWrite ([`flit`](crate::flit)). RoCE has no
//! reserved field for more: in larger groups the bitmap stands at the head of the payload, as long
//! as the group needs in whole words, and the immediate is 0.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |31 . . .                  Ranks 31 to 0                   . . 0|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |63 . . .                  Ranks 63 to 32                  . .32|
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             . . .                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::ParseError;
use crate::field::{put, u32_at};

/// The largest group.
pub const MAX_RANKS: u16 = 1024;

/// The largest group whose bitmap is an immediate.
pub const IMMEDIATE_RANKS: u16 = 32;

const WORD: usize = 4;
const WORDS: usize = MAX_RANKS as usize / 32;

/// Bytes of payload that the bitmap of a group takes: none if the immediate holds it.
pub const fn bitmap_length(ranks: u16) -> usize {
    if ranks <= IMMEDIATE_RANKS { 0 } else { (ranks as usize).div_ceil(32) * WORD }
}

/// A set of ranks below [`MAX_RANKS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Destinations([u32; WORDS]);

/// A bitmap names a rank that the group does not have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("expected destinations below {ranks}, found rank {found}; number ranks as the group does")]
pub struct UnknownRank {
    /// Ranks in the group.
    pub ranks: u16,
    /// The highest one that was named.
    pub found: u16,
}

impl Destinations {
    /// Nobody.
    pub const NONE: Self = Self([0; WORDS]);

    /// One rank.
    ///
    /// # Panics
    /// As [`insert`](Self::insert).
    pub const fn one(rank: u16) -> Self {
        let mut one = Self::NONE;
        one.insert(rank);
        one
    }

    /// Adds a rank.
    ///
    /// # Panics
    /// If it is not below [`MAX_RANKS`].
    pub const fn insert(&mut self, rank: u16) {
        assert!(rank < MAX_RANKS, "a rank that no bitmap holds");
        self.0[rank as usize / 32] |= 1 << (rank % 32);
    }

    /// Takes a rank out; whether it was in.
    pub const fn remove(&mut self, rank: u16) -> bool {
        let was_in = self.contains(rank);
        if was_in {
            self.0[rank as usize / 32] &= !(1 << (rank % 32));
        }
        was_in
    }

    /// Whether a rank is in it.
    pub const fn contains(&self, rank: u16) -> bool {
        rank < MAX_RANKS && self.0[rank as usize / 32] & 1 << (rank % 32) != 0
    }

    /// How many ranks are in it.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// The ranks in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        let words = self.0.into_iter().zip((0_u16..).step_by(32));
        words.filter(|&(word, _)| word != 0).flat_map(|(word, first)| {
            let lowest = |left: &u32| Some(left & (left - 1)).filter(|&left| left != 0);
            core::iter::successors(Some(word), lowest).map(move |left| first + left.trailing_zeros() as u16)
        })
    }

    /// That every rank in it is one of a group of `ranks`.
    ///
    /// # Errors
    /// The highest one that is not.
    pub fn check(&self, ranks: u16) -> Result<(), UnknownRank> {
        match self.iter().last() {
            Some(found) if found >= ranks => Err(UnknownRank { ranks, found }),
            _ => Ok(()),
        }
    }

    /// The bitmap as an immediate says it.
    pub const fn from_immediate(immediate: u32) -> Self {
        let mut destinations = Self::NONE;
        destinations.0[0] = immediate;
        destinations
    }

    /// The immediate; `None` if a rank in it has no bit there.
    pub fn to_immediate(&self) -> Option<u32> {
        self.0[1..].iter().all(|word| *word == 0).then_some(self.0[0])
    }

    /// What the view says.
    pub fn parse(view: &BitmapView<'_>) -> Self {
        let mut destinations = Self::NONE;
        for (index, word) in destinations.0.iter_mut().enumerate().take(view.0.len() / WORD) {
            *word = u32_at(view.0, index * WORD);
        }
        destinations
    }

    /// Writes the bitmap of a group of `ranks` to the start of `out`; nothing if an immediate holds it.
    ///
    /// # Panics
    /// If `out` is shorter than [`bitmap_length`], or a rank is not in the group.
    pub fn emit(&self, ranks: u16, out: &mut [u8]) {
        assert!(self.check(ranks).is_ok(), "a destination outside the group");
        for (index, word) in self.0.iter().enumerate().take(bitmap_length(ranks) / WORD) {
            put(out, index * WORD, &word.to_be_bytes());
        }
    }
}

/// A view of a bitmap that is all there.
#[derive(Clone, Copy, Debug)]
pub struct BitmapView<'a>(&'a [u8]);

impl<'a> BitmapView<'a> {
    /// Views the bitmap of a group of `ranks` at the start of `bytes`; returns what follows, too.
    ///
    /// # Errors
    /// If `bytes` are fewer, or no group is that large.
    pub fn split(bytes: &'a [u8], ranks: u16) -> Result<(Self, &'a [u8]), ParseError> {
        if ranks > MAX_RANKS {
            return Err(ParseError::TooLong);
        }
        let (bitmap, rest) = bytes.split_at_checked(bitmap_length(ranks)).ok_or(ParseError::Truncated)?;
        Ok((Self(bitmap), rest))
    }
}
