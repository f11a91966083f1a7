//! A packet socket at a bridge, which goes on forwarding. Needs root and iproute2.

use quincunx_needs::{namespaces, need};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_sockets::{PacketKind, PacketOptions, PacketTransport};
use quincunx_units::BitRate;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

fn at(node: NetnsNode) -> SocketAddr {
    SocketAddr::new(node.address(), 4791)
}

#[test]
fn ordinary_datagrams_pass_a_bridge_while_a_switch_begins_to_take_other_frames_from_it() {
    // The kernel stops a port for some milliseconds when it gets a queueing discipline at its entrance, and drops what comes then.
    need!(namespaces());
    let fabric =
        NetnsFabric::new(Layout::star(2, 1500, BitRate::new(500_000_000)).bridged()).expect("a star");
    let socket = |node| {
        fabric.enter(node).expect("the namespace is there");
        UdpSocket::bind(at(node)).expect("the node's address")
    };
    let [from, to] = [NetnsNode::Host(0), NetnsNode::Host(1)].map(socket);
    to.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("an option");
    let is_open = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hub = NetnsNode::Switch(0);
            fabric.enter(hub).expect("the namespace is there");
            let options = PacketOptions { kind: PacketKind::BridgedGlobalRoute, ..PacketOptions::new("br0") };
            let opened = PacketTransport::open(at(hub), options);
            is_open.store(true, Ordering::Relaxed);
            opened.expect("a bridge with two ports");
        });
        let mut number = 0_u32;
        while !is_open.load(Ordering::Relaxed) {
            number += 1;
            from.send_to(&number.to_be_bytes(), at(NetnsNode::Host(1))).expect("a link");
            let mut bytes = [0; 4];
            let length = to.recv(&mut bytes).unwrap_or_else(|error| panic!("datagram {number}: {error}"));
            assert_eq!((length, u32::from_be_bytes(bytes)), (4, number));
        }
        assert!(number > 10, "datagrams passed meanwhile: {number}");
    });
}
