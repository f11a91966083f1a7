//! The receiving half: executes packets in the order of their PSNs, once each, and acknowledges them (InfiniBand
//! Architecture 9.7.4 and 9.7.5). Packets that come early are dropped, or kept where reliability is selective.

use crate::early::Early;
use crate::packet::{Kind, Request};
use crate::{DropReason, Mutation, QueuePairConfig, QueuePairSink, Reliability};
use alloc::collections::VecDeque;
use quincunx_collective::Payload;
use quincunx_engine::verbs::{Completion, Failure, Memory, ReceiveRequest, RegionId, Slice};
use quincunx_engine::{Frame, Missing};
use quincunx_units::Instant;
use quincunx_wire::aeth::{
    NO_CREDITS, credit_code, credits, receiver_not_ready_code, receiver_not_ready_delay,
};
use quincunx_wire::{Aeth, NakCode, Operation, Psn, Reth, RoceHeader, Syndrome};

/// A peer that waits for a receive request waits once more for at most one part in so many of what it has waited. Each time it sends all that
/// is outstanding again: waits of one length are a storm when a rank is late, and longer ones would make it later.
const LONGER_BY: u64 = 8;

/// The longest such wait: 0.64 ms.
const LONGEST_WAIT: u8 = 12;

/// The message that is arriving.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Message {
    /// The next packet begins one.
    None,
    /// A Send into the oldest receive request, which holds `received` bytes of it.
    Send { received: usize },
    /// A Write of `length` bytes, of which `rest` is to come.
    Write { length: usize, rest: Slice },
}

/// Where the packet's payload goes.
enum Target {
    Nowhere,
    Memory(Slice),
}

/// A refusal that ends the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    code: NakCode,
    /// What becomes of the oldest receive request.
    failure: Failure,
}

const SENSELESS: Refusal = Refusal { code: NakCode::InvalidRequest, failure: Failure::Flushed };
const NO_ACCESS: Refusal = Refusal { code: NakCode::RemoteAccess, failure: Failure::Flushed };
const TOO_LONG: Refusal = Refusal { code: NakCode::InvalidRequest, failure: Failure::Length };

/// A place for a message, and how many numbers are skipped behind it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Receive {
    request: ReceiveRequest,
    skip: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Responder<P> {
    /// Receive requests, oldest first.
    queue: VecDeque<Receive>,
    /// Count of the packet expected next; its low 24 bits are the expected PSN.
    expected: u64,
    /// The packet that was executed last, which is what acknowledges name: numbers behind it that are skipped were never sent.
    executed: u64,
    /// Messages completed, modulo 2^24.
    message_sequence: u32,
    /// The peer knows that it must go back to `expected`: further packets out of sequence are dropped in silence.
    nak_sent: bool,
    /// Since when the packet that is expected waits for a receive request, if it does.
    unready: Option<Instant>,
    message: Message,
    /// Packets behind `expected` that have arrived, by count; none unless reliability is selective.
    early: Early<P>,
    /// Everything from here on has neither arrived nor been asked for.
    reached: u64,
    /// Packets before `reached` that have not arrived.
    missing: Missing,
    /// Packets before it came too early to be kept, where reliability is selective: asked for when there is room for them.
    turned_away: u64,
    /// Messages that the peer may still send by what it has been told of receive requests; nothing if it has not been told.
    told: Option<u32>,
}

impl<P: Payload> Responder<P> {
    pub(crate) fn new(config: &QueuePairConfig) -> Self {
        Self {
            queue: VecDeque::new(),
            expected: crate::first_count(config.expected_psn),
            executed: crate::first_count(config.expected_psn) - 1,
            message_sequence: 0,
            nak_sent: false,
            unready: None,
            message: Message::None,
            early: Early::default(),
            reached: crate::first_count(config.expected_psn),
            missing: Missing::default(),
            turned_away: 0,
            told: None,
        }
    }

    pub(crate) fn is_between_messages(&self) -> bool {
        self.message == Message::None
    }

    /// Whether the peer, by what it has been told, may send no message, and may now.
    pub(crate) fn owes_credits(&self) -> bool {
        self.told == Some(0) && !self.queue.is_empty()
    }

    /// Tells the peer of receive requests that have come since it was told of none, by an acknowledge that it did not ask for (9.7.7.2).
    pub(crate) fn tell_credits(&mut self, config: &QueuePairConfig, out: &mut impl QueuePairSink<P>) {
        let syndrome = self.acknowledge(config);
        self.answer(config, syndrome, out);
    }

    pub(crate) fn expected_psn(&self) -> Psn {
        Psn::from_count(self.expected)
    }

    pub(crate) fn uses(&self, region: RegionId) -> bool {
        self.queue.iter().any(|receive| receive.request.sink.region == region)
    }

    pub(crate) fn post(&mut self, request: ReceiveRequest) {
        self.queue.push_back(Receive { request, skip: 0 });
    }

    /// Whether a Write is arriving, which no receive request says the end of.
    pub(crate) fn is_being_written(&self) -> bool {
        matches!(self.message, Message::Write { .. })
    }

    /// Expects the message behind all receive requests `packets` further on. A peer that was told to go back is told where to,
    /// if that is known now.
    pub(crate) fn skip(&mut self, config: &QueuePairConfig, packets: u64, out: &mut impl QueuePairSink<P>) {
        match self.queue.back_mut() {
            _ if packets == 0 => {}
            Some(receive) => receive.skip += packets,
            None => self.skip_next(config, packets, out),
        }
    }

    /// Expects the next message `packets` further on. A peer that was told to go back is told where to.
    pub(crate) fn skip_next(
        &mut self,
        config: &QueuePairConfig,
        packets: u64,
        out: &mut impl QueuePairSink<P>,
    ) {
        self.go_on_at(self.expected + packets);
        // What came early is behind what is expected, but for one packet at most: that one is asked for once more.
        let came_early = self.early.forget(self.expected);
        if self.nak_sent || came_early {
            self.answer(config, Syndrome::Nak(NakCode::SequenceError), out);
        }
    }

    /// Expects the packet `count` next, behind numbers that are skipped.
    fn go_on_at(&mut self, count: u64) {
        (self.expected, self.unready) = (count, None);
        self.reach(count);
        self.early.forget_before(count);
        self.missing.forget_before(count);
    }

    /// Ends all receive requests: the oldest with `failure`, the others as flushed.
    pub(crate) fn fail(&mut self, mut failure: Failure, out: &mut impl QueuePairSink<P>) {
        self.message = Message::None;
        self.early.clear();
        self.missing.clear();
        while let Some(Receive { request, .. }) = self.queue.pop_front() {
            out.complete(Completion::Failed { id: request.id, failure });
            failure = Failure::Flushed;
        }
    }

    /// Takes a request packet. An error means that the queue pair has failed; what becomes of the oldest receive
    /// request is inside, and the peer has been told.
    pub(crate) fn handle_request(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        frame: Frame<'_, RoceHeader, P>,
        memory: &mut Memory<P>,
        out: &mut impl QueuePairSink<P>,
    ) -> Result<(), Failure> {
        let count = frame.header.psn.to_count_near(self.expected);
        let is_question = P::view_length(frame.payload) == 0 && frame.header.operation == Operation::QUESTION;
        if is_question && config.reliability == Reliability::Selective {
            self.answer_question(now, config, count, out);
            return Ok(());
        }
        if count < self.expected && config.mutation != Some(Mutation::NoDuplicateCheck) {
            // Executed before; the acknowledge was lost, or is on its way (9.7.5.1.4).
            self.tell_credits(config, out);
            out.drop_frame(DropReason::Duplicate);
            self.missing.come_again(now, frame.header.is_expedited());
            self.ask_again(now, config, out);
            return Ok(());
        }
        if count > self.expected && config.reliability == Reliability::Selective {
            self.keep(now, config, count, frame, out);
            self.ask_again(now, config, out);
            return Ok(());
        }
        if count > self.expected && config.mutation != Some(Mutation::NoSequenceCheck) {
            if config.mutation == Some(Mutation::AckOutOfOrder) {
                let syndrome = self.acknowledge(config);
                self.answer_at(config, frame.header.psn, syndrome, out);
            } else if !self.nak_sent {
                self.nak_sent = true;
                self.answer(config, Syndrome::Nak(NakCode::SequenceError), out);
            }
            out.drop_frame(DropReason::OutOfSequence);
            return Ok(());
        }
        let is_answer = frame.header.is_expedited();
        self.execute(now, config, frame, memory, out)?;
        while let Some((header, payload)) = self.early.take(self.expected) {
            let view = payload.view(0..payload.length());
            self.execute(now, config, Frame { header: &header, payload: view }, memory, out)?;
            self.early.give_back(payload);
        }
        self.reach(self.expected);
        self.ask_for_turned_away(now, config, out);
        if !self.missing.is_empty() {
            self.missing.arrived(count, now, is_answer);
            self.missing.forget_before(self.expected);
            self.ask_again(now, config, out);
        }
        Ok(())
    }

    /// The peer has sent all packets up to `newest`: what has not arrived is asked for.
    fn answer_question(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        newest: u64,
        out: &mut impl QueuePairSink<P>,
    ) {
        if newest < self.expected || config.credits {
            self.tell_credits(config, out);
        }
        let end = (newest + 1).min(self.expected + u64::from(config.window));
        for count in (self.expected..end).filter(|count| !self.early.contains(*count)) {
            self.ask_for(config, count, out);
            self.missing.ask(count, now);
        }
        self.reach(end);
    }

    /// Asks for all before `end` of which was not known that they are missing.
    fn note_missing(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        end: u64,
        out: &mut impl QueuePairSink<P>,
    ) {
        for missing in self.reached.max(self.expected)..end {
            self.ask_for(config, missing, out);
            self.missing.ask(missing, now);
        }
    }

    /// Keeps a packet that comes before one that is missing, and asks for those of which that was not known.
    fn keep(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        count: u64,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl QueuePairSink<P>,
    ) {
        if count - self.expected >= u64::from(config.window) {
            self.turned_away = self.turned_away.max(count + 1);
            return out.drop_frame(DropReason::OutOfSequence);
        }
        if self.early.contains(count) {
            self.missing.come_again(now, frame.header.is_expedited());
            return out.drop_frame(DropReason::Duplicate);
        }
        self.note_missing(now, config, count, out);
        self.missing.arrived(count, now, frame.header.is_expedited());
        self.reach(count + 1);
        self.early.keep(count, frame);
    }

    /// Asks for packets that were turned away and can be kept now. A peer whose window is ours never sends such; but where several
    /// share a connection, one may be ahead of the others (EPIC 4.3, Broadcasts of several roots).
    fn ask_for_turned_away(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        out: &mut impl QueuePairSink<P>,
    ) {
        if self.turned_away == 0 {
            return;
        }
        let end = self.turned_away.min(self.expected + u64::from(config.window));
        self.note_missing(now, config, end, out);
        self.reach(end);
    }

    /// Everything before `count` has arrived or been asked for.
    fn reach(&mut self, count: u64) {
        self.reached = self.reached.max(count);
        if self.turned_away <= self.reached {
            self.turned_away = 0;
        }
    }

    /// The other half asks the peer what has arrived.
    pub(crate) fn question(&mut self) {
        self.missing.question();
    }

    /// What it misses of what the peer has sent.
    pub(crate) fn missing(&self) -> &Missing {
        &self.missing
    }

    /// Asks once more for what was asked for and has been lost on either way.
    pub(crate) fn ask_again(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        out: &mut impl QueuePairSink<P>,
    ) {
        let mut missing = core::mem::take(&mut self.missing);
        missing.ask_again(now, config.retry_timeout, |count| {
            if config.mutation == Some(Mutation::AsksAgainByAck) {
                self.answer_at(config, Psn::from_count(count), Syndrome::Ack(NO_CREDITS), out);
            } else {
                self.ask_for(config, count, out);
            }
        });
        self.missing = missing;
    }

    fn ask_for(&self, config: &QueuePairConfig, count: u64, out: &mut impl QueuePairSink<P>) {
        self.answer_at(config, Psn::from_count(count), Syndrome::Nak(NakCode::SequenceError), out);
    }

    /// Executes the packet that is expected, if it makes sense.
    fn execute(
        &mut self,
        now: Instant,
        config: &QueuePairConfig,
        frame: Frame<'_, RoceHeader, P>,
        memory: &mut Memory<P>,
        out: &mut impl QueuePairSink<P>,
    ) -> Result<(), Failure> {
        let length = P::view_length(frame.payload);
        let checked = Request::from_operation(frame.header.operation)
            .ok_or(SENSELESS)
            .and_then(|request| Ok((request, self.check(config, &request, length, memory)?)));
        let (request, (target, message)) = match checked {
            Ok(checked) => checked,
            Err(refusal) => {
                self.answer(config, Syndrome::Nak(refusal.code), out);
                out.drop_frame(DropReason::Refused);
                return Err(refusal.failure);
            }
        };
        if self.lacks_receive(&request) {
            self.nak_sent = true;
            // What follows does not ask for it once more.
            self.reach(self.expected + 1);
            let code = self.wait(now, config);
            self.answer(config, Syndrome::ReceiverNotReady(code), out);
            out.drop_frame(DropReason::ReceiverNotReady);
            return Ok(());
        }

        if let Target::Memory(slice) = target {
            memory.write(slice, frame.payload);
        }
        self.message = message;
        self.executed = self.expected;
        self.expected += 1;
        (self.nak_sent, self.unready) = (false, None);
        let ended = request.is_last.then(|| self.end_message(&request));
        if frame.header.acknowledge_request {
            self.tell_credits(config, out);
        }
        if let Some(Some(completion)) = ended {
            out.complete(completion);
        }
        Ok(())
    }

    /// How long a peer is to wait for a receive request, as a code.
    fn wait(&mut self, now: Instant, config: &QueuePairConfig) -> u8 {
        let waited = now.since(*self.unready.get_or_insert(now));
        let longer = receiver_not_ready_code(waited / LONGER_BY).min(LONGEST_WAIT);
        let is_longer = receiver_not_ready_delay(longer) > receiver_not_ready_delay(config.rnr_timer);
        if is_longer { longer } else { config.rnr_timer }
    }

    /// Whether the packet needs a receive request that nobody has posted.
    fn lacks_receive(&self, request: &Request) -> bool {
        self.queue.is_empty() && (request.kind == Kind::Send || request.completes_receive())
    }

    /// Checks a packet of `length` bytes that is next in sequence: where its payload goes, and the message after it.
    fn check(
        &self,
        config: &QueuePairConfig,
        request: &Request,
        length: usize,
        memory: &Memory<P>,
    ) -> Result<(Target, Message), Refusal> {
        if request.is_first != self.is_between_messages() {
            return Err(SENSELESS);
        }
        let fits_position = match (request.is_first, request.is_last) {
            (true, true) => length <= config.mtu,
            (false, true) => (1..=config.mtu).contains(&length),
            (_, false) => length == config.mtu,
        };
        if !fits_position {
            return Err(SENSELESS);
        }
        match (request.kind, self.message) {
            (Kind::Send, Message::None) => self.check_send(0, length),
            (Kind::Send, Message::Send { received }) => self.check_send(received, length),
            // Even of no bytes: the right to write is the connection's, before that to a region.
            (Kind::Write(_), Message::None) if !config.remote_write => Err(NO_ACCESS),
            (Kind::Write(Some(reth)), Message::None) => {
                let target = write_target(reth, memory)?;
                check_write(request, target.length, target, length, memory)
            }
            (Kind::Write(_), Message::Write { length: whole, rest }) => {
                check_write(request, whole, rest, length, memory)
            }
            _ => Err(SENSELESS),
        }
    }

    fn check_send(&self, received: usize, length: usize) -> Result<(Target, Message), Refusal> {
        let message = Message::Send { received: received + length };
        let Some(head) = self.queue.front() else {
            return Ok((Target::Nowhere, message));
        };
        let sink = head.request.sink;
        if length > sink.length - received {
            return Err(TOO_LONG);
        }
        Ok((Target::Memory(Slice { offset: sink.offset + received, length, ..sink }), message))
    }

    /// Counts the message as done, and returns the completion of the receive request that it consumed, if any.
    fn end_message(&mut self, request: &Request) -> Option<Completion> {
        let message = core::mem::replace(&mut self.message, Message::None);
        self.message_sequence = (self.message_sequence + 1) & 0x00ff_ffff;
        self.told = self.told.map(|left| left.saturating_sub(1));
        if !request.completes_receive() {
            return None;
        }
        let Receive { request: receive, skip } =
            self.queue.pop_front().expect("a receive request was there when the packet was checked");
        if skip > 0 {
            self.go_on_at(self.expected + skip);
        }
        Some(match (message, request.immediate) {
            (Message::Write { length, rest }, Some(immediate)) => {
                let target = Slice { offset: rest.offset - length, length, ..rest };
                Completion::Written { id: receive.id, target, immediate }
            }
            (Message::Send { received: length }, immediate) => {
                Completion::Received { id: receive.id, length, immediate }
            }
            _ => unreachable!("only Sends and Writes with an immediate consume receive requests"),
        })
    }

    /// A positive one, with the receive requests that are left (9.7.7.2). The one that a message is arriving into counts: that message is
    /// not counted as complete.
    fn acknowledge(&mut self, config: &QueuePairConfig) -> Syndrome {
        let code = if config.credits { credit_code(self.queue.len()) } else { NO_CREDITS };
        self.told = credits(code);
        Syndrome::Ack(code)
    }

    /// Sends an acknowledge: positive with the PSN of the packet executed last, negative with the expected one.
    fn answer(&self, config: &QueuePairConfig, syndrome: Syndrome, out: &mut impl QueuePairSink<P>) {
        let psn = match syndrome {
            Syndrome::Ack(_) => Psn::from_count(self.executed),
            Syndrome::ReceiverNotReady(_) | Syndrome::Nak(_) => self.expected_psn(),
        };
        self.answer_at(config, psn, syndrome, out);
    }

    fn answer_at(
        &self,
        config: &QueuePairConfig,
        psn: Psn,
        syndrome: Syndrome,
        out: &mut impl QueuePairSink<P>,
    ) {
        let aeth = Aeth { syndrome, message_sequence: self.message_sequence };
        let header = crate::header_to_remote(config, psn, Operation::Acknowledge(aeth));
        out.transmit(Frame { header: &header, payload: P::empty() });
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.expected >= crate::COUNT_BEFORE_START, "a PSN from before has no count");
        assert!(self.message_sequence <= 0x00ff_ffff, "a message sequence number of more than 24 bits");
        assert!(self.executed < self.expected, "what was executed is not expected");
        assert!(self.reached >= self.expected, "what has arrived in order has been reached");
        assert!(
            self.turned_away == 0 || self.turned_away > self.reached,
            "what is asked for is not turned away"
        );
        assert!(
            self.early.numbers().all(|early| (self.expected + 1..self.reached).contains(&early)),
            "what came early is ahead of what is expected, and was noticed"
        );
        assert!(
            self.missing
                .numbers()
                .all(|missing| (self.expected..self.reached).contains(&missing)
                    && !self.early.contains(missing)),
            "what is missing was noticed, and has not come"
        );
        match self.message {
            Message::None => {}
            Message::Send { received } => {
                let head = self.queue.front().expect("a Send is arriving into no receive request");
                let sink = head.request.sink;
                assert!(received <= sink.length, "{received} bytes in {sink:?}");
            }
            Message::Write { length, rest } => {
                assert!(0 < rest.length && rest.length < length, "{} of {length} bytes to come", rest.length);
            }
        }
    }
}

/// The memory that a Write names: the key is the number of the region, the address an offset in it. A Write of no
/// bytes may name anything (9.7.4.1.6).
fn write_target<P: Payload>(reth: Reth, memory: &Memory<P>) -> Result<Slice, Refusal> {
    let length = reth.dma_length as usize;
    let region = RegionId(reth.remote_key);
    let offset = usize::try_from(reth.virtual_address).map_err(|_| NO_ACCESS);
    if length == 0 {
        return Ok(Slice { region, offset: offset.unwrap_or(0), length });
    }
    let offset = offset?;
    let target = Slice { region, offset, length };
    if memory.contains(target) { Ok(target) } else { Err(NO_ACCESS) }
}

/// Checks a packet of `length` bytes of a Write of `whole` bytes that has `rest` to write.
fn check_write<P: Payload>(
    request: &Request,
    whole: usize,
    rest: Slice,
    length: usize,
    memory: &Memory<P>,
) -> Result<(Target, Message), Refusal> {
    let ends_here = length == rest.length;
    if length > rest.length || ends_here != request.is_last {
        return Err(SENSELESS);
    }
    // The owner may have released the region since the first packet: the peer cannot keep it alive.
    let target = Slice { length, ..rest };
    if length > 0 && !memory.contains(target) {
        return Err(NO_ACCESS);
    }
    let rest = Slice { offset: rest.offset + length, length: rest.length - length, ..rest };
    let message = Message::Write { length: whole, rest };
    Ok((if length > 0 { Target::Memory(target) } else { Target::Nowhere }, message))
}
