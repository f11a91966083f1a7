//! EPIC's modes with ranks whose queue pairs cannot skip PSNs, explored whole: their first hops translate, and a rank waits until its
//! switch knows what comes before. What flows one way only is what tells their numbers apart.

use crate::common::{self, group_setup, lossy};
use quincunx_check::{Exploration, Network, Statistics};
use quincunx_collective::{Collective, Rank};
use quincunx_design::Value;

const MODES: [&str; 2] = ["epic-2", "epic-3"];
const BOTH_WAYS: Collective = Collective::AllReduce;

const fn reduce(root: u16) -> Collective {
    Collective::Reduce { root: Rank(root) }
}

const fn broadcast(root: u16) -> Collective {
    Collective::Broadcast { root: Rank(root) }
}

#[track_caller]
fn assert_right(mode: &str, collectives: &[Collective], tree: &str, rules: Exploration) -> Statistics {
    assert_right_with(true, 4, mode, collectives, tree, rules)
}

/// With or without the confirmations that end a Reduce or a Broadcast.
#[track_caller]
fn assert_right_with(
    confirm: bool,
    window: u32,
    mode: &str,
    collectives: &[Collective],
    tree: &str,
    rules: Exploration,
) -> Statistics {
    let mut setup = group_setup(mode, collectives, tree, 1, &[("group.window", window)]);
    setup.scenario.set("group.standard_verbs", Value::from(true));
    setup.scenario.set("group.confirm", Value::from(confirm));
    common::assert_right(&Network::of_group(&setup).unwrap(), rules)
}

#[test]
fn sequences_of_all_kinds_are_right_with_a_loss_on_a_star() {
    for mode in MODES {
        for sequence in [
            [reduce(0), BOTH_WAYS, broadcast(0)],
            [broadcast(0), broadcast(1), BOTH_WAYS],
            [broadcast(1), reduce(1), BOTH_WAYS],
            [reduce(1), broadcast(0), reduce(0)],
        ] {
            assert_right(mode, &sequence, "star-2", lossy());
        }
    }
}

#[test]
fn parts_that_overlap_are_right_with_a_loss_a_late_frame_and_a_copy() {
    let rules = Exploration { duplicates: 1, delays: 1, ..lossy() };
    for mode in MODES {
        for parts in [Collective::ReduceScatter, Collective::AllGather] {
            assert_right(mode, &[parts], "star-2", rules);
        }
    }
}

/// Without confirmations: with two of them the states are more than memory holds. Each of the two is explored with its own below.
#[test]
fn sequences_are_right_in_every_order_on_a_tree_of_switches() {
    let rules = Exploration { losses: 0, ..lossy() };
    for mode in MODES {
        for sequence in [[reduce(3), BOTH_WAYS], [broadcast(0), broadcast(3)], [reduce(0), broadcast(1)]] {
            assert_right_with(false, 4, mode, &sequence, "tree-2x2", rules);
        }
    }
}

/// Mode-II's Broadcast in a window of four takes a minute and more: `quincunx check epic-2 broadcast --tree tree-2x2 --packets 1
/// --losses 0 --set group.window=4 --set group.standard_verbs=true`.
#[test]
fn a_collective_and_its_confirmation_are_right_in_every_order_on_a_tree_of_switches() {
    let rules = Exploration { losses: 0, ..lossy() };
    for (mode, collective, window) in [
        ("epic-2", reduce(3), 4),
        ("epic-2", broadcast(0), 2),
        ("epic-3", reduce(3), 4),
        ("epic-3", broadcast(0), 4),
    ] {
        assert_right_with(true, window, mode, &[collective], "tree-2x2", rules);
    }
}
