//! Groups whose nodes heed the time that has passed, where the clock may move on at any time.

use crate::common::{assert_right, full, group_setup, lossy};
use quincunx_check::{Exploration, GroupSetup, Network};
use quincunx_collective::Collective;

/// A group that asks again for what has been missing for long.
fn selective(mode: &str, collective: Collective, packets: u32) -> GroupSetup {
    group_setup(mode, &[collective], "star-2", packets, &[("group.selective", true)])
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

#[test]
fn a_group_is_right_though_the_clock_moves_on_at_any_time() {
    for mode in ["epic-2", "epic-3"] {
        for collective in Collective::PRIMITIVES {
            assert_right(&group(&selective(mode, collective, 2)), Exploration { jumps: 1, ..lossy() });
        }
    }
}

#[test]
fn senders_that_congestion_slows_down_do_their_collective() {
    for mode in ["epic-2", "epic-3", "ring"] {
        let network = if mode == "ring" { "ring-2" } else { "star-2" };
        let setup = group_setup(mode, &[Collective::AllReduce], network, 1, &[("group.dcqcn", "1Gbit/s")]);
        // What marks leave of a rate has thousands of states; without them it stays what it is.
        assert_right(&group(&setup), Exploration { jumps: 1, ..lossy() });
    }
}

#[test]
fn what_is_left_out_changes_no_verdict_where_the_clock_moves() {
    for mode in ["epic-2", "epic-3"] {
        let setup = selective(mode, Collective::AllReduce, 0);
        let rules = Exploration { jumps: 1, ..lossy() };
        let reduced = assert_right(&group(&setup), rules);
        let whole = assert_right(&group(&setup), full(rules));
        assert!(reduced.distinct <= whole.distinct, "{mode}: {reduced:?} {whole:?}");
    }
}
