//! Collectives that overlap in EPIC's modes, explored whole: the Reduces of a ReduceScatter, the Broadcasts of an AllGather, and
//! collectives of different kinds in a row. The window has room for messages of two of them.

use crate::common::{self, group_setup, lossy};
use quincunx_check::{Exploration, GroupSetup, Network, Statistics};
use quincunx_collective::{Collective, Rank};

const MODES: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const PARTS: [Collective; 2] = [Collective::ReduceScatter, Collective::AllGather];

#[track_caller]
fn assert_right_with(
    window: u32,
    mode: &str,
    collectives: &[Collective],
    tree: &str,
    rules: Exploration,
) -> Statistics {
    let setup = group_setup(mode, collectives, tree, 1, &[("group.window", window)]);
    common::assert_right(&Network::of_group(&setup).unwrap(), rules)
}

#[track_caller]
fn assert_right(mode: &str, collectives: &[Collective], tree: &str, rules: Exploration) -> Statistics {
    assert_right_with(4, mode, collectives, tree, rules)
}

fn lossless() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

#[test]
fn parts_that_overlap_are_right_with_a_loss_on_stars() {
    for (mode, collective) in MODES.into_iter().flat_map(|mode| PARTS.map(|collective| (mode, collective))) {
        assert_right(mode, &[collective], "star-2", lossy());
        // Roots that ask each other's receivers on are told apart with a smaller window.
        if (mode, collective) != ("epic-2", Collective::AllGather) {
            assert_right(mode, &[collective], "star-3", lossy());
        }
    }
}

#[test]
fn roots_of_mode_ii_that_share_a_receiver_are_right_whoever_is_late() {
    assert_right_with(1, "epic-2", &[Collective::AllGather], "star-3", lossy());
    assert_right_with(2, "epic-2", &[Collective::AllGather], "star-3", lossless());
}

#[test]
fn parts_that_overlap_are_right_in_every_order_on_a_tree_of_switches() {
    // Mode-II's AllGather takes minutes, and in a window of four its ReduceScatter most of one: `quincunx check epic-2 reduce_scatter
    // --tree tree-2x2 --packets 1 --losses 0 --set group.window=4`.
    let rest = [(0, 0, 4), (0, 1, 4), (1, 0, 2), (2, 0, 4), (2, 1, 4)];
    for (mode, collective, window) in rest {
        assert_right_with(window, MODES[mode], &[PARTS[collective]], "tree-2x2", lossless());
    }
}

#[test]
fn collectives_that_a_rank_has_under_way_at_once_end_in_order_with_their_own_data() {
    let root = Rank(1);
    let rows: [&[Collective]; 4] = [
        &[Collective::AllReduce, Collective::AllReduce],
        &[Collective::Broadcast { root }, Collective::AllReduce],
        &[Collective::Reduce { root }, Collective::Broadcast { root }],
        &[Collective::AllGather, Collective::ReduceScatter],
    ];
    for (mode, row) in MODES.into_iter().flat_map(|mode| rows.map(|row| (mode, row))) {
        let setup = group_setup(mode, row, "star-2", 1, &[("group.window", 4)]);
        let setup = GroupSetup { in_flight: 2, ..setup };
        common::assert_right(&Network::of_group(&setup).unwrap(), lossy());
    }
}

#[test]
fn collectives_of_different_kinds_overlap_with_a_loss() {
    let (zero, one) = (Rank(0), Rank(1));
    let rows: [&[Collective]; 5] = [
        &[Collective::Broadcast { root: zero }, Collective::Broadcast { root: one }],
        &[Collective::Reduce { root: zero }, Collective::Broadcast { root: one }],
        &[Collective::Reduce { root: zero }, Collective::AllReduce],
        &[Collective::Broadcast { root: zero }, Collective::Reduce { root: zero }],
        &[Collective::Barrier, Collective::Broadcast { root: one }, Collective::Barrier],
    ];
    for mode in MODES {
        for row in rows {
            assert_right(mode, row, "star-2", lossy());
        }
    }
}
