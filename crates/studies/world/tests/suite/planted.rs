//! Bugs that are planted are found. `quincunx check cluster --seeds 0..300 --mutate all` tries all of them.

use crate::SETUP;
use crate::faults::plan;
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use quincunx_world::{JobPlan, Plan, Planted, Promise, Telling, Violation, Weather, generate, run, shrink};

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
    first("reduce-recycled-by-completion", 100);
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

/// What is broken in groups of Mode-III below Mode-II whose windows are so small that what they hear of each other hangs on single frames.
fn in_small_windows(rule: Option<&str>, seed: u64, hosts: &[u16], keys: [u32; 4], selective: bool) -> bool {
    let [loss, elements, window, message] = keys;
    let mut plan = plan(Vec::new());
    (plan.seed, plan.hosts, plan.spines) = (seed, hosts.to_vec(), 1);
    plan.calm_at = Duration::from_secs(22);
    plan.weather = Weather { loss, ..Weather::default() };
    plan.mutation = rule.map(str::to_owned);
    let own = [
        ("group.modes", "II/III".into()),
        ("group.window", window.into()),
        ("group.message", message.into()),
        ("group.selective", selective.into()),
    ];
    plan.jobs[0] = JobPlan {
        hosts: (0..hosts.iter().sum()).collect(),
        design: "epic-mixed".to_owned(),
        elements,
        collectives: 40,
        pause: Duration::ZERO,
        think: Duration::from_micros(10),
        settings: own.map(|(key, value)| (key.to_owned(), value)).into(),
        ..plan.jobs[0].clone()
    };
    run(&plan, SETUP, Telling::Nothing).unwrap().violation.is_some()
}

#[test]
fn rules_by_which_mode_iii_hears_of_mode_ii_s_results_show_where_windows_are_small() {
    for (rule, seed, hosts, keys, selective) in [
        ("times-out-unheard", 1, [2, 2], [19_000, 100, 1, 1], false),
        ("covered-told-once", 1, [2, 2], [19_000, 100, 1, 1], true),
        ("rewinds-what-is-kept", 10, [2, 2], [19_000, 100, 1, 2], false),
    ] {
        assert!(!in_small_windows(None, seed, &hosts, keys, selective), "{rule} is kept");
        assert!(in_small_windows(Some(rule), seed, &hosts, keys, selective), "{rule} is broken");
    }
}
