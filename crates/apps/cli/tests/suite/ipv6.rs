//! Groups of nodes whose addresses are of IPv6: every primitive in every mode, by each way that frames travel in namespaces.

use crate::processes::{quincunx, rows};
use quincunx_needs::{namespaces, need};

const PRIMITIVES: [&str; 6] =
    ["all_reduce", "reduce --root 2", "broadcast --root 2", "barrier", "reduce_scatter", "all_gather"];

/// Runs all primitives in three modes on a tree of switches, with faults; of a packet that is lost the peers notice.
fn all_are_right(way: &str) {
    for collective in PRIMITIVES {
        let size = if collective == "barrier" { "" } else { "--size 40KiB" };
        let rows = rows(&quincunx(&format!(
            "perf {collective} {size} --ipv6 {way} --ranks 4 --tree tree-2x2 --design epic-1,epic-2,epic-3 --mtu 1500 --iterations 2 \
             --loss 2% --reorder 2% --duplicate 2% --seed 3 --retry-timeout 5ms --json"
        )));
        assert_eq!(rows.len(), 3, "{way} {collective}");
        assert!(rows.iter().all(|row| row["wrong"] == 0), "{way} {collective}: {rows:?}");
    }
}

#[test]
fn every_primitive_is_right_in_every_mode_over_udp_sockets() {
    need!(namespaces());
    all_are_right("--link netns");
}

#[test]
fn every_primitive_is_right_in_every_mode_over_packet_sockets() {
    need!(namespaces());
    all_are_right("--link netns --transport packet");
}

#[test]
fn every_primitive_is_right_in_every_mode_through_a_switchs_own_ports() {
    need!(namespaces());
    all_are_right("--link ports");
}

#[test]
fn loopback_has_one_address_of_ipv6_and_that_is_said_in_one_line() {
    let output = quincunx("perf barrier --ipv6 --ranks 2");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said.trim_end(),
        "error: expected --link netns or ports with --ipv6, found loopback, where IPv6 has one address for all; name one of the two"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn addresses_that_are_none_of_a_node_are_refused_in_one_line() {
    for (address, expected) in [
        (
            "[fd00::9]:4791",
            "expected an IP address, found \"[fd00::9]:4791\"; write it like 10.0.0.9 or fd00::9, without brackets or port",
        ),
        (
            "fe80::1",
            "expected an address that means the same on all links, found link-local fe80::1; give the interface another one, as from \
             fd00::/8",
        ),
        ("fd00::9/129", "expected the length of a prefix from 1 to 128 behind the slash, found \"129\""),
        // An IPv4 address, however it is written.
        ("::ffff:10.0.0.9/33", "expected the length of a prefix from 1 to 32 behind the slash, found \"33\""),
    ] {
        let output = quincunx(&format!("switch --name s --address {address}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(expected), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}
