//! Nobody can send as somebody else: a third party at a port of its own, which has seen the frames of a rank, forges more of them, with right
//! addresses, queue pair, PSN and CRC. Real processes in network namespaces.

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
    sockopt::ReceiveTimeout,
};
use nix::sys::time::{TimeVal, TimeValLike};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_driver_net::netns::{NetnsFabric, NetnsNode};
use quincunx_needs::{namespaces, need};
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, run};
use quincunx_runtime::ROCE_PORT;
use quincunx_scenario::Scenario;
use quincunx_wire::{Psn, RoceHeader, UdpPath, emit_datagram, parse_datagram};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// Bytes of payload in a frame.
const PAYLOAD: usize = 1024;

/// So many frames ahead of each that is seen are forged.
const AHEAD: u32 = 8;

/// Ethernet, IPv4, UDP.
const HEAD: usize = 14 + 20 + 8;

/// Where the third party is.
const INTRUDER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 180);

/// What became of a run.
struct Outcome {
    wrong: u64,
    forged: u64,
    /// The switch's, by reason.
    dropped: std::collections::BTreeMap<String, u64>,
    ended: bool,
}

/// An AllReduce of two ranks at one switch, over and over, while a third party forges what rank 0 sends to the switch.
fn attacked(packet_sockets: bool, any_interface: bool, reverse_path_filter: bool) -> Outcome {
    let links = RealLinks { mtu: 1500, is_limited: false };
    let changes = ["group.mtu=1024", "group.message=1", "group.window=16"].map(|text| text.parse().unwrap());
    let scenario = Scenario::find_for(&links, "star-2", &changes, CATALOG).unwrap();
    let design = CATALOG.find("epic-2", FabricKind::Tree).unwrap();
    let setup = GroupsSetup::new(CATALOG, &[design], &scenario).unwrap();
    // Results are compared in the first and in the last repetition of a case.
    let case = Case {
        design: "epic-2".into(),
        collective: "all_reduce".into(),
        in_place: false,
        root: 0,
        bytes: 256 << 10,
        data_type: "f32".into(),
        op: "sum".into(),
        iterations: 2,
        warm_up: 1,
    };
    let plan = Plan { setup, cases: vec![case; 4] };
    let nodes = if any_interface { vec!["--any-interface".to_owned()] } else { Vec::new() };
    let arguments = ChildArguments { nodes, packet_sockets, ..ChildArguments::default() };
    let shape = scenario.fabric.shape().unwrap();
    let kind = LinkKind::Netns { rate: None, mtu: 1500 };
    let mut fabric = Processes::start(&shape, kind, Path::new(PROGRAM), arguments, None).unwrap();
    let namespaces = fabric.namespaces().unwrap();
    let hub = NetnsNode::Switch(0);
    let intruder = format!("{}9", namespaces.namespace(NetnsNode::Host(0)));
    let made = Command::new("ip").args(["netns", "add", &intruder]).status();
    assert!(made.is_ok_and(|status| status.success()));
    let attach = format!(
        "ip link add evil type veth peer name eth0 netns {intruder} && ip link set evil up \
         && ip route add {INTRUDER}/32 dev evil && ip -n {intruder} link set eth0 up \
         && ip -n {intruder} addr add {INTRUDER}/24 dev eth0 && ip -n {intruder} neigh add {} dev eth0 lladdr $(cat /sys/class/net/evil/address)",
        hub.address(),
    );
    shell(namespaces, hub, &attach);
    if !reverse_path_filter {
        shell(namespaces, hub, "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $each; done");
    }
    let wire = in_namespace(&namespaces.namespace(hub), || {
        socket(AddressFamily::Packet, SockType::Raw, SockFlag::empty(), SockProtocol::EthAll).unwrap()
    });
    let evil = in_namespace(&intruder, || {
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap()
    });
    let (stop, forged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (seen, tips) = sync_channel(1);
    let (mut wrong, mut ended) = (0, false);
    let (halt, count) = (&stop, &forged);
    thread::scope(|scope| {
        scope.spawn(|| watch(&wire, &seen, halt));
        scope.spawn(move || forge(&evil, &tips, halt, count));
        let done = run(&mut fabric, &plan, |row| wrong += row.wrong);
        ended = done.is_ok();
        stop.store(true, Ordering::Relaxed);
    });
    let dropped = fabric.end_switches().remove("switch0").unwrap_or_default();
    let gone = Command::new("ip").args(["netns", "del", &intruder]).status();
    assert!(gone.is_ok_and(|status| status.success()));
    Outcome { wrong, forged: forged.into_inner(), dropped, ended }
}

fn shell(namespaces: &NetnsFabric, node: NetnsNode, script: &str) {
    let done = namespaces.command(node, "sh").args(["-ec", script]).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

pub(crate) fn in_namespace<R: Send>(name: &str, act: impl FnOnce() -> R + Send) -> R {
    let enter = || {
        setns(File::open(format!("/run/netns/{name}")).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
        act()
    };
    thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// Hands on the header of what rank 0 has just sent to the switch, as somebody with a tap on its link sees it.
fn watch(wire: &OwnedFd, seen: &SyncSender<RoceHeader>, stop: &AtomicBool) {
    setsockopt(wire, ReceiveTimeout, &TimeVal::milliseconds(50)).unwrap();
    let (rank, switch) = (NetnsNode::Host(0).address(), NetnsNode::Switch(0).address());
    let mut frame = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let length = match recv(wire.as_raw_fd(), &mut frame, MsgFlags::empty()) {
            Ok(length) => length,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => panic!("{error}"),
        };
        let Some(bytes) = frame[..length].get(HEAD..) else { continue };
        if frame[26..30] != rank.octets() || frame[30..34] != switch.octets() || frame[23] != 17 {
            continue;
        }
        let source_port = u16::from_be_bytes([frame[34], frame[35]]);
        let path = UdpPath { source: rank, destination: switch, source_port, traffic_class: frame[15] };
        // Several frames may be merged into what passes: the first of them, by the length that full ones have.
        let full = [16, 20, 12].map(|above| above + PAYLOAD + 4);
        let parsed = full.iter().find_map(|&length| parse_datagram(&path, bytes.get(..length)?).ok());
        if let Some((header, payload)) = parsed
            && payload.len() == PAYLOAD
        {
            let _ = seen.try_send(header);
        }
    }
}

/// Sends as rank 0, with the next PSNs and numbers of its own.
fn forge(evil: &OwnedFd, tips: &Receiver<RoceHeader>, stop: &AtomicBool, forged: &AtomicU64) {
    let numbers: Vec<u8> = (0..PAYLOAD / 4).flat_map(|_| 666_f32.to_le_bytes()).collect();
    let to = SockaddrIn::from(SocketAddrV4::new(NetnsNode::Switch(0).address(), 0));
    while !stop.load(Ordering::Relaxed) {
        let Ok(seen) = tips.recv_timeout(std::time::Duration::from_millis(50)) else { continue };
        for ahead in 1..=AHEAD {
            let header = RoceHeader { psn: Psn::new(seen.psn.value() + ahead), ..seen };
            if sendto(evil.as_raw_fd(), &datagram(&header, &numbers), &to, MsgFlags::empty()).is_ok() {
                forged.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A whole IPv4 datagram.
fn datagram(header: &RoceHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 28 + 64 + payload.len()];
    let length = emit_datagram(header, payload, &mut bytes[28..]);
    bytes.truncate(28 + length);
    let total = bytes.len() as u16;
    bytes[..10].copy_from_slice(&[0x45, header.traffic_class, 0, 0, 0, 0, 0x40, 0, 64, 17]);
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[12..16].copy_from_slice(&header.source.octets());
    bytes[16..20].copy_from_slice(&header.destination.octets());
    bytes[20..22].copy_from_slice(&header.source_port.to_be_bytes());
    bytes[22..24].copy_from_slice(&ROCE_PORT.to_be_bytes());
    bytes[24..26].copy_from_slice(&(total - 20).to_be_bytes());
    bytes
}

#[test]
fn where_any_port_will_do_forged_frames_become_part_of_results() {
    need!(namespaces());
    // Whether a forged frame comes between two of the group's is chance, less of it on a machine that is busy.
    let is_hit = |_| attacked(false, true, false).wrong > 0;
    assert!((0..5).any(is_hit), "the attack works, or the tests below say nothing");
}

#[test]
fn frames_that_come_by_another_port_than_their_senders_are_dropped_and_counted() {
    need!(namespaces());
    for packet_sockets in [false, true] {
        let Outcome { wrong, forged, dropped, ended } = attacked(packet_sockets, false, false);
        assert!(ended && wrong == 0, "{wrong} wrong elements");
        let foreign = dropped.get("foreign-port").copied().unwrap_or(0);
        // A socket that overflows loses some of them before anybody looks.
        assert!(forged > 100 && foreign > forged / 2, "{foreign} of {forged}: {dropped:?}");
    }
}

#[test]
fn the_kernel_of_a_routed_switch_drops_them_before_and_that_is_counted_too() {
    need!(namespaces());
    let Outcome { wrong, forged, dropped, ended } = attacked(false, false, true);
    assert!(ended && wrong == 0, "{wrong} wrong elements");
    let filtered = dropped.get("reverse-path").copied().unwrap_or(0);
    assert!(forged > 100 && filtered > forged / 2, "{filtered} of {forged}: {dropped:?}");
}
