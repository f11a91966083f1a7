//! Tokens that are dispatched to experts, and what becomes of them, combined: every token is where its experts are and nowhere else, and every
//! sum is of what its ranks have made of it, in every run.

use std::ops::ControlFlow;

use crate::common::{assert_right, assert_same_on_other_drivers, full, group_setup, lossy, run};
use quincunx_check::{Arguments, Exploration, Finding, GroupSetup, Network, Subject};
use quincunx_collective::Collective;
use quincunx_designs::CATALOG;

const DISPATCH: [Collective; 1] = [Collective::Dispatch];
/// Behind the dispatch of the same tokens.
const COMBINE: [Collective; 1] = [Collective::Combine];

fn setup(name: &str, collectives: &[Collective], network: &str, tokens: u32) -> GroupSetup {
    group_setup::<u32>(name, collectives, network, tokens, &[])
}

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

fn lossless() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

#[test]
fn tokens_come_to_their_experts_and_back_whatever_is_lost() {
    for collectives in [&DISPATCH, &COMBINE] {
        assert_right(&group(&setup("direct", collectives, "mesh-1x2", 2)), lossy());
    }
    assert_right(&group(&setup("direct", &DISPATCH, "mesh-1x3", 1)), lossy());
    assert_right(&group(&setup("direct", &COMBINE, "mesh-1x3", 2)), lossless());
}

#[test]
fn a_token_that_a_relay_passes_on_comes_to_both_its_experts_though_a_frame_is_lost() {
    // The token of rank 0 is for both ranks of the other domain.
    let relayed = GroupSetup { senders: Some(1), ..setup("multiwrite", &DISPATCH, "mesh-2x2", 1) };
    assert_right(&group(&relayed), lossy());
}

#[test]
fn tokens_of_all_ranks_do_not_mix() {
    assert_right(&group(&setup("multiwrite", &DISPATCH, "mesh-2x2", 1)), lossless());
}

#[test]
fn what_came_over_a_relay_is_combined_where_it_came_from() {
    let relayed = GroupSetup { senders: Some(1), ..setup("multiwrite", &COMBINE, "mesh-2x2", 1) };
    assert_right(&group(&relayed), lossless());
}

#[test]
fn one_batch_after_the_other_is_dispatched_and_combined() {
    let twice = [Collective::Combine, Collective::Combine];
    assert_right(&group(&setup("direct", &twice, "mesh-1x2", 2)), lossy());
}

#[test]
fn what_is_left_out_makes_no_difference() {
    assert_right(&group(&setup("direct", &COMBINE, "mesh-1x2", 1)), full(lossy()));
}

#[test]
fn a_relay_that_passes_a_token_on_with_all_its_destinations_is_noticed_and_is_the_same_run_on_other_drivers()
{
    let broken = group(&GroupSetup {
        senders: Some(1),
        mutation: Some("bitmap-not-narrowed".to_owned()),
        ..setup("multiwrite", &DISPATCH, "mesh-2x2", 1)
    });
    let (fault, path) = run(&broken, lossless()).1.expect("it is noticed");
    assert_same_on_other_drivers(&broken, fault, &path);
}

#[test]
fn a_dispatch_is_found_by_its_name() {
    let arguments = Arguments { packets: Some(1), ..Arguments::default() };
    let subject = Subject::find(CATALOG, "multiwrite", "dispatch", &arguments);
    let subject = subject.unwrap_or_else(|refusal| panic!("{refusal}"));
    assert_eq!((subject.tree.as_deref(), subject.senders), (Some("mesh-2x2"), Some(1)));
    let (_, finding) = subject.network.explore(lossless(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(finding, Finding::Correct);
}
