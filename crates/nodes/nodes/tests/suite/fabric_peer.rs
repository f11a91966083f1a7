//! An accelerator in a mesh takes any packet from any peer: nothing panics, and every invariant holds after it.

use proptest::prelude::*;
use quincunx_collective::*;
use quincunx_engine::verbs::{Alarm, QpIndex, RequestError};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_memory::{MemoryDrop, MessagesConfig, PortConfig};
use quincunx_multiwrite::{AllGather, AllGatherConfig, Part, RelayCost, Table, Window, WriterConfig};
use quincunx_nodes::fabric::{FabricPeer, PeerCommand, PeerConfig, PeerEvent};
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::*;

const RANKS: u16 = 4;
const FORMAT: FlitFormat = FlitFormat { flit: 4, header_flits: 1, max_payload: 8 };

type Peer = FabricPeer<Numbers>;

/// Takes what a node says, and counts the collectives that have ended.
#[derive(Default)]
struct Nobody {
    ended: usize,
}

impl Sink<Peer> for Nobody {
    fn transmit(&mut self, _: PortId, _: Frame<'_, FlitHeader, Numbers>) {}
    fn set_timer(&mut self, _: Alarm, _: Duration) {}
    fn cancel_timer(&mut self, _: Alarm) {}
    fn emit(&mut self, _: PeerEvent<Numbers>) {
        self.ended += 1;
    }
    fn drop_frame(&mut self, _: PortId, _: MemoryDrop) {}
}

/// Rank 0 of two groups of two, which gathers with rank 1 and relays for the others.
fn peer() -> Peer {
    let neighbours: Vec<Rank> = (1..RANKS).map(Rank).collect();
    let messages = MessagesConfig {
        node: NodeId(0),
        neighbours: neighbours.iter().map(|rank| NodeId(rank.0)).collect(),
        format: FORMAT,
    };
    let ways = (0..RANKS).map(|rank| rank.checked_sub(1).map(QpIndex).into_iter().collect()).collect();
    let writer = WriterConfig {
        table: Table::new(Rank(0), RANKS, neighbours, ways).expect("a table that makes sense"),
        window: Window::new(RANKS, 2, 12),
        receives: 2,
        cost: RelayCost { message: Duration::from_nanos(1), copy: Duration::ZERO },
    };
    let parts = vec![Part { way: 0, weight: 1, is_shared: true }];
    let group = vec![Rank(0), Rank(1)];
    let program = AllGather::new(AllGatherConfig { writer, group, parts, preparation: Duration::ZERO });
    let program = program.expect("a set-up that makes sense");
    let Ok(peer) =
        Peer::new(PeerConfig { messages, port: PortConfig::uniform(4, FORMAT), program: Box::new(program) });
    peer
}

fn start(collective: Collective) -> PeerCommand<Numbers> {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
    PeerCommand::Start { collective, reduction, input: Numbers::zeroed(24), output: Numbers::zeroed(48) }
}

prop_compose! {
    /// Packets that could mean something, mostly.
    fn packets()(
        port in 0..RANKS - 1,
        stranger in prop_oneof![9 => Just(None), 1 => (0..6u16).prop_map(Some)],
        address in prop_oneof![(0..9u64).prop_map(|piece| piece * 12), Just(8u64), Just(word_address(0))],
        tag in prop_oneof![Just(12u32), Just(8), 0..20u32],
        length in prop_oneof![Just(8usize), Just(4), 0..9usize],
        operand in prop_oneof![0..16u64, Just(u64::from(u32::MAX)), any::<u64>()],
        kind in 0..6usize,
        credits in prop_oneof![9 => Just(0u8), 1 => 0..=MAX_CREDITS],
        channel in 0..Channel::COUNT,
    ) -> (PortId, FlitHeader, Numbers) {
        let transaction = [
            Transaction::Credit,
            Transaction::Read { length: 4 },
            Transaction::Write,
            Transaction::WriteResponse,
            Transaction::Store { operand },
            Transaction::MultiWrite { destinations: operand },
        ][kind];
        let credit = CreditReturn { channel: Channel::ALL[channel], packets: credits };
        let source = NodeId(stranger.unwrap_or(port + 1));
        let header = FlitHeader::new(source, NodeId(0), false, address, tag, transaction);
        let payload = if transaction.carries_data() { length } else { 0 };
        (PortId(port), FlitHeader { credit, ..header }, Numbers::zeroed(payload))
    }
}

proptest! {
    #[test]
    fn any_packets_leave_an_accelerator_whole(
        steps in proptest::collection::vec((packets(), 0..3usize, any::<bool>()), 1..100),
    ) {
        let (mut node, mut out) = (peer(), Nobody::default());
        for (time, ((port, header, payload), slots, rings)) in steps.into_iter().enumerate() {
            let now = Instant::from_picos(time as u64);
            if time % 10 == 3 {
                // Refused while one runs, or when the group has failed.
                let _ = node.handle_command(now, start(Collective::AllGather), &mut out);
            }
            let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
            node.handle_frame(now, port, frame, &mut out);
            node.assert_invariants();
            if rings {
                node.handle_timer(now, quincunx_multiwrite::RELAY, &mut out);
                node.assert_invariants();
            }
            for port in (0..RANKS - 1).map(PortId).cycle().take(slots * 3) {
                if node.wants_transmit(port) {
                    node.handle_transmit_slot(now, port, &mut out);
                    node.assert_invariants();
                }
            }
        }
    }
}

#[test]
fn a_peer_that_sends_what_makes_no_sense_ends_the_collective_and_nothing_is_sent_any_more() {
    let (mut node, mut out) = (peer(), Nobody::default());
    node.handle_command(Instant::ZERO, start(Collective::AllGather), &mut out).expect("a collective");
    assert!(node.wants_transmit(PortId(0)));
    // For a rank that there is none of.
    let transaction = Transaction::MultiWrite { destinations: 1 << 9 };
    let header = FlitHeader::new(NodeId(1), NodeId(0), false, 24, 8, transaction);
    let payload = Numbers::zeroed(8);
    let frame = Frame { header: &header, payload: payload.view(0..8) };
    node.handle_frame(Instant::ZERO, PortId(0), frame, &mut out);
    node.assert_invariants();
    assert_eq!(out.ended, 1);
    let again = node.handle_command(Instant::ZERO, start(Collective::AllGather), &mut out);
    assert_eq!(again, Err(RequestError::GroupFailed));
    while node.wants_transmit(PortId(0)) {
        // The answer to what has arrived.
        node.handle_transmit_slot(Instant::ZERO, PortId(0), &mut out);
    }
}

#[test]
fn a_collective_that_is_not_offered_or_while_another_one_runs_is_refused() {
    let (mut node, mut out) = (peer(), Nobody::default());
    let refused = node.handle_command(Instant::ZERO, start(Collective::AllReduce), &mut out);
    assert_eq!(refused, Err(RequestError::NotOffered { found: Collective::AllReduce }));
    node.handle_command(Instant::ZERO, start(Collective::AllGather), &mut out).expect("a collective");
    let refused = node.handle_command(Instant::ZERO, start(Collective::AllGather), &mut out);
    assert_eq!(refused, Err(RequestError::Busy));
}
