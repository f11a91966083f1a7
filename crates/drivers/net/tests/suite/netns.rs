//! The loop over namespaces with limited links. Needs root and iproute2.

use crate::support;
use crate::support::{Command, Config, Event, ToyCodec, Transfer};
use quincunx_driver_net::{AnyTransport, Node, NodeOptions, Statistics, TransportOptions};
use quincunx_engine::{Engine, PortId};
use quincunx_needs::{Missing, namespaces, need};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode, Wiring, sweep};
use quincunx_ports::PortsOptions;
use quincunx_sockets::{PacketOptions, PacketTransport, Transport, UdpOptions, UdpTransport};
use quincunx_units::{BitRate, Duration};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command as Process;
use std::sync::{Barrier, Mutex, MutexGuard};

/// Leave to use namespaces, one test at a time: a fabric in the making sweeps what another test left on purpose.
pub(crate) fn leave() -> Result<MutexGuard<'static, ()>, Missing> {
    static ONE: Mutex<()> = Mutex::new(());
    namespaces().map(|()| ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn at(node: NetnsNode) -> SocketAddr {
    SocketAddr::new(node.address(), support::PORT)
}

/// A layout with addresses of either family.
fn of_both_families(layout: Layout) -> impl Iterator<Item = NetnsFabric> {
    [layout.clone(), layout.over_ipv6()].into_iter().map(|layout| NetnsFabric::new(layout).expect("a fabric"))
}

fn udp(local: SocketAddr) -> UdpTransport {
    UdpTransport::open(local, UdpOptions::default()).expect("the node's address")
}

fn plain_udp(local: SocketAddr) -> UdpTransport {
    let options = UdpOptions { merge_sent: 1, ..UdpOptions::default() };
    UdpTransport::open(local, options).expect("the node's address")
}

fn packet(local: SocketAddr) -> PacketTransport {
    PacketTransport::open(local, PacketOptions::new("eth0")).expect("the node's interface")
}

/// The ports of a star's switch, to two hosts.
fn ports(local: SocketAddr) -> AnyTransport {
    let interfaces = ["h0", "h1"].map(str::to_owned).to_vec();
    let options = PortsOptions::new(interfaces, if local.is_ipv4() { 24 } else { 64 });
    AnyTransport::open(local, &TransportOptions::Ports(options)).expect("the switch's interfaces")
}

/// A transfer of `count` frames of `length` bytes, at most `window` of them on the way.
#[derive(Clone, Copy)]
struct Job {
    count: u32,
    length: usize,
    window: u32,
}

/// What a node does in it.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Sender,
    Receiver,
}

/// Runs `job` from one node to the other, each with its kind of socket; returns both ends' statistics.
fn transfer<A: Transport, B: Transport>(
    fabric: &NetnsFabric,
    (from, open_from): (NetnsNode, fn(SocketAddr) -> A),
    (to, open_to): (NetnsNode, fn(SocketAddr) -> B),
    job: Job,
) -> [Statistics; 2] {
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| run(fabric, [to, from], open_to, Role::Receiver, job, &ready));
        let sender = scope.spawn(|| run(fabric, [from, to], open_from, Role::Sender, job, &ready));
        [sender.join().expect("the sender ends"), receiver.join().expect("the receiver ends")]
    })
}

fn run<T: Transport>(
    fabric: &NetnsFabric,
    [here, peer]: [NetnsNode; 2],
    open: fn(SocketAddr) -> T,
    role: Role,
    Job { count, length, window }: Job,
    ready: &Barrier,
) -> Statistics {
    fabric.enter(here).expect("the namespace is there");
    let config = Config { ports: 1, window, ack_every: 8, retry: Duration::from_millis(100) };
    let engine = Transfer::new(config).expect("a valid configuration");
    let [local, peer] = [here, peer].map(|node| SocketAddr::new(fabric.address(node), support::PORT));
    let codec = ToyCodec { peers: vec![peer], tos: 0 };
    let mut node = Node::new(engine, 1, codec, open(local), NodeOptions::default()).expect("a node");
    ready.wait();
    if role == Role::Sender {
        node.command(Command::Send { port: PortId(0), count, length }).expect("port 0 exists");
    }
    let done = |event| match event {
        Event::Sent(_) if role == Role::Sender => Some((count, u64::from(count) * length as u64)),
        Event::Received { frames, bytes, .. } if role == Role::Receiver => Some((frames, bytes)),
        _ => None,
    };
    let result = node.run_until(Duration::from_millis(30_000), done).expect("the transfer ends");
    assert_eq!(result, (count, u64::from(count) * length as u64));
    if role == Role::Receiver {
        // The last acknowledge may need to be sent again.
        node.serve(Duration::from_millis(50)).expect("the receiver works");
    }
    *node.statistics()
}

#[test]
fn hosts_and_switches_of_a_tree_reach_each_other() {
    let _leave = need!(leave());
    let tree = Wiring::Tree { parents: vec![None, Some(0), Some(0)], hosts: vec![1, 2] };
    for fabric in of_both_families(Layout::new(tree, 1500, None)) {
        let job = Job { count: 100, length: 1000, window: 64 };
        transfer(&fabric, (NetnsNode::Host(0), udp), (NetnsNode::Host(1), udp), job);
        transfer(&fabric, (NetnsNode::Host(0), udp), (NetnsNode::Switch(1), udp), job);
        transfer(&fabric, (NetnsNode::Switch(2), udp), (NetnsNode::Switch(0), udp), job);
    }
}

#[test]
fn merged_datagrams_pass_a_limited_link_without_loss() {
    let _leave = need!(leave());
    let rate = BitRate::new(500_000_000);
    for fabric in of_both_families(Layout::star(2, 1500, rate)) {
        let job = Job { count: 2000, length: 1400, window: 64 };
        let [sent, received] = transfer(&fabric, (NetnsNode::Host(0), udp), (NetnsNode::Host(1), udp), job);
        assert!(sent.sent.datagrams < 500, "merged on the way out: {sent:?}");
        assert!(received.received.datagrams < 500, "and still merged on arrival: {received:?}");
        assert_eq!(sent.sent.frames, 2000, "nothing had to be sent twice");
    }
}

#[test]
fn a_sender_faster_than_its_link_feels_it_and_loses_nothing() {
    let _leave = need!(leave());
    let fabric = NetnsFabric::new(Layout::star(2, 1500, BitRate::new(200_000_000))).expect("a star");
    let job = Job { count: 3000, length: 1400, window: 3000 };
    let [sent, _] = transfer(&fabric, (NetnsNode::Host(0), udp), (NetnsNode::Host(1), udp), job);
    assert!(sent.send_blocked > 0, "{sent:?}");
    assert_eq!(sent.sent.frames, 3000, "nothing had to be sent twice");
}

#[test]
fn frames_of_a_flow_do_not_overtake_each_other() {
    // Without steering, the rate limiter's timer and the sender deliver on different processors. One frame out of order
    // would make this protocol send again.
    let _leave = need!(leave());
    let fabric = NetnsFabric::new(Layout::star(2, 1500, BitRate::new(500_000_000))).expect("a star");
    let job = Job { count: 40_000, length: 1024, window: 32 };
    let [sent, _] = transfer(&fabric, (NetnsNode::Host(0), plain_udp), (NetnsNode::Host(1), udp), job);
    assert_eq!(sent.sent.frames, 40_000, "nothing had to be sent twice");
}

#[test]
fn whole_ethernet_frames_carry_the_same_transfer() {
    let _leave = need!(leave());
    for fabric in of_both_families(Layout::star(2, 1500, None)) {
        let job = Job { count: 300, length: 1400, window: 64 };
        let [sent, received] =
            transfer(&fabric, (NetnsNode::Host(0), packet), (NetnsNode::Host(1), packet), job);
        assert_eq!((sent.sent.frames, sent.sent.bytes), (300, 300 * 1405));
        assert_eq!((received.received.frames, received.received.bytes), (300, 300 * 1405));
    }
}

#[test]
fn ordinary_sockets_and_packet_sockets_understand_each_other() {
    let _leave = need!(leave());
    for fabric in of_both_families(Layout::star(2, 1500, None)) {
        let job = Job { count: 300, length: 1400, window: 64 };
        transfer(&fabric, (NetnsNode::Host(0), plain_udp), (NetnsNode::Host(1), packet), job);
        transfer(&fabric, (NetnsNode::Host(0), packet), (NetnsNode::Host(1), plain_udp), job);
    }
}

#[test]
fn a_node_in_a_switch_of_ports_is_reached_as_any_other_and_reaches_others() {
    let _leave = need!(leave());
    for fabric in of_both_families(Layout::star(2, 1500, None).ports()) {
        let job = Job { count: 300, length: 1400, window: 64 };
        transfer(&fabric, (NetnsNode::Host(0), udp), (NetnsNode::Switch(0), ports), job);
        transfer(&fabric, (NetnsNode::Switch(0), ports), (NetnsNode::Host(1), udp), job);
    }
}

#[test]
fn a_program_runs_at_its_node() {
    let _leave = need!(leave());
    let fabric = NetnsFabric::new(Layout::star(1, 1500, None)).expect("a star");
    let shown =
        fabric.command(NetnsNode::Host(0), "ip").args(["-o", "-4", "addr"]).output().expect("ip runs");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("10.77.0.1/24"), "{shown:?}");
}

#[test]
fn a_fabric_leaves_nothing_behind_and_the_dead_are_swept() {
    let _leave = need!(leave());
    let listed = |name: &str| {
        let output = Process::new("ip").args(["netns", "list"]).output().expect("ip runs");
        String::from_utf8_lossy(&output.stdout).split_whitespace().any(|word| word == name)
    };
    let fabric = NetnsFabric::new(Layout::star(1, 1500, None)).expect("a star");
    let name = fabric.namespace(NetnsNode::Host(0));
    assert!(listed(&name));
    drop(fabric);
    assert!(!listed(&name));
    // A process that has ended and been waited for is dead for certain.
    let mut gone = Process::new("true").spawn().expect("true runs");
    gone.wait().expect("true ends");
    let orphan = format!("qx{}x0h0", gone.id());
    assert!(Process::new("ip").args(["netns", "add", &orphan]).status().expect("ip runs").success());
    sweep().expect("ip works");
    assert!(!listed(&orphan));
}

#[test]
fn flows_between_two_leaves_take_each_spine() {
    let _leave = need!(leave());
    let links = vec![[0, 2], [0, 3], [1, 2], [1, 3]];
    let wiring = Wiring::Switched { switches: 4, links, hosts: vec![2, 3] };
    let fabric = NetnsFabric::new(Layout::new(wiring, 1500, None)).expect("a fabric");
    let [from, to] = [0, 1].map(NetnsNode::Host);
    const FLOWS: u32 = 64;
    let open = |node: NetnsNode, port| {
        fabric.enter(node).expect("its namespace");
        UdpSocket::bind(SocketAddr::new(node.address(), port)).expect("a port")
    };
    let open = &open;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || open(to, support::PORT)).join().expect("it ends");
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("a time-out");
        let sent = scope.spawn(move || {
            // Each of a port of its own, which the system chooses.
            (0..FLOWS).for_each(|_| _ = open(from, 0).send_to(&[7; 100], at(to)).expect("it leaves"));
        });
        sent.join().expect("it ends");
        (0..FLOWS).for_each(|_| _ = receiver.recv(&mut [0; 200]).expect("every flow arrives"));
    });
    let passed = [0, 1].map(|spine| {
        let read = fabric
            .command(NetnsNode::Switch(spine), "cat")
            .arg("/sys/class/net/s2/statistics/rx_packets")
            .output();
        let text = String::from_utf8(read.expect("it runs").stdout).expect("a number");
        text.trim().parse::<u32>().expect("a number")
    });
    // That all of 64 take one of two has a chance of 2^-63.
    assert!(passed.iter().all(|&packets| packets > 0) && passed.iter().sum::<u32>() >= FLOWS, "{passed:?}");
}

#[test]
fn hosts_of_a_mesh_reach_each_other_over_a_link_each() {
    let _leave = need!(leave());
    let fabric = NetnsFabric::new(Layout::mesh(4, 1500, BitRate::new(500_000_000))).expect("a mesh");
    let job = Job { count: 500, length: 1400, window: 64 };
    for (from, to) in [(0, 1), (3, 0), (2, 1), (2, 3)] {
        transfer(&fabric, (NetnsNode::Host(from), udp), (NetnsNode::Host(to), udp), job);
        let device = format!("/sys/class/net/l{to}/statistics/tx_packets");
        let sent = fabric.command(NetnsNode::Host(from), "cat").arg(device).output().expect("cat runs");
        let sent: u64 = String::from_utf8_lossy(&sent.stdout).trim().parse().expect("a number");
        assert!(sent >= 500 / 64, "from {from} to {to} over another link: {sent}");
    }
}
