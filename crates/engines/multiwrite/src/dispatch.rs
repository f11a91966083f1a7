//! Dispatch over MultiWrite (MultiWrite 3.2, 6.3): each rank writes each of its tokens once to every rank that hosts one of the
//! token's experts, whoever that is for this token.
//!
//! The table decides what crosses the links between servers: where it leads to all ranks of another server by way of one of them, a token
//! goes there once and is passed on there; where it leads to each by itself, this is the AllToAllV of unicast writes.

use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::Verbs;

use crate::batch::{Batch, Places};
use crate::writer::{Delivery, Target, Write, Writer};

/// One that runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Dispatch {
    /// Where this rank's tokens are, one after the other.
    pub(crate) tokens: Places,
    /// Where those for it go.
    pub(crate) places: Places,
}

impl Dispatch {
    /// Copies those of this rank's own tokens that are for it.
    pub(crate) fn begin<P: Payload>(&mut self, batch: &Batch, me: Rank, verbs: &mut dyn Verbs<P>) {
        for (token, _) in batch.away.iter().enumerate().filter(|(_, ranks)| ranks.contains(me.0)) {
            verbs.memory().copy(self.places.of(me, token), self.tokens.of(Rank(0), token));
        }
    }

    /// How many tokens a rank gets from this one.
    pub(crate) fn count(batch: &Batch, rank: Rank) -> usize {
        batch.away.iter().filter(|ranks| ranks.contains(rank.0)).count()
    }

    /// Writes this rank's tokens; how many messages that takes.
    pub(crate) fn post<P: Payload>(
        &self,
        batch: &Batch,
        writer: &mut Writer,
        verbs: &mut dyn Verbs<P>,
    ) -> usize {
        let me = writer.table().rank();
        let mut messages = 0;
        for (slot, ranks) in batch.away.iter().enumerate() {
            let others = ranks.iter().map(Rank).filter(|rank| *rank != me);
            let targets: Vec<Target> = others.map(|rank| Target { rank, slot }).collect();
            if !targets.is_empty() {
                let write = Write { targets: &targets, source: self.tokens.of(Rank(0), slot), way: 0 };
                let posted = writer.write(&write, verbs);
                messages += posted.expect("the table, the window and the input were checked");
            }
        }
        messages
    }

    /// Copies a token to its place.
    pub(crate) fn take<P: Payload>(&mut self, delivery: Delivery, verbs: &mut dyn Verbs<P>) {
        verbs.memory().copy(self.places.of(delivery.source, delivery.slot), delivery.data);
    }
}
