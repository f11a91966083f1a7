//! Any sequence of collectives, frames, time-outs and transmit slots at a rank, with CommLib or a host collective above its queue
//! pairs: no panic, invariants after each step, and every collective ends at most once and gives its buffers back.

use crate::control;
use crate::harness::{Input, MAX_EVENTS, MTU, Peer, Record, deliver, fire, transmit};
use quincunx_collective::{Collective, GroupId, Numbers, Payload, Rank};
use quincunx_engine::verbs::{AnyProgram, QpIndex};
use quincunx_engine::{Engine, PortId, Terms};
use quincunx_epic::{CommLib, CommLibConfig};
use quincunx_nodes::{Host, HostCommand, HostEvent, HostGroup};
use quincunx_ring::{Algorithm, Config, HostProgram};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{ByteCount, Duration, Instant, Messages, Packets};
use quincunx_wire::{Endpoint, Gid, Operation, Position, Psn, QpNumber, RoceHeader};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

type Node = Host<Numbers>;

const PORT: PortId = PortId(0);
const GROUP: GroupId = GroupId(1);
const FIRST: Psn = Psn::new(0xff_fffd);
const HOST: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));

/// A rank under test, and what its owner knows of it.
struct Bench {
    node: Node,
    out: Record<Node>,
    group: HostGroup<Numbers>,
    peers: Vec<Peer>,
    ranks: u16,
    /// Lengths of the buffers of the collectives under way, oldest first.
    running: VecDeque<[usize; 2]>,
}

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let (group, ranks) = group(&mut input);
    let Ok(node) = Node::new(());
    let peers = vec![Peer::new(FIRST); group.queue_pairs.len()];
    let mut bench = Bench { node, out: Record::default(), group, peers, ranks, running: VecDeque::new() };
    bench.command(HostCommand::Install(Box::new(bench.group.clone())));
    for _ in 0..MAX_EVENTS {
        if input.is_empty() {
            break;
        }
        bench.event(&mut input);
        bench.settle();
    }
    bench.command(HostCommand::Remove(GROUP));
    bench.settle();
    assert!(bench.running.is_empty(), "a collective outlived its group");
    assert!(bench.out.armed.is_empty(), "timers of a removed group run: {:?}", bench.out.armed);
}

/// A rank's place in a group of two to four: its program and a queue pair to each peer, the first one also EPIC's to the switch.
fn group(input: &mut Input<'_>) -> (HostGroup<Numbers>, u16) {
    let kind = input.below(5);
    let ranks = 2 + u16::from(input.below(3));
    let rank = Rank(u16::from(input.byte()) % ranks);
    let (message, window) = (1 + u32::from(input.below(3)), 1 + u32::from(input.below(3)));
    let epic = CommLibConfig {
        ranks,
        rank,
        mtu: MTU,
        message: Packets::new(message),
        window: Messages::new(window),
        run_ahead: false,
        overlap: window > 1,
        eager: message > 1,
        confirm: true,
        synchronize_psn: kind == 0,
        window_in_packets: kind == 0,
    };
    let (program, count): (Box<dyn AnyProgram<Numbers>>, _) = match kind {
        0 | 1 => (Box::new(CommLib::new(epic).expect("a valid set-up")), 1),
        _ => {
            let algorithm = [Algorithm::Ring, Algorithm::Tree, Algorithm::Direct][usize::from(kind - 2)];
            let others = (0..ranks).filter(|other| *other != rank.0).collect::<Vec<_>>();
            let line =
                |peer: u16| others.iter().position(|other| *other == peer).map(|index| QpIndex(index as u16));
            let config = Config {
                chunk: ByteCount::new(u64::from(message) * MTU as u64),
                window: window as u16 + 1,
                ..Config::new(algorithm, rank, (0..ranks).map(line).collect())
            };
            (Box::new(HostProgram::new(&config).expect("a valid set-up")), others.len())
        }
    };
    let queue_pair = |index: usize| QueuePairConfig {
        local: Endpoint { ip: HOST, qp: QpNumber::new(0x100 + index as u32) },
        remote: Endpoint { ip: Gid::from([10, 0, 1, index as u8 + 1]), qp: QpNumber::new(0x11) },
        mtu: MTU,
        send_psn: FIRST,
        expected_psn: FIRST,
        acknowledge_every: Packets::new(message),
        retry_timeout: Duration::from_micros(300),
        retry_count: 3,
        rnr_timer: 1,
        rnr_retry_count: 3,
        credits: false,
        window: Packets::new(message * window),
        congestion_window: false,
        remote_write: false,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    };
    let queue_pairs = (0..count).map(|index| (PORT, queue_pair(index))).collect();
    (HostGroup { group: GROUP, queue_pairs, are_offloaded: false, program, contention: None }, ranks)
}

impl Bench {
    fn command(&mut self, command: HostCommand<Numbers>) {
        self.node.handle_command(Instant::ZERO, command, &mut self.out).expect("the owner does as it should");
    }

    /// Takes what the node said.
    fn settle(&mut self) {
        self.node.assert_invariants();
        assert!(
            self.out.frames.len() <= self.peers.len() + 4,
            "{} frames in one step",
            self.out.frames.len()
        );
        for (header, _) in self.out.frames.drain(..) {
            let mut remotes = self.group.queue_pairs.iter().map(|(_, config)| config.remote);
            let peer = remotes
                .position(|remote| (remote.ip, remote.qp) == (header.destination, header.destination_qp));
            self.peers[peer.expect("frames go to peers")].hear(&header);
        }
        for event in self.out.events.drain(..) {
            let HostEvent::Finished { input, output, outcome, .. } = event else {
                panic!("nobody writes: {event:?}");
            };
            let lengths = self.running.pop_front().expect("a collective ends once");
            assert_eq!([input.length(), output.length()], lengths, "other buffers came back: {outcome:?}");
        }
    }

    fn event(&mut self, input: &mut Input<'_>) {
        let code = input.below(10);
        let index = usize::from(input.below(self.peers.len() as u8));
        let QueuePairConfig { local, remote, .. } = self.group.queue_pairs[index].1;
        let peer = &mut self.peers[index];
        let mut header = RoceHeader::new(remote.ip, local.ip, local.qp, peer.next, Operation::WriteMiddle);
        let (node, out) = (&mut self.node, &mut self.out);
        match code {
            // A collective.
            0 => self.start(input),
            // A control message.
            1 => {
                header.operation = control::message(input, self.ranks);
                header.acknowledge_request = true;
                peer.sent(header.psn);
                deliver(node, PORT, &header, &Numbers::zeroed(0), out);
            }
            // A message of some packets in order, with a small number or none.
            2 | 3 => {
                let packets = 1 + input.below(3);
                let immediate = match input.byte() {
                    0..128 => None,
                    told @ 128..192 => Some(u32::from(told - 128)),
                    only_tells => Some(1 << 31 | u32::from(only_tells - 192)),
                };
                for packet in 0..packets {
                    header.operation = match (packet == 0, packet + 1 == packets, immediate) {
                        (true, true, None) => Operation::Send(Position::Only),
                        (true, true, Some(immediate)) => Operation::SendOnlyImmediate(immediate),
                        (true, false, _) => Operation::Send(Position::First),
                        (false, true, None) => Operation::Send(Position::Last),
                        (false, true, Some(immediate)) => Operation::SendLastImmediate(immediate),
                        (false, false, _) => Operation::Send(Position::Middle),
                    };
                    header.psn = peer.next;
                    header.acknowledge_request = packet + 1 == packets;
                    peer.sent(header.psn);
                    let empty = packets == 1 && immediate.is_some_and(|immediate| immediate >> 31 == 1);
                    deliver(node, PORT, &header, &Numbers::zeroed(if empty { 0 } else { MTU }), out);
                }
            }
            // Any request.
            4 => {
                let immediate = input.word();
                let payload = Numbers::zeroed(peer.any_request(input, immediate, &mut header));
                deliver(node, PORT, &header, &payload, out);
            }
            // An acknowledge of what has arrived.
            5 => {
                peer.acknowledge(&mut header);
                deliver(node, PORT, &header, &Numbers::zeroed(0), out);
            }
            // Any acknowledge.
            6 => {
                peer.any_acknowledge(input, &mut header);
                deliver(node, PORT, &header, &Numbers::zeroed(0), out);
            }
            7 => fire(node, input.byte(), out),
            8 => transmit(node, PORT, input.below(4), out),
            _ if input.byte() == 0 => {
                self.command(HostCommand::Remove(GROUP));
                self.settle();
                self.peers.fill(Peer::new(FIRST));
                self.command(HostCommand::Install(Box::new(self.group.clone())));
            }
            _ => {}
        }
    }

    /// Starts a collective of a few packets; one that runs already, or a group that has failed, refuses it.
    fn start(&mut self, input: &mut Input<'_>) {
        let (collective, reduction) = (input.collective(self.ranks), input.reduction());
        let (length, ranks) = (4 * usize::from(input.below(24)), usize::from(self.ranks));
        let lengths = match collective {
            Collective::Barrier => [0, 0],
            Collective::ReduceScatter => [length * ranks, length],
            Collective::AllGather => [length, length * ranks],
            _ => [length, length],
        };
        let [input, output] = lengths.map(Numbers::zeroed);
        let start =
            HostCommand::Start { group: GROUP, collective, reduction, input, output, terms: Terms::WHOLE };
        let done = self.node.handle_command(Instant::ZERO, start, &mut self.out);
        if done.is_ok() {
            self.running.push_back(lengths);
            assert!(self.running.len() <= self.group.program.depth(), "more collectives run than may");
        }
    }
}
