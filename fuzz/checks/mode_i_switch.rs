//! Any sequence of frames, time-outs and transmit slots at a switch with a Mode-I group: no panic, invariants after each step, and
//! nothing sent to anybody but the group's neighbours.

#[path = "harness.rs"]
mod harness;

use harness::{Input, MAX_EVENTS, MTU, Peer, Record, deliver, fire, transmit};
use quincunx_collective::{GroupId, Numbers, Payload, Rank};
use quincunx_engine::{Engine, PortId};
use quincunx_epic::{ControlMessage, EdgeConfig, GroupConfig, Pattern};
use quincunx_fabric::Mode;
use quincunx_nodes::{Switch, SwitchCommand};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Aeth, Endpoint, Operation, Position, Psn, QpNumber, RoceHeader, Syndrome};
use std::net::Ipv4Addr;

const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const GROUP: GroupId = GroupId(1);

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let Ok(mut switch) = Switch::<Numbers>::new(());
    let mut out = Record::default();
    let config = group(&mut input);
    let install = SwitchCommand::Install(Box::new(config.clone()));
    switch.handle_command(Instant::ZERO, install.clone(), &mut out).expect("a valid context");
    let mut peers = vec![Peer::new(config.initial_psn); config.edges.len()];
    for _ in 0..MAX_EVENTS {
        if input.is_empty() {
            break;
        }
        match input.below(9) {
            8 if input.byte() == 0 => {
                let removed = switch.handle_command(Instant::ZERO, SwitchCommand::Remove(GROUP), &mut out);
                removed.expect("the group is there");
                assert!(out.armed.is_empty(), "timers of a removed group run: {:?}", out.armed);
                assert_eq!(switch.buffer_bytes(), 0, "a removed group holds memory");
                switch.handle_command(Instant::ZERO, install.clone(), &mut out).expect("the group is gone");
                peers.fill(Peer::new(config.initial_psn));
            }
            code => event(code, &mut switch, &config, &mut peers, &mut input, &mut out),
        }
        switch.assert_invariants();
        // Queue pairs send data in transmit slots alone; anything else is answers.
        assert!(out.frames.len() <= config.edges.len() + 4, "{} frames in one step", out.frames.len());
        for (header, _) in out.frames.drain(..) {
            let edge = config.edges.iter().position(|edge| {
                edge.local.ip == header.source
                    && (edge.remote.ip, edge.remote.qp) == (header.destination, header.destination_qp)
            });
            peers[edge.expect("frames go to neighbours")].hear(&header);
        }
        out.events.clear();
    }
}

/// A context: a switch with two to four neighbours, at the root of its tree or below it.
fn group(input: &mut Input<'_>) -> GroupConfig {
    let count = 2 + usize::from(input.below(3));
    let parent = input.flag().then_some(count - 1);
    let message = 1 + u32::from(input.below(3));
    let window = message * (1 + u32::from(input.below(3)));
    let ranks = if parent.is_some() { count + 1 } else { count };
    let edges = (0..count).map(|edge| EdgeConfig {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + edge as u32) },
        remote: Endpoint { ip: Ipv4Addr::new(10, 0, 0, edge as u8 + 1), qp: QpNumber::new(0x11) },
        port: PortId(edge as u16),
        rank: (Some(edge) != parent).then_some(Rank(edge as u16)),
    });
    GroupConfig {
        group: GROUP,
        ranks: ranks as u16,
        mode: Mode::I,
        mtu: MTU,
        window,
        message,
        initial_psn: Psn::new(0xff_fffd),
        edges: edges.collect(),
        parent,
        toward: (0..ranks).map(|rank| rank.min(count - 1)).collect(),
        reproducible: true,
        selective: false,
        run_ahead: false,
        notification_interval: Some(Duration::from_micros(50)),
        mutation: None,
        resend_timeout: Duration::from_micros(200),
        retry_count: 3,
    }
}

fn event(
    code: u8,
    switch: &mut Switch<Numbers>,
    config: &GroupConfig,
    peers: &mut [Peer],
    input: &mut Input<'_>,
    out: &mut Record<Switch<Numbers>>,
) {
    let edge = usize::from(input.below(config.edges.len() as u8));
    let EdgeConfig { local, remote, port, .. } = config.edges[edge];
    let peer = &mut peers[edge];
    let mut header = RoceHeader::new(remote.ip, local.ip, local.qp, peer.next, Operation::WriteMiddle);
    let ack = Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 0 });
    match code {
        // A control message.
        0 => {
            let reduction = input.reduction();
            let root = Rank(u16::from(input.below(config.ranks as u8 + 1)));
            let pattern = match input.below(4) {
                0 | 1 => Pattern::AllReduce,
                2 => Pattern::Reduce { root },
                _ => Pattern::Broadcast { root },
            };
            let message = ControlMessage { pattern, reduction, data_packets: u16::from(input.below(9)) };
            header.operation = Operation::SendOnlyImmediate(message.encode());
            header.acknowledge_request = true;
            peer.sent(header.psn);
            deliver(switch, port, &header, &Numbers::zeroed(0), out);
        }
        // A message of some packets, in order.
        1 | 2 => {
            let packets = 1 + u32::from(input.below(config.message as u8));
            for index in 0..packets {
                let position = match (index == 0, index + 1 == packets) {
                    (true, true) => Position::Only,
                    (true, false) => Position::First,
                    (false, true) => Position::Last,
                    (false, false) => Position::Middle,
                };
                header.operation = Operation::Send(position);
                header.psn = peer.next;
                header.acknowledge_request = position == Position::Last;
                peer.sent(header.psn);
                deliver(switch, port, &header, &Numbers::zeroed(MTU), out);
            }
        }
        // Any request.
        3 => {
            let immediate = u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
            header.operation = input.request(immediate);
            header.psn = input.psn_near(header.psn);
            header.acknowledge_request = input.flag();
            peer.sent(header.psn);
            let payload = Numbers::zeroed(input.length());
            deliver(switch, port, &header, &payload, out);
        }
        // An acknowledge of what has arrived.
        4 => {
            header.psn = peer.newest;
            header.operation = ack;
            deliver(switch, port, &header, &Numbers::zeroed(0), out);
        }
        // Any acknowledge.
        5 => {
            header.psn = input.psn_near(peer.newest);
            header.operation = input.acknowledge();
            deliver(switch, port, &header, &Numbers::zeroed(0), out);
        }
        6 => fire(switch, edge as u8, out),
        _ => transmit(switch, port, input.below(4), out),
    }
}
