//! Bugs that are planted are found. `quincunx check cluster --seeds 0..300 --mutate all` tries all of them.

use crate::SETUP;
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use quincunx_world::{Plan, Planted, Promise, Telling, Violation, generate, run, shrink};

const LASTS: Duration = Duration::from_secs(20);

/// What a planted bug breaks with that seed.
fn found(name: &str, seed: u64) -> (Plan, Option<Violation>) {
    let plan = Plan { mutation: Some(name.to_owned()), ..generate(seed, LASTS, CATALOG) };
    let violation = run(&plan, SETUP, Telling::Nothing).unwrap().violation;
    (plan, violation)
}

/// The first seed that finds it, and what it breaks.
fn first(name: &str, seeds: u64) -> (Plan, Violation) {
    let found = (0..seeds).find_map(|seed| match found(name, seed) {
        (plan, Some(violation)) => Some((plan, violation)),
        (_, None) => None,
    });
    found.unwrap_or_else(|| panic!("{name} is not found by {seeds} seeds"))
}

#[test]
fn a_manager_that_forgets_what_nodes_have_gives_memory_twice() {
    let (_, violation) = first("forgets-what-nodes-have", 6);
    assert_eq!(violation.promise, Promise::GivenOnce);
}

#[test]
fn a_group_that_ends_when_its_first_rank_is_done_ends_for_nothing() {
    assert_eq!(first("ends-at-first-release", 12).1.promise, Promise::Untouched);
}

#[test]
fn an_agent_that_confirms_and_does_not_forget_leaves_something() {
    assert_eq!(first("confirms-without-forgetting", 3).1.promise, Promise::NothingLeft);
}

#[test]
fn a_switch_that_adds_a_copy_gives_a_wrong_result() {
    assert_eq!(first("no-duplicate-check", 4).1.promise, Promise::RightResults);
}

#[test]
fn a_switch_that_takes_frames_for_another_groups_breaks_groups_that_nothing_has_befallen() {
    assert_eq!(first("finds-groups-by-port", 24).1.promise, Promise::Untouched);
}

#[test]
fn packets_are_numbered_so_that_their_numbers_wrap() {
    first("psn-no-wrap", 60);
}

#[test]
fn a_manager_that_speaks_before_a_change_is_kept_leaves_groups_behind() {
    assert_eq!(first("speaks-before-kept", 20).1.promise, Promise::NothingLeft);
}

#[test]
fn jobs_set_keys_without_which_a_rule_changes_nothing() {
    // A Reduce that ranks confirm hides that a switch has freed its slots too soon.
    first("reduce-recycled-by-completion", 60);
}

#[test]
fn faults_strike_while_ranks_are_apart() {
    // Ranks that go on from where the fastest was leave the others behind.
    first("agrees-on-the-fastest", 12);
}

#[test]
fn who_adds_what_comes_by_mistake_tells_of_a_result() {
    assert_eq!(first("adds-whatever-comes", 20).1.promise, Promise::RightResults);
    assert_eq!(first("ignores-disagreement", 20).1.promise, Promise::RightResults);
}

#[test]
fn a_plan_that_fails_is_made_smaller_and_fails_alike() {
    let (plan, violation) = first("confirms-without-forgetting", 3);
    let (smaller, runs) = shrink(&plan, violation.promise, SETUP, |runs| runs < 40);
    assert!(runs > 1);
    let size = |plan: &Plan| (plan.faults.len(), plan.jobs.len(), plan.clocks.len());
    assert!(size(&smaller) < size(&plan), "{:?} of {:?}", size(&smaller), size(&plan));
    let again = run(&smaller, SETUP, Telling::Story).unwrap();
    assert_eq!(again.violation.unwrap().promise, violation.promise);
    assert!(again.story.lines().any(|line| line.contains("faults are over")));
}

#[test]
fn what_is_no_planted_bug_is_refused_in_a_line() {
    let error = Planted::find(CATALOG, "never-heard-of").unwrap_err();
    assert!(error.contains("ends-at-first-release") && error.lines().count() == 1, "{error}");
}
