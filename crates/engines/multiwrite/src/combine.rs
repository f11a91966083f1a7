//! Combine (MultiWrite 2.3.2): what ranks have made of the tokens of the last dispatch goes back to where each came from, and is added up
//! there.
//!
//! A rank that has got a token returns one vector for it: the sum over its own experts, with the weights that came with the token, is its
//! business. So nothing is sent twice, and nothing is there to be saved: this is an AllToAllV of unicast writes, whatever way a token came.
//! By way of a relay the same bytes would cross between servers, and each would be written once more within one. (A relay that added up
//! what its server returns would save them: another system than the paper's.)
//!
//! Results of one token lie in the window, each in the slot that the token has at its source, until all are there. They are added in
//! rank order: the same bits every time, whoever comes first.

use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank, Reduction};
use quincunx_engine::verbs::{Slice, Verbs};

use crate::batch::{Batch, Places};
use crate::writer::{Delivery, Target, Write, Writer};

/// The way that leads to each by itself, where the usual one leads over a relay.
const EACH_BY_ITSELF: usize = 1;

/// One that runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Combine {
    /// What this rank has made of the tokens that it got.
    pub(crate) places: Places,
    /// Where the sums for this rank's tokens go, one after the other.
    pub(crate) sums: Places,
    pub(crate) reduction: Reduction,
    /// By token of this rank: results that have not come.
    missing: Vec<usize>,
}

impl Combine {
    pub(crate) fn new(places: Places, sums: Places, reduction: Reduction) -> Self {
        Self { places, sums, reduction, missing: Vec::new() }
    }

    /// Counts what is to come, and adds up the tokens for which nothing is.
    pub(crate) fn begin<P: Payload>(&mut self, batch: &Batch, writer: &Writer, verbs: &mut dyn Verbs<P>) {
        let me = writer.table().rank();
        self.missing =
            batch.away.iter().map(|ranks| ranks.len() - usize::from(ranks.contains(me.0))).collect();
        for token in 0..self.missing.len() {
            if self.missing[token] == 0 {
                self.add_up(token, batch, writer, verbs);
            }
        }
    }

    /// How many results a rank gets from this one.
    pub(crate) fn count(batch: &Batch, rank: Rank) -> usize {
        batch.here[rank.index()].len()
    }

    /// Writes this rank's results; how many messages that takes.
    pub(crate) fn post<P: Payload>(
        &self,
        batch: &Batch,
        writer: &mut Writer,
        verbs: &mut dyn Verbs<P>,
    ) -> usize {
        let mut messages = 0;
        for (rank, slots) in (0..).map(Rank).zip(&batch.here) {
            for slot in slots.iter() {
                let targets = [Target { rank, slot }];
                let source = self.places.of(rank, slot);
                let write = Write { targets: &targets, source, way: EACH_BY_ITSELF };
                let posted = writer.write(&write, verbs);
                messages += posted.expect("the table, the window and the input were checked");
            }
        }
        messages
    }

    /// Notes a result, and adds up if it is the last one for its token; whether one was to come from there.
    pub(crate) fn take<P: Payload>(
        &mut self,
        delivery: Delivery,
        batch: &Batch,
        writer: &Writer,
        verbs: &mut dyn Verbs<P>,
    ) -> bool {
        let Delivery { source, slot, .. } = delivery;
        if batch.away.get(slot).is_none_or(|ranks| !ranks.contains(source.0)) {
            return false;
        }
        // Each slot of a source is taken once, so that this never falls below zero.
        self.missing[slot] -= 1;
        if self.missing[slot] == 0 {
            self.add_up(slot, batch, writer, verbs);
        }
        true
    }

    /// The sum for a token, of results that are all here.
    fn add_up<P: Payload>(&self, token: usize, batch: &Batch, writer: &Writer, verbs: &mut dyn Verbs<P>) {
        let (me, window) = (writer.table().rank(), writer.window());
        let sum = self.sums.of(Rank(0), token);
        let result = |rank: Rank| -> Slice {
            if rank == me { self.places.of(me, token) } else { window.data(rank, token, 0..sum.length) }
        };
        for (index, rank) in batch.away[token].iter().map(Rank).enumerate() {
            if index == 0 {
                verbs.memory().copy(sum, result(rank));
            } else {
                verbs.memory().reduce(sum, result(rank), self.reduction);
            }
        }
    }
}
