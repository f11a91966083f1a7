//! A rank's part: it sends pieces of its vector as far as the pool has slots, the next one of a slot when the result of the last one is here, and
//! again what waits too long (Sapio et al., algorithm 4).
//!
//! Packets are numbered through all collectives of the group. The rank waits for as long as its peers take to contribute: a time-out tells
//! nothing of who is slow, so it waits twice as long each time that nothing has come, up to a limit.

use crate::config::PoolShape;
use crate::mutation::Mutation;
use crate::pieces::Pieces;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{
    Collective, DataType, FixedPoint, NOT_FINITE, Payload, Rank, ReduceOp, Reduction, largest_exponent,
};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, ReceiveRequest, RegionId,
    RequestError, SendRequest, Slice, UNLIMITED_RETRIES, Verb, Verbs, WorkId,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::switchml::{Kind, LENGTH, SwitchMlHeader};

/// Leads to the switch.
const SWITCH: QpIndex = QpIndex(0);

/// Something waits for its result for too long.
const TIMEOUT: Alarm = Alarm(0);

/// Where results land and packets are put together. A rank without them has not joined yet.
const NOWHERE: RegionId = RegionId(u32::MAX);

/// A time-out is doubled so many times at most: 64 times as long.
const MOST_DOUBLINGS: u32 = 6;

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
    /// A rule to break.
    pub mutation: Option<Mutation>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Running {
    request: CollectiveRequest,
    /// The number of its first packet.
    first: u64,
    pieces: Pieces,
    /// What ranks must agree on.
    digest: u32,
    /// By piece: the largest exponent of all ranks, as far as it is known. None of integers, or where the point is said.
    exponents: Vec<u8>,
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

/// A packet that waits for its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    number: u64,
    since: Instant,
}

/// A rank's part.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Worker {
    config: WorkerConfig,
    running: Option<Running>,
    slots: Vec<Slot>,
    /// Those that wait, the one that was sent longest ago first.
    waiting: VecDeque<Waiting>,
    /// The packet that the alarm is for, if it is set.
    alarm: Option<u64>,
    /// Time-outs since something came.
    silence: u16,
    landing: RegionId,
    staging: RegionId,
    has_failed: bool,
}

impl Worker {
    /// A rank before its first collective.
    pub fn new(config: WorkerConfig) -> Self {
        let slot = |next| Slot { next, is_waiting: false, queued: 0, length: 0 };
        Self {
            config,
            running: None,
            slots: (0..u64::from(config.shape.slots)).map(slot).collect(),
            waiting: VecDeque::new(),
            alarm: None,
            silence: 0,
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

    /// Whether values are added up as integers that the ranks agree on for each piece.
    fn agrees_on_scales(&self, data_type: DataType) -> bool {
        data_type == DataType::F32 && self.config.scale.is_none()
    }

    /// Sends a packet, if it is its turn and all is known that it carries.
    fn send_in_turn<P: Payload>(&mut self, now: Instant, number: u64, verbs: &mut dyn Verbs<P>) {
        let Some(running) = self.running.take() else { return };
        let slot = &self.slots[self.slot(number)];
        // A copy that waits to leave is sent as it was. A switch would not count it: its rank has the sum already.
        let is_free = slot.queued == 0;
        let is_its_turn = number >= running.first && slot.next == number && !slot.is_waiting && is_free;
        let packet = number.wrapping_sub(running.first);
        let is_known = packet < running.pieces.openings
            || self.is_answered(number - running.pieces.openings)
            || running.pieces.openings == 0;
        if is_its_turn && packet < running.pieces.packets() && is_known {
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
        let packet = number - running.first;
        let input = running.request.input;
        let of_input =
            |(offset, length)| Slice { region: input.region, offset: input.offset + offset, length };
        let (offset, length) = running.pieces.elements(packet);
        let values = verbs.memory().view(of_input((offset, length)));
        let elements = match self.scale_of(running, packet) {
            Scale::Integers => P::from_view(values),
            Scale::At(scale) => P::to_fixed_point(scale, values),
            Scale::NotFinite => P::zeroed(length),
        };
        let announced = running.pieces.announced(packet).map(|piece| verbs.memory().view(of_input(piece)));
        let exponent = announced.and_then(P::contents).map_or(0, largest_exponent);
        let header = SwitchMlHeader { kind: self.kind(running), exponent, digest: running.digest };
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
        self.waiting.push_back(Waiting { number, since: now });
        self.set_alarm(now, verbs);
    }

    fn kind(&self, running: &Running) -> Kind {
        match running.request.reduction.data_type {
            DataType::F32 => Kind::FixedPoint,
            _ => Kind::Integers,
        }
    }

    /// How the elements of a packet become integers.
    fn scale_of(&self, running: &Running, packet: u64) -> Scale {
        if running.request.reduction.data_type != DataType::F32 {
            return Scale::Integers;
        }
        if let Some(scale) = self.config.scale {
            return Scale::At(scale);
        }
        let piece = packet.checked_sub(running.pieces.openings);
        match piece.map(|piece| running.exponents[piece as usize]) {
            // An opening has no elements.
            None => Scale::Integers,
            Some(NOT_FINITE) => Scale::NotFinite,
            Some(exponent) => Scale::At(FixedPoint::for_block(exponent, self.config.ranks)),
        }
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
        let openings = taken.pieces.openings;
        self.running = Some(taken);
        self.silence = 0;
        if let Some(index) = self.waiting.iter().position(|waiting| waiting.number == number) {
            self.waiting.remove(index);
        }
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
        let (offset, elements) = running.pieces.elements(packet);
        let landed = |offset, length| Slice { region: self.landing, offset, length };
        let said = match P::contents(verbs.memory().view(landed(0, length))) {
            Some(contents) => Some(SwitchMlHeader::parse(contents).map_err(|_| Failure::InvalidRequest)?),
            None => None,
        };
        let agrees =
            said.is_none_or(|said| (said.kind, said.digest) == (self.kind(&running), running.digest));
        if !agrees {
            return Err(Failure::Disagreement);
        }
        if length != LENGTH + elements {
            return Err(Failure::InvalidRequest);
        }
        let sum = verbs.memory().view(landed(LENGTH, elements));
        let result = match self.scale_of(&running, packet) {
            Scale::Integers => P::from_view(sum),
            Scale::At(scale) => P::from_fixed_point(scale, sum),
            Scale::NotFinite => not_numbers(elements),
        };
        let output = running.request.output;
        let place = Slice { region: output.region, offset: output.offset + offset, length: elements };
        verbs.memory().write(place, result.view(0..elements));
        if running.pieces.announced(packet).is_some() {
            running.exponents[packet as usize] = said.map_or(0, |said| said.exponent);
        }
        let index = self.slot(number);
        self.slots[index].is_waiting = false;
        running.left -= 1;
        Ok(running)
    }

    /// How long packets wait at present.
    fn patience(&self) -> Duration {
        self.config.timeout * (1u64 << u32::from(self.silence).min(MOST_DOUBLINGS))
    }

    /// Has the alarm set for the packet that has waited longest, unless it is set already.
    fn set_alarm<P: Payload>(&mut self, now: Instant, verbs: &mut dyn Verbs<P>) {
        let Some(oldest) = self.waiting.front().filter(|_| self.alarm.is_none()) else { return };
        let left = (oldest.since + self.patience()).since(now);
        self.alarm = Some(oldest.number);
        verbs.set_alarm(TIMEOUT, left.max(Duration::from_nanos(1)));
    }

    /// Sends the oldest packet again if the alarm was for it, and others that wait for as long. Where the clock stands still, that is one at a time.
    fn send_again<P: Payload>(&mut self, now: Instant, verbs: &mut dyn Verbs<P>) -> Result<(), Failure> {
        let due = self.alarm.take();
        let patience = self.patience();
        let is_overdue = |waiting: &Waiting| now.since(waiting.since) >= patience;
        let due_now = |waiting: &&Waiting| Some(waiting.number) == due || is_overdue(waiting);
        let overdue = self.waiting.iter().take_while(due_now).count();
        if overdue > 0 {
            if self.config.retries != UNLIMITED_RETRIES && self.silence >= self.config.retries {
                return Err(Failure::RetryExceeded);
            }
            // Who never gives up counts no further than it waits longer: explorations end.
            let most =
                if self.config.retries == UNLIMITED_RETRIES { MOST_DOUBLINGS as u16 } else { u16::MAX };
            self.silence = self.silence.saturating_add(1).min(most);
            for Waiting { number, .. } in self.waiting.drain(..overdue).collect::<Vec<_>>() {
                self.repeat(now, number, verbs);
            }
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
        self.waiting.clear();
        if self.breaks(Mutation::SuccessOnFailure) {
            Outcome::Done
        } else {
            Outcome::Failed { qp: SWITCH, failure }
        }
    }

    /// Refuses what the switch cannot add up.
    fn check<P: Payload>(
        &self,
        request: &CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<usize, RequestError> {
        let CollectiveRequest { collective, reduction, .. } = *request;
        if !matches!(collective, Collective::AllReduce | Collective::Barrier) {
            return Err(RequestError::NotOffered { found: collective });
        }
        let is_sum = reduction.op == ReduceOp::Sum;
        let is_added = is_sum && matches!(reduction.data_type, DataType::F32 | DataType::I32);
        if collective == Collective::AllReduce && !is_added {
            let expected = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
            return Err(RequestError::Reduction { expected, found: reduction });
        }
        // How many ranks there are does not matter to it.
        request.check(self.config.rank, 1, verbs.memory())
    }
}

/// How the elements of a packet become integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scale {
    /// They are.
    Integers,
    /// By a power of two.
    At(FixedPoint),
    /// Not at all: some rank has none that is finite, and all of the sum is NaN.
    NotFinite,
}

fn not_numbers<P: Payload>(length: usize) -> P {
    let mut result = P::zeroed(length);
    let nan = f32::NAN.to_le_bytes();
    (0..length).step_by(nan.len()).for_each(|offset| result.inscribe(offset, &nan));
    result
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
        let length = self.check(&request, verbs)?;
        let (digest, mut request) = (request.digest(length, u32::BITS), request);
        if request.collective == Collective::Barrier {
            // An AllReduce of nothing, whatever type the ranks say that it has.
            request.reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
        }
        let PoolShape { slots, piece } = self.config.shape;
        let agrees = self.agrees_on_scales(request.reduction.data_type);
        let pieces = Pieces::new(length, piece, if agrees { slots } else { 0 });
        let exponents = if agrees { vec![0; pieces.count() as usize] } else { Vec::new() };
        let first = self.slots.iter().map(|slot| slot.next).min().expect("a pool has slots");
        let left = pieces.packets();
        self.running = Some(Running { request, first, pieces, digest, exponents, left });
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
        assert_eq!(waiting, self.waiting.len(), "what waits is known");
        assert!(self.waiting.is_empty() || self.alarm.is_some(), "something waits, and nothing wakes it");
        assert!(self.running.is_some() || waiting == 0, "packets of no collective wait");
        for (index, slot) in self.slots.iter().enumerate() {
            assert_eq!(self.slot(slot.next), index, "slots keep their packets");
        }
    }
}
