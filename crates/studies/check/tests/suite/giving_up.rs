//! Senders that give up: whoever is not told of success is told that the group has failed, and nobody waits for ever. The control plane
//! takes part: it ends the group at every node, at any time after the first failure that a node reports.

use crate::common::{assert_right, assert_same_on_other_drivers, full, group_setup, lossy, run};
use quincunx_check::{Exploration, Fault, GroupSetup, Network, Statistics};
use quincunx_collective::{Collective, Rank};

/// A packet may be lost, and what is sent again in its place.
fn rules() -> Exploration {
    Exploration { losses: 2, ..lossy() }
}

/// A group whose senders give up when a packet that was sent again is not acknowledged.
fn impatient(name: &str, collectives: &[Collective], network: &str, packets: u32) -> GroupSetup {
    group_setup(name, collectives, network, packets, &[("group.retry_count", 1)])
}

fn assert_ends(setup: &GroupSetup, rules: Exploration) -> Statistics {
    assert_right(&Network::of_group(setup).unwrap(), rules)
}

#[test]
fn a_group_of_epic_whose_sender_gives_up_ends_everywhere() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        for collective in Collective::PRIMITIVES {
            assert_ends(&impatient(mode, &[collective], "star-2", 1), rules());
        }
    }
}

#[test]
fn a_group_of_hosts_alone_whose_sender_gives_up_ends_everywhere() {
    let collective = [Collective::AllReduce];
    for (name, network) in [("ring", "ring-3"), ("tree", "star-2"), ("direct", "star-2")] {
        assert_ends(&impatient(name, &collective, network, 1), rules());
    }
    let mut relaying = impatient("multiwrite", &[Collective::AllGather], "mesh-2x2", 1);
    relaying.scenario.set("group.retry_count", 0.into());
    assert_ends(&GroupSetup { senders: Some(2), ..relaying }, lossy());
}

#[test]
fn a_sender_may_give_up_in_any_of_several_collectives() {
    for mode in ["epic-2", "epic-3"] {
        let collectives = [Collective::AllReduce, Collective::Broadcast { root: Rank(0) }];
        assert_ends(&impatient(mode, &collectives, "star-2", 1), rules());
    }
}

#[test]
fn a_sender_gives_up_at_once_where_nothing_is_sent_again() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        let mut setup = impatient(mode, &[Collective::AllReduce], "star-2", 1);
        setup.scenario.set("group.retry_count", 0.into());
        assert_ends(&setup, lossy());
    }
}

#[test]
fn a_group_ends_though_frames_are_late_and_copied_where_a_sender_gives_up() {
    for (mode, collective) in
        [("epic-2", Collective::AllReduce), ("epic-3", Collective::Broadcast { root: Rank(0) })]
    {
        let mut setup = impatient(mode, &[collective], "star-2", 0);
        setup.scenario.set("group.retry_count", 0.into());
        assert_ends(&setup, Exploration { delays: 1, duplicates: 1, ..lossy() });
    }
}

#[test]
fn a_switch_whose_group_is_removed_and_that_answers_on_is_noticed() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        let mut setup = impatient(mode, &[Collective::AllReduce], "star-2", 1);
        setup.scenario.set("group.retry_count", 0.into());
        // In virtual time answers are measured, and selective reliability asks before it gives up.
        setup.scenario.set("group.selective", false.into());
        let broken = GroupSetup { mutation: Some("stays-when-removed".to_owned()), ..setup };
        let network = Network::of_group(&broken).unwrap();
        // What is late comes when the group is no more.
        let late = Exploration { losses: 0, delays: 1, ..lossy() };
        let (fault, path) = run(&network, late).1.unwrap_or_else(|| panic!("{mode}: nothing is noticed"));
        let is_it =
            matches!(&fault, Fault::Wrong { message, .. } if message.contains("though its group has ended"));
        assert!(is_it, "{mode}: {fault}");
        assert_same_on_other_drivers(&network, fault, &path);
    }
}

#[test]
fn what_is_left_out_changes_no_verdict_where_a_sender_gives_up() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        let mut setup = impatient(mode, &[Collective::AllReduce], "star-2", 0);
        setup.scenario.set("group.retry_count", 0.into());
        let reduced = assert_ends(&setup, lossy());
        let whole = assert_ends(&setup, full(lossy()));
        assert!(reduced.distinct <= whole.distinct, "{mode}: {reduced:?} {whole:?}");
    }
}
