//! The switch's part: aggregators that packets are hashed to, first come, first served (Lao et al., section 3).
//!
//! A packet takes the aggregator that its number names, or is added up there, or goes on to the server if another number has it. A sum that is
//! whole goes to the server, and its aggregator is free when the result comes back that way. What is sent again takes along what there is, and
//! frees the aggregator: somebody has missed something, and the server is where all of it comes together.
//!
//! By the paper's rule a packet that comes after its result holds an aggregator for good, as no result follows (`quincunx check atp-rules all_reduce
//! --packets 2 --duplicate`). Here a number takes the aggregator over from one that is a window or more before it: its rank has that one's result.

use crate::config::{AtpShape, AtpShapeError};
use crate::mutation::Mutation;
use crate::partial::{Part, Partial};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_units::Instant;
use quincunx_wire::atp::AtpTags;
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::switchml::Kind;
use quincunx_wire::{Deth, Endpoint, Operation, Psn, RoceHeader};

/// Leads to the server. Edge r after it leads to worker r, and one more to the server's rank as a worker, if it is one here.
const SERVER: u16 = 0;

/// What a group's part of the switch is set up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AggregatorsConfig {
    /// The dimensions.
    pub shape: AtpShape,
    /// The two ends of each edge, the switch's own first.
    pub edges: Vec<[Endpoint; 2]>,
    /// The number of the first packet of each edge.
    pub initial_psn: Psn,
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

/// A group's part of the switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Aggregators<P> {
    shape: AtpShape,
    tags: AtpTags,
    edges: Vec<[Endpoint; 2]>,
    initial_psn: Psn,
    mutation: Option<Mutation>,
    aggregators: Vec<Option<Partial<P>>>,
    /// What was there last, where that rule is broken.
    before: Vec<Option<Partial<P>>>,
    /// The newest number that was seen.
    newest: u32,
}

impl<P: Payload> Aggregators<P> {
    /// All are free.
    ///
    /// # Errors
    /// If there is no group of that shape.
    pub fn new(config: AggregatorsConfig) -> Result<Self, AtpShapeError> {
        let AggregatorsConfig { shape, edges, initial_psn, mutation } = config;
        let tags = shape.tags()?;
        let newest = initial_psn.extended();
        let aggregators = vec![None; shape.aggregators as usize];
        let before = if mutation == Some(Mutation::KeepsSum) { aggregators.clone() } else { Vec::new() };
        Ok(Self { shape, tags, edges, initial_psn, mutation, aggregators, before, newest })
    }

    /// How many aggregators somebody has.
    pub fn held(&self) -> usize {
        self.aggregators.iter().flatten().count()
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The worker at an edge, as a bit; none at the server's.
    fn worker(&self, edge: u16) -> u32 {
        match edge {
            SERVER => 0,
            edge if edge < self.shape.ranks => 1 << edge,
            _ => 1,
        }
    }

    /// Edges that lead to workers.
    fn to_workers(&self) -> core::ops::Range<u16> {
        SERVER + 1..self.edges.len() as u16
    }

    /// All workers whose packets come here.
    fn all(&self) -> u32 {
        self.to_workers().fold(0, |all, edge| all | self.worker(edge))
    }

    /// What a frame says that came over `edge`.
    ///
    /// # Errors
    /// Why it is nothing.
    fn read(&self, edge: u16, frame: &Frame<'_, RoceHeader, P>) -> Result<(u32, Part), &'static str> {
        let Some([_, remote]) = self.edges.get(usize::from(edge)) else { return Err("no such edge") };
        let Operation::DatagramSendOnlyImmediate(deth, immediate) = frame.header.operation else {
            return Err("no datagram");
        };
        if deth.source_qp != remote.qp || deth.queue_key != COLLECTIVE_QUEUE {
            return Err("not from its rank");
        }
        let payload = P::reborrow(frame.payload);
        if P::view_length(payload) > self.shape.packet() {
            return Err("too long");
        }
        let part = Part::read::<P>(self.tags, immediate, P::reborrow(frame.payload), self.newest)?;
        if edge == SERVER {
            return Ok((immediate, part));
        }
        if part.workers != self.worker(edge) {
            return Err("of another worker");
        }
        // What ranks disagree on is not theirs to say.
        if part.header.kind == Kind::Disagreement { Err("no contribution") } else { Ok((immediate, part)) }
    }

    fn aggregate(
        &mut self,
        (immediate, part): (u32, Part),
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), &'static str> {
        let index = self.shape.aggregator(part.number);
        let bypasses = part.is_resent && !self.breaks(Mutation::ResendsWait);
        let is_any = self.breaks(Mutation::AnyOwner);
        let counts_repeats = self.breaks(Mutation::CountsRepeats);
        let window = self.shape.window as i32;
        match &mut self.aggregators[index] {
            Some(partial) if partial.number == part.number || is_any => {
                if bypasses {
                    self.hand_over(index, out);
                    self.send(SERVER..SERVER + 1, immediate, payload, out);
                    return Ok(());
                }
                if partial.workers & part.workers != 0 && !counts_repeats {
                    return Err("added up already");
                }
                partial.add(part, payload);
            }
            Some(partial) if (part.number.wrapping_sub(partial.number) as i32) < window => {
                self.send(SERVER..SERVER + 1, immediate, payload, out);
                return Ok(());
            }
            _ if bypasses => {
                self.send(SERVER..SERVER + 1, immediate, payload, out);
                return Ok(());
            }
            aggregator => {
                let mut partial = Partial::new(part, payload);
                if let Some(Some(before)) = self.before.get(index) {
                    partial.keep(before);
                }
                *aggregator = Some(partial);
            }
        }
        self.send_whole(index, out);
        Ok(())
    }

    /// Sends the sum to the server if all workers are in it.
    fn send_whole(&mut self, index: usize, out: &mut dyn DatapathSink<P>) {
        let all = self.all();
        let Some(partial) = &self.aggregators[index] else { return };
        let missing = (all & !partial.workers).count_ones();
        let early = u32::from(self.breaks(Mutation::WholeEarly) && all.count_ones() > 1);
        if missing <= early {
            self.send_sum(index, all, out);
        }
    }

    /// Sends what an aggregator has to the server, and frees it.
    fn hand_over(&mut self, index: usize, out: &mut dyn DatapathSink<P>) {
        let Some(partial) = &self.aggregators[index] else { return };
        let workers = if self.breaks(Mutation::PartialAsWhole) { self.all() } else { partial.workers };
        self.send_sum(index, workers, out);
        self.free(index);
    }

    /// Sends what an aggregator has to the server, as the sum of these workers.
    fn send_sum(&mut self, index: usize, workers: u32, out: &mut dyn DatapathSink<P>) {
        let Some(mut partial) = self.aggregators[index].take() else { return };
        let immediate = self.tags.write(partial.number, workers, false);
        self.send(SERVER..SERVER + 1, immediate, partial.payload(), out);
        self.aggregators[index] = Some(partial);
    }

    fn free(&mut self, index: usize) {
        let freed = self.aggregators[index].take();
        if let Some(before) = self.before.get_mut(index) {
            *before = freed;
        }
    }

    /// The server's result frees its aggregator, and goes to all workers.
    fn pass_on(
        &mut self,
        (immediate, part): (u32, Part),
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let index = self.shape.aggregator(part.number);
        if self.aggregators[index].as_ref().is_some_and(|partial| partial.number == part.number) {
            self.free(index);
        }
        self.send(self.to_workers(), immediate, payload, out);
    }

    fn send(
        &self,
        edges: core::ops::Range<u16>,
        immediate: u32,
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) {
        out.replicate(payload, &mut |send| {
            for edge in edges.clone() {
                let Some([local, remote]) = self.edges.get(usize::from(edge)) else { continue };
                let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: local.qp };
                let operation = Operation::DatagramSendOnlyImmediate(deth, immediate);
                let psn = self.initial_psn.plus(immediate);
                send(edge, &RoceHeader::new(local.ip, remote.ip, remote.qp, psn, operation));
            }
        });
    }
}

impl<P: Payload> Datapath<P> for Aggregators<P> {
    fn handle_frame(
        &mut self,
        _now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let done = self.read(edge, &frame).and_then(|(immediate, part)| {
            if part.number.wrapping_sub(self.newest) as i32 > 0 {
                self.newest = part.number;
            }
            match edge {
                SERVER => {
                    self.pass_on((immediate, part), frame.payload, out);
                    Ok(())
                }
                _ => self.aggregate((immediate, part), frame.payload, out),
            }
        });
        if let Err(reason) = done {
            out.drop_frame(edge, reason);
        }
    }

    fn handle_timer(&mut self, _now: Instant, _timer: DatapathTimer, _out: &mut dyn DatapathSink<P>) {}

    fn buffer_bytes(&self) -> usize {
        self.aggregators.len() * self.shape.piece
    }

    fn assert_invariants(&self) {
        if self.mutation.is_some() {
            return;
        }
        for (index, partial) in self.aggregators.iter().enumerate() {
            let Some(partial) = partial else { continue };
            assert_eq!(
                self.shape.aggregator(partial.number),
                index,
                "{} is where its hash says",
                partial.number
            );
            assert!(partial.workers != 0 && partial.workers & !self.all() == 0, "of workers that there are");
        }
    }
}
