//! SwitchML, explored whole: right in every run on a star, and wrong in some run where a rule is broken, the paper's own among them.

use crate::common::{
    Environment, assert_each_has_a_case, assert_noticed, assert_right, full, group_setup, lossy, run,
};
use quincunx_check::{Exploration, Fault, GroupSetup, Network};
use quincunx_collective::Collective;

const ALL_REDUCE: [Collective; 1] = [Collective::AllReduce];

fn reliable() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

fn copied() -> Exploration {
    Exploration { losses: 0, duplicates: 1, ..lossy() }
}

/// Something arrives late, when all has been sent again.
fn late() -> Exploration {
    Exploration { losses: 0, delays: 1, early_timeouts: 1, ..lossy() }
}

/// So many packets in a pool of so many slots.
fn setup(star: &str, packets: u32, slots: u32) -> GroupSetup {
    group_setup("switchml", &ALL_REDUCE, star, packets, &[("group.window", slots)])
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

/// A slot is used three times and more, so that each of its pools is used again.
#[test]
fn slots_are_used_again_and_sums_are_right_whatever_is_lost_late_or_copied() {
    for rules in [lossy(), copied(), late()] {
        assert_right(&group(&setup("star-2", 3, 1)), rules);
        assert_right(&group(&setup("star-2", 3, 2)), rules);
    }
}

#[test]
fn three_ranks_add_up_whatever_is_lost() {
    assert_right(&group(&setup("star-3", 2, 1)), lossy());
}

#[test]
fn collectives_follow_each_other_and_what_is_late_is_of_none() {
    let collectives = [Collective::AllReduce; 2];
    let setup = group_setup("switchml", &collectives, "star-2", 1, &[("group.window", 1)]);
    assert_right(&group(&setup), lossy());
    assert_right(&group(&setup), late());
}

#[test]
fn a_group_whose_rank_gives_up_ends_everywhere() {
    let setup = group_setup("switchml", &ALL_REDUCE, "star-2", 1, &[("group.retry_count", 1)]);
    assert_right(&group(&setup), lossy());
}

#[test]
fn reductions_change_no_verdict() {
    assert_right(&group(&setup("star-2", 2, 1)), full(lossy()));
}

/// The rules, each with the environment in which it does harm.
const BROKEN: [(&str, Environment); 12] = [
    ("version-bit", late),
    ("one-pool", lossy),
    ("counts-repeats", lossy),
    ("answers-pending", lossy),
    ("answers-other-pool", lossy),
    ("forgets-sum", lossy),
    ("whole-early", reliable),
    ("keeps-sum", reliable),
    ("any-result", copied),
    ("never-again", lossy),
    ("resends-first", lossy),
    ("success-on-failure", lossy),
];

fn broken(mutation: &str) -> GroupSetup {
    let mutation = Some(mutation.to_owned());
    if mutation.as_deref() == Some("success-on-failure") {
        let setup = group_setup("switchml", &ALL_REDUCE, "star-2", 1, &[("group.retry_count", 0)]);
        return GroupSetup { mutation, ..setup };
    }
    let slots = if mutation.as_deref() == Some("resends-first") { 2 } else { 1 };
    GroupSetup { mutation, ..setup("star-2", 3, slots) }
}

#[test]
fn every_broken_rule_is_noticed_and_is_the_same_fault_on_other_drivers() {
    assert_noticed(&BROKEN, broken);
}

#[test]
fn every_rule_that_can_be_broken_has_a_case() {
    assert_each_has_a_case("switchml", &BROKEN);
}

#[test]
fn as_the_paper_has_it_sums_are_right_whatever_is_lost_if_nothing_is_late() {
    let network = group(&broken("version-bit"));
    assert!(run(&network, lossy()).1.is_none(), "whatever is lost");
    // A copy may come at any time later.
    for rules in [late(), copied()] {
        let (fault, _) = run(&network, rules).1.expect("a late contribution is counted for another piece");
        assert!(matches!(fault, Fault::Wrong { .. }), "{fault}");
    }
}
