//! A transmit slot of a Mode-III switch is one frame, whatever else the switch owes the neighbour.

use quincunx_collective::{DataType, GroupId, LengthOnly, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_epic::{Command, ControlMessage, EdgeConfig, Event, GroupConfig, IncEngine, Pattern, Timer};
use quincunx_fabric::Mode;
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Aeth, Endpoint, NakCode, Operation, Psn, QpNumber, RoceHeader, Syndrome};
use std::net::Ipv4Addr;

type Switch = IncEngine<LengthOnly>;

const FIRST: Psn = Psn::new(100);
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// The headers of what the switch sends.
#[derive(Default)]
struct Sent(Vec<RoceHeader>);

impl Sink<Switch> for Sent {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, LengthOnly>) {
        self.0.push(*frame.header);
    }
    fn set_timer(&mut self, _: Timer, _: Duration) {}
    fn cancel_timer(&mut self, _: Timer) {}
    fn emit(&mut self, _: Event) {}
    fn drop_frame(&mut self, _: PortId, reason: quincunx_epic::DropReason) {
        panic!("nothing is dropped here: {reason:?}");
    }
}

/// The root of a star of two ranks, each on a port of its own.
fn star() -> Switch {
    let edge = |rank: u16| EdgeConfig {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + u32::from(rank)) },
        remote: Endpoint { ip: Ipv4Addr::new(10, 0, 0, rank as u8 + 1), qp: QpNumber::new(0x11) },
        port: PortId(rank),
        rank: Some(Rank(rank)),
    };
    let config = GroupConfig {
        group: GroupId(1),
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
        resend_timeout: Duration::from_micros(200),
        retry_count: 3,
    };
    let Ok(mut switch) = Switch::new(());
    switch
        .handle_command(Instant::ZERO, Command::Install(Box::new(config)), &mut Sent::default())
        .expect("valid");
    switch
}

/// A frame of a rank's arrives.
fn deliver(switch: &mut Switch, rank: u16, psn: Psn, operation: Operation) {
    let source = Ipv4Addr::new(10, 0, 0, rank as u8 + 1);
    let mut header = RoceHeader::new(source, SWITCH, QpNumber::new(0x100 + u32::from(rank)), psn, operation);
    header.acknowledge_request = true;
    let frame = Frame { header: &header, payload: LengthOnly::empty() };
    switch.handle_frame(Instant::ZERO, PortId(rank), frame, &mut Sent::default());
}

#[test]
fn a_slot_for_a_resent_packet_does_not_take_an_owed_acknowledge_along() {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    let barrier = ControlMessage { pattern: Pattern::AllReduce, reduction, data_packets: 0 };
    let barrier = Operation::SendOnlyImmediate(barrier.encode());
    let mut switch = star();
    deliver(&mut switch, 0, FIRST, barrier);
    deliver(&mut switch, 1, FIRST, barrier);
    // Rank 0 is in the next barrier already, for which it is owed an acknowledge; then it misses the first one's result.
    deliver(&mut switch, 0, FIRST.plus(1), barrier);
    let nak = Aeth { syndrome: Syndrome::Nak(NakCode::SequenceError), message_sequence: 0 };
    deliver(&mut switch, 0, FIRST, Operation::Acknowledge(nak));

    let mut frames = Vec::new();
    while switch.wants_transmit(PortId(0)) {
        let mut sent = Sent::default();
        switch.handle_transmit_slot(Instant::ZERO, PortId(0), &mut sent);
        assert_eq!(sent.0.len(), 1, "frames in a slot");
        frames.append(&mut sent.0);
    }
    let results = frames.iter().filter(|header| header.operation == barrier && header.psn == FIRST);
    assert_eq!(results.count(), 1, "the missing result is sent again once");
}
