//! A group's part of a switch whose ways are known: what passes from rank to next rank is added up, what is not for aggregation goes
//! on as it is.

use crate::aggregator::{Aggregator, Arrival, Destination, DropReason, Judgement, Outlet};
use crate::config::{ConfigError, Shape};
use crate::mutation::Mutation;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use quincunx_collective::{Payload, Reduction};
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_units::Instant;
use quincunx_wire::netreduce::{self, NetReduceHeader};
use quincunx_wire::{Operation, Psn, RoceHeader};

/// What a group runs in the switch. Edges lead to the ranks, in order; what comes in over one is for another one's rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Passage<P: Payload> {
    aggregator: Aggregator<RoceHeader, P>,
    /// By edge: the address of the rank there.
    ranks: Vec<Ipv4Addr>,
    /// The number of each connection's first frame.
    initial_psn: Psn,
}

/// Sends results over edges.
struct Edges<'a, P: Payload>(&'a mut dyn DatapathSink<P>);

impl<P: Payload> Outlet<RoceHeader, P> for Edges<'_, P> {
    fn send(&mut self, to: Destination, header: &RoceHeader, payload: P::View<'_>) {
        self.0.transmit(to, Frame { header, payload: P::reborrow(payload) });
    }
}

impl<P: Payload> Passage<P> {
    /// A switch with an edge to each of `ranks`.
    ///
    /// # Errors
    /// If there is no switch of that shape.
    pub fn new(
        shape: Shape,
        reduction: Reduction,
        ranks: Vec<Ipv4Addr>,
        initial_psn: Psn,
        mutation: Option<Mutation>,
    ) -> Result<Self, ConfigError> {
        let mut aggregator = Aggregator::new(shape, reduction)?;
        if let Some(mutation) = mutation {
            aggregator.break_rule(mutation);
        }
        Ok(Self { aggregator, ranks, initial_psn })
    }

    /// Whether a frame has one of the four opcodes, and whether it is a First.
    const fn is_first(operation: Operation) -> Option<bool> {
        match operation {
            Operation::WriteFirst(_) => Some(true),
            Operation::WriteMiddle | Operation::WriteLast | Operation::WriteLastImmediate(_) => Some(false),
            _ => None,
        }
    }
}

impl<P: Payload> Datapath<P> for Passage<P> {
    fn handle_frame(
        &mut self,
        _now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let (header, payload) = (frame.header, frame.payload);
        let to = self.ranks.iter().position(|rank| *rank == header.destination).map(|edge| edge as u16);
        let is_first = Self::is_first(header.operation);
        let is_first =
            is_first.filter(|_| P::view_length(P::reborrow(payload)) == self.aggregator.shape().payload);
        // What has no contents is a group's whose queue pairs are known, and the number of their first frames.
        let contents = P::contents(P::reborrow(payload));
        let matches = contents.is_none_or(netreduce::is_for_aggregation);
        let begins = match contents {
            Some(contents) => NetReduceHeader::parse(contents).is_ok_and(|header| header.message == 0),
            None => header.psn == self.initial_psn,
        };
        let (queue_pair, psn) = (header.destination_qp, header.psn);
        let judged = is_first.map(|is_first| {
            // What passes here is a group's, label or not.
            (is_first, self.aggregator.judge(edge, is_first, (matches, true), queue_pair))
        });
        match (judged, to) {
            (Some((is_first, Judgement::Aggregate)), _) => {
                let arrival = Arrival {
                    port: edge,
                    header,
                    is_first,
                    begins,
                    queue_pair,
                    psn,
                    destination: to,
                    payload,
                };
                if let Err(reason) = self.aggregator.take(&arrival, &mut Edges(&mut *out)) {
                    out.drop_frame(edge, reason.name());
                }
            }
            (Some((_, Judgement::Drop(reason))), _) => out.drop_frame(edge, reason.name()),
            (_, Some(to)) => out.transmit(to, frame),
            (_, None) => out.drop_frame(edge, DropReason::NoDestination.name()),
        }
    }

    fn handle_timer(&mut self, _: Instant, _: DatapathTimer, _: &mut dyn DatapathSink<P>) {}

    fn buffer_bytes(&self) -> usize {
        self.aggregator.buffer_bytes()
    }

    fn assert_invariants(&self) {
        self.aggregator.assert_invariants();
    }
}
