//! A switch under test with one group of EPIC: what peers send it, and what must hold of what it sends.

use crate::control;
use crate::harness::{Input, MAX_EVENTS, MTU, Peer, Record, deliver, fire, transmit};
use quincunx_collective::{GroupId, Rank};
use quincunx_design::{
    AnyDesign, ConnectionContext, FabricKind, GroupContext, Node, PayloadKind, Role, Settings, Transport,
};
use quincunx_engine::{Engine, PortId};
use quincunx_epic::{Epic, EpicParams, EpicSwitch, GroupParams};
use quincunx_nodes::{Switch, SwitchCommand, SwitchGroup, switch_group};
use quincunx_units::{ByteCount, Duration, Instant, Messages, Packets};
use quincunx_wire::{Endpoint, Gid, Operation, Position, Psn, QpNumber, RoceHeader};
use std::net::{IpAddr, Ipv4Addr};

const SWITCH: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)));
const GROUP: GroupId = GroupId(1);
const FIRST: Psn = Psn::new(0xff_fffd);

/// A switch with two to four neighbours, at the root of its tree or below it.
#[derive(Debug)]
pub struct Bench<P: PayloadKind> {
    switch: Switch<P>,
    out: Record<Switch<P>>,
    group: SwitchGroup<P>,
    peers: Vec<Peer>,
    ranks: u16,
    /// Packets of a full message.
    message: u32,
    /// Packets that a rank may have in flight.
    window: u32,
}

/// What is particular to a target.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<P> {
    /// Kinds of events; the last of nine removes the group and installs it again.
    pub events: u8,
    /// A payload of a neighbour's in a packet: of which edge, with which PSN, how long.
    pub payload: fn(usize, Psn, usize) -> P,
    /// The packets of an event in which data comes in order, by the event and the packets of a full message: the place of each in its
    /// message, and whether it asks for an acknowledge.
    pub data: fn(&mut Input<'_>, u8, u32) -> Vec<(Position, bool)>,
    /// The most frames that one event may cause, by the neighbours and the window.
    pub bound: fn(usize, usize) -> usize,
    /// Panics if a packet holds what it must not.
    pub look: fn(Psn, &P),
}

/// Puts any events to a switch in which a group of `design` is installed.
pub fn check<P: PayloadKind>(input: &mut Input<'_>, design: Epic, reproducible: bool, traffic: &Traffic<P>) {
    let mut bench = Bench::new(input, design, reproducible);
    for _ in 0..MAX_EVENTS {
        if input.is_empty() {
            break;
        }
        match input.below(traffic.events) {
            8 if input.byte() == 0 => bench.install_again(),
            code => bench.event(code, input, traffic),
        }
        bench.settle(traffic);
    }
}

impl<P: PayloadKind> Bench<P> {
    fn new(input: &mut Input<'_>, design: Epic, reproducible: bool) -> Self {
        let count = 2 + u16::from(input.below(3));
        let parent = input.flag().then_some(count - 1);
        let message = 1 + u32::from(input.below(3));
        let window = 1 + u32::from(input.below(3));
        // Below the root, two ranks are behind the parent.
        let ranks = if parent.is_some() { count + 1 } else { count };
        let context = context(design, reproducible, (count, parent, ranks), (message, window));
        // Each edge has a port of its own.
        let port = |connection: &quincunx_design::ConnectionContext| match &connection.peer {
            quincunx_design::Peer::Rank(rank) => PortId(rank.0),
            quincunx_design::Peer::Switch(_) => PortId(count - 1),
        };
        let group = switch_group::<P>(&design, &context, None, port).expect("a valid context");
        let Ok(switch) = Switch::new(());
        let peers = vec![Peer::new(FIRST); usize::from(count)];
        let window = message * window;
        let mut bench = Self { switch, out: Record::default(), group, peers, ranks, message, window };
        bench.command(SwitchCommand::Install(Box::new(bench.group.clone())));
        bench
    }

    fn command(&mut self, command: SwitchCommand<P>) {
        self.switch
            .handle_command(Instant::ZERO, command, &mut self.out)
            .expect("the owner does as it should");
    }

    fn install_again(&mut self) {
        self.command(SwitchCommand::Remove(GROUP));
        assert!(self.out.armed.is_empty(), "timers of a removed group run: {:?}", self.out.armed);
        assert_eq!(self.switch.buffer_bytes(), 0, "a removed group holds memory");
        self.command(SwitchCommand::Install(Box::new(self.group.clone())));
        self.peers.fill(Peer::new(FIRST));
    }

    /// Takes what the switch said.
    fn settle(&mut self, traffic: &Traffic<P>) {
        self.switch.assert_invariants();
        let bound = (traffic.bound)(self.peers.len(), self.window as usize);
        assert!(self.out.frames.len() <= bound, "{} frames in one step", self.out.frames.len());
        for (header, payload) in self.out.frames.drain(..) {
            (traffic.look)(header.psn, &payload);
            let edge = self.group.edges.iter().position(|(_, edge)| {
                edge.local.ip == header.source
                    && (edge.remote.ip, edge.remote.qp) == (header.destination, header.destination_qp)
            });
            self.peers[edge.expect("frames go to neighbours")].hear(&header);
        }
        self.out.events.clear();
    }

    fn event(&mut self, code: u8, input: &mut Input<'_>, traffic: &Traffic<P>) {
        let edge = usize::from(input.below(self.peers.len() as u8));
        let (port, config) = self.group.edges[edge];
        let (local, remote) = (config.local, config.remote);
        let (switch, out, peer) = (&mut self.switch, &mut self.out, &mut self.peers[edge]);
        let mut header = RoceHeader::new(remote.ip, local.ip, local.qp, peer.next, Operation::WriteMiddle);
        let mut send = |header: &RoceHeader, length| {
            deliver(switch, port, header, &(traffic.payload)(edge, header.psn, length), out);
        };
        match code {
            // A control message.
            0 => {
                header.operation = control::message(input, self.ranks + 1);
                header.acknowledge_request = true;
                peer.sent(header.psn);
                send(&header, 0);
            }
            // Data in order, of full packets.
            1 | 2 => {
                for (position, acknowledge_request) in (traffic.data)(input, code, self.message) {
                    header.operation = Operation::Send(position);
                    header.psn = peer.next;
                    header.acknowledge_request = acknowledge_request;
                    peer.sent(header.psn);
                    send(&header, MTU);
                }
            }
            // Any request.
            3 => {
                let immediate = input.word();
                let length = peer.any_request(input, immediate, &mut header);
                send(&header, length);
            }
            // An acknowledge of what has arrived.
            4 => {
                peer.acknowledge(&mut header);
                send(&header, 0);
            }
            5 => {
                peer.any_acknowledge(input, &mut header);
                send(&header, 0);
            }
            6 => fire(switch, edge as u8, out),
            _ => transmit(switch, port, input.below(4), out),
        }
    }
}

/// What the switch is told: `count` neighbours, the parent as the last of them if there is one, ranks in the group; packets of a message
/// and messages of a window.
fn context(
    design: Epic,
    reproducible: bool,
    (count, parent, ranks): (u16, Option<u16>, u16),
    (message, window): (u32, u32),
) -> GroupContext {
    let transport = Transport {
        mtu: ByteCount::new(MTU as u64),
        message: Packets::new(message),
        window: Messages::new(window),
        retry_timeout: Duration::from_micros(200),
        retry_count: 3,
        ..Transport::default()
    };
    let group = GroupParams { transport, reproducible, ..GroupParams::default() };
    let connection = |edge: u16| ConnectionContext {
        local: Endpoint { ip: SWITCH, qp: QpNumber::new(0x100 + u32::from(edge)) },
        remote: Endpoint { ip: Gid::from([10, 0, 0, edge as u8 + 1]), qp: QpNumber::new(0x11) },
        peer: if Some(edge) == parent {
            quincunx_design::Peer::Switch("parent".into())
        } else {
            quincunx_design::Peer::Rank(Rank(edge))
        },
    };
    let neighbours = (0..count).map(|edge| design.mode().filter(|_| Some(edge) == parent)).collect();
    let mode = design.mode().expect("a design of one mode");
    let toward = (0..ranks).map(|rank| rank.min(count - 1)).collect();
    GroupContext {
        group: GROUP,
        design: AnyDesign::name(&design).into(),
        version: AnyDesign::about(&design).version,
        settings: Settings::of(&EpicParams { group }),
        node: Node::Switch,
        role: Role::of(&EpicSwitch { mode, neighbours, parent, toward }).expect("plain data"),
        ranks,
        fabric: FabricKind::Tree,
        domains: 1,
        initial_psn: FIRST,
        remote_write: false,
        credits: false,
        channels: 1,
        memory: ByteCount::new(1 << 20),
        memory_offset: ByteCount::new(0),
        connections: (0..count).map(connection).collect(),
        contention: None,
    }
}
