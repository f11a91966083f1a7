//! Clusters by flows held against the same by packets: jobs of one AllReduce each on fabrics with one way between two hosts.

use crate::requests;
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_flows::{Cluster, TenancyRequest, measure_tenancy};
use quincunx_scenario::{Jobs, Tenancy, TenancyPolicy};
use quincunx_sim::{JobsRequest, ignore_progress, measure_jobs};
use std::ops::ControlFlow;

/// Jobs that follow each other on the hosts, of so many each.
struct Case {
    fabric: &'static str,
    jobs: &'static [u32],
}

const CASES: [Case; 5] = [
    Case { fabric: "leaf-spine-2x1x4", jobs: &[8] },
    Case { fabric: "leaf-spine-4x1x4", jobs: &[8, 8] },
    Case { fabric: "leaf-spine-4x1x4", jobs: &[6, 6, 4] },
    Case { fabric: "leaf-spine-4x1x4", jobs: &[5, 11] },
    Case { fabric: "leaf-spine-8x1x8", jobs: &[12, 12, 10, 10, 12, 8] },
];

/// Microseconds of each job by packets.
fn by_packets(case: &Case, design: &str, bytes: u64) -> Vec<f64> {
    let mut first = 0;
    let mut text = "policy = \"spatial\"\nmemory = \"1GiB\"\n".to_owned();
    for gpus in case.jobs {
        let last = first + gpus - 1;
        text += &format!(
            "[[job]]\nhosts = \"{first}-{last}\"\ncollective = \"all_reduce\"\nsize = \"{bytes}B\"\ndesign = \"{design}\"\n"
        );
        first += gpus;
    }
    let scenario = requests::scenario(case.fabric, &[]);
    let jobs = Jobs::parse("jobs.toml", &text).unwrap();
    let request =
        JobsRequest { scenario, jobs, catalog: CATALOG, fallback: Some(FALLBACK), seed: 1, only: None };
    let found = measure_jobs(&request, &mut ignore_progress).unwrap();
    found.jobs.iter().map(|job| job.mean().as_micros_f64()).collect()
}

/// The same by flows: a model whose gradients are the vector, and which computes for next to no time.
fn by_flows(case: &Case, policy: TenancyPolicy, design: &str, bytes: u64) -> Vec<f64> {
    let jobs = case.jobs.iter().enumerate().map(|(number, gpus)| {
        format!("[[job]]\nname = \"{number}\"\nmodel = \"m\"\ngpus = {gpus}\niterations = 1\n")
    });
    let jobs: String = jobs.collect();
    let text = format!(
        "fabric = \"{}\"\nmemory_units = [1024]\nunit = \"1MiB\"\ndesign = \"{design}\"\nfallback = \"ring\"\n\
         [link]\nrate = \"100Gbit/s\"\nlatency = \"1us\"\n\
         [[model]]\nname = \"m\"\nparameters = {bytes}.0\nlayers = 1\nhidden = 1\nsequence = 1\nbatch = 1\nvalue = 1\n\
         tp = 1\ncompute = \"1000000TFLOP/s\"\n{jobs}",
        case.fabric
    );
    let tenancy = Tenancy::parse("jobs.toml", &text, &[]).unwrap();
    let cluster = Cluster::of(&tenancy, CATALOG).unwrap();
    let request = TenancyRequest {
        tenancy: &tenancy,
        cluster: &cluster,
        catalog: CATALOG,
        policy,
        units: 1024,
        seed: 1,
        only: None,
        watched: false,
    };
    let found = measure_tenancy(&request, &mut |_| ControlFlow::Continue(())).unwrap();
    found.jobs.iter().map(|job| job.completion().as_micros_f64()).collect()
}

/// The most by which flows differ from packets, as a share, over all jobs of these cases; each is told.
fn worst(cases: &[Case], policy: TenancyPolicy, design: &str, bytes: u64) -> f64 {
    let mut worst = 0.0_f64;
    for case in cases {
        let (packets, flows) = (by_packets(case, design, bytes), by_flows(case, policy, "epic-3", bytes));
        for (number, (packets, flows)) in packets.into_iter().zip(flows).enumerate() {
            let error = flows / packets - 1.0;
            eprintln!(
                "{design:<7} {bytes:>9} {} {:?} job {number}: {packets:>9.1} us by packets, {flows:>9.1} by flows, {:+.1} %",
                case.fabric,
                case.jobs,
                error * 100.0
            );
            worst = worst.max(error.abs());
        }
    }
    worst
}

#[test]
fn trees_take_by_flows_what_they_take_by_packets_within_a_tenth_from_1_mib() {
    for bytes in [1 << 20, 4 << 20] {
        assert!(worst(&CASES, TenancyPolicy::Spatial, "epic-3", bytes) < 0.10);
    }
}

#[test]
fn rings_that_share_no_link_take_by_flows_what_they_take_by_packets_within_a_thirtieth_from_4_mib() {
    assert!(worst(&CASES[..2], TenancyPolicy::Ring, "ring", 4 << 20) < 1.0 / 30.0);
}

#[test]
fn rings_that_share_links_take_by_flows_what_they_take_by_packets_within_15_percent() {
    // Half of them within a twentieth. Packets do not share evenly: a ring that waits at one hop is late at all others, too.
    assert!(worst(&CASES, TenancyPolicy::Ring, "ring", 4 << 20) < 0.15);
}
