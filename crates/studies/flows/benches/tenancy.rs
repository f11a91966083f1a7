//! How long runs of a cluster by flows take, once each, as criterion would repeat them for minutes: all policies on 2,048 accelerators, growth in
//! jobs and in accelerators, and one AllReduce of 1,024.

use quincunx_designs::CATALOG;
use quincunx_flows::{Cluster, JobOutcome, TenancyMeasurement, TenancyRequest, measure_tenancy};
use quincunx_scenario::{Override, Tenancy, TenancyPolicy};
use std::ops::ControlFlow;
use std::time::Instant;

fn preset(changes: &[String]) -> Tenancy {
    let changes: Vec<Override> = changes.iter().map(|change| change.parse().expect("a key")).collect();
    Tenancy::find("epic-2048", &changes).expect("a preset")
}

/// What a run comes to, and the seconds that it and making its network take.
fn timed(tenancy: &Tenancy, policy: TenancyPolicy, units: u32) -> (TenancyMeasurement, f64, f64) {
    let start = Instant::now();
    let cluster = Cluster::of(tenancy, CATALOG).expect("its shape");
    let made = start.elapsed().as_secs_f64();
    let request = TenancyRequest {
        tenancy,
        cluster: &cluster,
        catalog: CATALOG,
        policy,
        units,
        seed: 1,
        only: None,
        watched: false,
    };
    let start = Instant::now();
    let found = measure_tenancy(&request, &mut |_| ControlFlow::Continue(())).expect("it runs to its end");
    (found, start.elapsed().as_secs_f64(), made)
}

fn line(name: &str, policy: TenancyPolicy, (found, run, made): &(TenancyMeasurement, f64, f64)) {
    let mean = found.mean(JobOutcome::completion);
    println!("{name:<24} {:<9} {made:>9.3} {run:>9.3} {:>9} {mean:>9.1}", policy.name(), found.events);
}

fn main() {
    println!(
        "{:<24} {:<9} {:>9} {:>9} {:>9} {:>9}",
        "run", "policy", "made (s)", "run (s)", "events", "mean JCT"
    );
    for policy in TenancyPolicy::ALL {
        line("2,048, 1,000 jobs", policy, &timed(&preset(&[]), policy, 16));
    }
    for jobs in [250, 500, 2000, 4000] {
        let tenancy = preset(&[format!("trace.jobs={jobs}")]);
        for policy in [TenancyPolicy::Ring, TenancyPolicy::Temporal] {
            line(&format!("2,048, {jobs} jobs"), policy, &timed(&tenancy, policy, 16));
        }
    }
    // As many jobs for each accelerator.
    for (pods, jobs) in [(2, 250), (4, 500), (16, 2000), (32, 4000)] {
        let tenancy = preset(&[format!("fabric=clos-{pods}x16x16x16x8"), format!("trace.jobs={jobs}")]);
        for policy in [TenancyPolicy::Ring, TenancyPolicy::Temporal] {
            line(&format!("{}, {jobs} jobs", pods * 256), policy, &timed(&tenancy, policy, 16));
        }
    }
    let text = Tenancy::text("epic-128").expect("a preset").replace("tp = 8", "tp = 1");
    let text = text.replace("apart = true", "").replace("gpus = 128", "gpus = 1024\niterations = 1");
    let changes = ["fabric=clos-8x16x16x16x8".parse().expect("a key")];
    let mut tenancy = Tenancy::parse("one", &text, &changes).expect("a file");
    tenancy.job.truncate(1);
    for policy in [TenancyPolicy::Ring, TenancyPolicy::Spatial] {
        line("one AllReduce of 1,024", policy, &timed(&tenancy, policy, 16));
    }
}
