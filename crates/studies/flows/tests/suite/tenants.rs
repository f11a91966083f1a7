//! Jobs beside each other: who waits, who shares, and who gets switches.

use crate::{measured, preset};
use quincunx_flows::{JobOutcome, TenancyMeasurement};
use quincunx_scenario::{Tenancy, TenancyPolicy};
use quincunx_units::Duration;
use std::collections::BTreeSet;

/// A cluster of 16 accelerators behind four leaves, with two spines; a model that computes for 1 s and adds up 10 Gbit of gradients.
pub(crate) fn small(jobs: &str, more: &str) -> Tenancy {
    let text = format!(
        r#"
fabric = "leaf-spine-4x2x4"
memory_units = [8]
slots = "path"
volume = "published"
{more}
[link]
rate = "10Gbit/s"
[[model]]
name = "m"
parameters = 1.25e9
layers = 1
hidden = 1
sequence = 1
batch = 1
value = 1
tp = 1
compute = "7.5GFLOP/s"
{jobs}"#
    );
    Tenancy::parse("small.toml", &text, &[]).unwrap()
}

pub(crate) fn job(name: &str, gpus: u32, more: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\nmodel = \"m\"\ngpus = {gpus}\niterations = 1\n{more}\n")
}

fn times(found: &TenancyMeasurement) -> Vec<f64> {
    found.jobs.iter().map(|job| (job.completion().as_secs_f64() * 1e3).round() / 1e3).collect()
}

#[test]
fn a_ring_counts_four_bits_and_a_tree_two() {
    // Behind one leaf: 10 Gbit at 10 Gbit/s.
    let tenancy = small(&job("a", 4, ""), "");
    assert_eq!(times(&measured(&tenancy, TenancyPolicy::Ring, 8, None)), [1.0 + 4.0]);
    assert_eq!(times(&measured(&tenancy, TenancyPolicy::Spatial, 8, None)), [1.0 + 2.0]);
}

#[test]
fn by_its_plan_a_ring_sends_two_parts_of_all_but_one_and_a_tree_one() {
    let tenancy = small(&job("a", 4, ""), "design = \"epic-2\"\nfallback = \"ring\"");
    let tenancy = Tenancy { volume: quincunx_scenario::Volume::Plan, ..tenancy };
    assert_eq!(times(&measured(&tenancy, TenancyPolicy::Ring, 8, None)), [1.0 + 1.5]);
    assert_eq!(times(&measured(&tenancy, TenancyPolicy::Spatial, 8, None)), [1.0 + 1.0]);
}

#[test]
fn who_finds_no_accelerators_waits_for_those_before_and_its_time_counts_that() {
    let jobs = [job("a", 16, ""), job("b", 16, "at = \"1s\"")].concat();
    let found = measured(&small(&jobs, ""), TenancyPolicy::Ring, 8, None);
    let [a, b] = [&found.jobs[0], &found.jobs[1]];
    assert_eq!((b.began, b.runtime()), (a.ended, a.runtime()));
    assert_eq!(b.wait(), a.completion() - Duration::from_secs(1));
    assert_eq!(b.completion(), b.wait() + b.runtime());
}

#[test]
fn jobs_begin_in_the_order_in_which_they_came() {
    // The third would have room beside the first, and does not pass the second.
    let jobs = [job("a", 8, ""), job("b", 16, ""), job("c", 4, "")].concat();
    let found = measured(&small(&jobs, ""), TenancyPolicy::Ring, 8, None);
    assert!(found.jobs[1].began < found.jobs[2].began);
}

#[test]
fn a_tree_that_shares_no_link_is_for_one_of_two_jobs_on_the_same_links() {
    // Two jobs over both leaves' halves meet on two spines: each has one.
    let jobs = [job("a", 8, ""), job("b", 8, "")].concat();
    let granted = |policy, units| {
        let found = measured(&small(&jobs, ""), policy, units, None);
        found.jobs.iter().filter(|job| job.in_network() == Some(1.0)).count()
    };
    assert_eq!(granted(TenancyPolicy::Ring, 8), 0);
    assert_eq!(granted(TenancyPolicy::Edt, 8), 2);
    assert_eq!(granted(TenancyPolicy::Spatial, 8), 2);
}

#[test]
fn switches_that_one_use_gives_back_are_there_for_the_next() {
    // One unit: tensor-parallel groups have it for a job's life, or for their turn.
    let text = Tenancy::text("epic-128").unwrap();
    let tenancy = Tenancy::parse("one.toml", text, &["memory_units=1".parse().unwrap()]).unwrap();
    let share = |policy| measured(&tenancy, policy, 1, Some(1)).jobs[0].in_network().unwrap();
    // 16 of 24 collectives of an iteration are tensor-parallel; of the eight others one finds a unit at each leaf.
    assert_eq!(share(TenancyPolicy::Spatial), 16.0 / 24.0);
    assert_eq!(share(TenancyPolicy::Temporal), 17.0 / 24.0);
}

#[test]
fn flows_that_a_hash_spreads_are_slower_than_pinned_ones() {
    let time = |routing: &str| {
        let tenancy = preset("epic-128", &[routing]);
        measured(&tenancy, TenancyPolicy::Ring, 4, Some(0)).mean(JobOutcome::completion)
    };
    let [pinned, hashed] = ["routing=pinned", "routing=hashed"].map(time);
    assert!(hashed > 1.1 * pinned, "{hashed} against {pinned}");
}

#[test]
fn latency_is_waited_for_once_for_each_step_and_link() {
    // Six steps of two links; in a tree up and down one.
    let time = |policy, latency: &str| {
        let link = small(&job("a", 4, ""), "").link.unwrap();
        let tenancy = Tenancy {
            link: Some(quincunx_scenario::TenancyLink { latency: latency.parse().unwrap(), ..link }),
            ..small(&job("a", 4, ""), "")
        };
        measured(&tenancy, policy, 8, None).jobs[0].completion()
    };
    let more = |policy| time(policy, "1ms") - time(policy, "0ms");
    assert_eq!(more(TenancyPolicy::Ring), Duration::from_millis(6 * 2));
    assert_eq!(more(TenancyPolicy::Spatial), Duration::from_millis(2));
}

#[test]
fn a_phase_waits_for_the_latency_of_its_farthest_group() {
    // Of three groups of four on leaves of six the middle one crosses a spine: 2 + 4 + 2 + 4 links, six steps, in the mean 18 of them. Those of
    // three pass 2 + 4 + 4 in four steps.
    let time = |latency: &str| {
        let mut tenancy = small(&job("a", 12, ""), "");
        tenancy.fabric = "leaf-spine-2x2x6".into();
        tenancy.model[0].tp = 4;
        tenancy.link.as_mut().unwrap().latency = latency.parse().unwrap();
        measured(&tenancy, TenancyPolicy::Ring, 8, None).jobs[0].completion()
    };
    assert_eq!(time("1ms") - time("0ms"), Duration::from_millis(18 + 13));
}

#[test]
fn one_seed_is_one_run_and_another_seed_another() {
    let run = |seed: u64| {
        let tenancy = preset("epic-2048", &["trace.jobs=20"]);
        let cluster = quincunx_flows::Cluster::of(&tenancy, quincunx_designs::CATALOG).unwrap();
        let request = quincunx_flows::TenancyRequest {
            tenancy: &tenancy,
            cluster: &cluster,
            catalog: quincunx_designs::CATALOG,
            policy: TenancyPolicy::Temporal,
            units: 8,
            seed,
            only: None,
            watched: true,
        };
        quincunx_flows::measure_tenancy(&request, &mut |_| std::ops::ControlFlow::Continue(())).unwrap()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_trace_has_sizes_in_their_shares() {
    let tenancy = preset("epic-2048", &["trace.jobs=1000", "trace.iterations=1"]);
    let found = measured(&tenancy, TenancyPolicy::Ring, 4, None);
    for (gpus, share) in [(8, 0.30), (16, 0.30), (32, 0.25), (64, 0.10), (128, 0.05)] {
        let found = found.jobs.iter().filter(|job| job.gpus == gpus).count() as f64 / 1000.0;
        assert!((found - share).abs() < 0.04, "{found} of {gpus} accelerators");
    }
}

#[test]
fn a_trace_has_the_sizes_of_a_data_set_that_its_models_can_be_split_over() {
    let workers =
        concat!("trace.sizes_of=", env!("CARGO_MANIFEST_DIR"), "/../../../examples/clusters/worker.csv");
    let tenancy = preset("epic-2048", &["trace.jobs=100", "trace.iterations=1", workers]);
    let found = measured(&tenancy, TenancyPolicy::Ring, 4, None);
    assert_eq!(found.left_out, 4, "on 1, 2, 4 and 12 accelerators");
    let sizes: BTreeSet<u32> = found.jobs.iter().map(|job| job.gpus).collect();
    assert_eq!(sizes, BTreeSet::from([8, 16, 32, 64, 128]));
}

#[test]
fn sizes_are_multiples_of_what_shares_a_layer_of_any_model() {
    let workers =
        concat!("trace.sizes_of=", env!("CARGO_MANIFEST_DIR"), "/../../../examples/clusters/worker.csv");
    let mut tenancy = preset("epic-2048", &["trace.jobs=100", "trace.iterations=1", workers]);
    for (model, tp) in tenancy.model.iter_mut().zip([4, 3, 1, 1]) {
        model.tp = tp;
    }
    let found = measured(&tenancy, TenancyPolicy::Ring, 4, None);
    assert!(found.jobs.iter().all(|job| job.gpus == 12), "the one of them that 4 and 3 divide");
}

#[test]
fn half_and_nearly_all_of_the_jobs_stay_under_percentiles() {
    let job = |seconds: u64| JobOutcome {
        name: String::new(),
        model: String::new(),
        gpus: 1,
        arrived: quincunx_units::Instant::ZERO,
        began: quincunx_units::Instant::ZERO,
        ended: quincunx_units::Instant::ZERO + Duration::from_secs(seconds),
        collectives: [0; 2],
        restarts: 0,
        lost: Duration::ZERO,
    };
    let found =
        TenancyMeasurement { jobs: (1..=200).rev().map(job).collect(), ..TenancyMeasurement::default() };
    assert_eq!(
        [50.0, 99.0, 100.0].map(|of| found.percentile(of, JobOutcome::completion)),
        [100.0, 198.0, 200.0]
    );
    assert_eq!((found.mean(JobOutcome::completion), found.makespan()), (100.5, Duration::from_secs(200)));
}
