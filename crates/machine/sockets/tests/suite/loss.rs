//! A program that loses frames of an interface. Needs root and iproute2.

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{setsockopt, sockopt::UdpGsoSegment};
use quincunx_needs::{namespaces, need};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_sockets::sys::bpf::{self, Mode};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Packets that a sender leaves to its card to cut.
const BURST: usize = 32;
const PACKET: u16 = 1000;

/// A socket at a node. A thread's namespace is its own, and goes with it.
fn socket(fabric: &NetnsFabric, node: NetnsNode) -> UdpSocket {
    fabric.enter(node).expect("the namespace is there");
    UdpSocket::bind(SocketAddr::new(node.address(), 4791)).expect("the node's address")
}

#[test]
fn half_of_a_burst_is_lost_packet_by_packet_and_all_arrive_when_the_program_is_gone() {
    need!(namespaces());
    let fabric = NetnsFabric::new(Layout::star(1, 1500, None)).expect("a star");
    let (host, switch) = (NetnsNode::Host(0), NetnsNode::Switch(0));
    let from = socket(&fabric, host);
    setsockopt(&from, UdpGsoSegment, &i32::from(PACKET)).expect("a kernel that cuts bursts");
    let to = socket(&fabric, switch);
    to.set_read_timeout(Some(Duration::from_millis(100))).expect("an option");
    let arrived = || {
        from.send_to(&[0; BURST * PACKET as usize], SocketAddr::new(switch.address(), 4791)).expect("a link");
        std::iter::from_fn(|| to.recv(&mut [0; PACKET as usize]).ok()).count()
    };
    let program = bpf::load_loss("50%".parse().expect("a probability")).expect("a program");
    let port = if_nametoindex("h0").expect("the switch's port");
    let losing = bpf::attach(program.as_fd(), port, Mode::Driver).expect("a driver that asks it");
    let bursts: Vec<usize> = (0..8).map(|_| arrived()).collect();
    assert!(bursts.iter().all(|packets| (1..BURST).contains(packets)), "none is lost as a whole: {bursts:?}");
    // Of 256 packets 128 are expected; eight standard deviations are 64.
    assert!((64..=192).contains(&bursts.iter().sum::<usize>()), "{bursts:?}");
    drop(losing);
    assert_eq!(arrived(), BURST);
}
