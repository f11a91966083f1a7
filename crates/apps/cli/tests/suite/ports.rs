//! A switch that is the only thing between its hosts: real processes, a network namespace each. Groups are added up in it while the hosts'
//! ordinary traffic passes, and that does not end with the manager.

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, recv, sendto, setsockopt,
    socket,
};
use nix::sys::time::TimeVal;
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_needs::{namespaces, need, xdp_sockets};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, run};
use quincunx_ports::PortSockets;
use quincunx_scenario::Scenario;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::intruder::in_namespace;
use crate::processes::{eventually, quincunx, start_as};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");
const LIMIT: Duration = Duration::from_secs(20);
const SWITCH: NetnsNode = NetnsNode::Switch(0);

/// What a TCP stream carries each time.
const STREAM: usize = 1 << 20;

/// A host, and the name of its namespace.
struct Guest {
    host: NetnsNode,
    namespace: String,
}

/// Sends echo requests (ICMP) from one host to another until told to stop; how many were answered, which all must be.
fn ping(from: &Guest, to: &Guest, stop: &AtomicBool) -> u16 {
    let socket = in_namespace(&from.namespace, || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Icmp).unwrap()
    });
    setsockopt(&socket, ReceiveTimeout, &TimeVal::new(LIMIT.as_secs() as i64, 0)).unwrap();
    let target = SockaddrStorage::from(SocketAddr::new(to.host.address(), 0));
    let mut number = 0_u16;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        // Echo request, its checksum, an identifier, the number.
        let checksum = !(0x0800_u16 + number);
        let request: Vec<u8> = [0x0800, checksum, 0, number].into_iter().flat_map(u16::to_be_bytes).collect();
        sendto(socket.as_raw_fd(), &request, &target, MsgFlags::empty()).unwrap();
        let mut answer = [0; 100];
        loop {
            let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).expect("an answer");
            // Behind the IP header: an echo reply with this number.
            if length == 28 && answer[20] == 0 && answer[26..28] == number.to_be_bytes() {
                break;
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    number
}

/// Sends streams (TCP) from one host to another until told to stop; how many came whole.
fn streams(from: &Guest, to: &Guest, stop: &AtomicBool) -> u32 {
    let target = SocketAddr::new(to.host.address(), 5000);
    let listener = in_namespace(&to.namespace, || TcpListener::bind(target).unwrap());
    let mut count = 0;
    let sent: Vec<u8> = (0..STREAM).map(|place| (place / 7) as u8).collect();
    while !stop.load(Ordering::Relaxed) {
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream =
                    in_namespace(&from.namespace, || TcpStream::connect_timeout(&target, LIMIT).unwrap());
                stream.set_write_timeout(Some(LIMIT)).unwrap();
                stream.write_all(&sent).unwrap();
            });
            let (mut stream, mut found) = (listener.accept().unwrap().0, Vec::new());
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.read_to_end(&mut found).unwrap();
            assert!(found == sent, "{} bytes", found.len());
        });
        count += 1;
    }
    count
}

/// Collectives of four ranks in every mode.
fn plan(scenario: &Scenario) -> Plan {
    let names = ["epic-1", "epic-2", "epic-3"];
    let designs = names.map(|name| CATALOG.find(name, FabricKind::Tree).unwrap());
    let setup = GroupsSetup::new(CATALOG, &designs, scenario).unwrap();
    let case = |design: &str, collective: &str| Case {
        design: design.into(),
        collective: collective.into(),
        in_place: false,
        root: if collective == "all_reduce" { 0 } else { 2 },
        bytes: 200_000,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: 10,
        warm_up: 1,
        tokens: None,
    };
    let cases = |design| ["all_reduce", "reduce", "broadcast"].map(|collective| case(design, collective));
    Plan { setup, cases: names.into_iter().flat_map(cases).collect() }
}

#[test]
fn groups_are_added_up_in_every_mode_while_ordinary_traffic_passes_the_same_ports() {
    need!(namespaces());
    groups_beside_ordinary_traffic(PortSockets::Packet);
}

#[test]
fn the_same_by_xdp_sockets() {
    need!(namespaces());
    need!(xdp_sockets());
    groups_beside_ordinary_traffic(PortSockets::Xdp);
}

fn groups_beside_ordinary_traffic(sockets: PortSockets) {
    // Both at once are more than two cores can do in time.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let links = RealLinks { mtu: 1500, is_limited: false };
    let changes = ["group.mtu=1024".parse().unwrap()];
    let scenario = Scenario::find_for(&links, "star-4", &changes, CATALOG).unwrap();
    let kind = LinkKind::Ports { rate: None, mtu: 1500, sockets };
    let shape = scenario.fabric.shape().unwrap();
    let arguments = ChildArguments::default();
    let mut processes = Processes::start(&shape, kind, Path::new(PROGRAM), arguments, None).unwrap();
    let namespaces = processes.namespaces().unwrap();
    let guests =
        [0, 1, 2, 3].map(NetnsNode::Host).map(|host| Guest { host, namespace: namespaces.namespace(host) });
    let (stop, plan) = (AtomicBool::new(false), plan(&scenario));
    let mut rows = Vec::new();
    let [a, b, c, d] = &guests;
    thread::scope(|scope| {
        let pinged = scope.spawn(|| ping(a, d, &stop));
        let streamed = scope.spawn(|| streams(b, c, &stop));
        let done = run(&mut processes, &plan, |row| rows.push((row.design.clone(), row.wrong)));
        stop.store(true, Ordering::Relaxed);
        done.expect("all ranks end well");
        assert!(pinged.join().unwrap() > 10 && streamed.join().unwrap() > 1, "they ran meanwhile");
    });
    assert_eq!(rows.len(), 9, "{rows:?}");
    assert!(rows.iter().all(|(_, wrong)| *wrong == 0), "{rows:?}");
}

#[test]
fn a_switch_forwards_before_it_has_a_manager_and_after_and_attaches_to_the_next() {
    need!(namespaces());
    let fabric = NetnsFabric::new(Layout::star(2, 1500, None).ports()).unwrap();
    let at = |node, arguments: &str| start_as(fabric.command(node, PROGRAM), arguments, None);
    let _switch = at(
        SWITCH,
        "switch --name s0 --address 10.77.0.192/24 --port h0 --port h1 --patience 100ms --log-level off --metrics 127.0.0.1:9791",
    );
    let socket = |host| {
        let address = SocketAddr::new(NetnsNode::Host(host).address(), 7000);
        let socket =
            in_namespace(&fabric.namespace(NetnsNode::Host(host)), || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        socket
    };
    let (a, b) = (socket(0), socket(1));
    let passes = || {
        a.send_to(b"frame", b.local_addr().unwrap()).unwrap();
        b.recv(&mut [0; 9]).is_ok()
    };
    let is_attached = || {
        let listed = fabric.command(SWITCH, PROGRAM).arg("nodes").stderr(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&listed.stdout).contains("s0")
    };
    eventually("frames that pass without a manager", passes);
    let counts = || {
        let page = in_namespace(&fabric.namespace(SWITCH), || {
            let mut stream = TcpStream::connect("127.0.0.1:9791").unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: s0\r\nConnection: close\r\n\r\n").unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).map(|_| page)
        });
        page.is_ok_and(|page| page.contains("port_frames_total{switch=\"s0\",port=\"h1\",direction=\"out\"}"))
    };
    eventually("counts of each port", counts);
    for _ in 0..2 {
        let manager = at(SWITCH, "manager --log-level off");
        eventually("a switch at its manager", is_attached);
        eventually("frames that pass beside the manager", passes);
        drop(manager);
        // Longer than it has patience.
        thread::sleep(Duration::from_millis(300));
        eventually("frames that pass behind the manager's end", passes);
    }
}

#[test]
fn a_switch_that_is_killed_leaves_no_program_at_its_ports() {
    need!(namespaces());
    need!(xdp_sockets());
    let fabric = NetnsFabric::new(Layout::star(1, 1500, None).ports()).unwrap();
    let shown = || {
        let shown = fabric.command(SWITCH, "ip").args(["-d", "link", "show"]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap()
    };
    let arguments = "switch --name s0 --address 10.77.0.192/24 --port h0 --sockets xdp --log-level off";
    let switch = start_as(fabric.command(SWITCH, PROGRAM), arguments, None);
    eventually("a program at the port", || shown().contains("xdp"));
    drop(switch);
    eventually("a port without a program", || !shown().contains("xdp"));
}

#[test]
fn options_that_do_not_fit_ports_are_refused_in_one_line() {
    let refused = |arguments: &str| {
        let output = quincunx(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        String::from_utf8(output.stderr).unwrap()
    };
    let cases = [
        (
            "switch --name s --address 10.0.0.9 --port eth1",
            "error: expected --address with the length of its network's prefix beside --port, found 10.0.0.9; write 10.0.0.9/24\n",
        ),
        (
            "switch --name s --address 10.0.0.9/24",
            "error: expected --address of an interface, found 10.0.0.9/24; leave out the prefix, which `switch --port` alone takes\n",
        ),
        (
            "switch --name s --address 10.0.0.9/24 --port eth1 --framing roce-v1",
            "error: expected frames of roce-v2 at --port, found --framing roce-v1; make a bridge of the interfaces, with --transport packet and its address\n",
        ),
        (
            "perf all_reduce --link ports --rate 1Gbit/s --sockets xdp",
            "error: expected --link ports without --rate or --fabric with --sockets xdp, found another: the queue that limits a link is passed by; leave it out\n",
        ),
        (
            "perf all_reduce --link ports --design netreduce",
            "error: expected designs of roce-v2 frames with --link ports, found netreduce; run it with --link netns\n",
        ),
    ];
    for (arguments, line) in cases {
        assert_eq!(refused(arguments), line);
    }
    let wrong = refused("switch --name s --address 10.0.0.9/33 --port eth1");
    assert!(
        wrong.contains("expected the length of a prefix from 1 to 32 behind the slash, found \"33\""),
        "{wrong}"
    );
    let both = refused("switch --name s --address 10.0.0.9/24 --port eth1 --transport packet");
    assert!(both.contains("'--port <INTERFACE>' cannot be used with '--transport <TRANSPORT>'"), "{both}");
}
