//! Many runs, as long as none fails and nobody stops them, and the means of those that differ in their seed alone.

use quincunx_sim::sweep;
use quincunx_units::Duration;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use crate::out::say;

/// Does all `cases` and hands each result to `done`, in their order, until one fails. What somebody has stopped is no failure: `stopped` says
/// what it was, and when. All that was stopped.
pub(crate) fn run_all<C: Send, R: Send, E: Send>(
    cases: Vec<C>,
    stop: &AtomicBool,
    run: impl Fn(C) -> Result<R, E> + Sync,
    stopped: impl Fn(usize, &E) -> Option<String>,
    mut done: impl FnMut(usize, R),
) -> Result<Vec<String>, E> {
    let (mut failed, mut interrupted) = (None, Vec::new());
    sweep(cases, stop, run, |place, result| {
        match result.map_err(|error| (stopped(place, &error), error)) {
            Ok(found) => done(place, found),
            Err((Some(what), _)) => interrupted.push(what),
            Err((None, error)) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    failed.map_or(Ok(interrupted), Err)
}

/// Puts together what each case gave with several seeds, whose runs stand side by side. Those of a case of which a run was stopped are dropped.
pub(crate) struct Means<R> {
    seeds: usize,
    case: usize,
    runs: Vec<R>,
}

impl<R> Means<R> {
    /// Of cases that run with so many.
    pub(crate) fn new(seeds: u64) -> Self {
        Self { seeds: seeds as usize, case: 0, runs: Vec::new() }
    }

    /// Takes the run at `place` of all, and hands a case's runs to `whole` with its last one.
    pub(crate) fn add(&mut self, place: usize, run: R, whole: impl FnOnce(&[R])) {
        if place / self.seeds != self.case {
            self.case = place / self.seeds;
            self.runs.clear();
        }
        self.runs.push(run);
        if self.runs.len() == self.seeds {
            whole(&self.runs);
        }
    }
}

/// What a row says of several seeds beside their mean.
pub(crate) fn add_error(row: &mut Value, seeds: u64, error: Duration) {
    if seeds > 1 {
        row["seeds"] = json!(seeds);
        row["time_stderr_us"] = json!(error.as_micros_f64());
    }
}

/// The same below a line.
pub(crate) fn say_error(seeds: u64, error: Duration) {
    if seeds > 1 {
        say!("  mean of {seeds} seeds, standard error {:.3} us", error.as_micros_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_case_come_together_and_a_case_that_lacks_one_is_dropped() {
        let (mut means, mut found) = (Means::new(2), Vec::new());
        for place in [0, 1, 3, 4, 5] {
            means.add(place, place, |runs| found.push(runs.to_vec()));
        }
        assert_eq!(found, [vec![0, 1], vec![4, 5]]);
    }
}
