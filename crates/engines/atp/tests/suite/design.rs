//! What the design plans and what it refuses.

use quincunx_atp::ATP;
use quincunx_collective::Rank;
use quincunx_design::{AnyDesign, Connection, Form, Member, Placement, Plan, Refusal, Settings, Value};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_units::ByteCount;

const DESIGN: &dyn AnyDesign = &ATP;

fn placement(tree: &str) -> Placement {
    let tree = IncTree::from_shape(&tree.parse().unwrap());
    let ranks = tree.ranks();
    Placement::new(ranks, Some(tree), ByteCount::new(4096))
}

fn with(changes: &[(&str, Value)]) -> Settings {
    let mut settings = DESIGN.defaults();
    for (key, value) in changes {
        DESIGN.set(&mut settings, key, value).unwrap();
    }
    settings
}

fn planned(tree: &str, changes: &[(&str, Value)]) -> Result<Plan, Refusal> {
    DESIGN.plan(&with(changes), &placement(tree))
}

#[test]
fn each_rank_is_connected_with_the_switch_and_rank_0_twice_if_it_sends() {
    let node = TreeNodeId(0);
    let edge = |rank| Connection::new((Member::Rank(Rank(rank)), 0), (Member::Switch(node), rank));
    let plan = planned("star-3", &[]).unwrap();
    assert_eq!(plan.connections, [0, 1, 2].map(edge));
    assert_eq!(plan.switches.len(), 1);
    let plan = planned("star-3", &[("aggregation.server_sends", true.into())]).unwrap();
    assert_eq!(plan.connections[..3], [0, 1, 2].map(edge));
    let second = Connection::new((Member::Rank(Rank(0)), 1), (Member::Switch(node), 3));
    assert_eq!(plan.connections[3..], [second]);
}

#[test]
fn the_switch_needs_a_packet_for_each_aggregator() {
    let memory = |changes: &[_]| planned("star-2", changes).unwrap().switches[0].memory.bytes();
    assert_eq!(memory(&[]), 1024 * 1024);
    assert_eq!(memory(&[("aggregation.aggregators", 3.into()), ("group.mtu", "256B".into())]), 3 * 256);
}

/// A preset's are those of queue pairs that number and acknowledge what they send.
#[test]
fn presets_leave_its_packets_and_its_time_out_as_they_are() {
    let pinned = DESIGN.about().pinned_keys;
    for key in ["mtu", "message", "window", "acknowledge_every", "retry_timeout"] {
        assert!(pinned.contains(&&*format!("group.{key}")), "{key}");
    }
}

#[test]
fn its_result_is_in_fixed_point() {
    assert_eq!(planned("star-2", &[]).unwrap().form, Form::FixedPoint);
    assert!(!DESIGN.about().is_exact);
}

#[test]
fn what_there_is_no_group_of_is_refused_in_a_line() {
    for (changes, expected) in [
        (
            ("group.window", Value::from(3)),
            "expected a window of a power of two up to 4194304, found 3; choose 256",
        ),
        (("aggregation.aggregators", 0.into()), "expected 1 to 4194304 aggregators, found 0; choose 1024"),
        (
            ("group.mtu", "4092B".into()),
            "expected packets of whole 4-byte elements up to 4084 bytes, found 4092; choose 1024",
        ),
        (
            ("group.selective", true.into()),
            "expected `group` without acknowledges: datagrams have none, found `group.selective`; leave it out",
        ),
        (
            ("group.acknowledge_every", 2.into()),
            "expected `group` without acknowledges: datagrams have none, found `group.acknowledge_every`; leave it out",
        ),
        (
            ("group.dcqcn", "1Gbit/s".into()),
            "expected `group` without acknowledges: datagrams have none, found `group.dcqcn`; leave it out",
        ),
    ] {
        assert_eq!(planned("star-2", &[changes]).unwrap_err().to_string(), expected);
    }
}

/// Four windows of numbers have room beside a bit for each rank and one more: 10 bits of 256.
#[test]
fn ranks_and_window_share_an_immediate() {
    assert!(planned("star-21", &[]).is_ok());
    assert_eq!(
        planned("star-22", &[]).unwrap_err().to_string(),
        "expected at most 21 ranks with a window of 256, found 22; choose fewer of either"
    );
    assert!(planned("star-22", &[("group.window", 128.into())]).is_ok());
}

#[test]
fn a_tree_of_switches_is_refused() {
    assert_eq!(
        planned("tree-2x2", &[]).unwrap_err().to_string(),
        "expected one switch with all hosts at it for atp, found another fabric; choose a star such as star-8"
    );
}

#[test]
fn every_key_is_explained() {
    let keys: Vec<String> = DESIGN.defaults().flat().into_iter().map(|(key, _)| key).collect();
    let mut explained: Vec<&str> = DESIGN.help().into_iter().map(|(key, _)| key).collect();
    explained.sort_unstable();
    assert_eq!(keys, explained);
}
