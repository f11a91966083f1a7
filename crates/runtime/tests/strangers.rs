//! Ranks whose tables disagree, on real sockets: a bitmap that names an unknown rank ends the group where it arrives, and the write is never said to have ended.

use quincunx_collective::{GroupId, Numbers, Rank};
use quincunx_control::{
    Design, GroupParameters, LinkRates, MeshDesign, MeshSetup, RankContext, Retry, mesh_contexts,
};
use quincunx_driver_net::{Node, NodeOptions, UdpOptions, UdpTransport};
use quincunx_engine::verbs::{Failure, WorkId};
use quincunx_engine::writes::Target;
use quincunx_engine::{Engine as _, PortId};
use quincunx_fabric::{MeshShape, Relays};
use quincunx_nodes::{Host, HostCommand, HostEvent, Programs, host_group};
use quincunx_runtime::RoceCodec;
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::{Endpoint, Psn, QpNumber};
use std::net::{Ipv4Addr, SocketAddrV4};

const GROUP: GroupId = GroupId(1);

fn address(rank: u16) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high, low, 1 + rank as u8)
}

/// The context of each rank of a mesh, as one who takes it for that would have it.
fn contexts(domains: u16, members: u16) -> Vec<RankContext> {
    let shape = MeshShape::new(domains, members).unwrap();
    let any = BitRate::new(1).unwrap();
    let mesh = MeshSetup {
        shape,
        relays: Relays::Paired,
        piece: ByteCount::new(1024),
        limit: ByteCount::new(1024),
        rates: LinkRates { direct: any, cross: any },
    };
    let parameters = GroupParameters {
        group: GROUP,
        ranks: shape.ranks(),
        mtu: ByteCount::new(1024),
        message_packets: 1,
        window_messages: 4,
        reproducible: false,
        initial_psn: Psn::new(0),
        retry: Retry { timeout: Duration::from_millis(5), count: 5 },
    };
    let mut next = 16;
    mesh_contexts(Design::Mesh(MeshDesign::Writes), mesh, &parameters, |rank| {
        next += 1;
        Endpoint { ip: address(rank.0), qp: QpNumber::new(next) }
    })
}

fn open(rank: u16, context: &RankContext) -> Node<Host<Numbers, Programs>, RoceCodec, UdpTransport> {
    let transport =
        UdpTransport::open(SocketAddrV4::new(address(rank), 4791), UdpOptions::default()).unwrap();
    let Ok(engine) = Host::new(());
    let mut node = Node::new(engine, 1, RoceCodec, transport, NodeOptions::default()).unwrap();
    let group = host_group(context, |_| PortId(0)).unwrap();
    node.command(HostCommand::Install(Box::new(group))).unwrap();
    node
}

#[test]
fn a_bitmap_with_an_unknown_rank_ends_the_group_and_nothing_is_delivered() {
    // One takes itself for rank 0 of six; the one that it takes for rank 3, its partner, knows of two ranks alone.
    let mut six = contexts(2, 3).swap_remove(0);
    let mut two = contexts(1, 2).swap_remove(1);
    let (near, far) = (&mut six.queue_pairs[2], &mut two.queue_pairs[0]);
    (near.remote, far.local.ip) = (Endpoint { ip: address(3), ..far.local }, address(3));
    far.remote = near.local;
    let mut writer = open(0, &six);
    let mut relay = open(3, &two);
    let serving = std::thread::spawn(move || {
        let ended = relay.run_until(Duration::from_secs(20), Some).unwrap();
        relay.serve(Duration::from_millis(200)).unwrap();
        (ended, relay.next_event())
    });
    let targets = [1, 2].map(|rank| Target { rank: Rank(rank), slot: 0 }).to_vec();
    let data = Numbers::from(vec![7; 1024]);
    writer.command(HostCommand::Write { group: GROUP, id: WorkId(1), targets, way: 1, data }).unwrap();
    writer.serve(Duration::from_millis(500)).unwrap();
    let (ended, then) = serving.join().unwrap();
    let HostEvent::Failed { group: GROUP, failure: Failure::InvalidRequest, .. } = ended else {
        panic!("expected the end of the group, found {ended:?}");
    };
    assert_eq!(then, None, "nothing is delivered");
    // The relay's process reports that to the manager, which tells all; here nobody does.
    let written =
        std::iter::from_fn(|| writer.next_event()).find(|event| matches!(event, HostEvent::Written { .. }));
    assert_eq!(written, None, "nobody has it");
}
