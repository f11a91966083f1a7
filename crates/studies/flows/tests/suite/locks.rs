//! Groups that lock the memory which they share (EPIC 6.2, "contention-and-fallback"): all of it, for a collective, or they run it among hosts.

use crate::tenants::{job, small};
use crate::{measured, preset, seeded};
use quincunx_flows::TenancyMeasurement;
use quincunx_scenario::{Tenancy, TenancyLink, TenancyPolicy};
use quincunx_units::Duration;

const CONTENTION: TenancyPolicy = TenancyPolicy::Contention;

/// Jobs on switches with memory for one group. Each computes for 1 s, and communicates for 2 s in a tree and 4 s among hosts.
fn found(jobs: &[String]) -> TenancyMeasurement {
    measured(&small(&jobs.concat(), ""), CONTENTION, 1, None)
}

fn seconds(found: &TenancyMeasurement) -> Vec<f64> {
    found.jobs.iter().map(|job| job.completion().as_secs_f64()).collect()
}

fn collectives(found: &TenancyMeasurement) -> Vec<[u64; 2]> {
    found.jobs.iter().map(|job| job.collectives).collect()
}

#[test]
fn who_finds_the_memory_locked_runs_among_hosts() {
    assert_eq!(seconds(&found(&[job("a", 2, ""), job("b", 2, "")])), [3.0, 5.0]);
}

#[test]
fn who_comes_when_it_is_free_has_it_though_the_job_before_is_not_over() {
    // The first communicates from 1 to 3 s, and then computes to 4 s.
    let two = job("a", 2, "").replace("iterations = 1", "iterations = 2");
    let jobs = [two, job("b", 2, "at = \"2s\"")];
    assert_eq!(seconds(&found(&jobs)), [1.0 + 2.0 + 1.0 + 4.0, 3.0]);
    let spatial = measured(&small(&jobs.concat(), ""), TenancyPolicy::Spatial, 1, None);
    assert_eq!(seconds(&spatial), [6.0, 5.0], "the first keeps it for its life");
}

#[test]
fn a_refusal_is_for_one_collective() {
    let two = job("b", 2, "").replace("iterations = 1", "iterations = 2");
    let found = found(&[job("a", 2, ""), two]);
    assert_eq!(seconds(&found), [3.0, 1.0 + 4.0 + 1.0 + 2.0]);
    assert_eq!(found.jobs[1].collectives, [2, 1]);
}

#[test]
fn who_is_refused_by_one_switch_holds_none_of_the_others() {
    // The second is at both leaves, and one of them is locked.
    let found = found(&[job("a", 2, ""), job("b", 4, ""), job("c", 2, "")]);
    assert_eq!(seconds(&found), [3.0, 5.0, 3.0]);
}

#[test]
fn with_memory_for_all_nobody_is_refused() {
    let jobs = [job("a", 2, ""), job("b", 2, "")].concat();
    assert_eq!(seconds(&measured(&small(&jobs, ""), CONTENTION, 2, None)), [3.0, 3.0]);
}

#[test]
fn locks_are_asked_for_up_the_tree_and_back_whatever_the_answer() {
    let jobs = [job("a", 2, ""), job("b", 2, "")].concat();
    let with = |latency: &str| {
        let tenancy = small(&jobs, "");
        let link = TenancyLink { latency: latency.parse().unwrap(), ..tenancy.link.unwrap() };
        measured(&Tenancy { link: Some(link), ..tenancy }, CONTENTION, 1, None)
    };
    let more = |job: usize| with("1ms").jobs[job].completion() - with("0ms").jobs[job].completion();
    // Two links for locks. A tree is two more, and two steps of a ring two each.
    assert_eq!([more(0), more(1)], [2 + 2, 2 + 4].map(Duration::from_millis));
}

/// Two jobs at one switch with memory for one, whose groups ask for locks so long. The first has them from 1 s to 3 s.
fn patient(patience: &str, latency: &str) -> TenancyMeasurement {
    let tenancy = small(&[job("a", 2, ""), job("b", 2, "")].concat(), "");
    let link = TenancyLink { latency: latency.parse().unwrap(), ..tenancy.link.unwrap() };
    let patience = patience.parse().unwrap();
    measured(&Tenancy { link: Some(link), patience, ..tenancy }, CONTENTION, 1, None)
}

#[test]
fn a_patient_group_asks_again_until_it_has_its_locks() {
    // Sixteen pauses of 1.1 s; after the second the memory is free.
    let found = patient("17600ms", "0ms");
    assert_eq!(seconds(&found), [3.0, 3.2 + 2.0]);
    assert_eq!(collectives(&found), [[1, 1], [1, 1]]);
}

#[test]
fn a_group_whose_patience_is_over_runs_among_hosts() {
    let found = patient("1600ms", "0ms");
    assert_eq!(seconds(&found), [3.0, 1.0 + 1.6 + 4.0]);
    assert_eq!(collectives(&found), [[1, 1], [1, 0]]);
}

#[test]
fn each_question_of_a_patient_group_takes_a_way_to_the_root_and_back() {
    // Two links for each of three questions, and two for what the root adds up; of the last question after the collective.
    assert_eq!(seconds(&patient("17600ms", "1ms")), [3.004, 3.2 + 2.0 + 0.008]);
}

#[test]
fn what_locks_hold_is_what_is_used() {
    let found = found(&[job("a", 2, ""), job("b", 2, "")]);
    let usage = found.usage.unwrap();
    let shares = |name: &str| {
        let used = usage.switches.iter().find(|used| used.name == name).unwrap();
        used.shares.iter().sum::<f64>() * usage.part.as_secs_f64()
    };
    assert!((shares("leaf-0") - 2.0).abs() < 1e-9, "{}", shares("leaf-0"));
}

#[test]
fn a_tree_is_laid_over_the_spine_whose_memory_is_used_the_least() {
    // Two jobs over a spine each: one communicates for 2 of 3 s, the other for 2 of 102. Then a third one, over either, when the busy one has
    // locked its spine.
    let two = ["a", "b"].map(|name| job(name, 4, "").replace("iterations = 1", "iterations = 60"));
    let mut tenancy = small(&[two.concat(), job("c", 4, "at = \"163500ms\"")].concat(), "");
    tenancy.fabric = "leaf-spine-12x2x1".into();
    let mut idle = tenancy.model[0].clone();
    (idle.name, idle.compute) = ("idle".into(), "75MFLOP/s".parse().unwrap());
    tenancy.model.push(idle);
    for busy in [0, 1] {
        let mut tenancy = tenancy.clone();
        tenancy.job[1 - busy].model = "idle".into();
        let found = measured(&tenancy, CONTENTION, 1, None);
        assert_eq!(found.jobs[2].in_network(), Some(1.0), "busy: {busy}");
    }
}

#[test]
fn of_a_switchs_units_a_group_shares_the_one_that_is_used_the_least() {
    // At one switch with two units, as above: the third job is granted what the idle one has, whichever came first.
    let two = ["a", "b"].map(|name| job(name, 2, "").replace("iterations = 1", "iterations = 60"));
    let mut tenancy = small(&[two.concat(), job("c", 2, "at = \"163500ms\"")].concat(), "");
    tenancy.fabric = "star-6".into();
    let mut idle = tenancy.model[0].clone();
    (idle.name, idle.compute) = ("idle".into(), "75MFLOP/s".parse().unwrap());
    tenancy.model.push(idle);
    for busy in [0, 1] {
        let mut tenancy = tenancy.clone();
        tenancy.job[1 - busy].model = "idle".into();
        assert_eq!(measured(&tenancy, CONTENTION, 2, None).jobs[2].in_network(), Some(1.0), "busy: {busy}");
    }
}

#[test]
fn whatever_fails_locks_are_given_back_and_all_jobs_end() {
    let changes = ["trace.jobs=20", "failures.server=2h", "failures.switch=1h", "failures.link=1h"];
    let mut lost = 0;
    for (seed, patience) in (1..=6).zip(["patience=0ms", "patience=4s"].into_iter().cycle()) {
        let tenancy = preset("epic-2048", &[&changes[..], &["failures.repair=1m", patience]].concat());
        // That nobody has a lock or a place in the end, or sends over what has failed, the run asserts itself.
        let found = seeded(&tenancy, CONTENTION, 2, None, seed).unwrap();
        assert!(found.jobs.iter().all(|job| job.collectives[0] >= job.collectives[1]));
        lost += found.failed.trees;
    }
    assert!(lost > 0, "a tree is lost now and then");
}
