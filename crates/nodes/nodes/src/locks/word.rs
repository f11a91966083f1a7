//! What is said between ranks and switches about locks, as the 32 bits of immediate data of a datagram.
//!
//! ```text
//!  31 .. 29 | 28 .. 0
//!    what   | number of the invocation
//! ```

use core::fmt;

/// Which invocation of a group: counted from one, modulo 2^29.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Number(u32);

const NUMBERS: u32 = (1 << 29) - 1;

impl Number {
    /// The first.
    pub const FIRST: Self = Self(1);

    /// The next.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & NUMBERS)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A word about an invocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Word {
    /// Upward: all ranks below want to begin it, and no recorder below refuses, or one does. Whoever says it is done with the one before.
    Ask {
        /// A recorder has refused.
        refused: bool,
    },
    /// Downward: it runs in the tree, or among the hosts.
    Verdict {
        /// In the tree.
        granted: bool,
    },
    /// Upward: all ranks below are done with it, and have run it in the tree.
    Done,
    /// Downward: all ranks are, and what was locked for it is free.
    Free,
}

const CODES: [(u32, Word); 6] = [
    (0, Word::Ask { refused: false }),
    (1, Word::Ask { refused: true }),
    (2, Word::Verdict { granted: false }),
    (3, Word::Verdict { granted: true }),
    (4, Word::Done),
    (5, Word::Free),
];

impl Word {
    /// The 32 bits.
    pub fn encode(self, number: Number) -> u32 {
        let code = CODES.iter().find(|(_, word)| *word == self).map_or(0, |(code, _)| *code);
        code << 29 | number.0
    }

    /// What the 32 bits say; `None` if that is no word.
    pub fn decode(bits: u32) -> Option<(Self, Number)> {
        let (_, word) = CODES.iter().find(|(code, _)| *code == bits >> 29)?;
        Some((*word, Number(bits & NUMBERS)))
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ask { refused: false } => "ask for the locks",
            Self::Ask { refused: true } => "ask in vain",
            Self::Verdict { granted: true } => "granted",
            Self::Verdict { granted: false } => "refused",
            Self::Done => "done",
            Self::Free => "free",
        })
    }
}
