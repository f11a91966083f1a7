//! Nobody can send as somebody else: a third party at a port of its own, which has seen the frames of a rank, forges more of them, with right
//! addresses, queue pair, PSN and CRC. Real processes in network namespaces.

use crate::intruder::{Intruder, PAYLOAD, Tap, datagram, raw_sender, shell, watch};
use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_needs::{namespaces, need};
use quincunx_netns::NetnsNode;
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, run};
use quincunx_scenario::Scenario;
use quincunx_wire::{Psn, RoceHeader};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// So many frames ahead of each that is seen are forged.
const AHEAD: u32 = 8;

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
        tokens: None,
    };
    let plan = Plan { setup, cases: vec![case; 4] };
    let nodes = if any_interface { vec!["--any-interface".to_owned()] } else { Vec::new() };
    let arguments = ChildArguments { nodes, packet_sockets, ..ChildArguments::default() };
    let shape = scenario.fabric.shape().unwrap();
    let kind = LinkKind::Netns { rate: None, mtu: 1500 };
    let mut fabric = Processes::start(&shape, kind, Path::new(PROGRAM), arguments, None).unwrap();
    let namespaces = fabric.namespaces().unwrap();
    let hub = NetnsNode::Switch(0);
    let intruder = Intruder::attach(namespaces);
    if !reverse_path_filter {
        shell(namespaces, hub, "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 > $each; done");
    }
    let (wire, evil) = (Tap::new(namespaces), raw_sender(intruder.namespace()));
    let (stop, forged) = (AtomicBool::new(false), AtomicU64::new(0));
    let (seen, tips) = sync_channel(1);
    let (mut wrong, mut ended) = (0, false);
    let (halt, count) = (&stop, &forged);
    thread::scope(|scope| {
        scope.spawn(|| {
            watch(&wire, halt, |header, payload| {
                if payload.len() == PAYLOAD {
                    let _ = seen.try_send(header);
                }
            });
        });
        scope.spawn(move || forge(&evil, &tips, halt, count));
        let done = run(&mut fabric, &plan, |row| wrong += row.wrong);
        ended = done.is_ok();
        stop.store(true, Ordering::Relaxed);
    });
    let dropped = fabric.end_switches().remove("switch0").unwrap_or_default();
    Outcome { wrong, forged: forged.into_inner(), dropped, ended }
}

/// Sends as rank 0, with the next PSNs and numbers of its own.
fn forge(evil: &OwnedFd, tips: &Receiver<RoceHeader>, stop: &AtomicBool, forged: &AtomicU64) {
    let numbers: Vec<u8> = (0..PAYLOAD / 4).flat_map(|_| 666_f32.to_le_bytes()).collect();
    let to = SockaddrStorage::from(SocketAddr::new(NetnsNode::Switch(0).address(), 0));
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
