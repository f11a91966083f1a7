//! What the checks of engines share: bytes read as a sequence of events, a sink that keeps what an engine says, and frames as a
//! peer may send them, sensible or not.
//!
//! Reading is total: any bytes are some sequence of events, and when they end, zeros follow. Small values mean what a
//! well-behaved peer would do, so that a fuzzer comes deep before it comes to nonsense.

#![allow(dead_code, reason = "each check uses a part")]

use quincunx_collective::{Collective, Payload, Rank, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{
    Aeth, AtomicEth, Deth, NakCode, Operation, Position, Psn, QpNumber, Reth, RoceHeader, Syndrome,
};
use std::collections::BTreeSet;

/// Events of a run, at most: a run ends, and a slow input is a finding.
pub const MAX_EVENTS: usize = 400;

/// Bytes of a full packet: tiny, so that messages have several.
pub const MTU: usize = 8;

/// Bytes, read from the front.
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 after the last.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next byte, below `bound`.
    pub fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    /// Whether the next byte is odd.
    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// The next four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A PSN near `psn`: mostly itself, sometimes a few away, sometimes far.
    pub fn psn_near(&mut self, psn: Psn) -> Psn {
        match self.byte() {
            0..192 => psn,
            near @ 192..240 => psn.plus(u32::from(near)).minus(216),
            far => psn.plus(u32::from(far - 240) << 20).plus(u32::from(self.byte())),
        }
    }

    /// Length of a payload: mostly of a full packet, sometimes none, sometimes odd, at most four packets long.
    pub fn length(&mut self) -> usize {
        match self.byte() {
            0..192 => MTU,
            192..224 => 0,
            odd => usize::from(odd - 223),
        }
    }

    /// What elements are and how they combine; numbers, for tiles are longer than packets here.
    pub fn reduction(&mut self) -> Reduction {
        let of_numbers = |one: &Reduction| one.data_type.block_format().is_none();
        let all: Vec<Reduction> = Reduction::all().filter(of_numbers).collect();
        all[usize::from(self.byte()) % all.len()]
    }

    /// A collective; its root may be one too many.
    pub fn collective(&mut self, ranks: u16) -> Collective {
        let kind = self.below(6);
        let root = Rank(u16::from(self.byte()) % (ranks + 1));
        match kind {
            0 => Collective::AllReduce,
            1 => Collective::Reduce { root },
            2 => Collective::Broadcast { root },
            3 => Collective::Barrier,
            4 => Collective::ReduceScatter,
            _ => Collective::AllGather,
        }
    }

    /// An operation of a request, or of a frame that no peer of ours should send; `immediate` is what it may carry.
    pub fn request(&mut self, immediate: u32) -> Operation {
        let code = self.below(20);
        let reth = Reth { virtual_address: 0, remote_key: 0, dma_length: 0 };
        let reth = if (6..13).contains(&code) {
            Reth {
                virtual_address: u64::from(self.byte()),
                remote_key: u32::from(self.below(4)),
                dma_length: u32::from(self.byte()),
            }
        } else {
            reth
        };
        let aeth = Aeth { syndrome: Syndrome::Ack(31), message_sequence: 0 };
        let atomic = AtomicEth { virtual_address: 0, remote_key: 0, swap_or_add: 1, compare: 0 };
        match code {
            0 => Operation::Send(Position::Only),
            1 => Operation::Send(Position::First),
            2 => Operation::Send(Position::Middle),
            3 => Operation::Send(Position::Last),
            4 => Operation::SendOnlyImmediate(immediate),
            5 => Operation::SendLastImmediate(immediate),
            6 => Operation::WriteFirst(reth),
            7 => Operation::WriteOnly(reth),
            8 => Operation::WriteOnlyImmediate(reth, immediate),
            9 => Operation::WriteMiddle,
            10 => Operation::WriteLast,
            11 => Operation::WriteLastImmediate(immediate),
            12 => Operation::ReadRequest(reth),
            13 => Operation::ReadResponseOnly(aeth),
            14 => Operation::ReadResponseMiddle,
            15 => Operation::AtomicAcknowledge(aeth, 1),
            16 => Operation::CompareSwap(atomic),
            17 => Operation::FetchAdd(atomic),
            18 => Operation::DatagramSendOnly(Deth { queue_key: 0, source_qp: QpNumber::new(1) }),
            _ => Operation::CongestionNotification,
        }
    }

    /// An acknowledge, positive or not.
    pub fn acknowledge(&mut self) -> Operation {
        let byte = self.byte();
        let syndrome = match byte {
            0..128 => Syndrome::Ack(31),
            128..176 => Syndrome::Nak(NakCode::SequenceError),
            176..224 => Syndrome::ReceiverNotReady(byte & 31),
            224..232 => Syndrome::Nak(NakCode::InvalidRequest),
            232..240 => Syndrome::Nak(NakCode::RemoteAccess),
            _ => Syndrome::Nak(NakCode::RemoteOperational),
        };
        Operation::Acknowledge(Aeth { syndrome, message_sequence: u32::from(byte) })
    }
}

/// What a peer knows of its conversation with the engine: where each direction stands, as far as the engine has said.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// PSN of the peer's next packet.
    pub next: Psn,
    /// PSN of the newest packet from the engine.
    pub newest: Psn,
}

impl Peer {
    /// A conversation whose first PSN, both ways, is `first`.
    pub fn new(first: Psn) -> Self {
        Self { next: first, newest: first.minus(1) }
    }

    /// Takes a frame of the engine's.
    pub fn hear(&mut self, header: &RoceHeader) {
        match header.operation {
            Operation::Acknowledge(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => {}
                Syndrome::ReceiverNotReady(_) | Syndrome::Nak(_) => self.next = header.psn,
            },
            Operation::CongestionNotification => {}
            _ if header.psn.distance_from(self.newest) > 0 => self.newest = header.psn,
            _ => {}
        }
    }

    /// Makes `header` that of any request near the conversation, with this immediate if it has one; returns the length of its payload.
    pub fn any_request(&mut self, input: &mut Input<'_>, immediate: u32, header: &mut RoceHeader) -> usize {
        header.operation = input.request(immediate);
        header.psn = input.psn_near(header.psn);
        header.acknowledge_request = input.flag();
        self.sent(header.psn);
        input.length()
    }

    /// Makes `header` an acknowledge of what has arrived.
    pub fn acknowledge(&self, header: &mut RoceHeader) {
        header.psn = self.newest;
        header.operation = Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 0 });
    }

    /// Makes `header` any acknowledge.
    pub fn any_acknowledge(&self, input: &mut Input<'_>, header: &mut RoceHeader) {
        header.psn = input.psn_near(self.newest);
        header.operation = input.acknowledge();
    }

    /// Notes that a packet with `psn` was sent.
    pub fn sent(&mut self, psn: Psn) {
        if psn == self.next {
            self.next = psn.plus(1);
        }
    }
}

/// What an engine said.
#[derive(Debug)]
pub struct Record<E: Engine> {
    pub frames: Vec<(E::Header, E::Payload)>,
    pub events: Vec<E::Event>,
    pub armed: BTreeSet<E::Timer>,
}

impl<E: Engine> Default for Record<E> {
    fn default() -> Self {
        Self { frames: Vec::new(), events: Vec::new(), armed: BTreeSet::new() }
    }
}

impl<E: Engine> Sink<E> for Record<E> {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, E::Header, E::Payload>) {
        assert!(E::Payload::view_length(frame.payload) <= MTU, "a packet longer than the MTU");
        self.frames.push((frame.header.clone(), E::Payload::from_view(frame.payload)));
    }

    fn set_timer(&mut self, timer: E::Timer, after: Duration) {
        assert!(after > Duration::ZERO, "a timer that fires at once");
        self.armed.insert(timer);
    }

    fn cancel_timer(&mut self, timer: E::Timer) {
        self.armed.remove(&timer);
    }

    fn emit(&mut self, event: E::Event) {
        self.events.push(event);
    }

    fn drop_frame(&mut self, _: PortId, _: E::DropReason) {}
}

/// Hands a frame to the engine.
pub fn deliver<E: Engine>(
    engine: &mut E,
    port: PortId,
    header: &E::Header,
    payload: &E::Payload,
    out: &mut Record<E>,
) {
    let frame = Frame { header, payload: payload.view(0..payload.length()) };
    engine.handle_frame(Instant::ZERO, port, frame, out);
}

/// Fires one of the timers that run, the `choice`-th; nothing without any.
pub fn fire<E: Engine>(engine: &mut E, choice: u8, out: &mut Record<E>) {
    let timer = out.armed.iter().copied().cycle().nth(usize::from(choice) % out.armed.len().max(1));
    if let Some(timer) = timer {
        out.armed.remove(&timer);
        engine.handle_timer(Instant::ZERO, timer, out);
    }
}

/// Gives up to `slots` transmit slots on `port`: one frame each where the engine wants one, none where it does not.
pub fn transmit<E: Engine>(engine: &mut E, port: PortId, slots: u8, out: &mut Record<E>) {
    for _ in 0..slots {
        let (wants, before) = (engine.wants_transmit(port), out.frames.len());
        engine.handle_transmit_slot(Instant::ZERO, port, out);
        let sent = out.frames.len() - before;
        assert_eq!(sent, usize::from(wants), "frames in a slot that was wanted: {wants}");
    }
}
