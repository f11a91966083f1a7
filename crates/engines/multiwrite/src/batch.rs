//! A batch of tokens: where they lie, and where they have gone.

use crate::arrivals::Slots;
use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_engine::verbs::Slice;
use quincunx_wire::multiwrite::Destinations;

/// Where tokens lie in a buffer: so many for each rank, one rank after the other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Places {
    pub(crate) buffer: Slice,
    pub(crate) each: usize,
    /// Bytes of a token.
    pub(crate) length: usize,
}

impl Places {
    pub(crate) fn of(&self, rank: Rank, token: usize) -> Slice {
        let index = rank.index() * self.each + token;
        Slice { offset: self.buffer.offset + index * self.length, length: self.length, ..self.buffer }
    }
}

/// Where the tokens of the last dispatch have gone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Batch {
    /// By token of this rank: who has got it.
    pub(crate) away: Vec<Destinations>,
    /// By rank: how many of its tokens come here; empty if ranks announce that.
    pub(crate) incoming: Vec<usize>,
    /// By rank: its tokens that are here; nobody's before the dispatch is done.
    pub(crate) here: Vec<Slots>,
}
