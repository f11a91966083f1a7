//! What failures cost: iterations that begin again, trees that are lost and had again, and what never ends.

use crate::tenants::{job, small};
use crate::{measured, preset, seeded, tried};
use quincunx_flows::{TenancyMeasurement, Used};
use quincunx_scenario::{Failures, Tenancy, TenancyPolicy};
use quincunx_units::{Duration, MeanTime};

pub(crate) fn every(text: &str) -> Option<MeanTime> {
    Some(text.parse().unwrap())
}

/// What never fails, and is whole after a second in the mean.
pub(crate) fn none() -> Failures {
    Failures {
        link: None,
        switch: None,
        server: None,
        repair: "1s".parse().unwrap(),
        recovery: Duration::ZERO,
        restart: Duration::ZERO,
        adaptive: true,
    }
}

fn failing(tenancy: Tenancy, failures: Failures) -> Tenancy {
    Tenancy { failures: Some(failures), ..tenancy }
}

/// A job of so many accelerators and iterations in the small cluster.
fn one(gpus: u32, iterations: u32) -> Tenancy {
    let mut tenancy = small(&job("a", gpus, ""), "");
    tenancy.job[0].iterations = iterations;
    tenancy
}

fn with_seeds(tenancy: &Tenancy, policy: TenancyPolicy) -> impl Iterator<Item = TenancyMeasurement> {
    (1..=20).map(move |seed| seeded(tenancy, policy, 8, None, seed).unwrap())
}

#[test]
fn what_fails_too_late_changes_nothing() {
    let calm = preset("epic-2048", &["trace.jobs=20"]);
    let late = "1000000y";
    let rest = Failures { recovery: Duration::from_secs(5), restart: Duration::from_secs(5), ..none() };
    let failures = Failures { link: every(late), switch: every(late), server: every(late), ..rest };
    for policy in TenancyPolicy::ALL {
        let found = measured(&failing(calm.clone(), failures), policy, 8, None);
        assert_eq!(found, measured(&calm, policy, 8, None));
    }
}

#[test]
fn a_job_that_loses_an_accelerator_begins_the_iteration_again_on_others() {
    // Four of sixteen accelerators, so that others are free; an iteration takes 1 s and 4 s.
    let restart = Duration::from_secs(3);
    let failures = Failures { server: every("20s"), restart, ..none() };
    let mut restarts = 0;
    for found in with_seeds(&failing(one(4, 1), failures), TenancyPolicy::Ring) {
        let job = &found.jobs[0];
        let again = if job.restarts > 0 { restart } else { Duration::ZERO };
        // It waits only where too many are out of order at once, and may cross a spine then.
        assert!(job.runtime() >= Duration::from_secs(5) + job.lost + again, "{job:?}");
        assert_eq!(job.restarts > 0, job.lost > Duration::ZERO);
        restarts += job.restarts;
    }
    assert!(restarts > 10, "{restarts} of twenty runs");
}

#[test]
fn iterations_that_have_ended_are_not_begun_again() {
    let failures = Failures { server: every("100s"), ..none() };
    let (mut restarted, mut at_once) = (0, 0);
    for found in with_seeds(&failing(one(4, 10), failures), TenancyPolicy::Ring) {
        let job = &found.jobs[0];
        let least = Duration::from_secs(50) + job.lost;
        assert!(job.runtime() >= least, "{job:?}");
        restarted += u32::from(job.restarts > 0);
        // Where four others were free in the same moment, and on links of their own.
        at_once += u32::from(job.restarts > 0 && job.runtime() < least + Duration::from_millis(1));
    }
    assert!(restarted > 10 && at_once * 2 > restarted, "{at_once} of {restarted}");
}

#[test]
fn collectives_go_on_around_links_that_have_failed_after_a_while() {
    let recovery = Duration::from_millis(100);
    let failures = Failures { link: every("100s"), recovery, ..none() };
    for policy in [TenancyPolicy::Ring, TenancyPolicy::Temporal] {
        let calm = measured(&one(16, 3), policy, 8, None).jobs[0].runtime();
        let mut interrupted = 0;
        for found in with_seeds(&failing(one(16, 3), failures), policy) {
            let job = &found.jobs[0];
            interrupted += found.failed.interrupted;
            assert!(job.runtime() >= calm + job.lost, "{job:?}");
            if found.failed.interrupted > 0 && job.restarts == 0 {
                assert!(job.runtime() >= calm + recovery, "its one group stood still");
            }
        }
        assert!(interrupted > 5, "{interrupted} by {policy:?}");
    }
}

#[test]
fn a_group_that_has_lost_its_tree_has_another_at_its_next_collective() {
    let run = |adaptive: bool| {
        let failures = Failures { link: every("200s"), adaptive, ..none() };
        let all: Vec<_> = with_seeds(&failing(one(16, 20), failures), TenancyPolicy::Spatial).collect();
        let sum = |of: &dyn Fn(&TenancyMeasurement) -> f64| all.iter().map(of).sum::<f64>();
        let share = sum(&|found| found.jobs[0].in_network().unwrap()) / all.len() as f64;
        (share, sum(&|found| found.failed.trees as f64), sum(&|found| found.failed.regained as f64))
    };
    let [(again, lost, regained), (for_good, _, nothing)] = [true, false].map(run);
    assert!(lost > 20.0 && regained > 0.5 * lost, "{regained} of {lost}");
    assert_eq!(nothing, 0.0);
    assert!(again > for_good, "{again} and {for_good} of the collectives in switches");
}

#[test]
fn whose_leaves_nothing_joins_waits_for_the_repair() {
    // One spine; the way between leaves breaks, and theirs alone.
    let mut tenancy =
        failing(one(2, 3), Failures { link: every("100s"), repair: "30s".parse().unwrap(), ..none() });
    tenancy.fabric = "leaf-spine-2x1x1".into();
    let slow = with_seeds(&tenancy, TenancyPolicy::Ring).filter(|found| {
        let job = &found.jobs[0];
        job.restarts == 0 && found.failed.interrupted > 0 && job.runtime() > Duration::from_secs(30)
    });
    assert!(slow.count() > 0);
}

#[test]
fn who_waits_for_a_repair_goes_on_when_it_is_there() {
    // The same, where nothing else fails until the end: the next failure is not what wakes anybody up.
    let failures = Failures { link: every("300s"), repair: "10s".parse().unwrap(), ..none() };
    let mut tenancy = failing(one(2, 3), failures);
    tenancy.fabric = "leaf-spine-2x1x1".into();
    let alone = (1..=200).map(|seed| seeded(&tenancy, TenancyPolicy::Ring, 8, None, seed).unwrap());
    let woken = alone.filter(|found| {
        found.failed.links == 1 && found.failed.interrupted > 0 && found.jobs[0].restarts == 0
    });
    assert!(woken.count() > 3);
}

#[test]
fn all_groups_that_wait_for_a_repair_go_on_with_it() {
    // Two groups for gradients, both over the one spine.
    let mut tenancy =
        failing(one(4, 3), Failures { link: every("300s"), repair: "10s".parse().unwrap(), ..none() });
    tenancy.fabric = "leaf-spine-2x1x2".into();
    tenancy.model[0].tp = 2;
    let found = (1..=300).map(|seed| seeded(&tenancy, TenancyPolicy::Ring, 8, None, seed).unwrap());
    let both = found.filter(|found| (found.failed.links, found.failed.interrupted) == (1, 2));
    assert!(both.count() > 3);
}

#[test]
fn what_has_waited_for_a_way_takes_as_long_as_ever_then() {
    // Two steps of four links.
    let mut tenancy =
        failing(one(2, 3), Failures { link: every("100s"), repair: "2s".parse().unwrap(), ..none() });
    tenancy.fabric = "leaf-spine-2x1x1".into();
    tenancy.link.as_mut().unwrap().latency = Duration::from_secs(1);
    let calm = measured(&Tenancy { failures: None, ..tenancy.clone() }, TenancyPolicy::Ring, 8, None).jobs[0]
        .runtime();
    assert_eq!(calm, Duration::from_secs(3 * (1 + 4 + 8)));
    let mut interrupted = 0;
    for seed in 1..=100 {
        let found = seeded(&tenancy, TenancyPolicy::Ring, 8, None, seed).unwrap();
        interrupted += found.failed.interrupted;
        assert!(found.jobs[0].runtime() >= calm + found.jobs[0].lost, "seed {seed}");
    }
    assert!(interrupted > 20);
}

#[test]
fn a_job_may_lose_accelerators_as_often_as_it_likes_if_it_goes_on() {
    let found = measured(
        &failing(one(4, 3000), Failures { server: every("20s"), ..none() }),
        TenancyPolicy::Ring,
        8,
        None,
    );
    assert!(found.jobs[0].restarts > 1000, "{}", found.jobs[0].restarts);
}

#[test]
fn of_jobs_that_lose_accelerators_at_once_the_first_is_the_first_again() {
    // Two behind a leaf that fails, with room for one of them behind another.
    let jobs = [job("a", 2, ""), job("b", 2, ""), job("c", 10, "")].concat();
    let tenancy = failing(small(&jobs, ""), Failures { switch: every("60s"), ..none() });
    let mut together = 0;
    for seed in 1..=300 {
        let found = seeded(&tenancy, TenancyPolicy::Ring, 8, None, seed).unwrap();
        let [a, b, c] = &found.jobs[..] else { panic!("three jobs") };
        if (a.restarts, b.restarts, c.restarts, found.failed.switches) == (1, 1, 0, 1) {
            assert!(a.ended < b.ended, "seed {seed}");
            together += 1;
        }
    }
    assert!(together > 3, "{together}");
}

#[test]
fn what_links_have_carried_is_told_of_collectives_that_were_interrupted_too() {
    let failures = Failures { link: every("60s"), repair: "20s".parse().unwrap(), ..none() };
    for found in with_seeds(&failing(one(16, 3), failures), TenancyPolicy::Temporal) {
        let usage = found.usage.as_ref().unwrap();
        let end = found.makespan().as_secs_f64();
        for (name, share) in &found.busiest {
            let used = usage.links.iter().chain(&usage.access).find(|used| used.name == *name);
            let part = usage.part.as_secs_f64();
            let long = |at: usize| (end - at as f64 * part).min(part);
            let sum =
                |used: &Used| used.shares.iter().enumerate().map(|(at, share)| share * long(at)).sum::<f64>();
            let told = used.map_or(0.0, sum) / end;
            assert!((told - share).abs() < 1e-6, "{name}: {told} and {share}");
        }
    }
}

#[test]
fn jobs_that_wait_for_accelerators_have_them_when_they_are_mended() {
    // All sixteen: a job waits for each that has failed.
    let failures = Failures { server: every("200s"), repair: "50s".parse().unwrap(), ..none() };
    let found: Vec<_> = with_seeds(&failing(one(16, 1), failures), TenancyPolicy::Ring).collect();
    let broken = found.iter().filter(|found| found.jobs[0].restarts > 0);
    let mut waited = 0;
    for job in broken.map(|found| &found.jobs[0]) {
        waited += u32::from(job.runtime() > job.lost + Duration::from_secs(15));
    }
    assert!(waited > 0);
}

#[test]
fn failures_are_the_same_under_each_policy() {
    // Of the shorter run all failures are among those of the longer one.
    let tenancy = failing(one(4, 20), Failures { switch: every("100s"), ..none() });
    let runs = |policy| with_seeds(&tenancy, policy).collect::<Vec<_>>();
    let pairs = runs(TenancyPolicy::Ring).into_iter().zip(runs(TenancyPolicy::Spatial));
    let (mut compared, mut switches) = (0, 0);
    for (ring, spatial) in pairs.filter(|(ring, spatial)| ring.makespan() > spatial.makespan()) {
        assert!(ring.failed.switches >= spatial.failed.switches);
        compared += 1;
        switches += spatial.failed.switches;
    }
    assert!(compared > 10 && switches > 20, "{switches} in {compared}");
}

#[test]
fn an_iteration_that_never_ends_is_an_error_with_the_jobs_name() {
    let failures = Failures { server: every("1s"), ..none() };
    let error = tried(&failing(one(4, 1), failures), TenancyPolicy::Ring, 8, None).unwrap_err().to_string();
    assert!(error.contains("an iteration of a") && error.contains("1000 tries"), "{error}");
}

#[test]
fn a_job_that_is_not_over_at_the_end_of_time_is_an_error() {
    // The first failure is never mended.
    let failures = Failures { server: every("10s"), repair: "10000y".parse().unwrap(), ..none() };
    let error = tried(&failing(one(16, 4), failures), TenancyPolicy::Ring, 8, None).unwrap_err().to_string();
    assert!(error.contains("213 days"), "{error}");
}
