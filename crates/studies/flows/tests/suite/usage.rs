//! What switches and links are used for, part by part.

use crate::{measured, preset};
use quincunx_flows::{Cluster, PARTS, TenancyMeasurement, TenancyRequest, Usage, Used, measure_tenancy};
use quincunx_scenario::{Tenancy, TenancyPolicy};
use quincunx_units::{Duration, Instant};
use std::ops::ControlFlow;

fn twenty_jobs() -> Tenancy {
    preset("epic-2048", &["trace.jobs=20"])
}

fn usage(found: &TenancyMeasurement) -> &Usage {
    found.usage.as_ref().expect("it was watched")
}

/// The share over the whole run.
fn over_all(used: &Used, part: Duration, end: Duration) -> f64 {
    let parts = (0..).map(|number: u64| (part * number, (part * (number + 1)).min(end)));
    let weighted = used.shares.iter().zip(parts).map(|(share, (from, to))| share * (to - from).as_secs_f64());
    weighted.sum::<f64>() / end.as_secs_f64()
}

#[test]
fn links_carry_in_all_parts_together_what_they_carry_in_the_run() {
    for policy in [TenancyPolicy::Ring, TenancyPolicy::Temporal] {
        let found = measured(&twenty_jobs(), policy, 8, None);
        let usage = usage(&found);
        for (name, share) in &found.busiest {
            let used = usage
                .links
                .iter()
                .chain(&usage.access)
                .find(|used| used.name == *name)
                .expect("it carried something");
            let sum = over_all(used, usage.part, found.makespan());
            assert!((sum - share).abs() < 1e-6, "{name}: {sum} {share}");
        }
    }
}

#[test]
fn nobody_has_more_than_there_is() {
    let found = measured(&twenty_jobs(), TenancyPolicy::Temporal, 4, None);
    let usage = usage(&found);
    assert!(!usage.switches.is_empty());
    for used in &usage.switches {
        assert!(used.shares.len() <= PARTS && used.shares.len() * 2 >= PARTS);
        assert!(used.shares.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)), "{used:?}");
    }
}

#[test]
fn what_is_held_for_a_jobs_life_is_held_from_its_beginning_to_its_end() {
    let found = measured(&twenty_jobs(), TenancyPolicy::Spatial, 8, None);
    let held = &usage(&found).held;
    assert!(!held.is_empty());
    for span in held {
        let job = &found.jobs[span.job as usize];
        assert_eq!((span.from, span.to), (job.began, job.ended), "{span:?}");
    }
}

#[test]
fn what_is_held_for_a_groups_use_is_held_within_its_jobs_time() {
    let found = measured(&twenty_jobs(), TenancyPolicy::Temporal, 8, None);
    let mut all: Vec<[Instant; 2]> = Vec::new();
    for span in &usage(&found).held {
        let job = &found.jobs[span.job as usize];
        assert!(job.began <= span.from && span.from < span.to && span.to <= job.ended, "{span:?}");
        all.push([span.from, span.to]);
    }
    assert!(found.grants[1] > 0 && !all.is_empty());
}

#[test]
fn among_hosts_nobody_holds_switches() {
    let found = measured(&twenty_jobs(), TenancyPolicy::Ring, 8, None);
    let usage = usage(&found);
    assert!(usage.switches.is_empty() && usage.held.is_empty());
    assert!(!usage.links.is_empty() && !usage.access.is_empty());
}

#[test]
fn a_run_that_is_watched_is_the_same_run() {
    let tenancy = twenty_jobs();
    let cluster = Cluster::of(&tenancy, quincunx_designs::CATALOG).unwrap();
    let run = |watched: bool| {
        let request = TenancyRequest {
            tenancy: &tenancy,
            cluster: &cluster,
            catalog: quincunx_designs::CATALOG,
            policy: TenancyPolicy::Temporal,
            units: 8,
            seed: 1,
            only: None,
            watched,
        };
        let found = measure_tenancy(&request, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.usage.is_some(), watched);
        TenancyMeasurement { usage: None, ..found }
    };
    assert_eq!(run(true), run(false));
}
