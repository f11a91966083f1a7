//! Runs a plan over queue pairs: takes pieces as they arrive, combines them, passes them on.
//!
//! A piece is combined when every peer it is taken from has it at the head of its connection, all at once and in the order
//! of the plan. It goes out on a connection when its turn in that connection has come and the window has room.

use crate::config::{Algorithm, Config, ConfigError};
use crate::connection::work::Sent;
use crate::connection::{Credit, Heard, PeerConnection, Slot, SlotId, work};
use crate::mutation::Mutation;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::two_trees::TwoTrees;
use crate::{direct, double_tree, halving_doubling, ring, tree};
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::{Collective, Payload, Reduction};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RequestError,
    SendRequest, Slice, Verb, Verbs,
};
use quincunx_units::Instant;

/// Bytes that a rank of [`Algorithm::Direct`] has under way to all others together, or a piece: more than a fast link holds. With as much to each
/// of many ranks, queues would grow with their number wherever senders meet.
const MOST_UNDER_WAY: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum State {
    Idle,
    Running {
        request: CollectiveRequest,
        /// Pieces to combine and sends to complete.
        remaining: usize,
    },
    Failed,
}

/// What has changed since all was done that could be done.
#[derive(Clone, Copy)]
enum Change {
    /// Anything.
    Any,
    /// A message has come on a connection, or a send of it has completed, after which a slot of another one may be free.
    Of { connection: usize, freed: Option<usize> },
}

/// A rank of a group whose hosts compute their collectives between them.
///
/// The call loop: [`start`](Program::start), then every completion of the queue pairs into
/// [`handle_completion`](Program::handle_completion) until one returns the outcome; then `start` again. Completions
/// that come between two collectives must be handed in too: peers may be ahead. A call does work in proportion to
/// what has arrived, at most a window of pieces a peer; `start` also copies the rank's own vector where the result
/// holds it. Memory for slots is registered at the first start; later collectives allocate nothing unless their plan
/// is longer than any before.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HostProgram {
    algorithm: Algorithm,
    /// A double tree's.
    trees: Option<TwoTrees>,
    /// Bytes of a slot.
    chunk: usize,
    pace: Pace,
    plan: Plan,
    connections: Vec<PeerConnection>,
    /// What ranks must agree on in the collective that runs, in so many bits.
    digest: u32,
    digest_bits: u32,
    confirms: bool,
    barrier_at_root: bool,
    /// Sends of pieces that are not complete, of all connections.
    outstanding: usize,
    state: State,
    mutation: Option<Mutation>,
}

/// Why a collective cannot go on.
struct Broken {
    qp: QpIndex,
    failure: Failure,
}

impl HostProgram {
    /// A rank that waits for its first collective.
    ///
    /// # Errors
    /// If the rank is not in the group, a queue pair that the algorithm needs is missing or named twice, or the
    /// chunk or the window is of no use.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut peers = config.check()?;
        // Connections begin with the peer after us: not all ranks should send to one first.
        let before = peers.iter().filter(|(peer, _)| *peer < config.rank).count();
        peers.rotate_left(before);
        let at_one_switch =
            || TwoTrees::over(config.peers.len() as u16, None).swap_remove(config.rank.index());
        let trees = (config.algorithm == Algorithm::DoubleTree)
            .then(|| config.trees.clone().unwrap_or_else(at_one_switch));
        let window = usize::from(config.window);
        let mut connection_to = alloc::vec![None; config.peers.len()];
        for (connection, (peer, _)) in peers.iter().enumerate() {
            connection_to[peer.index()] = Some(connection);
        }
        let chunk = config.chunk.as_usize();
        let slots = Credit::slots(u32::from(config.window)) as usize;
        Ok(Self {
            algorithm: config.algorithm,
            trees,
            chunk,
            pace: config.pace,
            plan: Plan::new(config.rank, connection_to, chunk, slots, config.pace),
            connections: peers.iter().map(|(_, qp)| PeerConnection::new(*qp, window)).collect(),
            digest: 0,
            digest_bits: Credit::digest_bits(u32::from(config.window)),
            confirms: config.confirm,
            barrier_at_root: config.barrier_at_root,
            outstanding: 0,
            state: State::Idle,
            mutation: None,
        })
    }

    /// Breaks a rule, for the checker alone.
    pub const fn break_rule(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// The connection of a queue pair.
    ///
    /// # Panics
    /// If there is none.
    fn connection_of(&self, qp: QpIndex) -> usize {
        // Queue pairs are mostly numbered by rank, and connections begin with the rank after ours.
        let (count, number) = (self.connections.len(), usize::from(qp.0));
        let first = usize::from(self.connections[0].qp.0);
        let guess = (number + count).saturating_sub(first) % count;
        if self.connections[guess].qp == qp {
            return guess;
        }
        let found = self.connections.iter().position(|connection| connection.qp == qp);
        found.expect("completions come from queue pairs that were posted to")
    }

    /// Registers the slots and posts them all, once.
    fn open<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        for connection in 0..self.connections.len() {
            if self.connections[connection].region.is_none() {
                let slots = self.connections[connection].slots.len();
                self.connections[connection].region =
                    Some(verbs.memory().register(P::zeroed(self.chunk * slots)));
                (0..slots).for_each(|slot| self.post(SlotId { connection, slot }, verbs));
            }
        }
    }

    /// Makes a slot wait for a message.
    fn post<P: Payload>(&mut self, id: SlotId, verbs: &mut dyn Verbs<P>) {
        let connection = &mut self.connections[id.connection];
        connection.slots[id.slot] = Slot::Posted;
        let sink = connection.slice(id.slot, self.chunk, self.chunk);
        verbs.post_receive(connection.qp, ReceiveRequest { id: work::receive(id.slot), sink });
    }

    /// Takes a piece as gone from its slot.
    fn free<P: Payload>(&mut self, id: SlotId, verbs: &mut dyn Verbs<P>) {
        self.connections[id.connection].credit.free();
        self.post(id, verbs);
    }

    /// Tells the peer of a connection of free slots if it should hear of them and gets no piece that could say so.
    fn tell<P: Payload>(&mut self, connection: usize, verbs: &mut dyn Verbs<P>) {
        let connection = &mut self.connections[connection];
        if let Some(immediate) = connection.credit.tell() {
            let (id, source) = (work::send(Sent::Telling), connection.slice(0, self.chunk, 0));
            let send = SendRequest { id, verb: Verb::Send, source, immediate: Some(immediate) };
            verbs.post_send(connection.qp, send);
        }
    }

    /// Lays the plan out over the connections; returns how many pieces and sends it has.
    fn lay_out(&mut self, request: &CollectiveRequest, length: usize) -> usize {
        let element = request.reduction.data_type.size();
        self.plan.clear(element);
        let confirms = self.confirms;
        // Without bytes nothing would go from rank to rank, and nobody would know that all agree.
        let collective = if length == 0 && confirms { Collective::Barrier } else { request.collective };
        match self.algorithm {
            Algorithm::Ring => ring::plan(&mut self.plan, collective, length, element, confirms),
            Algorithm::Tree => tree::plan(&mut self.plan, collective, length, element, confirms),
            Algorithm::DoubleTree => {
                let trees = self.trees.as_ref().expect("a double tree has places");
                double_tree::plan(&mut self.plan, trees, collective, length, element);
            }
            Algorithm::HalvingDoubling => halving_doubling::plan(&mut self.plan, length, element),
            Algorithm::Direct => {
                let at_root = self.barrier_at_root;
                direct::plan(&mut self.plan, collective, length, element, confirms, at_root);
            }
        }
        for connection in &mut self.connections {
            connection.incoming.clear();
            connection.outgoing.clear();
            connection.acknowledged = 0;
        }
        let mut total = 0;
        for (index, stage) in self.plan.stages.iter().enumerate() {
            self.plan
                .from(index)
                .iter()
                .for_each(|connection| self.connections[*connection].incoming.push(index));
            total += stage.pieces * (1 + self.plan.to(index).len());
        }
        for &index in &self.plan.sends {
            self.plan
                .to(index)
                .iter()
                .for_each(|connection| self.connections[*connection].outgoing.push(index));
        }
        total
    }

    /// Makes the stages ready that wait for nobody.
    fn run_sources<P: Payload>(&mut self, request: &CollectiveRequest, verbs: &mut dyn Verbs<P>) -> usize {
        let mut done = 0;
        for stage in
            self.plan.stages.iter_mut().filter(|stage| stage.is_source() && stage.basis.stage.is_none())
        {
            let own = stage.own.expect("a stage that waits for nobody sends what is ours");
            if let Some(kept) = stage.keep {
                let source = cut(request.input, own.offset, 0..stage.length);
                verbs.memory().copy(cut(request.output, kept, 0..stage.length), source);
            }
            stage.ready = stage.pieces;
            done += stage.pieces;
        }
        done
    }

    /// Whether the oldest message of a connection belongs to the collective that runs, and its sender takes part in another one.
    fn disagrees(&self, connection: usize) -> bool {
        let connection = &self.connections[connection];
        let oldest = connection.arrived.front().map(|slot| connection.slots[*slot]);
        connection.incoming.head().is_some()
            && matches!(oldest, Some(Slot::Arrived { digest, .. }) if digest != self.digest)
            && !self.breaks(Mutation::IgnoresDisagreement)
    }

    /// Does all that can be done now; the number of pieces combined, or the queue pair whose message is not what the
    /// plan expects.
    fn progress<P: Payload>(
        &mut self,
        request: &CollectiveRequest,
        change: Change,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<usize, Broken> {
        let (mut done, mut start) = (0, 0);
        if let Change::Of { connection, freed } = change {
            // All was done that could be: now only this connection can go on, as long as what it brings concerns no other.
            while let Some((stage, piece)) = self.complete_head(connection)
                && self.plan.ends_where_it_arrives(stage)
            {
                done += self.run(stage, piece, request, verbs)?;
                start = connection;
            }
            if self.complete_head(connection).is_none() {
                match self.algorithm {
                    // What has completed may have made room for any connection's.
                    Algorithm::Direct => self.pump_evenly(request, verbs),
                    _ => while self.send_next(connection, request, verbs) {},
                }
                self.tell(connection, verbs);
                if let Some(other) = freed {
                    self.tell(other, verbs);
                }
                return Ok(done);
            }
        }
        loop {
            let mut ran = false;
            for connection in core::mem::take(&mut start)..self.connections.len() {
                while let Some((stage, piece)) = self.complete_head(connection) {
                    done += self.run(stage, piece, request, verbs)?;
                    ran = true;
                }
            }
            if !ran {
                break;
            }
        }
        self.pump(request, verbs);
        (0..self.connections.len()).for_each(|connection| self.tell(connection, verbs));
        Ok(done)
    }

    /// The piece that a connection expects next, if it and what it is combined with have arrived on every connection.
    fn complete_head(&self, connection: usize) -> Option<(usize, usize)> {
        let here = |connection: &usize| {
            let connection = &self.connections[*connection];
            connection.incoming.head().filter(|_| !connection.arrived.is_empty())
        };
        let head = here(&connection)?;
        let acknowledged = self.connections[connection].acknowledged;
        if !self.plan.is_based(head.0) || self.plan.stages[head.0].basis.acknowledged > acknowledged {
            return None;
        }
        self.plan.from(head.0).iter().all(|connection| here(connection) == Some(head)).then_some(head)
    }

    /// Combines a piece that has arrived; it counts as done, as do those that then can be sent.
    fn run<P: Payload>(
        &mut self,
        index: usize,
        piece: usize,
        request: &CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<usize, Broken> {
        let (expected, ignores) = (self.digest, self.breaks(Mutation::IgnoresDisagreement));
        let stage = &self.plan.stages[index];
        assert_eq!(stage.ready, piece, "pieces of a stage are combined in order");
        let (range, own, keep, pieces, basis) =
            (stage.piece(piece, self.plan.piece), stage.own, stage.keep, stage.pieces, stage.basis);
        let length = range.len();
        let part = if basis.adds_to_output { request.output } else { request.input };
        let own = own.map(|own| (cut(part, own.offset, range.clone()), own.position));
        let mut first: Option<(SlotId, Slice)> = None;
        for position in 0..self.plan.from(index).len() {
            let connection_index = self.plan.from(index)[position];
            let connection = &mut self.connections[connection_index];
            let slot = connection.arrived.pop_front().expect("the piece has arrived on all connections");
            let failure = match connection.slots[slot] {
                Slot::Arrived { digest, .. } if digest != expected && !ignores => Some(Failure::Disagreement),
                Slot::Arrived { length: found, .. } if found == length => None,
                _ => Some(Failure::Length),
            };
            if let Some(failure) = failure {
                return Err(Broken { qp: connection.qp, failure });
            }
            connection.slots[slot] = Slot::Held;
            connection.incoming.advance(pieces);
            let (id, slice) =
                (SlotId { connection: connection_index, slot }, connection.slice(slot, self.chunk, length));
            match first {
                None => {
                    // What is ours comes second here even if it is to be first: two operands commute.
                    first = Some((id, slice));
                    combine_own(slice, own, |own| own <= 1, request.reduction, verbs);
                }
                Some((_, target)) => {
                    verbs.memory().reduce(target, slice, request.reduction);
                    combine_own(target, own, |own| own == position + 1, request.reduction, verbs);
                    self.free(id, verbs);
                }
            }
        }
        let (id, slice) = first.expect("a stage that waits for nobody does not come here");
        if let Some(kept) = keep {
            verbs.memory().copy(cut(request.output, kept, range), slice);
        }
        match self.plan.to(index).first() {
            Some(&to) if keep.is_none() || basis.sends_slot => self.connections[to].held.push_back(id),
            _ => self.free(id, verbs),
        }
        self.plan.stages[index].ready += 1;
        Ok(1 + self.release(index))
    }

    /// Makes the stages ready that only send, and wait for a stage that may be over; their pieces.
    fn release(&mut self, stage: usize) -> usize {
        if !self.plan.stages[stage].is_over() {
            return 0;
        }
        let Plan { stages, waiting, .. } = &mut self.plan;
        let mut released = 0;
        for &(_, source) in waiting.iter().filter(|(basis, _)| *basis == stage) {
            let mut bases = waiting.iter().filter(|(_, waits)| *waits == source);
            if bases.all(|(basis, _)| stages[*basis].is_over()) {
                stages[source].ready = stages[source].pieces;
                released += stages[source].pieces;
            }
        }
        released
    }

    /// Sends what may go out, one piece a connection in turn, so that no peer waits for another's window.
    fn pump<P: Payload>(&mut self, request: &CollectiveRequest, verbs: &mut dyn Verbs<P>) {
        if self.algorithm == Algorithm::Direct {
            return self.pump_evenly(request, verbs);
        }
        loop {
            let mut sent = false;
            for connection in 0..self.connections.len() {
                sent |= self.send_next(connection, request, verbs);
            }
            if !sent {
                break;
            }
        }
    }

    /// The same as long as not too much is under way to all peers together: first to those that have been sent the least, so that all
    /// ranks go round their peers alike.
    fn pump_evenly<P: Payload>(&mut self, request: &CollectiveRequest, verbs: &mut dyn Verbs<P>) {
        let mut done = None;
        loop {
            let waiting = self.connections.iter().filter_map(|connection| {
                let (stage, piece) = connection.outgoing.head()?;
                (piece < self.plan.stages[stage].ready).then(|| connection.outgoing.position())
            });
            let Some(least) = waiting.filter(|position| Some(*position) > done).min() else { return };
            for connection in 0..self.connections.len() {
                if self.outstanding > 0 && (self.outstanding + 1) * self.plan.piece > MOST_UNDER_WAY {
                    return;
                }
                if self.connections[connection].outgoing.position() == least {
                    self.send_next(connection, request, verbs);
                }
            }
            done = Some(least);
        }
    }

    /// Sends the next piece of a connection; whether there was one and it may go.
    fn send_next<P: Payload>(
        &mut self,
        connection: usize,
        request: &CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> bool {
        let Some((index, piece)) = self.connections[connection].outgoing.head() else { return false };
        let stage = &self.plan.stages[index];
        if piece >= stage.ready {
            return false;
        }
        if self.pace == Pace::Lockstep && piece == 0 && self.connections[connection].outstanding > 0 {
            return false;
        }
        let Some(immediate) = self.connections[connection].credit.send(self.digest) else { return false };
        let range = stage.piece(piece, self.plan.piece);
        let (source, after) = match (stage.keep, stage.own) {
            (Some(kept), _) if !stage.basis.sends_slot => (cut(request.output, kept, range), Sent::Piece),
            (None, Some(own)) if stage.is_source() => (cut(request.input, own.offset, range), Sent::Piece),
            _ => {
                let id = self.connections[connection]
                    .held
                    .pop_front()
                    .expect("a piece that is not kept waits in a slot");
                (self.connections[id.connection].slice(id.slot, self.chunk, range.len()), Sent::Held(id))
            }
        };
        let pieces = stage.pieces;
        let connection = &mut self.connections[connection];
        connection.outgoing.advance(pieces);
        connection.outstanding += 1;
        self.outstanding += 1;
        let id = work::send(after);
        verbs.post_send(
            connection.qp,
            SendRequest { id, verb: Verb::Send, source, immediate: Some(immediate) },
        );
        true
    }

    /// Goes on with the collective that runs, if any, after `finished` sends have completed.
    fn proceed<P: Payload>(
        &mut self,
        finished: usize,
        change: Change,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        let State::Running { request, remaining } = self.state else {
            assert_eq!(finished, 0, "a send completed while no collective runs");
            return None;
        };
        let done = match self.progress(&request, change, verbs) {
            Ok(done) => done,
            Err(Broken { qp, failure }) => return self.fail(qp, failure),
        };
        let remaining = remaining - finished - done;
        self.state = if remaining > 0 { State::Running { request, remaining } } else { State::Idle };
        (remaining == 0).then_some(Outcome::Done)
    }

    /// Ends the group; the outcome if a collective was running.
    fn fail(&mut self, qp: QpIndex, failure: Failure) -> Option<Outcome> {
        let running = matches!(self.state, State::Running { .. });
        self.state = State::Failed;
        running.then_some(Outcome::Failed { qp, failure })
    }
}

impl<P: Payload> Program<P> for HostProgram {
    fn start(
        &mut self,
        _now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        match self.state {
            State::Idle => {}
            State::Running { .. } => return Err(RequestError::Busy),
            State::Failed => return Err(RequestError::GroupFailed),
        }
        if !self.algorithm.offers(request.collective) {
            return Err(RequestError::NotOffered { found: request.collective });
        }
        let length = request.check(self.plan.rank, self.plan.ranks, verbs.memory())?;
        request.check_pieces("hosts.chunk", self.chunk)?;
        if self.plan.ranks == 1 {
            verbs.memory().copy(request.output, request.input);
            return Ok(Some(Outcome::Done));
        }
        self.open(verbs);
        self.digest = request.digest(length, self.digest_bits);
        let total = self.lay_out(&request, length);
        let remaining = total - self.run_sources(&request, verbs);
        self.state = State::Running { request, remaining };
        if let Some(connection) = (0..self.connections.len()).find(|index| self.disagrees(*index)) {
            return Ok(self.fail(self.connections[connection].qp, Failure::Disagreement));
        }
        Ok(self.proceed(0, Change::Any, verbs))
    }

    fn handle_completion(
        &mut self,
        _now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.state == State::Failed {
            return None;
        }
        let index = self.connection_of(qp);
        let connection = &mut self.connections[index];
        match completion {
            Completion::Received { id, length, immediate } => {
                let slot = work::received(id);
                assert_eq!(connection.slots[slot], Slot::Posted, "a message in a slot that was not posted");
                match immediate.and_then(|immediate| connection.credit.hear(immediate)) {
                    None => return self.fail(qp, Failure::InvalidRequest),
                    Some(Heard::Piece { digest }) => {
                        connection.slots[slot] = Slot::Arrived { length, digest };
                        connection.arrived.push_back(slot);
                        if self.disagrees(index) {
                            return self.fail(qp, Failure::Disagreement);
                        }
                    }
                    Some(Heard::Credits) => self.post(SlotId { connection: index, slot }, verbs),
                }
                self.proceed(0, Change::Of { connection: index, freed: None }, verbs)
            }
            Completion::Sent { id } => {
                let after = work::sent(id);
                if let Sent::Telling = after {
                    connection.credit.told();
                    self.tell(index, verbs);
                    return None;
                }
                assert!(connection.outstanding > 0, "a send completed that was not posted");
                connection.outstanding -= 1;
                connection.acknowledged += 1;
                self.outstanding -= 1;
                let mut freed = None;
                if let Sent::Held(id) = after {
                    self.free(id, verbs);
                    freed = Some(id.connection);
                }
                self.proceed(1, Change::Of { connection: index, freed }, verbs)
            }
            // Peers may not write to this memory.
            Completion::Written { .. } => self.fail(qp, Failure::InvalidRequest),
            Completion::Failed { failure, .. } => self.fail(qp, failure),
        }
    }

    fn assert_invariants(&self) {
        if self.state == State::Failed {
            return;
        }
        let waiting: usize = self.connections.iter().map(|connection| connection.held.len()).sum();
        let held =
            |connection: &PeerConnection| connection.slots.iter().filter(|slot| **slot == Slot::Held).count();
        let all_held: usize = self.connections.iter().map(held).sum();
        let outstanding: usize = self.connections.iter().map(|connection| connection.outstanding).sum();
        assert_eq!(self.outstanding, outstanding, "what is under way is of some connection");
        assert!(
            all_held >= waiting && all_held <= waiting + outstanding,
            "a held slot is to be sent or being sent"
        );
        for connection in &self.connections {
            let window = connection.slots.len() - Credit::SPARE_SLOTS;
            assert!(connection.credit.waiting() as usize <= window, "a peer's slots are not overrun");
            let arrived = connection.slots.iter().filter(|slot| matches!(slot, Slot::Arrived { .. })).count();
            assert_eq!(arrived, connection.arrived.len(), "every message waits in one slot");
        }
        match self.state {
            State::Running { remaining, .. } => {
                assert!(
                    remaining >= outstanding && remaining > 0,
                    "what is on the way is part of what remains"
                );
            }
            _ => {
                assert_eq!(
                    (waiting, all_held, outstanding),
                    (0, 0, 0),
                    "nothing is on the way between collectives"
                );
                for connection in &self.connections {
                    assert!(
                        connection.incoming.head().is_none() && connection.outgoing.head().is_none(),
                        "the plan is done"
                    );
                }
            }
        }
    }
}

/// Combines our own part into `target` if `turn` says that it is its turn.
fn combine_own<P: Payload>(
    target: Slice,
    own: Option<(Slice, usize)>,
    turn: impl Fn(usize) -> bool,
    reduction: Reduction,
    verbs: &mut dyn Verbs<P>,
) {
    if let Some((source, position)) = own
        && turn(position)
    {
        verbs.memory().reduce(target, source, reduction);
    }
}

/// The bytes in `range` of what begins at `offset` of a buffer.
fn cut(buffer: Slice, offset: usize, range: Range<usize>) -> Slice {
    Slice { region: buffer.region, offset: buffer.offset + offset + range.start, length: range.len() }
}
