//! Reproduction of published figures, as far as it is not the figures themselves.

use quincunx_designs::CATALOG;
use quincunx_scenario::Experiment;
use quincunx_sim::{reproduce, runs_of};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[test]
fn a_reproduction_that_is_stopped_has_the_figures_that_were_run() {
    // A table of two figures, many times over.
    let experiment = &mut Experiment::find("epic/table30").unwrap()[0];
    experiment.series = vec![experiment.series.clone(); 20].concat();
    let all = reproduce(experiment, CATALOG, &AtomicBool::new(false), &|| {}).unwrap();
    let (stop, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let done = || {
        runs.fetch_add(1, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
    };
    let some = reproduce(experiment, CATALOG, &stop, &done).unwrap();
    assert!(runs.into_inner() < runs_of(experiment));
    assert!(!some.is_empty() && some.len() < all.len(), "{} of {}", some.len(), all.len());
    assert!(some.iter().all(|figure| all.contains(figure)));
}
