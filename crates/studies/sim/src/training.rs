//! An iteration of data-parallel training: every bucket of gradients is simulated, alone on the network, and laid beside what accelerators
//! compute meanwhile.

use crate::measurement::standard_error;
use crate::progress::ProgressFn;
use crate::times::{NoTime, Times, Why};
use crate::{KnownTimes, MeasureError, Request};
use quincunx_collective::Collective;
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_workload::{Fusion, Iteration, Model, ModelError, iterate, passes, step};

/// What an iteration came to.
#[derive(Clone, PartialEq, Debug)]
pub struct TrainingMeasurement {
    /// The model's name.
    pub model: String,
    /// Samples of each rank.
    pub batch: u32,
    /// Ranks.
    pub ranks: u16,
    /// When computation and communication were.
    pub iteration: Iteration,
    /// Steps of all simulations.
    pub steps: u64,
}

impl TrainingMeasurement {
    /// The mean of one request's runs with several seeds, and the standard error of the iteration's time. Buckets differ from
    /// seed to seed where ranks send what is ready: a mean of several has none.
    ///
    /// # Panics
    /// If there are none.
    pub fn mean(runs: &[Self]) -> (Self, Duration) {
        if let [only] = runs {
            return (only.clone(), Duration::ZERO);
        }
        let (first, count) = (runs.first().expect("a run at least"), runs.len() as u64);
        let mean = |of: fn(&Iteration) -> Duration| {
            runs.iter().map(|run| of(&run.iteration)).sum::<Duration>() / count
        };
        let iteration = Iteration {
            time: mean(|iteration| iteration.time),
            compute: mean(|iteration| iteration.compute),
            communication: mean(|iteration| iteration.communication),
            buckets: Vec::new(),
        };
        let steps = runs.iter().map(|run| run.steps).sum();
        (
            Self { iteration, steps, ..first.clone() },
            standard_error(runs.iter().map(|run| run.iteration.time)),
        )
    }

    /// Samples that all ranks together train in a second.
    pub fn samples_per_second(&self) -> f64 {
        self.iteration.samples_per_second(u64::from(self.batch) * u64::from(self.ranks))
    }
}

/// Why there is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrainingError {
    /// The scenario names no model.
    #[error("expected a model in `train.model`, found none; name one of {known}")]
    NoModel {
        /// All that there are.
        known: String,
    },
    /// It names one that there is not.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A trace has no place for what an iteration does.
    #[error(
        "expected an iteration without `{key}` for a trace, found one; leave it out, for Chakra's nodes have no such part"
    )]
    Untraceable {
        /// The key.
        key: &'static str,
    },
    /// Ranks of a domain add up for themselves.
    #[error(
        "expected a fabric on which all ranks add up together, found {domains} domains; name another, such as star-8"
    )]
    Domains {
        /// Domains.
        domains: u16,
    },
    /// A bucket's AllReduce did not end.
    #[error("AllReduce of {size}: {error}")]
    Run {
        /// The bucket's length.
        size: ByteCount,
        /// What went wrong.
        error: MeasureError,
    },
    /// A bucket's sum is wrong.
    #[error(
        "AllReduce of {size}: expected right results, found {wrong} wrong elements; this is a fault of the engines"
    )]
    Wrong {
        /// The bucket's length.
        size: ByteCount,
        /// Elements.
        wrong: u64,
    },
}

/// Simulates an iteration of what `request`'s scenario trains, with its design; its collective and its size are of no account.
///
/// # Errors
/// If there is no such model, or a simulation gives no time.
pub fn measure_training(
    request: &Request,
    progress: ProgressFn<'_>,
) -> Result<TrainingMeasurement, TrainingError> {
    let Request { scenario, .. } = request;
    let name = scenario.training.model.as_deref();
    let model =
        Model::find(name.ok_or_else(|| TrainingError::NoModel { known: Model::names().join(", ") })?)?;
    let domains = scenario.fabric.domains();
    if domains > 1 {
        return Err(TrainingError::Domains { domains });
    }
    let known = KnownTimes::default();
    let mut times = Times::new(request, "", &known, progress);
    let (ranks, training) = (scenario.ranks(), &scenario.training);
    let all_reduce = |size: ByteCount| {
        let network = times.of(Collective::AllReduce, size).map_err(|NoTime { size, why }| match why {
            Why::Run(error) => TrainingError::Run { size, error },
            Why::Wrong(wrong) => TrainingError::Wrong { size, wrong },
        });
        network.map(|time| time + reduction(training.reduction, size, ranks))
    };
    let passes = passes(&model, training);
    let step = step(&passes, training.gpu.memory);
    let iteration = iterate(&passes, &Fusion::of(training), step, all_reduce)?;
    let steps = times.steps();
    let batch = training.batch.unwrap_or(model.batch);
    Ok(TrainingMeasurement { model: model.name, batch, ranks, iteration, steps })
}

/// How long the processor of one of `ranks` ranks adds up what it receives of a bucket, if it does: all parts but its own, one for each rank.
fn reduction(rate: Option<BitRate>, size: ByteCount, ranks: u16) -> Duration {
    let ranks = u64::from(ranks);
    rate.map_or(Duration::ZERO, |rate| rate.time_for(size * (ranks - 1)) / ranks)
}
