//! AllGather over MultiWrite (MultiWrite 5.2): each rank writes its data to the others of its group, part of it over the direct links
//! and part of it over ranks that relay, which may be of another group; then a barrier tells everybody that all have everything.
//!
//! A Barrier is one of all ranks that this one has queue pairs to, whatever group they gather in: those that relay for each other
//! come and go together.
//!
//! The vector is cut into pieces of a slot. A piece is copied from the window to the output when it arrives; one that arrives
//! before the collective has begun here waits in the window, which its source does not touch before the barrier.

use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RequestError, Slice, Verbs,
    WorkId,
};
use quincunx_units::{Duration, Instant};

use crate::Mutation;
use crate::barrier::{ALL_HERE, BARRIER, Barrier, DIGEST_BITS, EVERYBODY_HERE};
use crate::relaying::{PREPARED, Relaying};
use crate::split::{Part, pieces};
use crate::state::State;
use crate::writer::{Delivery, Target, Write, Writer, WriterConfig};

/// What a rank is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AllGatherConfig {
    /// The node's part in all writes.
    pub writer: WriterConfig,
    /// The ranks that gather together, ascending; the node relays for others, too.
    pub group: Vec<Rank>,
    /// How a rank's data is divided over ways.
    pub parts: Vec<Part>,
    /// What it takes to prepare more than one way, before anything is sent. Nothing, but in simulations of devices that take it.
    pub preparation: Duration,
}

/// Why a set-up is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AllGatherConfigError {
    /// The node is not in its group.
    #[error("expected rank {rank} among those that it gathers with, found it missing; add it")]
    NotAMember {
        /// The node.
        rank: u16,
    },
    /// The group is not in order, or has a rank twice.
    #[error("expected ranks in ascending order, found {found} out of it; sort the group")]
    Order {
        /// The first one out of order.
        found: u16,
    },
    /// A barrier needs a queue pair to each member.
    #[error("expected a queue pair to rank {found}, found none; connect the group in full")]
    NoQueuePair {
        /// Who cannot be reached.
        found: u16,
    },
    /// No data would go anywhere.
    #[error("expected parts with a weight, found none; name a way")]
    NoParts,
}

/// Whom a collective is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Circle {
    /// Those who gather together.
    Group,
    /// All neighbours.
    Everybody,
}

/// How far a collective has come.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Progress {
    request: CollectiveRequest,
    /// What ranks must agree on.
    digest: u32,
    circle: Circle,
    /// Writes of this rank's own that are not acknowledged.
    outstanding: usize,
    /// All of them have been posted.
    is_posted: bool,
    /// Pieces that are missing, by member.
    missing: Vec<Missing>,
}

/// Which pieces of a member have not arrived.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Missing {
    count: usize,
    /// A bit for each piece that has.
    arrived: Vec<u64>,
}

impl Missing {
    fn new(count: usize) -> Self {
        Self { count, arrived: alloc::vec![0; count.div_ceil(64)] }
    }

    /// Notes that a piece has arrived; whether it was missing.
    fn take(&mut self, piece: usize) -> bool {
        let bit = 1 << (piece % 64);
        let was_missing = self.arrived.get(piece / 64).is_some_and(|word| word & bit == 0);
        if was_missing {
            self.arrived[piece / 64] |= bit;
            self.count -= 1;
        }
        was_missing
    }
}

/// A rank that gathers, and relays for others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AllGather {
    writer: Writer,
    group: Vec<Rank>,
    parts: Vec<Part>,
    preparation: Duration,
    state: State<Progress>,
    /// Pieces of the next collective that have come before it began here.
    early: Vec<Delivery>,
    /// By circle.
    barriers: [Barrier; 2],
}

impl AllGather {
    /// A rank before its first collective.
    ///
    /// # Errors
    /// If the group is unordered or not connected, lacks this rank, or all parts are empty.
    pub fn new(config: AllGatherConfig) -> Result<Self, AllGatherConfigError> {
        let AllGatherConfig { writer, group, parts, preparation } = config;
        let me = writer.table.rank();
        if let Some(pair) = group.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(AllGatherConfigError::Order { found: pair[1].0 });
        }
        if !group.contains(&me) {
            return Err(AllGatherConfigError::NotAMember { rank: me.0 });
        }
        let table = &writer.table;
        let is_reached = |rank: Rank| table.queue_pair(rank).is_some() && table.next_hop(rank.0, 0).is_some();
        let reached = |rank: &&Rank| **rank == me || is_reached(**rank);
        if let Some(found) = group.iter().find(|rank| !reached(rank)) {
            return Err(AllGatherConfigError::NoQueuePair { found: found.0 });
        }
        if parts.iter().all(|part| part.weight == 0) {
            return Err(AllGatherConfigError::NoParts);
        }
        let mut neighbours: Vec<Rank> =
            writer.table.queue_pairs().map(|qp| writer.table.neighbour(qp)).collect();
        neighbours.sort_unstable();
        Ok(Self {
            writer: Writer::new(writer),
            barriers: [
                Barrier::new(group.iter().copied().filter(|rank| *rank != me)),
                Barrier::of_word(neighbours.into_iter(), EVERYBODY_HERE),
            ],
            group,
            parts,
            preparation,
            state: State::Idle,
            early: Vec::new(),
        })
    }

    /// Breaks a rule from here on, so that the checker can show that it would notice. To be called before the first collective.
    pub fn break_rule(&mut self, mutation: Mutation) {
        self.writer.break_rule(mutation);
        if mutation == Mutation::NoBarrier {
            self.barriers[Circle::Group as usize] = Barrier::new(core::iter::empty());
        }
        if mutation == Mutation::IgnoresDisagreement {
            self.barriers.iter_mut().for_each(Barrier::ignore_digests);
        }
    }

    fn others(&self) -> impl Iterator<Item = Rank> {
        let me = self.writer.table().rank();
        self.group.iter().copied().filter(move |rank| *rank != me)
    }

    fn member(&self, rank: Rank) -> Option<usize> {
        self.group.iter().position(|member| *member == rank)
    }

    /// The longest input.
    fn limit(&self) -> usize {
        self.writer.window().slots() * self.writer.window().data
    }

    fn pieces(&self, length: usize) -> usize {
        length.div_ceil(self.writer.window().data)
    }

    fn check<P: Payload>(
        &self,
        request: &CollectiveRequest,
        circle: Circle,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<usize, RequestError> {
        let limit = if circle == Circle::Group { self.limit() } else { 0 };
        let found = request.input.length;
        if found > limit {
            return Err(RequestError::Length { what: "an input", expected: limit, found });
        }
        let me = self.writer.table().rank();
        request.check(me, self.group.len() as u16, verbs.memory())
    }

    /// Copies a piece to where it belongs; whether it is one that is missing.
    fn take<P: Payload>(
        group: &[Rank],
        size: usize,
        progress: &mut Progress,
        delivery: &Delivery,
        verbs: &mut dyn Verbs<P>,
    ) -> bool {
        let Some(member) = group.iter().position(|rank| *rank == delivery.source) else { return false };
        let CollectiveRequest { input, output, .. } = progress.request;
        let start = delivery.slot * size;
        let is_right = start < input.length && delivery.data.length == size.min(input.length - start);
        if !is_right || !progress.missing[member].take(delivery.slot) {
            return false;
        }
        let offset = output.offset + member * input.length + start;
        verbs.memory().copy(Slice { offset, length: delivery.data.length, ..output }, delivery.data);
        true
    }
}

impl<P: Payload> Relaying<P> for AllGather {
    fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    fn has_failed(&self) -> bool {
        self.state.has_failed()
    }

    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Option<Outcome> {
        self.state.fail(qp, failure)
    }

    fn handle_sent(&mut self, id: WorkId, verbs: &mut dyn Verbs<P>) {
        match (id, &mut self.state) {
            (BARRIER, State::Running(progress)) => self.barriers[progress.circle as usize].handle_sent(),
            (BARRIER, _) => {}
            (_, state) => {
                let is_own = self.writer.handle_sent(id, verbs);
                if let (true, State::Running(progress)) = (is_own, state) {
                    progress.outstanding -= 1;
                }
            }
        }
    }

    /// Takes a piece that has arrived. Returns whether the protocol allows it.
    fn deliver(&mut self, delivery: Delivery, verbs: &mut dyn Verbs<P>) -> bool {
        if self.member(delivery.source).is_none() {
            return false;
        }
        let size = self.writer.window().data;
        match &mut self.state {
            // Whoever has everything is sent nothing but the next collective's.
            State::Running(progress) if !self.barriers[progress.circle as usize].has_told() => {
                Self::take(&self.group, size, progress, &delivery, verbs)
            }
            _ => {
                let is_same =
                    |known: &Delivery| (known.source, known.slot) == (delivery.source, delivery.slot);
                let is_new = !self.early.iter().any(is_same);
                self.early.push(delivery);
                is_new
            }
        }
    }

    fn handle_message(&mut self, qp: QpIndex, immediate: u32, verbs: &mut dyn Verbs<P>) -> bool {
        self.writer.receive(qp, verbs);
        let circle = if immediate & EVERYBODY_HERE == 0 { Circle::Group } else { Circle::Everybody };
        let from = self.writer.table().neighbour(qp);
        immediate & ALL_HERE != 0 && self.barriers[circle as usize].hear(from, immediate)
    }

    /// Writes this rank's data to the others: each part its own way.
    fn post(&mut self, verbs: &mut dyn Verbs<P>) {
        let State::Running(progress) = &self.state else { return };
        if progress.is_posted {
            return;
        }
        let input = progress.request.input;
        let size = self.writer.window().data;
        let mut piece = 0;
        let mut outstanding = 0;
        for (part, count) in self.parts.iter().zip(pieces(&self.parts, self.pieces(input.length))) {
            for slot in piece..piece + count {
                let start = slot * size;
                let length = size.min(input.length - start);
                let source = Slice { region: input.region, offset: input.offset + start, length };
                let targets: Vec<Target> = self.others().map(|rank| Target { rank, slot }).collect();
                let each = if part.is_shared { targets.len() } else { 1 };
                for targets in targets.chunks(each.max(1)) {
                    let write = Write { targets, source, way: part.way };
                    let posted = self.writer.write(&write, verbs);
                    outstanding += posted.expect("the table, the window and the input were checked");
                }
            }
            piece += count;
        }
        let State::Running(progress) = &mut self.state else { return };
        progress.outstanding += outstanding;
        progress.is_posted = true;
    }

    /// Tells the others when this rank has everything; the outcome when all have, and all that was sent is acknowledged.
    fn proceed(&mut self, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        let State::Running(progress) = &self.state else { return None };
        let barrier = &mut self.barriers[progress.circle as usize];
        let has_everything = progress.missing.iter().all(|missing| missing.count == 0);
        if has_everything && progress.is_posted && !barrier.has_told() {
            barrier.tell(progress.digest, self.writer.table(), verbs);
        }
        if let Some((dissenter, _)) = barrier.dissenter() {
            let qp = self.writer.table().queue_pair(dissenter).expect("members are connected");
            return self.state.fail(qp, Failure::Disagreement);
        }
        let is_acknowledged = progress.outstanding == 0 || self.writer.breaks(Mutation::EndsUnacknowledged);
        if is_acknowledged && barrier.pass() {
            self.state = State::Idle;
            return Some(Outcome::Done);
        }
        None
    }
}

impl<P: Payload> Program<P> for AllGather {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        self.writer.initialise(verbs);
    }

    /// # Errors
    /// If another collective than an AllGather or a Barrier is asked for, which these queue pairs do not offer, beside what all refuse.
    fn start(
        &mut self,
        _: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        self.state.check_idle()?;
        let circle = match request.collective {
            Collective::AllGather => Circle::Group,
            Collective::Barrier => Circle::Everybody,
            found => return Err(RequestError::NotOffered { found }),
        };
        let length = self.check(&request, circle, verbs)?;
        let digest = request.digest(length, DIGEST_BITS);
        self.writer.check_contents::<P>()?;
        let (input, output) = (request.input, request.output);
        let me = self.writer.table().rank();
        let mine = self.member(me).expect("a rank is in its group");
        if input.length > 0 {
            let own = Slice { offset: output.offset + mine * input.length, length: input.length, ..output };
            verbs.memory().copy(own, input);
        }
        let each = self.pieces(input.length);
        let missing =
            self.group.iter().map(|rank| Missing::new(if *rank == me { 0 } else { each })).collect();
        let mut progress = Progress { request, digest, circle, outstanding: 0, is_posted: false, missing };
        let size = self.writer.window().data;
        let early = if circle == Circle::Group { core::mem::take(&mut self.early) } else { Vec::new() };
        for delivery in early {
            if !Self::take(&self.group, size, &mut progress, &delivery, verbs) {
                self.state = State::Failed;
                let qp = self.writer.table().queue_pair(delivery.source).expect("members are connected");
                return Ok(Some(Outcome::Failed { qp, failure: Failure::InvalidRequest }));
            }
        }
        self.state = State::Running(progress);
        if circle == Circle::Group && self.parts.len() > 1 && self.preparation > Duration::ZERO {
            verbs.set_alarm(PREPARED, self.preparation);
        } else {
            self.post(verbs);
        }
        Ok(self.proceed(verbs))
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        self.relay_completion(qp, completion, verbs)
    }

    fn handle_alarm(&mut self, _: Instant, alarm: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        self.relay_alarm(alarm, verbs)
    }

    fn assert_invariants(&self) {
        if let State::Running(progress) = &self.state {
            assert!(
                progress.is_posted || !self.barriers[progress.circle as usize].has_told(),
                "a rank that has sent nothing is not done"
            );
        }
        self.writer.assert_invariants();
        self.barriers.iter().for_each(Barrier::assert_invariants);
        let limit = self.writer.window().slots() * self.group.len();
        assert!(self.early.len() <= limit, "what comes early lies in a slot each");
    }
}
