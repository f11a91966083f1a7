//! A rank as a worker: it has a window of packets under way, and sends the next one when the oldest has its result, which is its
//! acknowledge (Lao et al., section 3). Again it sends what three later ones have overtaken, and what waits too long.
//!
//! Packets are numbered through all collectives of the group. What waits for how long, [`Outstanding`] knows.

use crate::config::AtpShape;
use crate::mutation::Mutation;
use crate::partial::Part;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{FixedPoint, Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Failure, QpIndex, RegionId, RequestError, SendRequest, Slice, Verb, Verbs,
    WorkId,
};
use quincunx_pieces::{IntegerVector, Outstanding, VectorConfig};
use quincunx_units::{Duration, Instant};
use quincunx_wire::Psn;
use quincunx_wire::atp::{AtpHeader, AtpTags, LENGTH};
use quincunx_wire::switchml::Kind;

/// Something waits for its result for too long.
const TIMEOUT: Alarm = Alarm(0);

/// Where packets are put together. A rank without it has not joined yet.
const NOWHERE: RegionId = RegionId(u32::MAX);

/// So many later results say that a packet is lost (Lao et al.: three, as TCP's duplicate acknowledges).
const OVERTAKEN: u8 = 3;

/// What a rank is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WorkerConfig {
    /// This rank; rank 0 hosts the server.
    pub rank: Rank,
    /// The dimensions.
    pub shape: AtpShape,
    /// Where the point of numbers is; ranks agree on it for each piece if it is not said.
    pub scale: Option<FixedPoint>,
    /// How long it waits for a result before it sends again.
    pub timeout: Duration,
    /// How often in a row it does so before the group has failed.
    pub retries: u16,
    /// The group's first PSN: packets are numbered from there, so that their numbers wrap in daily use.
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

/// A packet of the window.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    /// It has its result.
    is_answered: bool,
    /// Copies of it that have not left yet.
    queued: u16,
    /// Bytes of it.
    length: usize,
}

/// A rank as a worker.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Worker {
    config: WorkerConfig,
    tags: AtpTags,
    /// Leads to the switch; none if the server, which is here, adds this rank's part itself.
    qp: Option<QpIndex>,
    running: Option<Running>,
    /// The oldest number without a result.
    oldest: u64,
    /// The number that is sent next.
    next: u64,
    /// By number, in turn.
    slots: Vec<Slot>,
    outstanding: Outstanding,
    /// Packets for the server that is here.
    local: VecDeque<u64>,
    staging: RegionId,
}

impl Worker {
    pub(crate) fn new(config: WorkerConfig, tags: AtpTags, qp: Option<QpIndex>) -> Self {
        // A round of 32 bits on, so that what lies before the first packet has a number, too.
        let first = (1 << 32) + u64::from(config.initial_psn.extended());
        Self {
            config,
            tags,
            qp,
            running: None,
            oldest: first,
            next: first,
            slots: vec![Slot::default(); config.shape.window as usize],
            outstanding: Outstanding::new(config.timeout, config.retries),
            local: VecDeque::new(),
            staging: NOWHERE,
        }
    }

    pub(crate) fn initialise<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        self.staging = verbs.memory().register(P::zeroed(self.bytes()));
    }

    /// Bytes of its packets.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * self.config.shape.packet()
    }

    pub(crate) const fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The oldest number without a result, as far as packets have it.
    pub(crate) const fn oldest(&self) -> u32 {
        self.oldest as u32
    }

    fn breaks(&self, mutation: Mutation) -> bool {
        self.config.mutation == Some(mutation)
    }

    const fn slot(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    fn window(&self) -> u64 {
        self.slots.len() as u64
    }

    fn is_answered(&self, number: u64) -> bool {
        number < self.oldest || number < self.next && self.slots[self.slot(number)].is_answered
    }

    pub(crate) fn start<P: Payload>(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), RequestError> {
        let WorkerConfig { rank, scale, shape: AtpShape { ranks, window, piece, .. }, .. } = self.config;
        let config = VectorConfig { rank, ranks, piece, scale, ahead: window };
        let vector = IntegerVector::new(&config, request, verbs.memory())?;
        let left = vector.packets();
        self.running = Some(Running { vector, first: self.next, left });
        self.send_next(now, verbs);
        Ok(())
    }

    /// Sends packets as far as the window and what is known allow.
    fn send_next<P: Payload>(&mut self, now: Instant, verbs: &mut dyn Verbs<P>) {
        let Some(running) = self.running.take() else { return };
        while self.may_send(&running) {
            self.send_first(now, &running, verbs);
        }
        self.running = Some(running);
    }

    fn may_send(&self, running: &Running) -> bool {
        let (packet, openings) = (self.next - running.first, running.vector.openings());
        // A copy that waits to leave is sent as it was.
        let is_free = self.slots[self.slot(self.next)].queued == 0;
        let is_in_window = self.next < self.oldest + self.window() && packet < running.vector.packets();
        let is_known = openings == 0 || packet < openings || self.is_answered(self.next - openings);
        is_free && is_in_window && is_known
    }

    fn send_first<P: Payload>(&mut self, now: Instant, running: &Running, verbs: &mut dyn Verbs<P>) {
        let number = self.next;
        let (packet, vector) = (number - running.first, &running.vector);
        let elements: P = vector.integers(packet, verbs.memory());
        let exponent = vector.exponent(packet, verbs.memory());
        let header =
            AtpHeader { kind: kind(vector), exponent, digest: vector.digest(), number: number as u32 };
        let mut head = P::zeroed(LENGTH);
        head.inscribe(0, &header.to_bytes());
        let index = self.slot(number);
        self.slots[index] = Slot { length: LENGTH + elements.length(), ..Slot::default() };
        let whole = self.staged(number);
        verbs.memory().write(Slice { length: LENGTH, ..whole }, head.view(0..LENGTH));
        let behind = Slice { offset: whole.offset + LENGTH, length: elements.length(), ..whole };
        verbs.memory().write(behind, elements.view(0..elements.length()));
        self.next += 1;
        self.post(now, number, false, verbs);
    }

    fn staged(&self, number: u64) -> Slice {
        let index = self.slot(number);
        let (offset, length) = (index * self.config.shape.packet(), self.slots[index].length);
        Slice { region: self.staging, offset, length }
    }

    /// Sends what is staged of a packet, and waits for its result from now on.
    fn post<P: Payload>(&mut self, now: Instant, number: u64, is_resent: bool, verbs: &mut dyn Verbs<P>) {
        let (index, source) = (self.slot(number), self.staged(number));
        if let Some(qp) = self.qp {
            self.slots[index].queued += 1;
            let is_resent = is_resent && !self.breaks(Mutation::NoResendFlag);
            let immediate = Some(self.tags.write(number as u32, self.bit(), is_resent));
            verbs.post_send(qp, SendRequest { id: WorkId(number), verb: Verb::Send, source, immediate });
        } else {
            self.local.push_back(number);
        }
        self.outstanding.push(now, number);
        self.set_alarm(now, verbs);
    }

    const fn bit(&self) -> u32 {
        1 << self.config.rank.0
    }

    fn set_alarm<P: Payload>(&mut self, now: Instant, verbs: &mut dyn Verbs<P>) {
        if let Some(after) = self.outstanding.set_alarm(now) {
            verbs.set_alarm(TIMEOUT, after);
        }
    }

    /// A packet for the server that is here, and where it lies.
    pub(crate) fn next_local(&mut self) -> Option<(u32, Slice)> {
        let number = self.local.pop_front()?;
        Some((self.tags.write(number as u32, self.bit(), false), self.staged(number)))
    }

    /// A copy of a packet has left.
    pub(crate) fn sent<P: Payload>(&mut self, now: Instant, number: u64, verbs: &mut dyn Verbs<P>) {
        let index = self.slot(number);
        self.slots[index].queued -= 1;
        self.send_next(now, verbs);
    }

    /// Sends again what has waited too long.
    pub(crate) fn send_again<P: Payload>(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Failure> {
        let due = self.outstanding.take_due(now)?;
        self.repeat(now, due, verbs);
        self.set_alarm(now, verbs);
        Ok(())
    }

    fn repeat<P: Payload>(&mut self, now: Instant, numbers: Vec<u64>, verbs: &mut dyn Verbs<P>) {
        if self.breaks(Mutation::NeverAgain) {
            return;
        }
        for number in numbers {
            self.post(now, number, true, verbs);
        }
    }

    /// Takes a result that lies in memory, if it is one that this rank waits for: others were late, or came twice.
    ///
    /// # Errors
    /// If it is none, or ranks ask for different things.
    pub(crate) fn take<P: Payload>(
        &mut self,
        now: Instant,
        part: Part,
        sum: Slice,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Failure> {
        let mut ahead = u64::from(part.number.wrapping_sub(self.oldest()));
        if self.breaks(Mutation::AnyResult) {
            ahead = 0;
        }
        let number = self.oldest + ahead;
        let is_awaited = number < self.next && !self.is_answered(number);
        let Some(mut running) = self.running.take_if(|_| is_awaited) else { return Ok(()) };
        let (packet, vector) = (number - running.first, &mut running.vector);
        let has_contents = P::contents(verbs.memory().view(sum)).is_some();
        if has_contents && (part.header.kind, part.header.digest) != (kind(vector), vector.digest()) {
            return Err(Failure::Disagreement);
        }
        if sum.length != LENGTH + vector.length(packet) {
            return Err(Failure::InvalidRequest);
        }
        let elements = Slice { offset: sum.offset + LENGTH, length: sum.length - LENGTH, ..sum };
        let values: P = vector.values(packet, verbs.memory().view(elements));
        vector.take(packet, &values, part.header.exponent, verbs.memory());
        running.left -= 1;
        self.running = Some(running);
        self.advance(now, number, verbs);
        Ok(())
    }

    /// The window moves on, and what was overtaken is sent again.
    fn advance<P: Payload>(&mut self, now: Instant, number: u64, verbs: &mut dyn Verbs<P>) {
        let index = self.slot(number);
        self.slots[index].is_answered = true;
        while self.oldest < self.next && self.slots[self.slot(self.oldest)].is_answered {
            self.oldest += 1;
        }
        let lost = self.outstanding.overtaken(number, OVERTAKEN);
        self.outstanding.answer(number);
        self.repeat(now, lost, verbs);
        self.send_next(now, verbs);
    }

    /// Whether the collective has all results; then it is over.
    pub(crate) fn finish(&mut self) -> bool {
        self.running.take_if(|running| running.left == 0).is_some()
    }

    pub(crate) fn fail(&mut self) {
        self.running = None;
        self.outstanding.clear();
        self.local.clear();
    }

    pub(crate) fn assert_invariants(&self) {
        let window = self.oldest..self.next;
        let unanswered = window.filter(|number| !self.is_answered(*number)).count();
        assert!(self.next <= self.oldest + self.window(), "no more is under way than the window");
        assert_eq!(unanswered, self.outstanding.count(), "what waits is known");
        assert!(self.running.is_some() || unanswered == 0, "packets of no collective wait");
        assert!(self.local.is_empty(), "the server has what is for it");
        self.outstanding.assert_invariants();
    }
}

fn kind(vector: &IntegerVector) -> Kind {
    if vector.is_fixed_point() { Kind::FixedPoint } else { Kind::Integers }
}
