//! What a design saves, how surely, and whether that is worth it.

use super::doubt::Doubt;
use super::error::PredictionError;
use super::question::{Prediction, Question, Stretch};
use crate::ProgressFn;
use quincunx_language::Served;
use quincunx_units::Duration;

/// What a design saves of a time, as shares of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Saved {
    /// Of which.
    pub figure: &'static str,
    /// By the design that it is compared with.
    pub before: Duration,
    /// By the design.
    pub now: Duration,
    /// If everything is off as unluckily as it may be.
    pub least: f64,
    /// As predicted.
    pub expected: f64,
    /// If everything is off as luckily as it may be.
    pub most: f64,
}

/// Whether a design is worth it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Worth {
    /// It saves enough of one time at least, even with all bad luck.
    Yes,
    /// It saves too little of each, even with all luck.
    No,
    /// What is predicted is not sure enough.
    Unsure,
}

impl Prediction {
    /// The times that people wait for, by name.
    pub fn figures(&self) -> Vec<(&'static str, Duration)> {
        let mut found = Vec::new();
        if let Some(inference) = &self.inference {
            found.push(("TTFT", inference.prefill.time()));
            found.push(("TPOT", inference.decode.time()));
        }
        if let Some(served) = &self.serving {
            found.push(("median TTFT", Served::percentile(&served.first, 50)));
            found.push(("median TPOT", Served::percentile(&served.next, 50)));
        }
        if let Some(training) = &self.training {
            found.push(("iteration", training.time()));
        }
        found
    }
}

impl Question<'_> {
    /// What `now` saves of what `before` takes.
    ///
    /// # Errors
    /// As [`answer`](Self::answer).
    pub fn saved(
        &self,
        before: &str,
        now: &str,
        progress: ProgressFn<'_>,
    ) -> Result<Vec<Saved>, PredictionError> {
        let mut figures = |design: &str, computation: f64, network: f64| {
            let found = self.answer_if(design, Stretch { computation, network }, &mut *progress)?;
            Ok::<_, PredictionError>((found.figures(), self.doubt(&found)))
        };
        let ((old, of_old), (new, of_new)) = (figures(before, 1.0, 1.0)?, figures(now, 1.0, 1.0)?);
        let Doubt { network, .. } = of_new;
        let computation = of_old.computation.max(of_new.computation);
        // Slow accelerators hide what the network saves.
        let (slow, fast) = (1.0 + computation, 1.0 - computation);
        let (bad_old, _) = figures(before, slow, 1.0 - network)?;
        let (bad_new, _) = figures(now, slow, 1.0 + network)?;
        let (good_old, _) = figures(before, fast, 1.0 + network)?;
        let (good_new, _) = figures(now, fast, 1.0 - network)?;
        let share =
            |(_, old): (_, Duration), (_, new): (_, Duration)| 1.0 - new.as_secs_f64() / old.as_secs_f64();
        let saved = |place: usize| Saved {
            figure: old[place].0,
            before: old[place].1,
            now: new[place].1,
            least: share(bad_old[place], bad_new[place]),
            expected: share(old[place], new[place]),
            most: share(good_old[place], good_new[place]),
        };
        Ok((0..old.len()).map(saved).filter(|saved| saved.before > Duration::ZERO).collect())
    }
}

impl Worth {
    /// Of what is saved, if at least a share `enough` of a time is to be.
    pub fn of(saved: &[Saved], enough: f64) -> Self {
        if saved.iter().any(|one| one.least >= enough) {
            Self::Yes
        } else if saved.iter().all(|one| one.most < enough) {
            Self::No
        } else {
            Self::Unsure
        }
    }

    /// For those who look.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "worth it",
            Self::No => "not worth it",
            Self::Unsure => "cannot be said",
        }
    }
}
