//! A Mode-III switch at the root of a star of two ranks, and what it sends.

use quincunx_collective::{DataType, LengthOnly, Payload, Rank, ReduceOp, Reduction};
use quincunx_design::{Datapath, DatapathSink, DatapathTimer};
use quincunx_engine::Frame;
use quincunx_epic::{ControlMessage, EdgeConfig, GroupConfig, IncEngine, Mode, Pattern};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, Operation, Psn, QpNumber, RoceHeader};
use std::net::Ipv4Addr;

pub(crate) type Switch = IncEngine<LengthOnly>;

pub(crate) const FIRST: Psn = Psn::new(100);
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// The headers of what the switch sends, with their edges, and what it drops.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) frames: Vec<(u16, RoceHeader)>,
    pub(crate) dropped: Vec<&'static str>,
}

impl DatapathSink<LengthOnly> for Sent {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, LengthOnly>) {
        self.frames.push((edge, *frame.header));
    }
    fn replicate(
        &mut self,
        _: <LengthOnly as Payload>::View<'_>,
        copies: &mut dyn Iterator<Item = (u16, RoceHeader)>,
    ) {
        self.frames.extend(copies);
    }
    fn set_timer(&mut self, _: DatapathTimer, _: Duration) {}
    fn cancel_timer(&mut self, _: DatapathTimer) {}
    fn unreachable(&mut self, _: u16) {}
    fn drop_frame(&mut self, _: u16, reason: &'static str) {
        self.dropped.push(reason);
    }
}

/// The root of a star of two ranks; pipes of two packets of 8 bytes.
pub(crate) fn config() -> GroupConfig {
    let edge = |rank: u16| EdgeConfig {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + u32::from(rank)) },
        remote: Endpoint { ip: Ipv4Addr::new(10, 0, 0, rank as u8 + 1), qp: QpNumber::new(0x11) },
        rank: Some(Rank(rank)),
    };
    GroupConfig {
        ranks: 2,
        mode: Mode::III,
        mtu: 8,
        window: 2,
        message: 1,
        initial_psn: FIRST,
        edges: vec![edge(0), edge(1)],
        parent: None,
        toward: vec![0, 1],
        reproducible: false,
        selective: false,
        run_ahead: false,
        notification_interval: None,
        mutation: None,
        resend_timeout: Duration::from_micros(200),
        retry_count: 3,
    }
}

pub(crate) fn switch(config: GroupConfig) -> Switch {
    Switch::new(config).expect("valid")
}

/// The control message of an AllReduce of so many packets.
pub(crate) fn all_reduce(data_packets: u16) -> Operation {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    let message = ControlMessage { pattern: Pattern::AllReduce, reduction, data_packets };
    Operation::SendOnlyImmediate(message.encode())
}

/// A frame of a rank's arrives, with so many bytes; what comes of it.
pub(crate) fn deliver(
    switch: &mut Switch,
    now: Instant,
    rank: u16,
    psn: Psn,
    operation: Operation,
    length: usize,
) -> Sent {
    let source = Ipv4Addr::new(10, 0, 0, rank as u8 + 1);
    let mut header = RoceHeader::new(source, SWITCH, QpNumber::new(0x100 + u32::from(rank)), psn, operation);
    header.acknowledge_request = true;
    let mut sent = Sent::default();
    let frame = Frame { header: &header, payload: LengthOnly::new(length) };
    switch.handle_frame(now, rank, frame, &mut sent);
    switch.assert_invariants();
    sent
}
