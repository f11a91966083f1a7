//! A group's part of a switch whose ways are known: what passes from rank to next rank is added up, what is not for aggregation goes
//! on as it is.

use crate::aggregator::{Aggregator, Arrival, Destination, DropReason, Judgement, Outlet, Reason};
use crate::config::{ConfigError, Shape};
use crate::mutation::Mutation;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Reduction};
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_units::{Duration, Instant};
use quincunx_wire::netreduce::{self, NetReduceHeader};
use quincunx_wire::{Gid, Operation, Psn, RoceHeader};

/// What the switch takes to answer, in simulations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Latencies {
    /// From the last of the frames that are added up.
    pub sum: Duration,
    /// From a frame that comes again.
    pub repeat: Duration,
    /// From a frame that is not added up, an acknowledge among them, until it goes on.
    pub forward: Duration,
}

/// What a group's part is set up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetReduceDatapathConfig {
    /// Its edges and buffers.
    pub shape: Shape,
    /// What it adds.
    pub reduction: Reduction,
    /// By edge: the address of the rank there.
    pub ranks: Vec<Gid>,
    /// The number of each connection's first frame.
    pub initial_psn: Psn,
    /// What it takes.
    pub latencies: Latencies,
}

/// What a group runs in the switch. Edges lead to the ranks, in order; what comes in over one is for another one's rank.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NetReduceDatapath<P: Payload> {
    aggregator: Aggregator<RoceHeader, P>,
    ranks: Vec<Gid>,
    initial_psn: Psn,
    pipelines: [Pipeline<P>; 3],
}

/// Answers that are not through the switch yet: each takes as long as the one before, so that they leave in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pipeline<P> {
    latency: Duration,
    waiting: VecDeque<(Instant, Destination, RoceHeader, P)>,
}

/// Sends results over edges, when they are through.
struct Edges<'a, P: Payload> {
    now: Instant,
    pipelines: &'a mut [Pipeline<P>; 3],
    out: &'a mut dyn DatapathSink<P>,
}

/// The pipeline of what is forwarded, behind those of [`Reason`].
const FORWARD: usize = 2;

const fn timer(pipeline: usize) -> DatapathTimer {
    DatapathTimer { kind: pipeline as u8, edge: None }
}

impl<P: Payload> Outlet<RoceHeader, P> for Edges<'_, P> {
    fn send(&mut self, reason: Reason, to: Destination, header: &RoceHeader, payload: P::View<'_>) {
        self.pass(reason as usize, to, header, payload);
    }
}

impl<P: Payload> Edges<'_, P> {
    /// Sends a frame when it is through a pipeline.
    fn pass(&mut self, number: usize, to: Destination, header: &RoceHeader, payload: P::View<'_>) {
        let Pipeline { latency, waiting } = &mut self.pipelines[number];
        if *latency == Duration::ZERO {
            return self.out.transmit(to, Frame { header, payload: P::reborrow(payload) });
        }
        if waiting.is_empty() {
            self.out.set_timer(timer(number), *latency);
        }
        waiting.push_back((self.now + *latency, to, *header, P::from_view(payload)));
    }
}

impl<P: Payload> NetReduceDatapath<P> {
    /// A switch with an edge to each rank.
    ///
    /// # Errors
    /// If there is no switch of that shape.
    pub fn new(config: NetReduceDatapathConfig, mutation: Option<Mutation>) -> Result<Self, ConfigError> {
        let NetReduceDatapathConfig { shape, reduction, ranks, initial_psn, latencies } = config;
        let mut aggregator = Aggregator::new(shape, reduction)?;
        if let Some(mutation) = mutation {
            aggregator.break_rule(mutation);
        }
        let Latencies { sum, repeat, forward } = latencies;
        let pipelines = [sum, repeat, forward].map(|latency| Pipeline { latency, waiting: VecDeque::new() });
        Ok(Self { aggregator, ranks, initial_psn, pipelines })
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

impl<P: Payload> Datapath<P> for NetReduceDatapath<P> {
    fn handle_frame(
        &mut self,
        now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let (header, payload) = (frame.header, frame.payload);
        // Of ranks at one address it is the next one: what comes in over an edge is for that.
        let count = self.ranks.len();
        let mut next = (1..=count).map(|further| (usize::from(edge) + further) % count);
        let to = next.find(|rank| self.ranks[*rank] == header.destination).map(|edge| edge as u16);
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
                let mut edges = Edges { now, pipelines: &mut self.pipelines, out: &mut *out };
                if let Err(reason) = self.aggregator.take(&arrival, &mut edges) {
                    out.drop_frame(edge, reason.name());
                }
            }
            (Some((_, Judgement::Drop(reason))), _) => out.drop_frame(edge, reason.name()),
            (_, Some(to)) => {
                Edges { now, pipelines: &mut self.pipelines, out }.pass(FORWARD, to, header, payload);
            }
            (_, None) => out.drop_frame(edge, DropReason::NoDestination.name()),
        }
    }

    fn handle_reply(
        &mut self,
        now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        Edges { now, pipelines: &mut self.pipelines, out }.pass(FORWARD, edge, frame.header, frame.payload);
    }

    fn handle_timer(&mut self, now: Instant, timer: DatapathTimer, out: &mut dyn DatapathSink<P>) {
        let Some(Pipeline { waiting, .. }) = self.pipelines.get_mut(usize::from(timer.kind)) else { return };
        while let Some((due, ..)) = waiting.front() {
            if *due > now {
                return out.set_timer(timer, due.since(now));
            }
            let Some((_, to, header, payload)) = waiting.pop_front() else { return };
            out.transmit(to, Frame { header: &header, payload: payload.view(0..payload.length()) });
        }
    }

    fn timers(&self) -> Vec<DatapathTimer> {
        (0..self.pipelines.len()).map(timer).collect()
    }

    fn buffer_bytes(&self) -> usize {
        self.aggregator.buffer_bytes()
    }

    fn assert_invariants(&self) {
        self.aggregator.assert_invariants();
    }
}
