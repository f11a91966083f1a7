//! AllReduce-Switch, explored whole: right in every run on a star, and wrong in some run where a rule is broken. Several of the broken
//! rules are what the paper prints.

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
    Exploration { duplicates: 1, ..lossy() }
}

fn setup(star: &str, packets: u32) -> GroupSetup {
    group_setup::<u32>("netreduce", &ALL_REDUCE, star, packets, &[])
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

/// Three messages of two frames, where the switch has columns for two.
#[test]
fn columns_are_used_again_and_sums_are_right_whatever_is_lost_late_or_copied() {
    for rules in [lossy(), Exploration { delays: 1, ..reliable() }, copied()] {
        assert_right(&group(&setup("star-2", 3)), rules);
    }
    assert_right(&group(&setup("star-3", 1)), Exploration { delays: 1, ..lossy() });
}

#[test]
fn collectives_follow_each_other() {
    let collectives = [Collective::AllReduce, Collective::Barrier, Collective::AllReduce];
    let setup = group_setup::<u32>("netreduce", &collectives, "star-2", 1, &[]);
    assert_right(&group(&setup), lossy());
}

#[test]
fn a_group_whose_sender_gives_up_ends_everywhere() {
    let setup = group_setup("netreduce", &ALL_REDUCE, "star-2", 1, &[("group.retry_count", 0)]);
    assert_right(&group(&setup), lossy());
}

#[test]
fn reductions_change_no_verdict() {
    assert_right(&group(&setup("star-2", 1)), full(lossy()));
}

/// The rules, each with the environment in which it does harm.
const BROKEN: [(&str, Environment); 16] = [
    ("oldest-first", lossy),
    ("any-begins", lossy),
    ("forwards-unknown", copied),
    ("first-reopens", lossy),
    ("any-order", lossy),
    ("answers-pending", lossy),
    ("counts-repeats", lossy),
    ("status-kept", lossy),
    ("adds-early", reliable),
    ("count-kept", reliable),
    ("answers-arrival", reliable),
    ("resends-next-place", lossy),
    ("fifth-message", lossy),
    ("over-when-answered", lossy),
    ("same-message", reliable),
    ("success-on-failure", lossy),
];

fn broken(mutation: &str) -> GroupSetup {
    let mutation = Some(mutation.to_owned());
    if mutation.as_deref() == Some("success-on-failure") {
        let setup = group_setup("netreduce", &ALL_REDUCE, "star-2", 1, &[("group.retry_count", 0)]);
        return GroupSetup { mutation, ..setup };
    }
    GroupSetup { mutation, ..setup("star-2", 3) }
}

#[test]
fn every_broken_rule_is_noticed_and_is_the_same_fault_on_other_drivers() {
    assert_noticed(&BROKEN, broken);
}

#[test]
fn every_rule_that_can_be_broken_has_a_case() {
    assert_each_has_a_case("netreduce", &BROKEN);
}

#[test]
fn as_table_vi_has_it_a_frame_of_a_lost_message_is_taken_for_the_sum() {
    let network = group(&broken("forwards-unknown"));
    assert!(run(&network, lossy()).1.is_none(), "with links that keep their order nothing comes of it");
    let (fault, _) = run(&network, copied()).1.expect("a copy of it arrives in its turn");
    assert!(matches!(fault, Fault::Wrong { .. }), "{fault}");
}
