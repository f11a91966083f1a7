//! Ranks of one machine behind one address, as processes: their results are right, whoever is killed beside them, and captures show nothing
//! new.

use crate::processes::{Folder, eventually, listens_at, quincunx, rows, start, start_as};
use quincunx_needs::{namespaces, need};
use quincunx_netns::{Layout, NetnsFabric, NetnsNode};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// An address of loopback that no other test has.
fn address(test: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 200 | high & 7, low, test)
}

fn all_right(run: &str) {
    for row in rows(&quincunx(&format!("perf {run} --iterations 3 --json"))) {
        assert_eq!(row["wrong"], 0, "{run}: {row}");
    }
}

#[test]
fn ranks_behind_one_address_give_right_results_in_every_design_and_through_the_library() {
    let address = address(1);
    let designs = "epic-1,epic-2,epic-3,ring,tree,direct";
    all_right(&format!("all_reduce --ranks 4 --design {designs} --size 256KiB --addresses {address}"));
    all_right(&format!("all_reduce --ranks 4 --in-place --size 1MiB --addresses {address}"));
    all_right(&format!("all_reduce --ranks 4 --design netreduce --size 256KiB --addresses {address}"));
    let lossy = "--loss 2% --reorder 2% --duplicate 1% --seed 3 --retry-timeout 2ms --payload 1024";
    all_right(&format!(
        "all_gather --ranks 4 --design epic-2,ring --size 128KiB {lossy} --addresses {address}"
    ));
}

#[test]
fn addresses_go_round_where_there_are_fewer_than_ranks() {
    let [first, second] = [2, 3].map(address);
    all_right(&format!(
        "all_reduce --ranks 5 --design epic-3,ring --size 64KiB --addresses {first},{second}"
    ));
    let refused = [
        (
            format!("perf all_reduce --ranks 1 --addresses {first},{second}"),
            "expected an address for each of 1",
        ),
        (format!("perf all_reduce --link netns --addresses {first}"), "expected --link udp with --addresses"),
        (format!("run --link netns --addresses {first} -- true"), "expected --link udp with --addresses"),
    ];
    for (line, expected) in refused {
        let said = String::from_utf8(quincunx(&line).stderr).expect("text");
        assert!(said.starts_with(&format!("error: {expected}")) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn ranks_go_on_when_others_at_their_address_are_killed() {
    let mut manager = start("manager --listen 127.0.0.1:0", None);
    let at = listens_at(&mut manager);
    let _switch =
        start(&format!("switch --name leaf --address {} --memory 8MiB --manager {at}", address(4)), None);
    let nodes = || {
        let listed = quincunx(&format!("nodes --manager {at} --json"));
        let json: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        json["nodes"].as_array().map_or(0, Vec::len)
    };
    eventually("a switch", || nodes() == 1);
    let perf = |iterations: u32| {
        format!(
            "perf all_reduce --ranks 2 --design epic-3 --size 16KiB --iterations {iterations} --json --manager {at} --addresses {}",
            address(5)
        )
    };
    std::thread::scope(|scope| {
        // Those who come first have the first shares.
        let killed = start(&perf(1_000_000), None);
        eventually("ranks to kill", || nodes() == 3);
        let going_on = scope.spawn(|| rows(&quincunx(&perf(3000))).remove(0));
        eventually("ranks that go on", || nodes() == 5 || going_on.is_finished());
        // With its ranks, and without a word of theirs.
        drop(killed);
        eventually("ranks that are gone", || nodes() == 3 || going_on.is_finished());
        assert_eq!(rows(&quincunx(&perf(50))).remove(0)["wrong"], 0);
        assert_eq!(going_on.join().expect("no panic")["wrong"], 0);
    });
}

/// Addresses and ports of what a capture holds: of source and destination each.
fn ends(capture: &[u8]) -> BTreeSet<[(Ipv4Addr, u16); 2]> {
    let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("four bytes")) as usize;
    let mut ends = BTreeSet::new();
    let mut start = 0;
    while start < capture.len() {
        // An enhanced packet block: its frame is behind 28 bytes, an Ethernet header of 14, IPv4 of 20, UDP.
        if word(start) == 6 {
            let ip = start + 28 + 14;
            let address =
                |at: usize| Ipv4Addr::new(capture[at], capture[at + 1], capture[at + 2], capture[at + 3]);
            let port = |at: usize| u16::from_be_bytes([capture[at], capture[at + 1]]);
            ends.insert([(address(ip + 12), port(ip + 20)), (address(ip + 16), port(ip + 22))]);
        }
        start += word(start + 4);
    }
    ends
}

#[test]
fn a_capture_shows_the_one_address_and_the_one_port_both_ways() {
    let folder = std::env::temp_dir().join(format!("quincunx-one-address-{}", std::process::id()));
    let address = address(6);
    let run = format!(
        "all_reduce --ranks 3 --design direct --size 64KiB --addresses {address} --pcap {}",
        folder.display()
    );
    all_right(&run);
    for rank in 0..3 {
        let capture = std::fs::read(folder.join(format!("rank{rank}.pcapng"))).expect("a capture");
        assert_eq!(ends(&capture), [[(address, 4791); 2]].into(), "rank {rank}");
    }
    std::fs::remove_dir_all(folder).expect("the folder is ours");
}

#[test]
fn ranks_behind_one_address_hear_each_other_by_loopback_and_their_switch_by_its_link() {
    need!(namespaces());
    let layout = Layout::star(1, 1500, None);
    for layout in [layout.clone(), layout.over_ipv6()] {
        let fabric = NetnsFabric::new(layout).expect("a fabric");
        let (host, hub) = (NetnsNode::Host(0), NetnsNode::Switch(0));
        let certificates = Folder::new("one-address");
        let path = certificates.0.display();
        let made = quincunx(&format!("manager init {path} --node leaf --tenant blue"));
        assert!(made.status.success(), "{made:?}");
        let listen = SocketAddr::new(fabric.address(hub), 0);
        let run = |node, line: &str| start_as(fabric.command(node, PROGRAM), line, None);
        let mut manager = run(hub, &format!("manager --listen {listen} --identity {path}/manager.pem"));
        let at = listens_at(&mut manager);
        let address = fabric.address(hub);
        let switch = format!(
            "switch --name leaf --address {address} --memory 8MiB --manager {at} --identity {path}/node-leaf.pem"
        );
        let _switch = run(hub, &switch);
        eventually("a switch", || {
            let mut asked = fabric.command(hub, PROGRAM);
            let asked = asked.args(["nodes", "--manager", &at, "--json", "--identity"]);
            let listed = asked.arg(format!("{path}/tenant-blue.pem")).output().expect("it runs");
            let json: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
            json["nodes"].as_array().is_some_and(|nodes| nodes.len() == 1)
        });
        // One after the other at the same ranks: over the link, and among themselves.
        let perf = format!(
            "perf all_reduce --ranks 3 --design epic-3,direct --payload 1024 --size 64KiB --iterations 3 --json --manager {at} --identity {path}/tenant-blue.pem --addresses {}",
            fabric.address(host)
        );
        let found = fabric.command(host, PROGRAM).args(perf.split(' ')).output().expect("it runs");
        let found = rows(&found);
        assert_eq!(found.iter().map(|row| &row["wrong"]).collect::<Vec<_>>(), [0, 0], "{found:?}");
    }
}
