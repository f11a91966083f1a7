//! What the design plans and what it refuses.

use quincunx_collective::Rank;
use quincunx_design::{AnyDesign, Connection, Form, Member, Placement, Plan, Refusal, Settings, Value};
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_switchml::SWITCHML;
use quincunx_units::ByteCount;

const DESIGN: &dyn AnyDesign = &SWITCHML;

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
fn each_rank_is_connected_with_the_switch() {
    let plan = planned("star-3", &[]).unwrap();
    let [switch] = &plan.switches[..] else { panic!("one switch") };
    let edge = |rank| Connection::new((Member::Rank(Rank(rank)), 0), (Member::Switch(switch.node), rank));
    assert_eq!(plan.connections, [0, 1, 2].map(edge));
    assert_eq!(switch.node, TreeNodeId(0));
}

#[test]
fn the_switch_needs_two_sums_for_each_slot() {
    let memory = |changes: &[_]| planned("star-2", changes).unwrap().switches[0].memory.bytes();
    assert_eq!(memory(&[]), 2 * 256 * 1024);
    assert_eq!(memory(&[("group.window", 128.into()), ("group.mtu", "256B".into())]), 2 * 128 * 256);
    assert_eq!(memory(&[("group.window", 2.into()), ("group.message", 4.into())]), 2 * 8 * 1024);
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
fn what_there_is_no_pool_for_is_refused_in_a_line() {
    for (changes, expected) in [
        (
            ("group.window", Value::from(3)),
            "expected slots of a power of two up to 4194304, found 3; choose 256",
        ),
        (
            ("group.mtu", "4096B".into()),
            "expected packets of whole 4-byte elements up to 4088 bytes, found 4096; choose 1024",
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

#[test]
fn a_tree_of_switches_is_refused() {
    assert_eq!(
        planned("tree-2x2", &[]).unwrap_err().to_string(),
        "expected one switch with all hosts at it for switchml, found another fabric; choose a star such as star-8"
    );
}

#[test]
fn every_key_is_explained() {
    let keys: Vec<String> = DESIGN.defaults().flat().into_iter().map(|(key, _)| key).collect();
    let mut explained: Vec<&str> = DESIGN.help().into_iter().map(|(key, _)| key).collect();
    explained.sort_unstable();
    assert_eq!(keys, explained);
}
