//! Two groups with the same ranks at the same switches, side by side: each gives its own data's results, whatever the other one does.

use crate::common::{assert_right, assert_same_on_other_drivers, full, group_setup, lossy, run};
use quincunx_check::{Describe, Exploration, Explored, Fault, Finding, GroupSetup, Network, Sequence};
use quincunx_collective::{Collective, Rank};
use quincunx_driver_check::NodeId;
use std::ops::ControlFlow;

const ALL_REDUCE: Collective = Collective::AllReduce;
const BROADCAST: Collective = Collective::Broadcast { root: Rank(0) };

/// Two groups on a network.
fn two(name: &str, collectives: &[Collective], network: &str, packets: u32) -> GroupSetup {
    GroupSetup { groups: 2, ..group_setup::<u32>(name, collectives, network, packets, &[]) }
}

/// The same at a switch that finds the group of a frame by the port that it comes through.
fn mixed_up(setup: GroupSetup) -> GroupSetup {
    GroupSetup { mutation: Some("finds-groups-by-port".to_owned()), ..setup }
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

fn no_loss() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

#[test]
fn two_groups_at_one_switch_keep_their_data_apart() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        for collective in [ALL_REDUCE, BROADCAST] {
            assert_right(&group(&two(mode, &[collective], "star-2", 1)), no_loss());
        }
        assert_right(&group(&two(mode, &[ALL_REDUCE], "star-2", 0)), lossy());
    }
}

#[test]
fn two_groups_with_one_block_of_a_switchs_memory_at_once_have_wrong_sums() {
    for mode in ["epic-2", "epic-3"] {
        let setup =
            GroupSetup { mutation: Some("lock-ignored".to_owned()), ..two(mode, &[ALL_REDUCE], "star-2", 1) };
        let mutated = group(&setup);
        let (_, found) = run(&mutated, no_loss());
        let (fault, path) = found.unwrap_or_else(|| panic!("{mode}: nothing is noticed"));
        let is_wrong = matches!(&fault, Fault::Wrong { message, .. } if message.contains("which no right result has in it"));
        assert!(is_wrong, "{mode}: {fault}");
        assert_same_on_other_drivers(&mutated, fault, &path);
    }
}

#[test]
fn two_groups_of_hosts_alone_keep_their_data_apart() {
    for (name, network) in [("ring", "ring-2"), ("direct", "star-2")] {
        assert_right(&group(&two(name, &[ALL_REDUCE], network, 1)), no_loss());
    }
}

#[test]
fn two_groups_do_several_collectives_each() {
    assert_right(&group(&two("epic-2", &[ALL_REDUCE, BROADCAST], "star-2", 0)), no_loss());
}

#[test]
fn a_group_whose_sender_gives_up_leaves_the_other_alone() {
    let mut setup = two("epic-2", &[ALL_REDUCE], "star-2", 0);
    setup.scenario.set("group.retry_count", 0.into());
    assert_right(&group(&setup), lossy());
}

#[test]
fn a_switch_that_mixes_groups_up_is_noticed() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        let setup = two(mode, &[ALL_REDUCE], "star-2", 1);
        let mutated = group(&mixed_up(setup));
        let (_, found) = run(&mutated, lossy());
        let (fault, path) = found.unwrap_or_else(|| panic!("{mode}: nothing is noticed"));
        // Whoever loses a packet of the one group has one of the other one counted in its place.
        let is_wrong = matches!(&fault, Fault::Wrong { message, .. } if message.contains("which no right result has in it"));
        assert!(is_wrong || mode == "epic-1", "{mode}: {fault}");
        assert_same_on_other_drivers(&mutated, fault, &path);
    }
}

#[test]
fn one_group_alone_is_never_mixed_up() {
    let setup = GroupSetup { groups: 1, ..mixed_up(two("epic-2", &[ALL_REDUCE], "star-2", 1)) };
    let refusal = Network::of_group(&setup).unwrap_err();
    assert!(refusal.to_string().starts_with("expected one of mode-ii-recycling"), "{refusal}");
    // Where connections end in hosts, a switch that forwards finds nothing by queue pairs.
    let setup = mixed_up(two("direct", &[ALL_REDUCE], "star-2", 1));
    let found = group(&setup).explore(no_loss(), &mut |_| ControlFlow::Continue(())).1;
    assert_eq!(found, Finding::NeverMattered);
}

#[test]
fn what_is_left_out_changes_no_verdict_of_two_groups() {
    let setup = two("epic-2", &[BROADCAST], "star-2", 0);
    let reduced = assert_right(&group(&setup), no_loss());
    let whole = assert_right(&group(&setup), full(no_loss()));
    assert!(reduced.distinct < whole.distinct, "{reduced:?} {whole:?}");
    assert!(run(&group(&mixed_up(setup)), full(no_loss())).1.is_some());
}

#[test]
fn frames_say_which_group_they_are_of() {
    let mutated = group(&mixed_up(two("epic-2", &[ALL_REDUCE], "star-2", 1)));
    let (_, path) = run(&mutated, lossy()).1.expect("it is noticed");
    let lines = Sequence { network: &mutated, path: &path }.lines();
    for name in ["of group 1", "of group 2"] {
        assert!(lines.iter().any(|line| line.contains(name)), "{name}: {lines:#?}");
    }
    assert_eq!(mutated.name(NodeId(0)), "switch 0");
}
