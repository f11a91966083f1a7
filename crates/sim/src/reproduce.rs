//! Published figures held against ours: every point of an experiment simulated, one simulation a thread.

use crate::closed_forms::{self, FormulaError};
use crate::{Contents, MeasureError, Measurement, Outputs, Request, measure};
use quincunx_collective::{DataType, ReduceOp, Reduction};
use quincunx_scenario::{Experiment, Fabric, Point, Quantity, ScenarioError, Series};
use quincunx_units::ByteCount;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use toml::Table;

/// One figure, as it was published and as it is here.
#[derive(Clone, PartialEq, Debug)]
pub struct Reproduced {
    /// The paper.
    pub paper: String,
    /// The experiment.
    pub id: String,
    /// Which figure: the line and the value on its axis.
    pub figure: String,
    /// As published; times in microseconds.
    pub published: f64,
    /// Ours, in the same unit.
    pub ours: f64,
    /// How far ours is from it, as a share of it.
    pub error: f64,
    /// Whether that is near enough.
    pub verdict: Verdict,
}

/// Whether a figure is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the tolerance.
    Met,
    /// Outside it.
    Missed,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Met => "met",
            Self::Missed => "missed",
        })
    }
}

/// Why an experiment gives no figures.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ReproduceError {
    /// Its file or its fabric.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run of it.
    #[error("{experiment}, {figure}: {error}")]
    Run {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: MeasureError,
    },
    /// A run gave a wrong result.
    #[error(
        "{experiment}, {figure}: expected right results, found {wrong} wrong elements; this is a fault of the engines"
    )]
    Wrong {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// Elements.
        wrong: u64,
    },
    /// A formula that says nothing of a run.
    #[error("{experiment}, {figure}: {error}")]
    Formula {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: FormulaError,
    },
    /// A share of a bound that the fabric does not have.
    #[error("{experiment}: expected a memory fabric for a share of the payload bound, found a packet fabric")]
    NoBound {
        /// The experiment.
        experiment: String,
    },
}

/// One run: the design's, or the one that it is compared with.
struct Run {
    series: usize,
    point: usize,
    is_baseline: bool,
    figure: String,
    request: Request,
}

/// Simulates every point of `experiment` on all processors, calling `done` after each run. Figures come in the order of the file.
///
/// # Errors
/// If the file, its fabric or a run makes no sense, or a result is wrong.
pub fn reproduce(
    experiment: &Experiment,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Reproduced>, ReproduceError> {
    let place = format!("experiments/{}/{}.toml", experiment.paper, experiment.id);
    let runs = runs(experiment, &place)?;
    let measured = run_all(experiment, &runs, done)?;
    let index = |series: usize, point: usize, is_baseline: bool| {
        let is_it = |run: &Run| (run.series, run.point, run.is_baseline) == (series, point, is_baseline);
        runs.iter().position(is_it).expect("every point was run")
    };
    let of = |series, point, is_baseline| &measured[index(series, point, is_baseline)];
    let mut reproduced = Vec::new();
    for (number, series) in experiment.series.iter().enumerate() {
        let points = series.points(&place)?;
        let (mut published, mut ours) = (series.published.clone(), Vec::new());
        for point in 0..points.len() {
            let run = of(number, point, false);
            ours.push(match experiment.quantity {
                Quantity::Time | Quantity::GibitPerSecond | Quantity::Rate => run.time.as_micros_f64(),
                Quantity::GigabitPerSecond => run.bandwidths.algorithm * 8.0,
                Quantity::PayloadShare => share_of_bound(run, &place)?,
                Quantity::Speedup => of(number, point, true).time.as_micros_f64() / run.time.as_micros_f64(),
                Quantity::SwitchBuffer => run.switch_buffer.bytes() as f64,
            });
            if let Some(formula) = series.formula {
                let run = &runs[index(number, point, false)];
                let value = closed_forms::evaluate(formula, &run.request);
                let figure = run.figure.clone();
                published.push(value.map_err(|error| ReproduceError::Formula {
                    experiment: place.clone(),
                    figure,
                    error,
                })?);
            }
        }
        reproduced.extend(figures(experiment, series, &points, &published, &ours));
    }
    Ok(reproduced)
}

/// How many runs [`reproduce`] makes of `experiment`.
pub fn runs_of(experiment: &Experiment) -> usize {
    let of = |series: &Series| series.values.len() * (1 + usize::from(series.baseline.is_some()));
    experiment.series.iter().map(of).sum()
}

fn runs(experiment: &Experiment, place: &str) -> Result<Vec<Run>, ReproduceError> {
    let mut runs = Vec::new();
    for (index, series) in experiment.series.iter().enumerate() {
        for (number, point) in series.points(place)?.into_iter().enumerate() {
            let figure = figure(series, &point.value);
            let mut add = |is_baseline, design: &str, set: &Table| -> Result<(), ReproduceError> {
                let request = request(experiment, design, set, point.size)?;
                runs.push(Run { series: index, point: number, is_baseline, figure: figure.clone(), request });
                Ok(())
            };
            add(false, &series.design, &point.set)?;
            if let Some(baseline) = &series.baseline {
                add(true, baseline, &series.baseline_set)?;
            }
        }
    }
    Ok(runs)
}

fn request(
    experiment: &Experiment,
    design: &str,
    set: &Table,
    size: ByteCount,
) -> Result<Request, ReproduceError> {
    let mut document = Fabric::document(&experiment.fabric)?;
    document.merge(&experiment.set)?;
    document.merge(set)?;
    Ok(Request {
        fabric: Fabric::read(document)?,
        design: design.into(),
        collective: experiment.collective,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        size,
        contents: Contents::for_size(size),
        seed: 1,
    })
}

/// Runs all, the longest first, so that none is left over at the end.
fn run_all(
    experiment: &Experiment,
    runs: &[Run],
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Measurement>, ReproduceError> {
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse((runs[index].request.size, index)));
    let (queue, results) = (Mutex::new(order.into_iter()), Mutex::new(vec![None; runs.len()]));
    let worker = || {
        loop {
            let Some(index) = queue.lock().expect("no worker panics while it holds the queue").next() else {
                return;
            };
            let result = measure(&runs[index].request, Outputs::default(), &mut |_| {});
            results.lock().expect("no worker panics while it holds the results")[index] = Some(result);
            done();
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(runs.len());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner().expect("all workers have ended");
    let experiment = format!("{}/{}", experiment.paper, experiment.id);
    let one = |(run, result): (&Run, Option<Result<Measurement, MeasureError>>)| {
        let figure = run.figure.clone();
        match result.expect("every run was made") {
            Err(error) => Err(ReproduceError::Run { experiment: experiment.clone(), figure, error }),
            Ok(Measurement { wrong: Some(wrong @ 1..), .. }) => {
                Err(ReproduceError::Wrong { experiment: experiment.clone(), figure, wrong })
            }
            Ok(measured) => Ok(measured),
        }
    };
    runs.iter().zip(results).map(one).collect()
}

fn share_of_bound(run: &Measurement, place: &str) -> Result<f64, ReproduceError> {
    let bound = run.payload_bound.ok_or_else(|| ReproduceError::NoBound { experiment: place.into() })?;
    Ok(run.bandwidths.algorithm / bound.as_gigabytes_per_second_f64())
}

/// Ours against the published figures: one a point, or the best of all points against one.
fn figures(
    experiment: &Experiment,
    series: &Series,
    points: &[Point],
    published: &[f64],
    ours: &[f64],
) -> Vec<Reproduced> {
    let (quantity, tolerance) = (experiment.quantity, experiment.tolerance);
    let judge = |figure: String, published: f64, ours: f64, times: bool| {
        let met = tolerance.accepts(series.bound, published, ours, times);
        Reproduced {
            paper: experiment.paper.clone(),
            id: experiment.id.clone(),
            figure,
            published,
            ours,
            error: ours / published - 1.0,
            verdict: if met { Verdict::Met } else { Verdict::Missed },
        }
    };
    if published.len() < points.len() {
        let best = ours.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let at = ours.iter().position(|&ours| ours == best).unwrap_or_default();
        let name = figure(series, &format!("best, at {}", points[at].value));
        return vec![judge(name, published[0], best, false)];
    }
    let one = |((point, &published), &ours): ((&Point, &f64), &f64)| {
        let time = quantity.published_time(published, point.size.bytes() as f64 * series.counted_share);
        judge(figure(series, &point.value), time.unwrap_or(published), ours, time.is_some())
    };
    points.iter().zip(published).zip(ours).map(one).collect()
}

fn figure(series: &Series, value: &str) -> String {
    format!("{} {value}", series.label.as_ref().unwrap_or(&series.design))
}
