//! The control plane: groups come and go, connections break, the manager stops and starts again, leases run out, messages come late and
//! twice. No two groups have one part of a switch's memory, no release is lost, and a manager that starts again hands nothing out twice;
//! and some run is wrong if a rule is broken.

use crate::common::{assert_right, lossy};
use quincunx_check::{ControlPlane, ControlSetup, Exploration, Standby, Verdict, explore};
use quincunx_control::Mutation;
use quincunx_designs::CATALOG;

/// Two groups, for which there is memory one after the other.
fn setup() -> ControlSetup {
    ControlSetup {
        catalog: CATALOG,
        groups: 2,
        restarts: false,
        reconnects: false,
        leases: false,
        kills: false,
        releases: false,
        mutation: None,
    }
}

fn plane(setup: ControlSetup) -> ControlPlane {
    ControlPlane::new(setup).unwrap()
}

/// Streams lose nothing.
fn rules() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

fn late() -> Exploration {
    Exploration { delays: 1, ..rules() }
}

#[test]
fn groups_come_and_go_whatever_comes_late_or_twice() {
    assert_right(&plane(setup()), late());
    assert_right(&plane(setup()), Exploration { duplicates: 1, ..rules() });
}

#[test]
fn a_manager_that_starts_again_hands_nothing_out_twice() {
    assert_right(&plane(ControlSetup { restarts: true, ..setup() }), rules());
}

/// A first word that comes twice, once to the manager's earlier life and once to the next one, says what the node had then. That this is
/// right otherwise takes a minute: `quincunx check control restart --duplicate`.
#[test]
fn a_manager_that_starts_again_trusts_no_word_said_to_its_earlier_life() {
    let mutation = Some(Mutation::TakesOldWords);
    let trusting = plane(ControlSetup { restarts: true, groups: 1, mutation, ..setup() });
    let copies = Exploration { duplicates: 1, ..rules() };
    let (_, verdict) = explore(&trusting, copies, &mut |_| std::ops::ControlFlow::Continue(()));
    assert!(matches!(verdict, Verdict::Wrong { .. }), "{verdict:?}");
}

#[test]
fn a_connection_that_breaks_at_any_time_loses_no_memory() {
    assert_right(&plane(ControlSetup { reconnects: true, ..setup() }), late());
}

#[test]
fn a_lease_that_runs_out_frees_what_the_group_held_when_its_nodes_have_forgotten_it() {
    assert_right(&plane(ControlSetup { leases: true, ..setup() }), Exploration { jumps: 1, ..late() });
}

#[test]
fn a_group_whose_switch_is_killed_at_any_time_is_made_anew_and_runs_each_collective_once() {
    assert_right(&plane(ControlSetup { kills: true, groups: 1, ..setup() }), rules());
}

#[test]
fn a_group_ends_when_all_its_ranks_are_done_with_it_whatever_a_manager_has_heard_before() {
    let releases = ControlSetup { releases: true, groups: 1, ..setup() };
    assert_right(&plane(releases.clone()), rules());
    assert_right(&plane(ControlSetup { restarts: true, ..releases.clone() }), rules());
    assert_right(&plane(ControlSetup { reconnects: true, ..releases }), rules());
}

fn standby(groups: u8, mutation: Option<Mutation>) -> Standby {
    Standby::new(CATALOG, groups, mutation).unwrap()
}

#[test]
fn while_two_managers_overlap_nothing_is_handed_out_twice_and_no_group_that_was_made_is_lost() {
    assert_right(&standby(1, None), rules());
}

/// Two more take half a minute each, by command: with `quincunx check control standby --mutate asks-anew` a group is left behind, with
/// `obeys-old-words` two are in one place.
#[test]
fn some_run_of_two_managers_is_wrong_with_each_rule_broken() {
    for mutation in [Mutation::KeepsForAnybody, Mutation::SpeaksBeforeKept, Mutation::ReadsBeforeItsLease] {
        let broken = standby(1, Some(mutation));
        let (_, verdict) = explore(&broken, rules(), &mut |_| std::ops::ControlFlow::Continue(()));
        assert!(matches!(verdict, Verdict::Wrong { .. }), "{mutation}: {verdict:?}");
    }
}

#[test]
fn some_run_is_wrong_with_each_rule_broken() {
    for mutation in Mutation::all() {
        let broken = ControlSetup { mutation: Some(mutation), ..setup() };
        let (broken, rules) = match mutation {
            Mutation::FreesAtOnce
            | Mutation::TakesOldWords
            | Mutation::InstallsLate
            | Mutation::ConfirmsWithoutForgetting
            | Mutation::ObeysOldWords => (broken, late()),
            Mutation::ForgetsWhatNodesHave | Mutation::ReusesNumbers | Mutation::NeverKeepsNumbers => {
                (ControlSetup { restarts: true, ..broken }, rules())
            }
            Mutation::GoesOnFromItsOwn | Mutation::CountsWhatIsUnderWay | Mutation::AgreesOnTheFastest => {
                (ControlSetup { kills: true, groups: 1, ..broken }, rules())
            }
            // Of two managers.
            Mutation::KeepsForAnybody
            | Mutation::SpeaksBeforeKept
            | Mutation::ReadsBeforeItsLease
            | Mutation::AsksAnew => continue,
            Mutation::EndsAtFirstRelease => (ControlSetup { releases: true, groups: 1, ..broken }, rules()),
            Mutation::TellsReleaseOnce => {
                (ControlSetup { releases: true, restarts: true, groups: 1, ..broken }, rules())
            }
            Mutation::ExpiresInSilence => {
                (ControlSetup { leases: true, ..broken }, Exploration { jumps: 1, ..rules() })
            }
        };
        let (_, verdict) = explore(&plane(broken), rules, &mut |_| std::ops::ControlFlow::Continue(()));
        assert!(matches!(verdict, Verdict::Wrong { .. }), "{mutation}: {verdict:?}");
    }
}
