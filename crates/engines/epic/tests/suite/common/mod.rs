//! A switch at the root of a star of two ranks, and what it sends.

pub(crate) mod verbs;

use quincunx_collective::{DataType, LengthOnly, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::Frame;
use quincunx_epic::{Agreement, ControlMessage, EdgeConfig, GroupConfig, IncEngine, Mode, Pattern};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Aeth, Endpoint, Gid, NakCode, Operation, Position, Psn, QpNumber, RoceHeader, Syndrome};
use std::net::{IpAddr, Ipv4Addr};

pub(crate) type Switch = IncEngine<LengthOnly>;

pub(crate) const FIRST: Psn = Psn::new(100);
const SWITCH: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)));

/// The headers of what the switch sends, with their edges; what it drops; its timers, set to expire after so long or cancelled; the
/// edges that it gives up.
pub(crate) struct Sent {
    pub(crate) frames: Vec<(u16, RoceHeader)>,
    pub(crate) dropped: Vec<&'static str>,
    pub(crate) timers: Vec<(DatapathTimer, Option<Duration>)>,
    pub(crate) unreachable: Vec<u16>,
    memory: LengthOnly,
}

impl Default for Sent {
    fn default() -> Self {
        let (frames, dropped, timers, unreachable) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { frames, dropped, timers, unreachable, memory: LengthOnly::new(1 << 20) }
    }
}

impl Sent {
    /// What edges were told: 'A' for an ACK, 'N' for a NAK, 'C' for a notification, 'D' for data; with the PSN after the first.
    pub(crate) fn told(&self) -> Vec<(u16, char, u32)> {
        let kind = |operation: &Operation| match operation {
            Operation::Acknowledge(Aeth { syndrome: Syndrome::Nak(NakCode::SequenceError), .. }) => 'N',
            Operation::Acknowledge(_) => 'A',
            Operation::CongestionNotification => 'C',
            _ => 'D',
        };
        let after = |psn: Psn| psn.value().saturating_sub(FIRST.value());
        self.frames.iter().map(|(edge, header)| (*edge, kind(&header.operation), after(header.psn))).collect()
    }
}

impl DatapathSink<LengthOnly> for Sent {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, LengthOnly>) {
        self.frames.push((edge, *frame.header));
    }
    fn replicate(&mut self, _: <LengthOnly as Payload>::View<'_>, copies: Copies<'_>) {
        copies(&mut |edge, header| self.frames.push((edge, *header)));
    }
    fn memory(&mut self) -> GroupMemory<'_, LengthOnly> {
        GroupMemory::whole(&mut self.memory)
    }
    fn set_timer(&mut self, timer: DatapathTimer, after: Duration) {
        self.timers.push((timer, Some(after)));
    }
    fn cancel_timer(&mut self, timer: DatapathTimer) {
        self.timers.push((timer, None));
    }
    fn unreachable(&mut self, edge: u16) {
        self.unreachable.push(edge);
    }
    fn drop_frame(&mut self, _: u16, reason: &'static str) {
        self.dropped.push(reason);
    }
}

/// The root of a star of two ranks; pipes of two packets of 8 bytes.
pub(crate) fn config() -> GroupConfig {
    let edge = |rank: u16| EdgeConfig {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + u32::from(rank)) },
        remote: Endpoint { ip: Gid::from([10, 0, 0, rank as u8 + 1]), qp: QpNumber::new(0x11) },
        rank: Some(Rank(rank)),
        mode: None,
    };
    GroupConfig {
        ranks: 2,
        mode: Mode::III,
        mtu: 8,
        window: Packets::new(2),
        message: Packets::new(1),
        initial_psn: FIRST,
        edges: vec![edge(0), edge(1)],
        parent: None,
        toward: vec![0, 1],
        reproducible: false,
        standard_verbs: false,
        selective: false,
        run_ahead: false,
        resend_results: true,
        notification_interval: None,
        mutation: None,
        resend_timeout: Duration::from_micros(200),
        retry_count: 3,
    }
}

pub(crate) fn switch(config: GroupConfig) -> Switch {
    Switch::new(config).expect("valid")
}

/// What a whole collective's control message says beside its pattern and data.
pub(crate) const fn agreement(pattern: Pattern) -> Agreement {
    match pattern {
        Pattern::AllReduce => Agreement::Detail(0),
        Pattern::Reduce { .. } | Pattern::Broadcast { .. } => Agreement::Follows,
    }
}

/// The control message of a collective of so many packets.
pub(crate) fn control(pattern: Pattern, data_packets: u16) -> Operation {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    Operation::SendOnlyImmediate(
        ControlMessage { pattern, reduction, data_packets, agreement: agreement(pattern) }.encode(),
    )
}

/// The control message of an AllReduce of so many packets.
pub(crate) fn all_reduce(data_packets: u16) -> Operation {
    control(Pattern::AllReduce, data_packets)
}

/// A packet of data.
pub(crate) const DATA: Operation = Operation::Send(Position::Only);

/// An acknowledge; selective and other NAKs are told apart by the switch's context.
pub(crate) fn answer(syndrome: Syndrome) -> Operation {
    Operation::Acknowledge(Aeth { syndrome, message_sequence: 0 })
}

pub(crate) const ACK: Syndrome = Syndrome::Ack(31);
pub(crate) const NAK: Syndrome = Syndrome::Nak(NakCode::SequenceError);

/// A frame that a rank sends, with so many bytes, and whether it asks for an acknowledge.
pub(crate) struct FromRank {
    pub(crate) rank: u16,
    pub(crate) psn: Psn,
    pub(crate) operation: Operation,
    pub(crate) length: usize,
    pub(crate) asks: bool,
}

/// It arrives; what comes of it.
pub(crate) fn arrive(switch: &mut Switch, now: Instant, frame: &FromRank) -> Sent {
    let FromRank { rank, psn, operation, length, asks } = *frame;
    let source = Gid::from([10, 0, 0, rank as u8 + 1]);
    let mut header = RoceHeader::new(source, SWITCH, QpNumber::new(0x100 + u32::from(rank)), psn, operation);
    header.acknowledge_request = asks;
    let mut sent = Sent::default();
    let frame = Frame { header: &header, payload: LengthOnly::new(length) };
    switch.handle_frame(now, rank, frame, &mut sent);
    switch.assert_invariants();
    sent
}

/// A frame of a rank's arrives that asks for an acknowledge; what comes of it.
pub(crate) fn deliver(
    switch: &mut Switch,
    now: Instant,
    rank: u16,
    psn: Psn,
    operation: Operation,
    length: usize,
) -> Sent {
    arrive(switch, now, &FromRank { rank, psn, operation, length, asks: true })
}
