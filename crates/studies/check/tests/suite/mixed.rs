//! Trees whose switches are in several modes: which mixtures are right, and which are not.

use crate::common::{self, group_setup, lossy};
use quincunx_check::{Exploration, Fault, GroupSetup, Network};
use quincunx_collective::{Collective, Rank};

const ROOT: Rank = Rank(0);
const PRIMITIVES: [Collective; 3] =
    [Collective::AllReduce, Collective::Reduce { root: ROOT }, Collective::Broadcast { root: ROOT }];

/// A root and one leaf below it, three ranks, modes from the root down.
fn mixed(modes: &str, collectives: &[Collective], packets: u32) -> Network {
    let mut setup = group_setup("epic-mixed", collectives, "tree-3-2", packets, &[("group.unproved", true)]);
    setup.scenario.set("group.modes", modes.into());
    Network::of_group(&setup).unwrap()
}

#[test]
fn mode_i_and_mode_iii_mix_either_way_and_both_go_below_mode_ii() {
    for modes in ["III/I", "I/III", "II/I", "II/III"] {
        for collective in PRIMITIVES {
            common::assert_right(&mixed(modes, &[collective], 1), lossy());
        }
    }
}

/// Of what it has sent a leaf in Mode-III hears by results, and a root in Mode-II of its results by what is sent: with each rule that sees to
/// that taken away, some two losses leave both waiting.
#[test]
fn a_leaf_in_mode_iii_and_a_root_in_mode_ii_get_over_two_losses() {
    for (collective, resends) in
        [(Collective::AllReduce, false), (Collective::Broadcast { root: ROOT }, true)]
    {
        let keys = [("group.message", 2), ("group.window", 1)];
        let mut setup = group_setup("epic-mixed", &[collective], "tree-2x1", 2, &keys);
        setup.scenario.set("group.modes", "II/III".into());
        setup.scenario.set("group.resend_results", resends.into());
        common::assert_right(&Network::of_group(&setup).unwrap(), Exploration { losses: 2, ..lossy() });
    }
}

/// Go-back-N, one collective behind the other: a Broadcast is held back where a result is awaited, until that has passed, or is acknowledged.
#[test]
fn a_leaf_in_mode_iii_whose_acknowledge_of_a_result_is_lost_gets_what_comes_behind_it() {
    for collective in [Collective::Broadcast { root: ROOT }, Collective::AllGather] {
        let twice = [collective; 2];
        let mut setup = group_setup("epic-mixed", &twice, "tree-2x1", 2, &[("group.window", 1)]);
        setup.scenario.set("group.modes", "II/III".into());
        setup.scenario.set("group.selective", false.into());
        common::assert_right(&Network::of_group(&setup).unwrap(), lossy());
    }
}

/// Rules by which a leaf in Mode-III and a root in Mode-II hear of what has come; in which collective it shows that one is broken: one of them
/// that loses two frames, or two without selective repeat of which one frame is lost.
pub(crate) const CASES: [(&str, Collective, bool); 4] = [
    ("times-out-unheard", Collective::Broadcast { root: ROOT }, false),
    ("newest-unheard", Collective::AllReduce, true),
    ("covered-told-once", Collective::Broadcast { root: ROOT }, true),
    ("rewinds-what-is-kept", Collective::AllGather, false),
];

#[test]
fn without_one_of_the_rules_by_which_they_hear_of_results_both_wait_for_ever() {
    for (mutation, collective, is_one) in CASES {
        let collectives = if is_one { vec![collective] } else { vec![collective; 2] };
        let message = if is_one { 2 } else { 1 };
        let keys = [("group.message", message), ("group.window", 1)];
        let mut setup = group_setup("epic-mixed", &collectives, "tree-2x1", 2, &keys);
        setup.scenario.set("group.modes", "II/III".into());
        setup.scenario.set("group.selective", is_one.into());
        let setup = GroupSetup { mutation: Some(mutation.to_owned()), ..setup };
        let rules = Exploration { losses: if is_one { 2 } else { 1 }, ..lossy() };
        let (_, found) = common::run(&Network::of_group(&setup).unwrap(), rules);
        let fault = found.map(|(fault, _)| fault);
        assert!(matches!(fault, Some(Fault::Stuck | Fault::Livelock)), "{mutation}: {fault:?}");
    }
}

#[test]
fn below_another_mode_nobody_acknowledges_mode_ii_s_all_reduce() {
    for modes in ["III/II", "I/II"] {
        let (_, found) = common::run(&mixed(modes, &[Collective::AllReduce], 1), lossy());
        let fault = found.map(|(fault, _)| fault);
        assert!(matches!(fault, Some(Fault::Stuck | Fault::Livelock)), "{modes}: {fault:?}");
    }
}

#[test]
fn numbers_stay_in_step_where_a_neighbour_skips_what_does_not_come_its_way() {
    let far = Rank(2);
    let up = [Collective::Reduce { root: far }, Collective::Reduce { root: ROOT }];
    let down = [Collective::Broadcast { root: far }, Collective::Broadcast { root: ROOT }];
    let there = [Collective::Reduce { root: far }, Collective::Broadcast { root: far }];
    for modes in ["III/I", "I/III", "II/I"] {
        for sequence in [up, down, there] {
            let rules = Exploration { losses: 0, ..lossy() };
            common::assert_right(&mixed(modes, &sequence, 1), rules);
        }
    }
}
