//! Any sequence of frames, time-outs and transmit slots at a switch with a Mode-II or Mode-III group: no panic, invariants after
//! each step, bounded answers, nothing sent to anybody but the group's neighbours, and no packet that holds a neighbour's
//! contribution twice, or that to another PSN.

#[path = "harness.rs"]
mod harness;

use harness::{Input, MAX_EVENTS, MTU, Peer, Record, deliver, fire, transmit};
use quincunx_collective::{Contributions, GroupId, Payload, Rank};
use quincunx_engine::{Engine, PortId};
use quincunx_epic::{Command, ControlMessage, EdgeConfig, GroupConfig, IncEngine, MAX_EDGES, Pattern};
use quincunx_fabric::Mode;
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, Operation, Position, Psn, QpNumber, RoceHeader};
use std::net::Ipv4Addr;

type Switch = IncEngine<Contributions>;

const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let Ok(mut switch) = Switch::new(());
    let mut out = Record::default();
    let config = group(&mut input);
    switch
        .handle_command(Instant::ZERO, Command::Install(Box::new(config.clone())), &mut out)
        .expect("a valid context");
    let mut peers = vec![Peer::new(config.initial_psn); config.edges.len()];
    for _ in 0..MAX_EVENTS {
        if input.is_empty() {
            break;
        }
        event(&mut switch, &config, &mut peers, &mut input, &mut out);
        switch.assert_invariants();
        // All of a window to every edge, an answer to each, and a notification.
        let bound = config.edges.len() * (2 * config.window as usize + 2) + 1;
        assert!(out.frames.len() <= bound, "{} frames in one step", out.frames.len());
        for (header, payload) in out.frames.drain(..) {
            assert_contributions(header.psn, &payload);
            let edge = config.edges.iter().position(|edge| {
                edge.local.ip == header.source
                    && (edge.remote.ip, edge.remote.qp) == (header.destination, header.destination_qp)
            });
            peers[edge.expect("frames go to neighbours")].hear(&header);
        }
        out.events.clear();
    }
}

/// Who counts what `edge` puts into packets with `psn`: PSNs can be told apart by two bits.
fn contributor(edge: usize, psn: Psn) -> Rank {
    Rank(4 * edge as u16 + (psn.value() % 4) as u16)
}

fn assert_contributions(psn: Psn, payload: &Contributions) {
    for offset in (0..payload.length()).step_by(4) {
        for rank in (0..Contributions::RANKS).map(Rank) {
            let most = u8::from(u32::from(rank.0) % 4 == psn.value() % 4);
            let count = payload.count(offset, rank);
            assert!(count <= most, "a packet with PSN {} counts {rank} {count} times", psn.value());
        }
    }
}

/// A context: a switch with two to four neighbours, at the root of its tree or below it.
fn group(input: &mut Input<'_>) -> GroupConfig {
    let mode = if input.flag() { Mode::II } else { Mode::III };
    let reproducible = input.flag();
    let count = 2 + usize::from(input.below(3));
    let parent = input.flag().then_some(count - 1);
    let message = 1 + u32::from(input.below(3));
    let window = message * (1 + u32::from(input.below(3)));
    assert!(count <= MAX_EDGES);
    // Below the root, two ranks are behind the parent.
    let ranks = if parent.is_some() { count + 1 } else { count };
    let edges = (0..count).map(|edge| EdgeConfig {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + edge as u32) },
        remote: Endpoint { ip: Ipv4Addr::new(10, 0, 0, edge as u8 + 1), qp: QpNumber::new(0x11) },
        port: PortId(edge as u16),
        rank: (Some(edge) != parent).then_some(Rank(edge as u16)),
    });
    GroupConfig {
        group: GroupId(1),
        ranks: ranks as u16,
        mode,
        mtu: MTU,
        window,
        message,
        initial_psn: Psn::new(0xff_fffd),
        edges: edges.collect(),
        parent,
        toward: (0..ranks).map(|rank| rank.min(count - 1)).collect(),
        reproducible,
        selective: false,
        run_ahead: false,
        notification_interval: Some(Duration::from_micros(50)),
        mutation: None,
        resend_timeout: Duration::from_micros(200),
        retry_count: 3,
    }
}

fn event(
    switch: &mut Switch,
    config: &GroupConfig,
    peers: &mut [Peer],
    input: &mut Input<'_>,
    out: &mut Record<Switch>,
) {
    let code = input.below(8);
    let edge = usize::from(input.below(config.edges.len() as u8));
    let EdgeConfig { local, remote, port, .. } = config.edges[edge];
    let peer = &mut peers[edge];
    let mut header = RoceHeader::new(remote.ip, local.ip, local.qp, peer.next, Operation::WriteMiddle);
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
            deliver(switch, port, &header, &Contributions::zeroed(0), out);
        }
        // Data in order, of full packets.
        1 | 2 => {
            header.operation = Operation::Send(Position::Middle);
            header.acknowledge_request = code == 2;
            peer.sent(header.psn);
            deliver(switch, port, &header, &Contributions::of_rank(contributor(edge, header.psn), MTU), out);
        }
        // Any request.
        3 => {
            let immediate = u32::from_be_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
            header.operation = input.request(immediate);
            header.psn = input.psn_near(header.psn);
            header.acknowledge_request = input.flag();
            peer.sent(header.psn);
            let payload = Contributions::of_rank(contributor(edge, header.psn), input.length());
            deliver(switch, port, &header, &payload, out);
        }
        // An acknowledge of what has arrived.
        4 => {
            header.psn = peer.newest;
            header.operation = Operation::Acknowledge(quincunx_wire::Aeth {
                syndrome: quincunx_wire::Syndrome::Ack(31),
                message_sequence: 0,
            });
            deliver(switch, port, &header, &Contributions::zeroed(0), out);
        }
        // Any acknowledge.
        5 => {
            header.psn = input.psn_near(peer.newest);
            header.operation = input.acknowledge();
            deliver(switch, port, &header, &Contributions::zeroed(0), out);
        }
        6 => fire(switch, edge as u8, out),
        _ => transmit(switch, port, input.below(4), out),
    }
}
