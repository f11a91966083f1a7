//! The switch's part: a pool of slots, each with the sum that is being made and the one before it (Sapio et al., algorithm 3).
//!
//! A rank contributes a slot's next piece when it has the result of the last one. So while a sum is being made, some rank may still ask for the
//! one before it, and none for the one before that: two pools are enough, used in turn. What a rank has contributed last to a slot is known by the
//! piece's number. The next one is new, the same one comes again, and what lies before it was late.

use crate::config::{PoolShape, PoolShapeError};
use crate::mutation::Mutation;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{DataType, Payload, ReduceOp, Reduction};
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_units::Instant;
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::switchml::{Kind, LENGTH, SwitchMlHeader};
use quincunx_wire::{Deth, Endpoint, Operation, Psn, RoceHeader};

/// What a group's part of the switch is set up with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolsConfig {
    /// The pool.
    pub shape: PoolShape,
    /// By rank: the two ends of the edge that leads there, the switch's own first.
    pub edges: Vec<[Endpoint; 2]>,
    /// The number of the first packet of each edge.
    pub initial_psn: Psn,
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

/// A group's part of the switch. Edges lead to the ranks, in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pools<P> {
    shape: PoolShape,
    edges: Vec<[Endpoint; 2]>,
    initial_psn: Psn,
    mutation: Option<Mutation>,
    slots: Vec<Slot<P>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot<P> {
    /// By version.
    pools: [Pool<P>; 2],
    /// By rank: the last piece that it has contributed.
    last: Vec<Option<u32>>,
    /// By rank and version, where that rule is broken: whether it has contributed.
    seen: Vec<[bool; 2]>,
}

/// A sum that is being made, or is made.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Pool<P> {
    /// Which piece; none before the first use.
    number: Option<u32>,
    /// Ranks that have contributed.
    arrived: u16,
    /// What they have said: the kind of the integers, the largest exponent and the digest of the first one.
    said: SwitchMlHeader,
    /// A packet's payload, with room for the header before the sum.
    data: P,
}

/// How a contribution stands to what its rank has contributed to the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judgement {
    New,
    Again,
    Stale,
}

/// What a payload without contents says.
const SILENT: SwitchMlHeader = SwitchMlHeader { kind: Kind::Integers, exponent: 0, digest: 0 };

const WRAPPING: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

impl<P: Payload> Pool<P> {
    fn new() -> Self {
        Self { number: None, arrived: 0, said: SILENT, data: P::zeroed(LENGTH) }
    }

    /// Begins with the first contribution.
    fn begin(&mut self, number: u32, said: SwitchMlHeader, payload: P::View<'_>) {
        *self = Self { number: Some(number), arrived: 1, said, data: P::from_view(payload) };
    }

    /// Adds another one. Ranks that ask for different things get no sum, and are told so.
    fn add(&mut self, said: SwitchMlHeader, payload: P::View<'_>) {
        self.arrived += 1;
        self.said.exponent = self.said.exponent.max(said.exponent);
        let length = P::view_length(P::reborrow(payload));
        let agrees =
            (self.said.kind, self.said.digest, self.data.length()) == (said.kind, said.digest, length);
        if !agrees {
            self.said.kind = Kind::Disagreement;
        }
        let elements = P::subview(payload, LENGTH.min(length)..length);
        match self.said.kind {
            Kind::Integers => self.data.reduce(LENGTH, elements, WRAPPING),
            Kind::FixedPoint => self.data.add_saturating(LENGTH, elements),
            Kind::Disagreement => {}
        }
    }

    const fn is_whole(&self, ranks: u16) -> bool {
        self.arrived >= ranks
    }

    const fn is_pending(&self, ranks: u16) -> bool {
        self.arrived > 0 && !self.is_whole(ranks)
    }
}

impl<P: Payload> Pools<P> {
    /// An empty pool.
    ///
    /// # Errors
    /// If there is no pool of that shape.
    pub fn new(config: PoolsConfig) -> Result<Self, PoolShapeError> {
        let PoolsConfig { shape, edges, initial_psn, mutation } = config;
        shape.check()?;
        let ranks = edges.len();
        let seen = if mutation == Some(Mutation::VersionBit) { vec![[false; 2]; ranks] } else { Vec::new() };
        let slot = Slot { pools: [Pool::new(), Pool::new()], last: vec![None; ranks], seen };
        let slots = vec![slot; shape.slots as usize];
        Ok(Self { shape, edges, initial_psn, mutation, slots })
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The piece and what is said of it, of a frame that is one of the rank's at `edge`.
    ///
    /// # Errors
    /// Why it is none.
    fn read(
        &self,
        edge: u16,
        frame: &Frame<'_, RoceHeader, P>,
    ) -> Result<(u32, SwitchMlHeader), &'static str> {
        let Some([_, remote]) = self.edges.get(usize::from(edge)) else { return Err("no such rank") };
        let Operation::DatagramSendOnlyImmediate(deth, number) = frame.header.operation else {
            return Err("no datagram");
        };
        if deth.source_qp != remote.qp || deth.queue_key != COLLECTIVE_QUEUE {
            return Err("not from its rank");
        }
        let length = P::view_length(P::reborrow(frame.payload));
        if length < LENGTH || length > self.shape.packet() || !length.is_multiple_of(4) {
            return Err("no whole elements");
        }
        let said = match P::contents(P::reborrow(frame.payload)) {
            Some(contents) => SwitchMlHeader::parse(contents).map_err(|_| "no header")?,
            None => SILENT,
        };
        // What ranks disagree on is not theirs to say.
        if said.kind == Kind::Disagreement { Err("no contribution") } else { Ok((number, said)) }
    }

    fn judge(&self, edge: u16, number: u32) -> Judgement {
        let slot = &self.slots[self.shape.slot(number)];
        if let Some(seen) = slot.seen.get(usize::from(edge)) {
            return if seen[self.shape.version(number)] { Judgement::Again } else { Judgement::New };
        }
        match slot.last[usize::from(edge)].map(|last| number.wrapping_sub(last) as i32) {
            Some(0) => Judgement::Again,
            Some(..0) => Judgement::Stale,
            None | Some(1..) => Judgement::New,
        }
    }

    fn version(&self, number: u32) -> usize {
        if self.breaks(Mutation::OnePool) { 0 } else { self.shape.version(number) }
    }

    /// Adds a contribution up, and sends the sum when it is whole.
    fn contribute(
        &mut self,
        edge: u16,
        (number, said): (u32, SwitchMlHeader),
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), &'static str> {
        let (version, ranks) = (self.version(number), self.edges.len() as u16);
        let is_by_bit = self.breaks(Mutation::VersionBit);
        let whole_at = ranks - u16::from(self.breaks(Mutation::WholeEarly));
        let keeps = self.breaks(Mutation::KeepsSum);
        let index = self.shape.slot(number);
        let Slot { pools, last, seen } = &mut self.slots[index];
        if pools[1 - version].is_pending(whole_at) && !is_by_bit {
            return Err("ahead of the slot's sum");
        }
        let pool = &mut pools[version];
        if !pool.is_pending(whole_at) {
            let before = core::mem::replace(&mut pool.data, P::zeroed(LENGTH));
            pool.begin(number, said, payload);
            if keeps && before.length() == pool.data.length() {
                pool.data.reduce(LENGTH, before.view(LENGTH..before.length()), WRAPPING);
            }
        } else if pool.number == Some(number) || is_by_bit {
            pool.add(said, payload);
        } else {
            return Err("another piece than the slot's");
        }
        last[usize::from(edge)] = Some(number);
        if let Some(seen) = seen.get_mut(usize::from(edge)) {
            (seen[version], seen[1 - version]) = (true, false);
        }
        if pool.arrived == whole_at {
            pool.data.inscribe(0, &pool.said.to_bytes());
            self.send(index, version, number, 0..ranks, out);
        }
        Ok(())
    }

    /// Answers what comes again, if the sum is whole: its rank has missed it.
    fn answer(
        &mut self,
        edge: u16,
        (number, said): (u32, SwitchMlHeader),
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), &'static str> {
        if self.breaks(Mutation::CountsRepeats) {
            return self.contribute(edge, (number, said), payload, out);
        }
        let (index, ranks) = (self.shape.slot(number), self.edges.len() as u16);
        let mut version = self.version(number);
        if self.breaks(Mutation::AnswersOtherPool) {
            version = 1 - version;
        }
        let is_pending = self.slots[index].pools[version].is_pending(ranks);
        if is_pending && !self.breaks(Mutation::AnswersPending) {
            return Err("added up already");
        }
        if self.breaks(Mutation::ForgetsSum) {
            return Err("sum forgotten");
        }
        self.send(index, version, number, edge..edge + 1, out);
        Ok(())
    }

    /// Sends what a pool holds, under the number of a piece.
    fn send(
        &self,
        slot: usize,
        version: usize,
        number: u32,
        to: core::ops::Range<u16>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let data = &self.slots[slot].pools[version].data;
        out.replicate(data.view(0..data.length()), &mut |send| {
            for edge in to.clone() {
                let [local, remote] = self.edges[usize::from(edge)];
                let deth = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: local.qp };
                let operation = Operation::DatagramSendOnlyImmediate(deth, number);
                let psn = self.initial_psn.plus(number);
                send(edge, &RoceHeader::new(local.ip, remote.ip, remote.qp, psn, operation));
            }
        });
    }
}

impl<P: Payload> Datapath<P> for Pools<P> {
    fn handle_frame(
        &mut self,
        _now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        let done = self.read(edge, &frame).and_then(|piece| match self.judge(edge, piece.0) {
            Judgement::New => self.contribute(edge, piece, frame.payload, out),
            Judgement::Again => self.answer(edge, piece, frame.payload, out),
            Judgement::Stale => Err("late"),
        });
        if let Err(reason) = done {
            out.drop_frame(edge, reason);
        }
    }

    fn handle_timer(&mut self, _now: Instant, _timer: DatapathTimer, _out: &mut dyn DatapathSink<P>) {}

    fn buffer_bytes(&self) -> usize {
        2 * self.slots.len() * self.shape.piece
    }

    fn assert_invariants(&self) {
        let ranks = self.edges.len() as u16;
        if self.mutation.is_some() {
            return;
        }
        for (index, slot) in self.slots.iter().enumerate() {
            let is_pending = |pool: &Pool<P>| pool.is_pending(ranks);
            assert!(!slot.pools.iter().all(is_pending), "slot {index} makes two sums at once");
            for (version, pool) in slot.pools.iter().enumerate() {
                assert!(pool.arrived <= ranks, "slot {index} has more contributions than ranks");
                let Some(number) = pool.number else { continue };
                let place = (self.shape.slot(number), self.shape.version(number));
                assert_eq!(place, (index, version), "piece {number} is where it belongs");
                let contributed = slot.last.iter().flatten().filter(|last| {
                    // Who has contributed the piece behind it has contributed it, too.
                    number.wrapping_sub(**last) as i32 <= 0
                });
                assert!(
                    contributed.count() >= usize::from(pool.arrived),
                    "each rank counts once in {number}"
                );
            }
        }
    }
}
