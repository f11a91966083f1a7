//! The rules of earlier systems: the environments that each is right in, the ones that it is not, and what repairs it.

use crate::common::{assert_right, assert_same_on_other_drivers, full, lossy, run, traced};
use quincunx_check::prior_systems::{PriorSystem, Rules, StarSetup, StarSetupError};
use quincunx_check::{Describe, Exploration, Fault, Path, Sequence};

/// The tables that the documentation of the module shows.
const VERDICTS: &str = include_str!("../../src/prior_systems/verdicts.md");

/// Nothing goes wrong.
fn reliable() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

/// A time-out expires too early.
fn hasty() -> Exploration {
    Exploration { early_timeouts: 1, ..reliable() }
}

/// Links keep their order, and all else goes wrong.
fn in_order() -> Exploration {
    Exploration { losses: 2, early_timeouts: 2, ..reliable() }
}

fn late() -> Exploration {
    Exploration { delays: 1, ..reliable() }
}

fn copied() -> Exploration {
    Exploration { duplicates: 1, ..reliable() }
}

/// All that links may do, once each.
fn unreliable() -> Exploration {
    Exploration { delays: 1, duplicates: 1, ..lossy() }
}

/// The least in which a slot is used again: SwitchML's one slot by three chunks, ATP's one aggregator by two at a time.
fn smallest(system: &str, rule: &str) -> StarSetup {
    let rules = Rules::named(system, rule).unwrap();
    let setup = StarSetup { rules, workers: 2, chunks: 2, window: 2, aggregators: 1, frees: true };
    match rules {
        Rules::SwitchMl(_) => StarSetup { chunks: 3, window: 1, ..setup },
        Rules::Atp(_) => setup,
    }
}

fn star(setup: StarSetup) -> PriorSystem {
    PriorSystem::new(setup).unwrap()
}

/// The fault that some run has, and the way there.
#[track_caller]
fn fault(setup: StarSetup, rules: Exploration) -> (Fault, Path<PriorSystem>) {
    run(&star(setup), rules).1.unwrap_or_else(|| panic!("every run is right: {setup:?}"))
}

/// That some worker gets another sum than it should, and which.
#[track_caller]
fn wrong_sum(setup: StarSetup, rules: Exploration) -> String {
    match fault(setup, rules).0 {
        Fault::Wrong { message, .. } => message.rsplit("gets ").next().unwrap().to_owned(),
        other => panic!("expected a wrong sum, found: {other}"),
    }
}

/// The environments of the table.
fn environments() -> [(&'static str, Exploration); 6] {
    [
        ("nothing", reliable()),
        ("a loss", lossy()),
        ("an early time-out", hasty()),
        ("a late frame", late()),
        ("a copy", copied()),
        ("a loss, a late frame and a copy", unreliable()),
    ]
}

#[test]
fn switchml_with_one_pool_is_right_until_something_is_sent_again() {
    let setup = smallest("switchml", "one-pool");
    assert_right(&star(setup), reliable());
    for rules in [lossy(), hasty(), late(), copied()] {
        // A contribution that has been counted is counted again, to the slot's next chunk.
        wrong_sum(setup, rules);
    }
}

#[test]
fn switchml_with_two_pools_is_right_if_links_keep_their_order() {
    let setup = smallest("switchml", "two-pools");
    for setup in [
        setup,
        StarSetup { window: 2, ..setup },
        StarSetup { workers: 3, ..setup },
        StarSetup { chunks: 5, ..setup },
    ] {
        assert_right(&star(setup), in_order());
    }
}

#[test]
fn switchml_with_two_pools_counts_a_late_contribution_to_the_chunk_after_the_next() {
    let setup = smallest("switchml", "two-pools");
    // Of what takes one fault the run with several does not tell of more.
    for rules in [late(), copied(), unreliable()] {
        let sum = wrong_sum(setup, rules);
        assert!(["[0:0,2:1]", "[0:1,2:0]"].contains(&sum.as_str()), "{sum}");
    }
}

#[test]
fn switchml_that_compares_whole_chunk_numbers_is_right_whatever_links_do() {
    let setup = smallest("switchml", "chunk-numbers");
    for setup in [setup, StarSetup { window: 2, ..setup }, StarSetup { workers: 3, ..setup }] {
        assert_right(&star(setup), in_order());
        assert_right(&star(setup), unreliable());
    }
    assert_right(&star(StarSetup { chunks: 5, ..setup }), Exploration { delays: 2, ..lossy() });
}

#[test]
fn atp_without_a_bypass_never_ends_if_a_whole_aggregate_is_lost_on_its_way_to_the_server() {
    let setup = smallest("atp", "fallback");
    assert_right(&star(setup), reliable());
    // Its aggregator takes all that is sent again for what it has.
    let (fault, path) = fault(setup, lossy());
    assert_eq!((fault, path.0.len()), (Fault::Livelock, 5));
}

#[test]
fn atp_is_right_if_links_keep_their_order() {
    let setup = smallest("atp", "resends-bypass");
    for setup in [setup, StarSetup { chunks: 3, ..setup }, StarSetup { aggregators: 2, ..setup }] {
        assert_right(&star(setup), Exploration { losses: 1, ..in_order() });
    }
    assert_right(&star(StarSetup { workers: 3, ..setup }), lossy());
}

#[test]
fn atp_loses_an_aggregator_for_good_to_a_late_contribution_of_a_finished_chunk() {
    let setup = smallest("atp", "resends-bypass");
    for rules in [late(), copied()] {
        let (fault, path) = fault(setup, rules);
        assert_eq!(fault, Fault::Stuck);
        let network = star(setup);
        assert!(!path.0.iter().rfind(|step| network.name(step.node) == "switch").unwrap().done);
    }
}

#[test]
fn atp_sends_right_sums_even_with_an_aggregator_lost() {
    let setup = StarSetup { frees: false, ..smallest("atp", "resends-bypass") };
    for setup in [setup, StarSetup { chunks: 3, ..setup }] {
        assert_right(&star(setup), unreliable());
    }
}

#[test]
fn atp_with_deadlines_gets_its_aggregators_back_whatever_links_do() {
    let setup = smallest("atp", "deadlines");
    for rules in [in_order(), unreliable()] {
        assert_right(&star(setup), Exploration { losses: 1, ..rules });
    }
    assert_right(&star(StarSetup { workers: 3, ..setup }), Exploration { delays: 1, ..lossy() });
}

#[test]
fn every_fault_is_one_on_other_drivers_too_and_what_is_left_out_changes_no_verdict() {
    for rules in Rules::all() {
        for (environment, exploration) in environments() {
            let setup = smallest_of(rules);
            let (star, whole) = (star(setup), run(&star(setup), full(exploration)).1);
            let reduced = run(&star, exploration).1;
            assert_eq!(reduced.is_some(), whole.is_some(), "{rules}: {environment}");
            if let Some((fault, path)) = reduced {
                assert_same_on_other_drivers(&star, fault, &path);
            }
        }
    }
}

#[test]
fn a_fault_reads_as_a_sequence_and_is_traced() {
    let star = star(smallest("switchml", "two-pools"));
    let (fault, path) = run(&star, copied()).1.expect("it is noticed");
    let lines = Sequence { network: &star, path: &path }.lines();
    assert_eq!(lines[0], "worker 0  starts; sends chunk 0 [0:0] to switch");
    assert!(
        lines.iter().any(|line| line.starts_with("switch    takes  chunk 0") && line.contains("late")),
        "{lines:#?}"
    );
    let tracks = traced(&star, &fault, &path);
    assert!(tracks.iter().any(|track| track.name == "worker 1"));
}

/// The tables of the module's documentation.
fn tables() -> String {
    let all = environments();
    [
        table("switchml", "SwitchML: three chunks take turns in one slot", smallest_of, &all),
        table("atp", "ATP: two chunks in flight share an aggregator", smallest_of, &all),
    ]
    .join("\n")
}

fn table(
    system: &str,
    title: &str,
    setup: impl Fn(Rules) -> StarSetup,
    environments: &[(&str, Exploration)],
) -> String {
    let names: Vec<_> = environments.iter().map(|(name, _)| *name).collect();
    let mut table = format!("| {title} | {} |\n|---{}|\n", names.join(" | "), "|---".repeat(names.len()));
    for rules in Rules::all().filter(|rules| rules.to_string().starts_with(system)) {
        let cells: Vec<_> =
            environments.iter().map(|(_, environment)| cell(setup(rules), *environment)).collect();
        let own = if Rules::own(system) == Some(rules) { ", its own" } else { "" };
        table += &format!("| `{rules}`{own} | {} |\n", cells.join(" | "));
    }
    table
}

fn cell(setup: StarSetup, rules: Exploration) -> String {
    match run(&star(setup), full(rules)) {
        (statistics, None) => format!("right, {} states", statistics.distinct),
        (_, Some((Fault::Stuck, path))) => format!("**held for good**, {} steps", path.0.len()),
        (_, Some((Fault::Livelock, path))) => format!("**no end**, {} steps", path.0.len()),
        (_, Some((_, path))) => format!("**wrong sum**, {} steps", path.0.len()),
    }
}

fn smallest_of(rules: Rules) -> StarSetup {
    let name = rules.to_string();
    let (system, rule) = name.split_once(' ').expect("a system and a rule");
    smallest(system, rule)
}

#[test]
fn the_tables_in_the_documentation_are_what_is_found() {
    let found = tables();
    assert!(
        VERDICTS.ends_with(&found),
        "expected the tables of src/prior_systems/verdicts.md, found others; write there:\n{found}"
    );
}

#[test]
fn rules_that_do_not_exist_and_stars_that_are_too_large_are_refused() {
    let unknown = Rules::named("atp", "two-pools").unwrap_err();
    let expected = "expected one of fallback, resends-bypass, deadlines as the rule of atp, found two-pools";
    assert_eq!(unknown.to_string(), expected);
    let setup = smallest("atp", "deadlines");
    let refused = |setup| PriorSystem::new(setup).unwrap_err();
    assert_eq!(refused(StarSetup { workers: 1, ..setup }), StarSetupError::Workers { found: 1 });
    assert_eq!(refused(StarSetup { workers: 17, ..setup }), StarSetupError::Workers { found: 17 });
    assert_eq!(refused(StarSetup { chunks: 0, ..setup }), StarSetupError::Count { what: "chunks", found: 0 });
    let found = StarSetupError::Count { what: "chunks in flight", found: 65 };
    assert_eq!(refused(StarSetup { window: 65, ..setup }), found);
}
