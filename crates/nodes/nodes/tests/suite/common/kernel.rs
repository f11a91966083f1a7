//! A queue pair as the Linux kernel's software RoCE has it (`rdma_rxe` of Linux 6.1), which nobody here wrote: how it takes
//! acknowledges and how it goes back, with what is odd in both. Ranks' nodes have it execute their work.
//!
//! Its fault is kept: an acknowledge of a whole message that comes while the message is being sent again counts, but the message stays the
//! oldest one. If the time-out fires before another acknowledge comes, the queue pair goes back to behind that message's last packet, in
//! that message: it sends an empty packet that nobody posted, and numbers all that follows one higher than before.

use std::collections::VecDeque;

use quincunx_collective::{Numbers, Payload};
use quincunx_engine::verbs::{Completion, Memory, ReceiveRequest, SendRequest, Slice};
use quincunx_nodes::Work;
use quincunx_roce::QueuePairConfig;
use quincunx_units::Packets;
use quincunx_wire::{Aeth, Gid, NakCode, Operation, Position, Psn, RoceHeader, Syndrome};

use super::{Answers, Timer};

/// Packets that it has unacknowledged (`RXE_MAX_UNACKED_PSNS`).
const MOST_UNACKNOWLEDGED: i32 = 128;

/// The credit count of an acknowledge that keeps none.
const UNLIMITED: u8 = 31;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KernelTimer {
    /// Nothing has been acknowledged for a while.
    Retransmit,
    /// The peer was not ready.
    NotReady,
}

/// How far a message has come (`wqe_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// None of it is sent, or none of it again.
    Posted,
    /// Part of it.
    Processing,
    /// All of it.
    Pending,
}

/// A message to send (`rxe_send_wqe`).
#[derive(Clone)]
struct Message {
    request: SendRequest,
    bytes: Vec<u8>,
    /// Bytes that are still to be sent (`dma.resid`).
    rest: usize,
    first: Psn,
    last: Psn,
    state: State,
}

/// What has ended, and what has been received for it.
pub type Ended = (Completion, Option<(Slice, Vec<u8>)>);

#[derive(Clone)]
pub struct KernelQueuePair {
    config: QueuePairConfig,
    /// All messages that were ever posted; the oldest that has not ended; the one that is sent next.
    messages: Vec<Message>,
    oldest: usize,
    index: usize,
    /// Of the next packet (`req.psn`), and of the oldest that is not acknowledged (`comp.psn`).
    next: Psn,
    acknowledged: Psn,
    /// The last packet sent was a First or a Middle one.
    is_inside: bool,
    /// To go back before anything else is sent (`need_retry`).
    goes_back: bool,
    /// Has gone back since the last acknowledge (`started_retry`).
    has_gone_back: bool,
    is_paused: bool,
    is_armed: bool,
    answers: VecDeque<(Psn, Syndrome)>,
    receives: VecDeque<ReceiveRequest>,
    arrived: Vec<u8>,
    is_arriving: bool,
    expected: Psn,
    has_asked: bool,
    /// The peer has broken the rules: no more is received.
    is_broken: bool,
    ended: VecDeque<Ended>,
}

impl KernelQueuePair {
    pub fn new(config: QueuePairConfig) -> Self {
        Self {
            messages: Vec::new(),
            oldest: 0,
            index: 0,
            next: config.send_psn,
            acknowledged: config.send_psn,
            is_inside: false,
            goes_back: false,
            has_gone_back: false,
            is_paused: false,
            is_armed: false,
            answers: VecDeque::new(),
            receives: VecDeque::new(),
            arrived: Vec::new(),
            is_arriving: false,
            expected: config.expected_psn,
            has_asked: false,
            is_broken: false,
            ended: VecDeque::new(),
            config,
        }
    }

    pub fn post(&mut self, work: Work, memory: &Memory<Numbers>) {
        match work {
            Work::Receive(request) => self.receives.push_back(request),
            Work::Send(request) => {
                let bytes = memory.view(request.source).to_vec();
                let (rest, none) = (bytes.len(), Psn::new(0));
                let state = State::Posted;
                self.messages.push(Message { request, bytes, rest, first: none, last: none, state });
            }
        }
    }

    pub fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    pub fn wants_transmit(&self) -> bool {
        self.goes_back && !self.is_paused
            || self.index < self.messages.len()
                && self.next.distance_from(self.acknowledged) <= MOST_UNACKNOWLEDGED
    }

    /// `rxe_requester`: one packet.
    pub(super) fn transmit(&mut self, out: &mut Answers) {
        if self.goes_back && !self.is_paused {
            self.go_back();
            self.goes_back = false;
            self.take_answers(out);
        }
        if !self.wants_transmit() {
            return;
        }
        let mtu = self.config.mtu;
        let position = self.position(self.index);
        let message = &mut self.messages[self.index];
        let (from, length) = (message.bytes.len() - message.rest, message.rest.min(mtu));
        if matches!(position, Position::First | Position::Only) {
            message.first = self.next;
            message.last = self.next.plus((message.rest.div_ceil(mtu) as u32).max(1) - 1);
        }
        message.rest -= length;
        let ends = matches!(position, Position::Last | Position::Only);
        message.state = if ends { State::Pending } else { State::Processing };
        let payload = Numbers::from(message.bytes[from..from + length].to_vec());
        let operation = match (message.request.immediate, position) {
            (Some(immediate), Position::Only) => Operation::SendOnlyImmediate(immediate),
            _ => Operation::Send(position),
        };
        let header = RoceHeader { acknowledge_request: ends, ..self.header(self.next, operation) };
        self.index += usize::from(ends);
        self.next = self.next.plus(1);
        self.is_inside = !ends;
        out.frames.push((header, payload));
        if !self.is_armed {
            self.arm(out);
        }
    }

    fn header(&self, psn: Psn, operation: Operation) -> RoceHeader {
        let QueuePairConfig { local, remote, .. } = self.config;
        RoceHeader::new(local.ip, remote.ip, remote.qp, psn, operation)
    }

    fn arm(&mut self, out: &mut Answers) {
        self.is_armed = true;
        out.set.push((Timer::Kernel(KernelTimer::Retransmit), self.config.retry_timeout));
    }

    /// `next_opcode_rc`.
    fn position(&self, index: usize) -> Position {
        match (self.is_inside, self.messages[index].rest <= self.config.mtu) {
            (true, true) => Position::Last,
            (true, false) => Position::Middle,
            (false, true) => Position::Only,
            (false, false) => Position::First,
        }
    }

    /// `req_retry`: goes back to the oldest packet that is not acknowledged, in the oldest message that has not ended.
    fn go_back(&mut self) {
        (self.index, self.next, self.is_inside) = (self.oldest, self.acknowledged, false);
        for index in self.oldest..self.messages.len() {
            if self.messages[index].state == State::Posted {
                break;
            }
            self.messages[index].rest = self.messages[index].bytes.len();
            self.messages[index].state = State::Posted;
            if index == self.oldest {
                for _ in 0..self.acknowledged.distance_from(self.messages[index].first) {
                    self.is_inside = matches!(self.position(index), Position::First | Position::Middle);
                    let message = &mut self.messages[index];
                    message.rest -= message.rest.min(self.config.mtu);
                }
            }
        }
    }

    pub(super) fn handle_timer(&mut self, timer: KernelTimer, out: &mut Answers) {
        match timer {
            KernelTimer::NotReady => (self.goes_back, self.is_paused) = (true, false),
            KernelTimer::Retransmit => {
                self.is_armed = false;
                let oldest = self.messages.get(self.oldest);
                if self.goes_back || oldest.is_some_and(|oldest| oldest.state == State::Posted) {
                    return;
                }
                if self.next.distance_from(self.acknowledged) > 0 {
                    (self.goes_back, self.has_gone_back) = (true, true);
                    self.arm(out);
                }
            }
        }
    }

    pub(super) fn handle_frame(&mut self, header: &RoceHeader, payload: &Numbers, out: &mut Answers) {
        match header.operation {
            Operation::Acknowledge(aeth) => {
                self.answers.push_back((header.psn, aeth.syndrome));
                self.take_answers(out);
            }
            Operation::Send(_) | Operation::SendOnlyImmediate(_) => self.receive(header, payload, out),
            // It drops congestion notifications.
            _ => {}
        }
    }

    /// `rxe_completer`: waits while the requester is to go back.
    fn take_answers(&mut self, out: &mut Answers) {
        while !self.goes_back {
            let Some((psn, syndrome)) = self.answers.pop_front() else {
                if self.next.distance_from(self.acknowledged) > 0 {
                    self.arm(out);
                }
                return;
            };
            self.take_answer(psn, syndrome, out);
        }
    }

    fn take_answer(&mut self, psn: Psn, syndrome: Syndrome, out: &mut Answers) {
        while let Some(oldest) = self.messages.get(self.oldest).filter(|oldest| oldest.state != State::Posted)
        {
            let is_sent = oldest.state == State::Pending;
            let behind = psn.distance_from(oldest.last);
            if behind > 0 {
                if !is_sent {
                    return;
                }
                self.has_gone_back = false;
                self.advance(oldest.last.plus(1));
                self.complete();
                continue;
            }
            if psn.distance_from(self.acknowledged) < 0 {
                if behind == 0 {
                    self.complete();
                }
                return;
            }
            match syndrome {
                Syndrome::Ack(_) => {
                    self.has_gone_back = false;
                    // Of a message that is being sent again only the packets count.
                    if is_sent && behind == 0 {
                        self.complete();
                    }
                    self.advance(psn.plus(1));
                }
                Syndrome::Nak(NakCode::SequenceError) => {
                    self.advance(psn);
                    if !self.has_gone_back && self.next.distance_from(self.acknowledged) > 0 {
                        (self.goes_back, self.has_gone_back) = (true, true);
                    }
                }
                Syndrome::ReceiverNotReady(_) => {
                    self.is_paused = true;
                    let pause = self.config.retry_timeout;
                    out.set.push((Timer::Kernel(KernelTimer::NotReady), pause));
                }
                Syndrome::Nak(_) => self.is_broken = true,
            }
            return;
        }
    }

    fn advance(&mut self, to: Psn) {
        if to.distance_from(self.acknowledged) > 0 {
            self.acknowledged = to;
        }
    }

    fn complete(&mut self) {
        let id = self.messages[self.oldest].request.id;
        self.oldest += 1;
        self.ended.push_back((Completion::Sent { id }, None));
    }

    fn answer(&self, psn: Psn, syndrome: Syndrome, out: &mut Answers) {
        let aeth = Aeth { syndrome, message_sequence: 0 };
        out.frames.push((self.header(psn, Operation::Acknowledge(aeth)), Numbers::zeroed(0)));
    }

    /// `rxe_responder`.
    fn receive(&mut self, header: &RoceHeader, payload: &Numbers, out: &mut Answers) {
        if self.is_broken {
            return;
        }
        let ahead = header.psn.distance_from(self.expected);
        if ahead < 0 {
            return self.answer(self.expected.minus(1), Syndrome::Ack(UNLIMITED), out);
        }
        if ahead > 0 {
            if !std::mem::replace(&mut self.has_asked, true) {
                self.answer(self.expected, Syndrome::Nak(NakCode::SequenceError), out);
            }
            return;
        }
        self.has_asked = false;
        let (position, immediate) = match header.operation {
            Operation::Send(position) => (position, None),
            Operation::SendOnlyImmediate(immediate) => (Position::Only, Some(immediate)),
            _ => return,
        };
        if self.is_arriving == matches!(position, Position::First | Position::Only) {
            self.is_broken = true;
            return;
        }
        let Some(request) = self.receives.front().copied() else {
            return self.answer(self.expected, Syndrome::ReceiverNotReady(1), out);
        };
        self.expected = self.expected.plus(1);
        self.arrived.extend_from_slice(payload.bytes());
        self.is_arriving = matches!(position, Position::First | Position::Middle);
        if self.arrived.len() > request.sink.length {
            self.is_broken = true;
            return;
        }
        if !self.is_arriving {
            self.receives.pop_front();
            let bytes = std::mem::take(&mut self.arrived);
            let (id, length) = (request.id, bytes.len());
            let sink = Slice { length, ..request.sink };
            self.ended.push_back((Completion::Received { id, length, immediate }, Some((sink, bytes))));
        }
        if header.acknowledge_request {
            self.answer(header.psn, Syndrome::Ack(UNLIMITED), out);
        }
    }
}

/// What two messages of three packets and of two look like to the peer when the first is acknowledged as a whole while it is sent again,
/// and nothing else is heard: as in a capture of Linux 6.1.
#[test]
fn going_back_in_a_message_that_is_acknowledged_as_a_whole_sends_an_empty_packet() {
    let end = |last| quincunx_wire::Endpoint {
        ip: Gid::from([10, 0, 0, last]),
        qp: quincunx_wire::QpNumber::new(0x11),
    };
    let mut queue_pair = KernelQueuePair::new(QueuePairConfig {
        local: end(1),
        remote: end(2),
        mtu: 8,
        send_psn: Psn::new(0),
        expected_psn: Psn::new(0),
        acknowledge_every: Packets::new(1),
        retry_timeout: quincunx_units::Duration::from_millis(1),
        retry_count: 7,
        rnr_timer: 1,
        rnr_retry_count: 7,
        credits: false,
        window: Packets::new(8),
        congestion_window: false,
        remote_write: false,
        reliability: quincunx_roce::Reliability::GoBackN,
        rate: None,
        mutation: None,
    });
    let mut memory = Memory::default();
    let region = memory.register(Numbers::zeroed(40));
    for (id, offset, length) in [(1, 0, 24), (2, 24, 16)] {
        let source = Slice { region, offset, length };
        let (id, verb) = (quincunx_engine::verbs::WorkId(id), quincunx_engine::verbs::Verb::Send);
        queue_pair.post(Work::Send(SendRequest { id, verb, source, immediate: None }), &memory);
    }
    let mut out = Answers::default();
    let mut send = |queue_pair: &mut KernelQueuePair, packets: usize| -> Vec<(u32, Position, usize)> {
        (0..packets).for_each(|_| queue_pair.transmit(&mut out));
        let frames = std::mem::take(&mut out.frames);
        let sent = |(header, payload): (RoceHeader, Numbers)| match header.operation {
            Operation::Send(position) => (header.psn.value(), position, payload.length()),
            other => panic!("{other:?}"),
        };
        frames.into_iter().map(sent).collect()
    };
    use Position::{First, Last, Middle, Only};
    assert_eq!(send(&mut queue_pair, 4), [(0, First, 8), (1, Middle, 8), (2, Last, 8), (3, First, 8)]);
    queue_pair.handle_timer(KernelTimer::Retransmit, &mut Answers::default());
    assert_eq!(send(&mut queue_pair, 1), [(0, First, 8)]);
    let aeth = Aeth { syndrome: Syndrome::Ack(UNLIMITED), message_sequence: 0 };
    let whole = queue_pair.header(Psn::new(2), Operation::Acknowledge(aeth));
    queue_pair.handle_frame(&whole, &Numbers::zeroed(0), &mut Answers::default());
    assert!(queue_pair.take_ended().is_none(), "the message has not ended");
    assert_eq!(send(&mut queue_pair, 3), [(1, Middle, 8), (2, Last, 8), (3, First, 8)]);
    queue_pair.handle_timer(KernelTimer::Retransmit, &mut Answers::default());
    assert_eq!(send(&mut queue_pair, 3), [(3, Only, 0), (4, First, 8), (5, Last, 8)]);
}
