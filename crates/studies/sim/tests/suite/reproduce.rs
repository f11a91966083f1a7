//! Reproduction of published figures, as far as it is not the figures themselves.

use quincunx_designs::CATALOG;
use quincunx_scenario::Experiment;
use quincunx_sim::{Verdict, reproduce, runs_of};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn a_reproduction_that_is_stopped_has_the_figures_that_were_run() {
    // A table of two figures, many times over, each time on other links.
    let experiment = &mut Experiment::find("epic/table30").unwrap()[0];
    let on_links = |nanos: u32| {
        let mut series = experiment.series.clone();
        let link = format!("link.latency = \"{}ns\"", 1000 + nanos);
        series.iter_mut().for_each(|series| series.set.extend(link.parse::<toml::Table>().unwrap()));
        series
    };
    experiment.series = (0..20).flat_map(on_links).collect();
    let all =
        reproduce(experiment, CATALOG, quincunx_schedules::ALL, &AtomicBool::new(false), &|| {}).unwrap();
    let (stop, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = || {
        runs.fetch_add(1, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
    };
    let some = reproduce(experiment, CATALOG, quincunx_schedules::ALL, &stop, &done).unwrap();
    assert!(runs.into_inner() < runs_of(experiment));
    assert!(!some.is_empty() && some.len() < all.len(), "{} of {}", some.len(), all.len());
    assert!(some.iter().all(|figure| all.contains(figure)));
}

#[test]
fn figures_of_training_are_ratios_of_iterations_and_the_least_or_the_best_of_several() {
    let series = |pick: &str, baseline: &str| {
        format!(
            r#"
            [[series]]
            design = "ring"
            kind = "derived"
            baseline = "ring"
            baseline_set = {{ train = {{ {baseline} }} }}
            baseline_axis = true
            axis = "train.batch"
            size = "0B"
            values = [4, 64]
            published = [1.0]
            pick = "{pick}"
            "#
        )
    };
    let text = format!(
        r#"
        paper = "none"
        id = "none"
        title = "Iterations of training"
        source = "none"
        fabric = "star-2"
        collective = "all_reduce"
        quantity = "training-speedup"
        tolerance = {{ relative = 0.0, why = "ratios of equal times" }}
        set = {{ train = {{ model = "googlenet" }} }}
        {}{}{}
        "#,
        series("best", "overlap = true"),
        series("least", "overlap = false"),
        series("best", "overlap = false"),
    );
    let experiment = Experiment::parse("test", &text).unwrap();
    let figures =
        reproduce(&experiment, CATALOG, quincunx_schedules::ALL, &AtomicBool::new(false), &|| {}).unwrap();
    let [same, least, best] = &figures[..] else { panic!("{figures:?}") };
    assert_eq!((same.ours, same.verdict), (1.0, Verdict::Met), "the same training takes as long");
    assert!(1.0 < least.ours && least.ours < best.ours, "{figures:?}");
    assert_eq!([&*least.figure, &*best.figure], ["ring least, at 64", "ring best, at 4"]);
}

#[test]
fn what_two_figures_have_in_common_is_run_once() {
    let experiment = &mut Experiment::find("epic/table30").unwrap()[0];
    let once =
        reproduce(experiment, CATALOG, quincunx_schedules::ALL, &AtomicBool::new(false), &|| {}).unwrap();
    experiment.series = vec![experiment.series.clone(); 2].concat();
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = || {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let twice = reproduce(experiment, CATALOG, quincunx_schedules::ALL, &stop, &done).unwrap();
    assert_eq!(twice, [&once[..], &once].concat());
    assert_eq!(calls.into_inner(), runs_of(experiment), "all count as run");
}

#[test]
fn keys_of_training_are_refused_where_nothing_is_trained() {
    let experiment = &mut Experiment::find("epic/table30").unwrap()[0];
    experiment.set = "train.overlap = false".parse().unwrap();
    let error = reproduce(experiment, CATALOG, quincunx_schedules::ALL, &AtomicBool::new(false), &|| {})
        .unwrap_err()
        .to_string();
    assert!(error.contains("train.overlap"), "{error}");
}
