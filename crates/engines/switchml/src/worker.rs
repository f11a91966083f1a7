//! A rank's part: it sends pieces of its vector as far as the pool has slots, the next one of a slot when the result of the last one is here, and
//! again what waits too long (Sapio et al., algorithm 4).
//!
//! Packets are numbered through all collectives of the group. What waits for how long, [`Outstanding`] knows.

use crate::config::PoolShape;
use crate::mutation::Mutation;
use alloc::vec::Vec;
use quincunx_collective::{FixedPoint, Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, Verb, Verbs, WorkId,
};
use quincunx_pieces::{IntegerVector, Outstanding, VectorConfig};
use quincunx_units::{Duration, Instant};
use quincunx_wire::Psn;
use quincunx_wire::switchml::{Kind, LENGTH, SwitchMlHeader};

/// Leads to the switch.
const SWITCH: QpIndex = QpIndex(0);

/// Something waits for its result for too long.
const TIMEOUT: Alarm = Alarm(0);

/// Where results land and packets are put together. A rank without them has not joined yet.
const NOWHERE: RegionId = RegionId(u32::MAX);

/// What a rank is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WorkerConfig {
    /// This rank.
    pub rank: Rank,
    /// Ranks in the group.
    pub ranks: u16,
    /// The pool.
    pub shape: PoolShape,
    /// Where the point of numbers is; ranks agree on it for each piece if it is not said.
    pub scale: Option<FixedPoint>,
    /// How long it waits for a result before it sends again.
    pub timeout: Duration,
    /// How often in a row it does so before the group has failed.
    pub retries: u16,
    /// The group's first PSN: pieces are numbered from there, so that their numbers wrap in daily use.
    pub initial_psn: Psn,
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Running {
    vector: IntegerVector,
    /// The number of its first packet.
    first: u64,
    /// Packets without a result.
    left: u64,
}

/// A slot, as this rank uses it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot {
    /// The packet that takes its turn here next.
    next: u64,
    /// The one before has no result yet.
    is_waiting: bool,
    /// Copies of it that have not left yet.
    queued: u16,
    /// Bytes of it.
    length: usize,
}

/// A rank's part.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Worker {
    config: WorkerConfig,
    running: Option<Running>,
    slots: Vec<Slot>,
    outstanding: Outstanding,
    landing: RegionId,
    staging: RegionId,
    has_failed: bool,
}

impl Worker {
    /// A rank before its first collective.
    pub fn new(config: WorkerConfig) -> Self {
        // A round of 32 bits on, so that what lies before the first piece has a number, too.
        let first = (1 << 32) + u64::from(config.initial_psn.extended());
        let slots = u64::from(config.shape.slots);
        let place = |place: u64| first + (place.wrapping_sub(first) & (slots - 1));
        let slot = |next| Slot { next, is_waiting: false, queued: 0, length: 0 };
        Self {
            config,
            running: None,
            slots: (0..slots).map(place).map(slot).collect(),
            outstanding: Outstanding::new(config.timeout, config.retries),
            landing: NOWHERE,
            staging: NOWHERE,
            has_failed: false,
        }
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    fn slot(&self, number: u64) -> usize {
        self.config.shape.slot(number as u32)
    }

    /// Whether a packet has its result.
    fn is_answered(&self, number: u64) -> bool {
        let slot = &self.slots[self.slot(number)];
        let behind = number + u64::from(self.config.shape.slots);
        behind < slot.next || behind == slot.next && !slot.is_waiting
    }

    fn staged(&self, number: u64, length: usize) -> Slice {
        Slice { region: self.staging, offset: self.slot(number) * self.config.shape.packet(), length }
    }

    /// Sends a packet, if it is its turn and all is known that it carries.
    fn send_in_turn<P: Payload>(&mut self, now: Instant, number: u64, verbs: &mut dyn Verbs<P>) {
        let Some(running) = self.running.take() else { return };
        let slot = &self.slots[self.slot(number)];
        // A copy that waits to leave is sent as it was. A switch would not count it: its rank has the sum already.
        let is_free = slot.queued == 0;
        let is_its_turn = number >= running.first && slot.next == number && !slot.is_waiting && is_free;
        let packet = number.wrapping_sub(running.first);
        let is_known = packet < running.vector.openings()
            || self.is_answered(number - running.vector.openings())
            || running.vector.openings() == 0;
        if is_its_turn && packet < running.vector.packets() && is_known {
            self.send_first(now, number, &running, verbs);
        }
        self.running = Some(running);
    }

    fn send_first<P: Payload>(
        &mut self,
        now: Instant,
        number: u64,
        running: &Running,
        verbs: &mut dyn Verbs<P>,
    ) {
        let (packet, vector) = (number - running.first, &running.vector);
        let elements: P = vector.integers(packet, verbs.memory());
        let exponent = vector.exponent(packet, verbs.memory());
        let header = SwitchMlHeader { kind: kind(vector), exponent, digest: vector.digest() };
        let length = elements.length();
        let mut head = P::zeroed(LENGTH);
        head.inscribe(0, &header.to_bytes());
        let whole = self.staged(number, LENGTH + length);
        verbs.memory().write(Slice { length: LENGTH, ..whole }, head.view(0..LENGTH));
        let behind = Slice { offset: whole.offset + LENGTH, length, ..whole };
        verbs.memory().write(behind, elements.view(0..length));
        let index = self.slot(number);
        let slot = &mut self.slots[index];
        slot.next = number + u64::from(self.config.shape.slots);
        (slot.is_waiting, slot.length) = (true, whole.length);
        self.post(now, number, verbs);
    }

    /// Sends what is staged of a packet, and waits for its result from now on.
    fn post<P: Payload>(&mut self, now: Instant, number: u64, verbs: &mut dyn Verbs<P>) {
        let index = self.slot(number);
        let slot = &mut self.slots[index];
        slot.queued += 1;
        let length = slot.length;
        let source = self.staged(number, length);
        let immediate = Some(number as u32);
        verbs.post_send(SWITCH, SendRequest { id: WorkId(number), verb: Verb::Send, source, immediate });
        self.outstanding.push(now, number);
        self.set_alarm(now, verbs);
    }

    fn receive<P: Payload>(&self, verbs: &mut dyn Verbs<P>) {
        let sink = Slice { region: self.landing, offset: 0, length: self.config.shape.packet() };
        verbs.post_receive(SWITCH, ReceiveRequest { id: WorkId(0), sink });
    }

    /// Takes a result, if it is one that this rank waits for: others were late, or came twice.
    fn take<P: Payload>(
        &mut self,
        now: Instant,
        length: usize,
        immediate: u32,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Failure> {
        let slot = &self.slots[self.config.shape.slot(immediate)];
        let number = slot.next.wrapping_sub(self.config.shape.slots.into());
        let is_awaited = number as u32 == immediate || self.breaks(Mutation::AnyResult);
        let Some(running) = self.running.take_if(|_| slot.is_waiting && is_awaited) else { return Ok(()) };
        let taken = self.take_awaited(number, length, running, verbs)?;
        let openings = taken.vector.openings();
        self.running = Some(taken);
        self.outstanding.answer(number);
        // Two may have waited for this: the next one in the slot, and the one whose exponent it has brought.
        self.send_in_turn(now, number + u64::from(self.config.shape.slots), verbs);
        if openings > 0 {
            self.send_in_turn(now, number + openings, verbs);
        }
        Ok(())
    }

    fn take_awaited<P: Payload>(
        &mut self,
        number: u64,
        length: usize,
        mut running: Running,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Running, Failure> {
        let packet = number - running.first;
        let elements = running.vector.length(packet);
        let landed = |offset, length| Slice { region: self.landing, offset, length };
        let said = match P::contents(verbs.memory().view(landed(0, length))) {
            Some(contents) => Some(SwitchMlHeader::parse(contents).map_err(|_| Failure::InvalidRequest)?),
            None => None,
        };
        let agrees = said
            .is_none_or(|said| (said.kind, said.digest) == (kind(&running.vector), running.vector.digest()));
        if !agrees {
            return Err(Failure::Disagreement);
        }
        if length != LENGTH + elements {
            return Err(Failure::InvalidRequest);
        }
        let values: P = running.vector.values(packet, verbs.memory().view(landed(LENGTH, elements)));
        running.vector.take(packet, &values, said.map_or(0, |said| said.exponent), verbs.memory());
        let index = self.slot(number);
        self.slots[index].is_waiting = false;
        running.left -= 1;
        Ok(running)
    }

    fn set_alarm<P: Payload>(&mut self, now: Instant, verbs: &mut dyn Verbs<P>) {
        if let Some(after) = self.outstanding.set_alarm(now) {
            verbs.set_alarm(TIMEOUT, after);
        }
    }

    /// Sends again what has waited too long.
    fn send_again<P: Payload>(&mut self, now: Instant, verbs: &mut dyn Verbs<P>) -> Result<(), Failure> {
        for number in self.outstanding.take_due(now)? {
            self.repeat(now, number, verbs);
        }
        self.set_alarm(now, verbs);
        Ok(())
    }

    fn repeat<P: Payload>(&mut self, now: Instant, number: u64, verbs: &mut dyn Verbs<P>) {
        if self.breaks(Mutation::NeverAgain) {
            return;
        }
        if self.breaks(Mutation::ResendsFirst) {
            let slots = [0, self.slot(number)];
            let [from, to] = slots.map(|slot| slot * self.config.shape.packet());
            let length = self.slots[0].length.min(self.slots[slots[1]].length);
            let first = Slice { region: self.staging, offset: from, length };
            let first = P::from_view(verbs.memory().view(first));
            let place = Slice { region: self.staging, offset: to, length };
            verbs.memory().write(place, first.view(0..length));
        }
        self.post(now, number, verbs);
    }

    fn fail(&mut self, failure: Failure) -> Outcome {
        self.has_failed = true;
        self.running = None;
        self.outstanding.clear();
        if self.breaks(Mutation::SuccessOnFailure) {
            Outcome::Done
        } else {
            Outcome::Failed { qp: SWITCH, failure }
        }
    }
}

fn kind(vector: &IntegerVector) -> Kind {
    if vector.is_fixed_point() { Kind::FixedPoint } else { Kind::Integers }
}

impl<P: Payload> Program<P> for Worker {
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        let packet = self.config.shape.packet();
        self.landing = verbs.memory().register(P::zeroed(packet));
        self.staging = verbs.memory().register(P::zeroed(self.slots.len() * packet));
        self.receive(verbs);
    }

    fn start(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Outcome>, RequestError> {
        if self.has_failed {
            return Err(RequestError::GroupFailed);
        }
        if self.running.is_some() {
            return Err(RequestError::Busy);
        }
        let WorkerConfig { rank, ranks, scale, shape: PoolShape { slots, piece }, .. } = self.config;
        let config = VectorConfig { rank, ranks, piece, scale, ahead: slots };
        let vector = IntegerVector::new(&config, request, verbs.memory())?;
        let first = self.slots.iter().map(|slot| slot.next).min().expect("a pool has slots");
        let left = vector.packets();
        self.running = Some(Running { vector, first, left });
        for number in first..first + u64::from(slots) {
            self.send_in_turn(now, number, verbs);
        }
        Ok(None)
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        _qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.has_failed {
            return None;
        }
        match completion {
            Completion::Sent { id: WorkId(number) } => {
                let index = self.slot(number);
                self.slots[index].queued -= 1;
                let next = self.slots[index].next;
                self.send_in_turn(now, next, verbs);
            }
            Completion::Received { length, immediate: Some(immediate), .. } => {
                let taken = self.take(now, length, immediate, verbs);
                self.receive(verbs);
                if let Err(failure) = taken {
                    return Some(self.fail(failure));
                }
            }
            Completion::Received { .. } | Completion::Written { .. } => {
                return Some(self.fail(Failure::InvalidRequest));
            }
            Completion::Failed { failure, .. } => return Some(self.fail(failure)),
        }
        self.running.take_if(|running| running.left == 0).map(|_| Outcome::Done)
    }

    fn handle_alarm(&mut self, now: Instant, _: Alarm, verbs: &mut dyn Verbs<P>) -> Option<Outcome> {
        if self.has_failed {
            return None;
        }
        self.send_again(now, verbs).err().map(|failure| self.fail(failure))
    }

    fn buffer_bytes(&self) -> usize {
        (self.slots.len() + 1) * self.config.shape.packet()
    }

    fn assert_invariants(&self) {
        if self.has_failed || self.config.mutation.is_some() {
            return;
        }
        let waiting = self.slots.iter().filter(|slot| slot.is_waiting).count();
        assert_eq!(waiting, self.outstanding.count(), "what waits is known");
        self.outstanding.assert_invariants();
        assert!(self.running.is_some() || waiting == 0, "packets of no collective wait");
        for (index, slot) in self.slots.iter().enumerate() {
            assert_eq!(self.slot(slot.next), index, "slots keep their packets");
        }
    }
}
