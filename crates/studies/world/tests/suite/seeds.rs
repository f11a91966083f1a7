//! Two hundred clusters keep what is promised, meet what they are to meet, and replay to the bit.

use crate::SETUP;
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use quincunx_world::{Coverage, Outcome, Plan, Telling, generate, run};
use std::collections::BTreeSet;

/// Faults for so long, in which a run of the tests meets most of what longer ones do.
const LASTS: Duration = Duration::from_millis(1500);

fn outcome(plan: &Plan) -> Outcome {
    run(plan, SETUP, Telling::Nothing).unwrap()
}

/// Half of the seeds of `make test`, so that two cores share them.
fn keep(seeds: std::ops::Range<u64>) -> Coverage {
    let mut met = Coverage::default();
    for seed in seeds {
        let plan = generate(seed, LASTS, CATALOG);
        let outcome = outcome(&plan);
        let again = format!("quincunx check cluster --seed {seed} --for 1500ms");
        assert_eq!(outcome.violation, None, "seed {seed}; {again}");
        met.add(&outcome.coverage);
    }
    met
}

/// What a hundred seeds meet at least once: otherwise a generator is dead.
const MET: [&str; 26] = [
    "dropped: QueuePair(Duplicate)",
    "fault: cut",
    "fault: deaf",
    "fault: full-store",
    "fault: isolate",
    "fault: kill",
    "fault: mute",
    "fault: part",
    "fault: pause",
    "fault: power-off",
    "fault: slow-store",
    "fault: stranger",
    "fault: torn-write",
    "fault at its moment",
    "frame doubled",
    "frame late",
    "frame lost",
    "frame lost on a link that is cut",
    "frame of a stranger",
    "frame with a wrong checksum",
    "job: group among hosts",
    "job: group in switches",
    "job started again",
    "manager: group fails",
    "manager: serves, with groups of before",
    "rank: group made anew",
];

fn assert_met(met: &Coverage) {
    let missing: Vec<&str> = MET.into_iter().filter(|name| met.of(name) == 0).collect();
    assert!(missing.is_empty(), "nothing met of {missing:?}:\n{met}");
}

#[test]
fn the_first_hundred_seeds_keep_all_promises_and_meet_every_fault() {
    assert_met(&keep(0..100));
}

#[test]
fn the_second_hundred_seeds_keep_all_promises_and_meet_every_fault() {
    assert_met(&keep(100..200));
}

#[test]
fn a_seed_replays_to_the_bit() {
    for seed in [3, 11] {
        let plan = generate(seed, LASTS, CATALOG);
        let (first, second) = (outcome(&plan), outcome(&plan));
        assert_eq!(first, second);
        let other = outcome(&Plan { seed: seed + 1, ..plan });
        assert_ne!(first.digest, other.digest, "the digest says nothing");
    }
}

#[test]
fn jobs_of_two_hundred_seeds_set_all_keys_that_may_be_set() {
    let set: BTreeSet<String> = (0..200)
        .flat_map(|seed| generate(seed, LASTS, CATALOG).jobs)
        .flat_map(|job| job.settings.into_keys())
        .collect();
    assert_eq!(set.len(), 16, "{set:?}");
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    for seed in 0..50 {
        let plan = generate(seed, LASTS, CATALOG);
        assert_eq!(Plan::from_text(&plan.to_text()), Ok(plan));
    }
    let error = Plan::from_text("{\"seed\": 1}").unwrap_err();
    assert!(error.starts_with("expected a plan") && error.lines().count() == 1, "{error}");
}
