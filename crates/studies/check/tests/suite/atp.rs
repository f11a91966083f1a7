//! ATP, explored whole: right in every run on a star, and wrong in some run where a rule is broken.

use crate::common::{
    Environment, assert_each_has_a_case, assert_noticed, assert_right, full, group_setup, lossy, run,
};
use quincunx_check::{Exploration, GroupSetup, Network};
use quincunx_collective::Collective;
use quincunx_design::Value;

const ALL_REDUCE: [Collective; 1] = [Collective::AllReduce];

/// Rank 0's part goes through the switch, or is added by the server beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Sends,
    Adds,
}

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

fn of(collectives: &[Collective], star: &str, packets: u32, window: u32, server: Server) -> GroupSetup {
    let mut setup = group_setup("atp", collectives, star, packets, &[("group.window", window)]);
    let sends = Value::from(server == Server::Sends);
    setup.scenario.set("aggregation.server_sends", sends);
    setup
}

/// So many packets, one or two at once, and one aggregator for all of them.
fn setup(star: &str, packets: u32, window: u32, server: Server) -> GroupSetup {
    of(&ALL_REDUCE, star, packets, window, server)
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

#[test]
fn sums_are_right_whatever_is_lost_late_or_copied() {
    for rules in [lossy(), copied(), late()] {
        assert_right(&group(&setup("star-2", 3, 1, Server::Sends)), rules);
        assert_right(&group(&setup("star-2", 3, 2, Server::Adds)), rules);
    }
}

#[test]
fn packets_that_find_the_aggregator_taken_are_added_up_by_the_server() {
    for rules in [lossy(), late()] {
        assert_right(&group(&setup("star-2", 2, 2, Server::Sends)), rules);
    }
}

#[test]
fn three_ranks_add_up_whatever_is_lost() {
    assert_right(&group(&setup("star-3", 2, 1, Server::Adds)), lossy());
    assert_right(&group(&setup("star-3", 1, 1, Server::Sends)), lossy());
}

#[test]
fn collectives_follow_each_other_and_what_is_late_is_of_none() {
    let setup = of(&[Collective::AllReduce; 2], "star-2", 1, 1, Server::Sends);
    assert_right(&group(&setup), lossy());
    assert_right(&group(&setup), late());
}

#[test]
fn a_group_whose_rank_gives_up_ends_everywhere() {
    for server in [Server::Sends, Server::Adds] {
        let mut setup = setup("star-2", 1, 2, server);
        setup.scenario.set("group.retry_count", 1.into());
        assert_right(&group(&setup), lossy());
    }
}

#[test]
fn reductions_change_no_verdict() {
    assert_right(&group(&setup("star-2", 2, 1, Server::Sends)), full(lossy()));
}

/// The rules, each with the environment in which it does harm.
const BROKEN: [(&str, Environment); 15] = [
    ("resends-wait", lossy),
    ("any-owner", copied),
    ("counts-repeats", copied),
    ("whole-early", reliable),
    ("keeps-sum", reliable),
    ("partial-as-whole", lossy),
    ("server-counts-repeats", lossy),
    ("answers-pending", lossy),
    ("forgets-result", lossy),
    ("one-window", lossy),
    ("takes-late", copied),
    ("any-result", copied),
    ("never-again", lossy),
    ("no-resend-flag", lossy),
    ("success-on-failure", lossy),
];

fn broken(mutation: &str) -> GroupSetup {
    let mut setup = match mutation {
        "success-on-failure" => setup("star-2", 1, 1, Server::Sends),
        // What comes late is the second one's, while the server waits for the third.
        "takes-late" => setup("star-3", 3, 1, Server::Adds),
        _ => setup("star-2", 3, 1, Server::Sends),
    };
    if mutation == "success-on-failure" {
        setup.scenario.set("group.retry_count", 0.into());
    }
    GroupSetup { mutation: Some(mutation.to_owned()), ..setup }
}

#[test]
fn every_broken_rule_is_noticed_and_is_the_same_fault_on_other_drivers() {
    assert_noticed(&BROKEN, broken);
}

#[test]
fn every_rule_that_can_be_broken_has_a_case() {
    assert_each_has_a_case("atp", &BROKEN);
}

/// What repairs a sum that the switch has and the server has not is the resend that hands it over.
#[test]
fn a_resend_that_hands_nothing_over_is_right_as_long_as_nothing_is_lost() {
    let network = group(&broken("resends-wait"));
    assert!(run(&network, copied()).1.is_none(), "whatever is copied");
    assert!(run(&network, lossy()).1.is_some(), "a sum is lost on its way to the server");
}
