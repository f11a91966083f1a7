//! A node in an Ethernet switch made of a namespace's interfaces: what passes between hosts is what they have sent, and what is for the node
//! is taken out. Needs root and iproute2.

use crate::support::{Echo, PORT, leave};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recv, sendto, setsockopt, socket,
};
use nix::sys::time::TimeVal;
use quincunx_needs::{need, xdp_sockets};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_ports::{PortCounts, PortDrop, PortSockets, PortsOptions, PortsTransport};
use quincunx_sockets::{Flow, Inbox, OpenError, Outbox, Transport as _, UdpOptions, UdpTransport};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;

pub(crate) const SWITCH: NetnsNode = NetnsNode::Switch(0);
const LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// So many hosts around a process's ports.
pub(crate) fn star(hosts: usize, mtu: u16) -> NetnsFabric {
    NetnsFabric::new(Layout::star(hosts, mtu, None).ports()).expect("a star")
}

pub(crate) fn at(node: NetnsNode) -> SocketAddr {
    SocketAddr::new(node.address(), PORT)
}

pub(crate) fn host(index: usize) -> NetnsNode {
    NetnsNode::Host(index)
}

/// Runs lines of shell at a node.
pub(crate) fn shell(fabric: &NetnsFabric, node: NetnsNode, script: &str) -> String {
    let done = fabric.command(node, "sh").args(["-ec", script]).output().expect("sh runs");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Does something at a node, in a thread of its own: sockets made there stay there.
pub(crate) fn there<R: Send>(fabric: &NetnsFabric, node: NetnsNode, act: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        let done = scope.spawn(|| {
            fabric.enter(node).expect("the namespace is there");
            act()
        });
        done.join().expect("it ends")
    })
}

pub(crate) fn udp(fabric: &NetnsFabric, node: NetnsNode, address: &str) -> UdpSocket {
    there(fabric, node, || {
        let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        socket.set_read_timeout(Some(LIMIT)).expect("a time-out");
        socket
    })
}

pub(crate) fn open(hosts: usize, switch: IpAddr, sockets: PortSockets) -> Result<PortsTransport, OpenError> {
    let interfaces = (0..hosts).map(|host| format!("h{host}")).collect();
    let prefix = if switch.is_ipv4() { 24 } else { 64 };
    let options = PortsOptions { sockets, ..PortsOptions::new(interfaces, prefix) };
    PortsTransport::open(SocketAddr::new(switch, PORT), &options)
}

/// Tests that hold whatever frames come and go by.
macro_rules! by_both {
    ($($test:ident)*) => {
        mod by_packet_sockets {
            use super::*;
            $(#[test]
            fn $test() {
                let _leave = need!(leave());
                super::$test(PortSockets::Packet);
            })*
        }

        mod by_xdp_sockets {
            use super::*;
            $(#[test]
            fn $test() {
                let _leave = need!(leave());
                need!(xdp_sockets());
                super::$test(PortSockets::Xdp);
            })*
        }
    };
}

by_both! {
    ordinary_traffic_of_all_sorts_passes_between_hosts
    the_nodes_frames_are_taken_out_while_others_pass
    tags_stay_and_vlans_stay_apart
    who_was_behind_a_link_that_goes_down_is_sought_everywhere
    frames_longer_than_a_port_takes_are_counted_there
    only_the_machines_own_interface_answers_for_its_address
    a_host_that_moves_to_another_port_is_found_there
    what_finds_no_room_at_a_port_is_counted_there
    what_a_neighbour_says_of_itself_is_taken_and_goes_no_further
}

/// Runs `test` while the switch forwards; returns what its ports have counted.
pub(crate) fn while_forwarding(
    fabric: &NetnsFabric,
    sockets: PortSockets,
    test: impl FnOnce(),
) -> BTreeMap<String, PortCounts> {
    let (stop, (opened, is_open)) = (AtomicBool::new(false), channel());
    let stop = &stop;
    thread::scope(|scope| {
        let switch = scope.spawn(move || {
            fabric.enter(SWITCH).expect("the namespace is there");
            let mut transport = open(fabric.hosts(), fabric.address(SWITCH), sockets).expect("ports");
            opened.send(()).expect("somebody waits");
            let mut node = Echo::new(&transport);
            while !stop.load(Ordering::Relaxed) {
                node.turn(&mut transport);
            }
            transport.counts()
        });
        is_open.recv().expect("the ports open");
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        stop.store(true, Ordering::Relaxed);
        let counts = switch.join().expect("the switch ends");
        tested.unwrap_or_else(|panic| {
            println!("the ports have counted {counts:#?}");
            std::panic::resume_unwind(panic)
        });
        counts
    })
}

fn dropped(counts: &BTreeMap<String, PortCounts>, port: &str, reason: PortDrop) -> u64 {
    counts[port].dropped.get(&reason).copied().unwrap_or(0)
}

/// Nothing was dropped but what a slow machine may lose.
fn assert_all_understood(counts: &BTreeMap<String, PortCounts>) {
    let by_load = [PortDrop::ReceiveBufferFull, PortDrop::QueueFull];
    let mut reasons = counts.values().flat_map(|port| port.dropped.keys());
    assert!(reasons.all(|reason| by_load.contains(reason)), "{counts:?}");
}

/// Whether datagrams pass from one socket to the other, both ways.
pub(crate) fn exchange(a: &UdpSocket, b: &UdpSocket, bytes: &[u8]) {
    for (from, to) in [(a, b), (b, a)] {
        let target: SocketAddr = to.local_addr().expect("it is bound");
        from.send_to(bytes, target).expect("a link");
        let mut found = vec![0; bytes.len() + 1];
        let length = to.recv(&mut found).unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(&found[..length], bytes);
    }
}

/// The next one who connects, within the limit.
fn accept(listener: &TcpListener) -> TcpStream {
    let mut waited = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    let limit = PollTimeout::try_from(LIMIT).expect("it is short");
    assert_eq!(poll(&mut waited, limit).expect("a socket"), 1, "nobody connects");
    let (stream, _) = listener.accept().expect("somebody connects");
    stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
    stream
}

/// Sends `bytes` over TCP, which the kernel hands to a cable in pieces longer than its MTU, without their checksums.
pub(crate) fn stream(fabric: &NetnsFabric, from: NetnsNode, to: NetnsNode, bytes: &[u8]) {
    let target = SocketAddr::new(to.address(), 5000);
    let listener = there(fabric, to, || TcpListener::bind(target).expect("a port"));
    thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let connect = || {
                TcpStream::connect_timeout(&target, LIMIT).unwrap_or_else(|error| panic!("{target}: {error}"))
            };
            let mut stream = there(fabric, from, connect);
            stream.set_write_timeout(Some(LIMIT)).expect("a time-out");
            stream.write_all(bytes).expect("it takes all");
        });
        let (mut stream, mut found) = (accept(&listener), Vec::new());
        stream.read_to_end(&mut found).expect("all comes");
        sent.join().expect("it ends");
        assert!(found == bytes, "{} bytes of {}", found.len(), bytes.len());
    });
}

fn ordinary_traffic_of_all_sorts_passes_between_hosts(sockets: PortSockets) {
    let fabric = star(3, 9000);
    for index in 0..3 {
        shell(&fabric, host(index), &format!("ip addr add fd77::{}/64 dev eth0 nodad", index + 1));
    }
    let counts = while_forwarding(&fabric, sockets, || {
        let v4 = |index: usize| udp(&fabric, host(index), &format!("{}:7000", host(index).address()));
        let v6 = |index: usize| udp(&fabric, host(index), &format!("[fd77::{}]:7000", index + 1));
        exchange(&v4(0), &v4(1), b"over IPv4");
        exchange(&v6(0), &v6(2), b"over IPv6");
        // The longest that the MTU allows.
        exchange(&v4(1), &v4(2), &vec![7; 9000 - 28]);
        // Fragments.
        exchange(&v4(2), &v4(0), &vec![9; 30_000]);
        let bytes: Vec<u8> =
            (0..4_000_000_u32).map(|number| (number.wrapping_mul(number) >> 7) as u8).collect();
        stream(&fabric, host(0), host(1), &bytes);
        // The machine itself is behind the switch, too.
        stream(&fabric, host(2), SWITCH, &bytes[..1_000_000]);
    });
    // Some 450 segments of 8,948 bytes, whatever the kernel has merged.
    let segments = counts["h1"].sent.frames;
    assert!((440..700).contains(&segments), "{segments}");
    assert_all_understood(&counts);
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["h0", "h1", "h2", "quincunx0"]);
}

fn the_nodes_frames_are_taken_out_while_others_pass(sockets: PortSockets) {
    let fabric = star(3, 1500);
    while_forwarding(&fabric, sockets, || {
        thread::scope(|scope| {
            scope.spawn(|| stream(&fabric, host(1), host(2), &vec![3; 2_000_000]));
            send_to_node(&fabric, 30);
        });
    });
}

/// Sends so many windows of frames from the first host to the node, each in one datagram; all frames come back.
fn send_to_node(fabric: &NetnsFabric, windows: u32) {
    const WINDOW: u32 = 64;
    const LENGTH: usize = 1000;
    there(fabric, host(0), || {
        let mut transport = UdpTransport::open(at(host(0)), UdpOptions::default()).expect("an address");
        let mut inbox = Inbox::new(transport.receive_batch());
        let mut outbox = Outbox::new(WINDOW as usize * LENGTH, transport.max_frames());
        let flow = Flow { destination: at(SWITCH), share: 0, tos: 0 };
        for window in 0..windows {
            let mut numbers = window * WINDOW..(window + 1) * WINDOW;
            for number in numbers.clone() {
                let space = outbox.reserve(LENGTH).expect("room for a window");
                space[..4].copy_from_slice(&number.to_be_bytes());
                outbox.commit(LENGTH, flow, false);
            }
            assert_eq!(outbox.unsent().1.len(), 1, "one datagram");
            assert_eq!(transport.send(&outbox).expect("a link"), 1);
            outbox.remove(1);
            let start = std::time::Instant::now();
            while !numbers.is_empty() {
                assert!(start.elapsed() < LIMIT, "frame {} does not come back", numbers.start);
                // Nothing may have come yet.
                let _ = transport.receive(&mut inbox, true);
                while let Some((datagram, bytes)) = inbox.next_frame() {
                    assert_eq!((datagram.source, bytes.len()), (at(SWITCH), LENGTH));
                    assert_eq!(bytes[..4], numbers.next().expect("no more than were sent").to_be_bytes());
                }
            }
        }
    });
}

/// A host's cable, as frames see it.
struct Cable {
    socket: OwnedFd,
    end: LinkAddr,
}

impl Cable {
    fn of(fabric: &NetnsFabric, node: NetnsNode) -> Self {
        there(fabric, node, || {
            let kind = (AddressFamily::Packet, SockType::Raw);
            let socket = socket(kind.0, kind.1, SockFlag::empty(), SockProtocol::EthAll).expect("root");
            setsockopt(&socket, ReceiveTimeout, &TimeVal::new(0, 200_000)).expect("a time-out");
            let mut all =
                nix::ifaddrs::getifaddrs().expect("interfaces").filter(|it| it.interface_name == "eth0");
            let end = all.find_map(|it| it.address?.as_link_addr().copied()).expect("its address");
            Self { socket, end }
        })
    }

    fn send(&self, frame: &[u8]) {
        let sent = sendto(self.socket.as_raw_fd(), frame, &self.end, MsgFlags::empty()).expect("a link");
        assert_eq!(sent, frame.len());
    }

    /// The next frame that one with this number has sent, if there is one soon.
    fn from(&self, number: u8) -> Option<Vec<u8>> {
        let mut frame = vec![0; 2000];
        loop {
            let length = recv(self.socket.as_raw_fd(), &mut frame, MsgFlags::empty()).ok()?;
            if frame[6..12] == station(number) && length > 14 {
                return Some(frame[..length].to_vec());
            }
        }
    }
}

/// An Ethernet address of none of the fabric's hosts.
fn station(number: u8) -> [u8; 6] {
    [0x06, 0, 0, 0, 0, number]
}

/// A frame with two tags: the kernel takes the outer one off before sockets see it.
fn tagged(from: u8, to: u8, vlan: u8) -> Vec<u8> {
    let mut frame = [station(to), station(from)].concat();
    // 802.1ad around 802.1Q, and a type for experiments.
    frame.extend([0x88, 0xa8, 0, vlan, 0x81, 0x00, 0, 99, 0x88, 0xb5]);
    frame.extend([from; 60]);
    frame
}

fn tags_stay_and_vlans_stay_apart(sockets: PortSockets) {
    let fabric = star(3, 1500);
    let cables = [0, 1, 2].map(|index| Cable::of(&fabric, host(index)));
    let counts = while_forwarding(&fabric, sockets, || {
        // Station 1 is heard in VLAN 7 at the first port, station 2 at the second.
        cables[0].send(&tagged(1, 9, 7));
        // What arrives has lost its outer tag again, and kept the inner one: all of it that is behind the addresses.
        let rest = |vlan| tagged(1, 9, vlan)[16..].to_vec();
        for other in [&cables[1], &cables[2]] {
            assert_eq!(other.from(1).expect("it is flooded")[12..], rest(7));
        }
        assert_eq!(cables[0].from(1), None, "back where it came from nothing goes");
        cables[1].send(&tagged(2, 1, 7));
        assert!(cables[0].from(2).is_some(), "station 1 is known there");
        assert_eq!(cables[2].from(2), None, "and sought nowhere else");
        cables[1].send(&tagged(2, 1, 8));
        assert!(cables[0].from(2).is_some() && cables[2].from(2).is_some(), "in VLAN 8 nobody has heard it");
    });
    assert_all_understood(&counts);
}

fn who_was_behind_a_link_that_goes_down_is_sought_everywhere(sockets: PortSockets) {
    let fabric = star(3, 1500);
    let cables = [0, 1, 2].map(|index| Cable::of(&fabric, host(index)));
    while_forwarding(&fabric, sockets, || {
        cables[1].send(&tagged(2, 1, 7));
        assert!(cables[0].from(2).is_some());
        cables[0].send(&tagged(1, 2, 7));
        assert_eq!(cables[2].from(1), None, "station 2 is known elsewhere");
        shell(&fabric, host(1), "ip link set eth0 down");
        let start = std::time::Instant::now();
        loop {
            cables[0].send(&tagged(1, 2, 7));
            if cables[2].from(1).is_some() {
                break;
            }
            assert!(start.elapsed() < LIMIT, "station 2 is still known");
        }
    });
}

fn frames_longer_than_a_port_takes_are_counted_there(sockets: PortSockets) {
    let fabric = star(3, 9000);
    shell(&fabric, SWITCH, "ip link set h2 mtu 1500");
    let counts = while_forwarding(&fabric, sockets, || {
        let sockets =
            [0, 1, 2].map(|index| udp(&fabric, host(index), &format!("{}:7000", host(index).address())));
        exchange(&sockets[0], &sockets[1], &[1; 8000]);
        exchange(&sockets[0], &sockets[2], &[1; 1472]);
        sockets[0].send_to(&[1; 1473], sockets[2].local_addr().expect("it is bound")).expect("a link");
        // What comes next shows that the one before has been there.
        exchange(&sockets[0], &sockets[2], b"short");
        // The hosts agree on segments that fit their own links. The kernel merges them.
        let target = SocketAddr::new(host(2).address(), 5000);
        let listener = there(&fabric, host(2), || TcpListener::bind(target).expect("a port"));
        let mut sender = there(&fabric, host(0), || {
            TcpStream::connect(target).unwrap_or_else(|error| panic!("{target}: {error}"))
        });
        let mut stream = accept(&listener);
        stream.set_read_timeout(Some(LIMIT / 40)).expect("a time-out");
        sender.write_all(&[3; 60_000]).expect("the kernel takes it");
        assert!(stream.read(&mut [0; 100]).is_err(), "nothing gets through");
    });
    let lost = dropped(&counts, "h2", PortDrop::TooLong);
    assert!(lost > 1, "a datagram, and segments that were merged: {lost}");
    assert_eq!(dropped(&counts, "h1", PortDrop::TooLong), 0);
}

fn only_the_machines_own_interface_answers_for_its_address(sockets: PortSockets) {
    let layout = Layout::star(2, 1500, None).ports();
    // By ARP, and by neighbour discovery.
    for (layout, own) in [(layout.clone(), "02:00:0a:4d:00:c0"), (layout.over_ipv6(), "02:00:00:00:00:c0")] {
        let fabric = NetnsFabric::new(layout).expect("a star");
        let [asking, asked] = [host(0), SWITCH].map(|node| fabric.address(node));
        while_forwarding(&fabric, sockets, || {
            let [socket, service] = [(host(0), asking), (SWITCH, asked)]
                .map(|(node, address)| udp(&fabric, node, &SocketAddr::new(address, 7000).to_string()));
            exchange(&socket, &service, b"to the machine");
            let shown = shell(&fabric, SWITCH, "ip -d -o link show h0");
            assert!(shown.contains("promiscuity 1"), "whomever frames are for: {shown}");
            // The kernel sees frames of the ports, too, and would answer at each of them.
            let heard = shell(&fabric, host(0), &format!("ip neigh show {asked}"));
            assert!(heard.contains(&format!("lladdr {own}")), "{heard}");
            let received = "cat /sys/class/net/quincunx0/statistics/rx_packets";
            assert!(shell(&fabric, SWITCH, received).trim().parse::<u32>().expect("a number") > 0);
        });
        let left = shell(&fabric, SWITCH, "tc filter show dev h0 ingress; ip -o link show");
        assert!(["bpf", "xdp", "quincunx"].iter().all(|word| !left.contains(word)), "{left}");
    }
}

fn what_finds_no_room_at_a_port_is_counted_there(sockets: PortSockets) {
    let fabric = star(2, 1500);
    let mut transport = there(&fabric, SWITCH, || {
        let receive_buffer = ByteCount::new(64 << 10);
        let options = PortsOptions::new(vec!["h0".into(), "h1".into()], 24);
        PortsTransport::open(at(SWITCH), &PortsOptions { sockets, receive_buffer, ..options }).expect("ports")
    });
    let cable = Cable::of(&fabric, host(0));
    // More than a socket of either kind holds, and nobody takes them.
    (0..3000).for_each(|_| cable.send(&tagged(1, 2, 7)));
    let lost = dropped(&transport.counts(), "h0", PortDrop::ReceiveBufferFull);
    assert!((1000..3000).contains(&lost), "{lost}");
    let again = dropped(&transport.counts(), "h0", PortDrop::ReceiveBufferFull);
    assert_eq!(again, lost, "each once");
}

fn a_host_that_moves_to_another_port_is_found_there(sockets: PortSockets) {
    let fabric = star(3, 1500);
    while_forwarding(&fabric, sockets, || {
        let first = udp(&fabric, host(0), &format!("{}:7000", host(0).address()));
        let second = udp(&fabric, host(1), &format!("{}:7000", host(1).address()));
        exchange(&first, &second, b"here");
        drop(second);
        // The same addresses behind another port.
        let mac = shell(&fabric, host(1), "cat /sys/class/net/eth0/address");
        shell(&fabric, host(1), "ip link set eth0 down");
        let moved = format!(
            "ip link set eth0 down; ip link set eth0 address {}; ip link set eth0 up; ip addr add {}/24 dev eth0",
            mac.trim(),
            host(1).address()
        );
        shell(&fabric, host(2), &moved);
        let second = udp(&fabric, host(2), &format!("{}:7000", host(1).address()));
        // It is heard first, as a host that comes up is.
        second.send_to(b"there", first.local_addr().expect("it is bound")).expect("a link");
        let mut found = [0; 9];
        assert_eq!(first.recv(&mut found).expect("it comes"), 5);
        exchange(&first, &second, b"there");
    });
}

/// A frame of LLDP's type to the bridge next door.
fn said(by: u8) -> Vec<u8> {
    [&[0x01, 0x80, 0xc2, 0, 0, 0x0e][..], &station(by), &[0x88, 0xcc], &[by; 46]].concat()
}

fn what_a_neighbour_says_of_itself_is_taken_and_goes_no_further(sockets: PortSockets) {
    let fabric = star(2, 1500);
    let cables = [0, 1].map(|number| Cable::of(&fabric, host(number)));
    there(&fabric, SWITCH, || {
        let mut ports = open(2, SWITCH.address(), sockets).expect("ports");
        let mut inbox = Inbox::new(ports.receive_batch());
        // More than a port keeps: the rest is counted, and the other port is not the worse for it.
        (0..20).for_each(|_| cables[0].send(&said(1)));
        cables[1].send(&said(2));
        let mut taken = Vec::new();
        let start = std::time::Instant::now();
        while dropped(&ports.counts(), "h0", PortDrop::LinkLocal) < 12 || taken.len() < 9 {
            assert!(start.elapsed() < LIMIT, "{} frames, {:?}", taken.len(), ports.counts());
            ports.receive(&mut inbox, true).expect("it works");
            if dropped(&ports.counts(), "h0", PortDrop::LinkLocal) == 12 {
                taken.extend(std::iter::from_fn(|| ports.take_link_local()));
            }
        }
        assert_eq!(taken.iter().filter(|frame| **frame == (0, said(1))).count(), 8);
        assert_eq!(taken.iter().filter(|frame| **frame == (1, said(2))).count(), 1);
        ports.send_link_local(1, &said(9));
    });
    assert_eq!(cables[1].from(9), Some(said(9)));
    assert_eq!(cables[1].from(1), None, "it goes no further");
}

#[test]
fn what_cannot_be_a_port_is_refused_in_one_line() {
    let _leave = need!(leave());
    let fabric = star(2, 1500);
    shell(
        &fabric,
        SWITCH,
        "ip link add br0 type bridge; ip link add d0 type veth peer name m0; ip link set m0 master br0 up",
    );
    shell(
        &fabric,
        SWITCH,
        "ip link add a0 type veth peer name a1; ip addr add 10.9.9.9/24 dev a0; ip link set a0 up",
    );
    let refused = |interfaces: &[&str], local: IpAddr| {
        let options = PortsOptions::new(interfaces.iter().map(|name| (*name).to_owned()).collect(), 24);
        let local = SocketAddr::new(local, PORT);
        let opened = there(&fabric, SWITCH, || PortsTransport::open(local, &options).map(|_| ()));
        opened.expect_err("it is refused").to_string()
    };
    let own = SWITCH.address();
    let expected = [
        (
            &["eth9"][..],
            "expected an Ethernet interface, found \"No such device (os error 19)\" (eth9); name one that `ip link` shows",
        ),
        (&["h0", "h0"], "expected each port once, found \"it twice\" (h0); name each interface once"),
        (
            &["lo"],
            "expected an Ethernet interface, found \"another kind\" (lo); name a port that a cable goes into",
        ),
        (
            &["h0", "d0"],
            "expected an interface that is up, found \"one that is down\" (d0); set it up: ip link set ... up",
        ),
        (
            &["m0"],
            "expected an interface by itself, found \"a member of br0\" (m0); take it out: ip link set ... nomaster",
        ),
        (
            &["a0"],
            "expected a port without an address, found \"10.9.9.9\" (a0); take it away (ip addr flush dev ...): the switch's own interface has the machine's address",
        ),
        (&[], "expected a port, found \"none\" (10.77.0.192:4791); name an interface"),
    ];
    for (interfaces, line) in expected {
        assert_eq!(refused(interfaces, own), line);
    }
    let taken = refused(&["h0"], IpAddr::from([10, 9, 9, 9]));
    assert_eq!(
        taken,
        "expected an interface of the machine's own behind the ports, found \"a0 has that address\" (10.9.9.9/24); \
         give the switch another one, or take it from that interface"
    );
    // Nothing is left of those that got further.
    let left = shell(&fabric, SWITCH, "tc filter show dev h0 ingress; ip -o link show");
    assert!(!left.contains("bpf") && !left.contains("quincunx"), "{left}");
}
