//! Predictions, many at once.

use quincunx_design::Catalog;
use quincunx_sim::{KnownTimes, Prediction, PredictionError, Question};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use crate::Failure;
use crate::interrupt::is_set;
use crate::predicted::Case;
use crate::progress::{bar, position};
use crate::sweeps::run_all;

/// What each case came to by each design, or why it came to nothing.
#[derive(Default)]
pub(crate) struct Answers {
    found: BTreeMap<(usize, String), Result<Prediction, PredictionError>>,
    /// What ran when it was interrupted.
    pub(crate) interrupted: Vec<String>,
}

/// The question of each case.
pub(crate) fn questions<'a>(
    cases: &'a [Case],
    catalog: Catalog,
    known: &'a KnownTimes,
) -> Result<Vec<Question<'a>>, Failure> {
    let question = |case: &'a Case| Question::new(&case.deployment, catalog, known).map_err(Failure::input);
    cases.iter().map(question).collect()
}

impl Answers {
    /// Answers `runs`, each a case and a design, on all processors.
    pub(crate) fn find(
        questions: &[Question<'_>],
        runs: &[(usize, String)],
        stop: &AtomicBool,
    ) -> Result<Self, Failure> {
        let progress = bar(runs.len());
        let run = |(case, design): (usize, String)| {
            let found = questions[case].answer(&design, &mut |at| {
                progress.set_message(format!("{design}: at {}", position(at)));
                if is_set(stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            match found {
                Err(error) if error.is_stop() || error.is_wrong() => Err(error),
                // Others are answered all the same: whoever has asked for this one says what that means.
                found => Ok(found),
            }
        };
        let stopped = |place: usize, error: &PredictionError| error.is_stop().then(|| runs[place].1.clone());
        let mut answers = Self::default();
        let done = |place: usize, found| {
            answers.found.insert(runs[place].clone(), found);
        };
        let interrupted = run_all(runs.to_vec(), stop, run, stopped, done);
        progress.finish_and_clear();
        answers.interrupted = interrupted.map_err(|error| match error.is_wrong() {
            true => Failure::Wrong(error.to_string()),
            false => Failure::input(error),
        })?;
        Ok(answers)
    }

    /// What a case came to by a design; nothing if somebody interrupted before.
    pub(crate) fn get(&self, case: usize, design: &str) -> Option<&Result<Prediction, PredictionError>> {
        self.found.get(&(case, design.to_owned()))
    }

    /// What a case came to by those of `designs` that are done.
    pub(crate) fn of(
        &self,
        case: usize,
        designs: &[String],
    ) -> Vec<(String, Result<Prediction, PredictionError>)> {
        designs.iter().filter_map(|design| Some((design.clone(), self.get(case, design)?.clone()))).collect()
    }
}
