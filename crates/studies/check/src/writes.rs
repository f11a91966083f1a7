//! What the ranks of a group write to each other, where a design offers writes of the application's own: as the library's `multi_write` has it,
//! by the ways and slots of the design's plan.

use quincunx_collective::{Provenance, Rank};
use quincunx_engine::writes::Target;

use crate::network::{MTU, OwnWrite, OwnWrites};

/// A message for all others: to those of the same domain straight, to the rest over relays, each in a slot of its own.
pub(crate) const SLOTS: usize = 2;

/// The ways of both.
const WAYS: [usize; SLOTS] = [0, 1];

/// What ranks write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WritesSetup {
    pub(crate) ranks: u16,
    /// Ranks of a domain.
    pub(crate) members: u16,
    /// The first so many ranks write.
    pub(crate) senders: u16,
    /// Messages of each, which are for all others.
    pub(crate) messages: usize,
}

impl WritesSetup {
    /// What a rank writes, and what it is told of.
    pub(crate) fn of(&self, rank: Rank) -> OwnWrites {
        let own = self.slots(rank);
        let write = |slot: usize| OwnWrite {
            targets: self.destinations(rank, slot).map(|rank| Target { rank, slot }).collect(),
            way: WAYS[slot % SLOTS],
            data: data(rank, slot),
        };
        let arrives = |(source, slot)| (source, slot, data(source, slot));
        OwnWrites {
            writes: own.into_iter().map(write).collect(),
            awaited: self.sent_to(rank).into_iter().map(arrives).collect(),
            never_end: false,
        }
    }

    /// The slots that a rank writes to.
    fn slots(&self, rank: Rank) -> Vec<usize> {
        let all = if rank.0 < self.senders { self.messages * SLOTS } else { 0 };
        (0..all).filter(|slot| self.destinations(rank, *slot).next().is_some()).collect()
    }

    /// Whom a write is for: all others of the domain, or all that are not in it.
    fn destinations(&self, rank: Rank, slot: usize) -> impl Iterator<Item = Rank> {
        let domain = |rank: u16| rank / self.members;
        let is_near = WAYS[slot % SLOTS] == 0;
        let chosen = move |other: &u16| *other != rank.0 && (domain(*other) == domain(rank.0)) == is_near;
        (0..self.ranks).filter(chosen).map(Rank)
    }

    /// Writes for a rank, by source and slot.
    fn sent_to(&self, rank: Rank) -> Vec<(Rank, usize)> {
        let sources = (0..self.senders).map(Rank);
        let all = sources.flat_map(|source| self.slots(source).into_iter().map(move |slot| (source, slot)));
        all.filter(|(source, slot)| self.destinations(*source, *slot).any(|other| other == rank)).collect()
    }
}

/// What a rank writes: no two messages are the same.
fn data(rank: Rank, slot: usize) -> Provenance {
    Provenance::of_rank(rank, MTU).moved(slot / SLOTS)
}
