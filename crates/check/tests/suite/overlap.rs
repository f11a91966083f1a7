//! Collectives that overlap in EPIC's modes, explored whole: the Reduces of a ReduceScatter, the Broadcasts of an AllGather, and
//! collectives of different kinds in a row. The window has room for messages of two of them.

use crate::common::{self, group_setup, lossy};
use quincunx_check::{Exploration, GroupNetwork, Statistics};
use quincunx_collective::{Collective, Rank};
use quincunx_units::ByteCount;

const MODES: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
const PARTS: [Collective; 2] = [Collective::ReduceScatter, Collective::AllGather];

#[track_caller]
fn assert_right(mode: &str, collectives: &[Collective], tree: &str, rules: Exploration) -> Statistics {
    let setup = group_setup(mode, collectives, tree, 1, &[("group.window", 4)]);
    common::assert_right(&GroupNetwork::new(&setup).unwrap(), rules)
}

fn lossless() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

#[test]
fn parts_that_overlap_are_right_with_a_loss_on_stars() {
    for tree in ["star-2", "star-3"] {
        for mode in MODES {
            for collective in PARTS {
                let found = assert_right(mode, &[collective], tree, lossy());
                println!("{mode} {collective} {tree}, one loss: {}", found.distinct);
            }
        }
    }
}

#[test]
fn parts_that_overlap_are_right_in_every_order_on_a_tree_of_switches() {
    // Mode-II's AllGather is with those that take minutes.
    let rest = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)];
    for (mode, collective) in rest.map(|(mode, collective)| (MODES[mode], PARTS[collective])) {
        let found = assert_right(mode, &[collective], "tree-2x2", lossless());
        println!("{mode} {collective} tree-2x2: {}", found.distinct);
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
            let found = assert_right(mode, row, "star-2", lossy());
            println!("{mode} {row:?} star-2, one loss: {}", found.distinct);
        }
    }
}

#[test]
#[ignore = "minutes, and gigabytes: cargo test -p quincunx-check --test suite overlap:: -- --ignored --nocapture"]
fn parts_that_overlap_are_right_with_a_loss_on_a_tree_of_switches() {
    for mode in MODES {
        for collective in PARTS {
            let rules = Exploration { memory: ByteCount::new(6 << 30), ..lossy() };
            let found = assert_right(mode, &[collective], "tree-2x2", rules);
            println!("{mode} {collective} tree-2x2, one loss: {}", found.distinct);
        }
    }
}
