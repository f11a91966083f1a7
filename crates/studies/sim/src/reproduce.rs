//! Published figures held against ours: every point of an experiment simulated, one simulation a thread.

use crate::layer::{
    LayerError, LayerMeasurement, LayerRequest, Remembered, Schedules, communication_share, find_schedule,
    measure_remembered,
};
use crate::progress::unless;
use crate::{
    Contents, Curve, KnownTimes, MeasureError, Measurement, Outputs, Prediction, PredictionError, Question,
    Request, TrainingError, TrainingMeasurement, measure, measure_training, sweep,
};
use quincunx_cluster::Wiring;
use quincunx_collective::{DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog, ClosedForm, Premises, Refusal};
use quincunx_flows::{Cluster, JobOutcome, TenancyError, TenancyRequest, measure_tenancy};
use quincunx_language::Deployment;
use quincunx_scenario::{
    Experiment, FigureKind, Override, Point, Quantity, Scenario, ScenarioError, Series, Tenancy,
    TenancyPolicy,
};
use quincunx_units::{ByteCount, Duration};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// What it is worth as evidence.
    pub kind: FigureKind,
    /// As published; times in microseconds.
    pub published: f64,
    /// Ours, in the same unit.
    pub ours: f64,
    /// How far ours is from it, as a share of it.
    pub error: f64,
    /// Whether that is near enough.
    pub verdict: Verdict,
    /// Whether it is so by the absolute tolerance alone, the one microsecond of times that were rounded to it.
    pub by_absolute_alone: bool,
    /// Whether no other figure says the same number.
    pub independent: bool,
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
        error: Box<MeasureError>,
    },
    /// A run of it that trains.
    #[error("{experiment}, {figure}: {error}")]
    Training {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: Box<TrainingError>,
    },
    /// A run of it that is of a model's layer.
    #[error("{experiment}, {figure}: {error}")]
    Layer {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: Box<LayerError>,
    },
    /// A run of a cluster by flows.
    #[error("{experiment}, {figure}: {error}")]
    Tenancy {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: Box<TenancyError>,
    },
    /// A prediction of a model's step.
    #[error("{experiment}, {figure}: {error}")]
    Prediction {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: Box<PredictionError>,
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
    /// A closed form that says nothing of a run.
    #[error("{experiment}, {figure}: {error}")]
    Formula {
        /// The experiment.
        experiment: String,
        /// The figure.
        figure: String,
        /// What went wrong.
        error: Refusal,
    },
    /// A share of a bound that the fabric does not have.
    #[error("{experiment}: expected a memory fabric for a share of the payload bound, found a packet fabric")]
    NoBound {
        /// The experiment.
        experiment: String,
    },
}

/// One run: the design's, or the one that it is compared with.
struct ExperimentRun {
    series: usize,
    point: usize,
    is_baseline: bool,
    figure: String,
    job: Job,
}

/// What is run.
enum Job {
    Collective(Request),
    /// An iteration of training; the collective is of no account.
    Training(Request),
    Layer(LayerRequest),
    /// How much of a layer is communication, by a design of collectives.
    Communication(Request),
    /// A cluster's jobs, by flows.
    Tenancy(Box<Tenancy>, TenancyPolicy),
    /// A step of a language model, by a design.
    Prediction(Box<Deployment>, String),
}

impl ExperimentRun {
    /// Whether another run comes to the same.
    fn is_same(&self, other: &Self) -> bool {
        let all = |Request { scenario, design, collective, reduction, size, contents, background, seed }: &Request| {
            (scenario.clone(), design.name(), *collective, *reduction, *size, *contents, *background, *seed)
        };
        match (&self.job, &other.job) {
            (Job::Collective(a), Job::Collective(b))
            | (Job::Training(a), Job::Training(b))
            | (Job::Communication(a), Job::Communication(b)) => all(a) == all(b),
            (Job::Layer(a), Job::Layer(b)) => {
                (&a.scenario, a.schedule.name(), a.seed) == (&b.scenario, b.schedule.name(), b.seed)
            }
            (Job::Tenancy(a, policy), Job::Tenancy(b, other)) => a == b && policy == other,
            (Job::Prediction(a, design), Job::Prediction(b, other)) => a == b && design == other,
            _ => false,
        }
    }

    /// How much there is to send, as far as that is known beforehand.
    const fn size(&self) -> ByteCount {
        match &self.job {
            Job::Collective(request) | Job::Training(request) | Job::Communication(request) => request.size,
            Job::Layer(_) | Job::Tenancy(..) | Job::Prediction(..) => ByteCount::new(u64::MAX),
        }
    }
}

/// What a run came to.
#[derive(Clone)]
enum Outcome {
    Collective(Box<Measurement>),
    Training(TrainingMeasurement),
    Layer(Box<LayerMeasurement>),
    Communication(f64),
    /// Seconds.
    Tenancy(f64),
    Prediction(Box<Prediction>),
}

/// Why a run came to nothing.
enum Failed {
    Collective(MeasureError),
    Training(TrainingError),
    Layer(LayerError),
    Tenancy(TenancyError),
    Prediction(PredictionError),
}

impl Outcome {
    fn time(&self) -> Duration {
        match self {
            Self::Collective(measured) => measured.time,
            Self::Training(measured) => measured.iteration.time,
            Self::Layer(measured) => measured.time,
            Self::Communication(_) | Self::Tenancy(_) | Self::Prediction(_) => Duration::ZERO,
        }
    }
}

/// Simulates every point of `experiment` by designs of `catalog`, or by `schedules`, on all processors, calling `done` after each run. Figures come in
/// the order of the file; once `stop` is set, those alone for which all had been run.
///
/// # Errors
/// If the file, its fabric or a run makes no sense, or a result is wrong.
pub fn reproduce(
    experiment: &Experiment,
    catalog: Catalog,
    schedules: Schedules,
    stop: &AtomicBool,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Reproduced>, ReproduceError> {
    let remembered = Remembered::default();
    reproduce_curves(experiment, catalog, schedules, &remembered, stop, done).map(|(figures, _)| figures)
}

/// The same, and the lines that the figures are points of, one a series. Sub-layers that `remembered` has from other experiments are not run again.
///
/// # Errors
/// As [`reproduce`].
pub fn reproduce_curves(
    experiment: &Experiment,
    catalog: Catalog,
    schedules: Schedules,
    remembered: &Remembered,
    stop: &AtomicBool,
    done: &(dyn Fn() + Sync),
) -> Result<(Vec<Reproduced>, Vec<Curve>), ReproduceError> {
    let place = format!("experiments/{}/{}.toml", experiment.paper, experiment.id);
    let runs = runs(experiment, catalog, schedules, &place)?;
    let measured = run_all(experiment, &runs, (catalog, remembered), stop, done)?;
    let index = |series: usize, point: usize, is_baseline: bool| {
        let is_it =
            |run: &ExperimentRun| (run.series, run.point, run.is_baseline) == (series, point, is_baseline);
        runs.iter().position(is_it).expect("every point has a run")
    };
    let of = |series, point, is_baseline| measured[index(series, point, is_baseline)].as_ref();
    let (mut reproduced, mut curves) = (Vec::new(), Vec::new());
    for (number, series) in experiment.series.iter().enumerate() {
        let points = series.points(&place)?;
        let (mut published, mut ours) = (series.published.clone(), Vec::new());
        for point in 0..points.len() {
            let baseline = series.baseline.as_ref().and_then(|_| of(number, point, true));
            let value = |run| figure_of(run, baseline, experiment.quantity_of(series), &place);
            ours.push(of(number, point, false).map(value).transpose()?.flatten());
            if let Some(formula) = series.formula {
                let run = &runs[index(number, point, false)];
                let Job::Collective(request) = &run.job else { continue };
                let value = closed_form(catalog, formula, request);
                let figure = run.figure.clone();
                published.push(value.map_err(|error| ReproduceError::Formula {
                    experiment: place.clone(),
                    figure,
                    error,
                })?);
            }
        }
        curves.push(Curve::new(experiment, series, &points, &published, &ours));
        reproduced.extend(figures(experiment, series, &points, &published, &ours));
    }
    Ok((reproduced, curves))
}

/// What a run says of `quantity`; nothing where it is a ratio to a run that was not made.
fn figure_of(
    run: &Outcome,
    baseline: Option<&Outcome>,
    quantity: Quantity,
    place: &str,
) -> Result<Option<f64>, ReproduceError> {
    let time = run.time().as_micros_f64();
    let ratio = baseline.map(|baseline| baseline.time().as_micros_f64() / time);
    let run = match run {
        Outcome::Collective(run) => run,
        Outcome::Training(_) => return Ok(ratio),
        Outcome::Layer(run) => return Ok(of_layer(run, baseline, quantity).or(ratio)),
        Outcome::Communication(share) => return Ok(Some(*share)),
        Outcome::Prediction(found) => return Ok(of_prediction(found, baseline, quantity)),
        Outcome::Tenancy(time) => {
            return Ok(match (quantity, baseline) {
                (Quantity::JobTimeShare, Some(Outcome::Tenancy(other))) => Some(time / other),
                (Quantity::JobTimeShare, _) => None,
                _ => Some(*time),
            });
        }
    };
    Ok(match quantity {
        Quantity::Time | Quantity::GibitPerSecond | Quantity::Rate => Some(time),
        Quantity::GigabitPerSecond => Some(run.bandwidths.algorithm * 8.0),
        Quantity::PayloadShare => Some(share_of_bound(run, place)?),
        Quantity::Speedup
        | Quantity::TrainingSpeedup
        | Quantity::LayerSpeedup
        | Quantity::LayerThroughput
        | Quantity::LayerUtilisation
        | Quantity::LayerSteady
        | Quantity::LayerFluctuation
        | Quantity::LayerTable
        | Quantity::LayerTables
        | Quantity::LayerWait
        | Quantity::LayerBytes
        | Quantity::LayerComputing
        | Quantity::LayerCommunication
        | Quantity::JobTime
        | Quantity::JobTimeShare
        | Quantity::FirstTokenShare
        | Quantity::NextTokenShare
        | Quantity::FirstTokenSpeedup
        | Quantity::NextTokenSpeedup
        | Quantity::IterationSaving => ratio,
        Quantity::Saving => ratio.map(|speedup| 1.0 - 1.0 / speedup),
        Quantity::SwitchBuffer => Some(run.switch_buffer.bytes() as f64),
        Quantity::Uplink => Some(run.uplink.bytes() as f64),
        Quantity::Downlink => Some(run.downlink.bytes() as f64),
    })
}

/// What a prediction says of `quantity`; nothing where that is a ratio to one that was not made, or of what was not asked.
fn of_prediction(found: &Prediction, baseline: Option<&Outcome>, quantity: Quantity) -> Option<f64> {
    let speedup = |time: &dyn Fn(&Prediction) -> Option<Duration>| match baseline {
        Some(Outcome::Prediction(other)) => Some(time(other)?.as_secs_f64() / time(found)?.as_secs_f64()),
        _ => None,
    };
    let inference = found.inference.as_ref();
    match quantity {
        Quantity::FirstTokenShare => inference.map(|inference| inference.prefill.share()),
        Quantity::NextTokenShare => inference.map(|inference| inference.decode.share()),
        Quantity::FirstTokenSpeedup => speedup(&|of| Some(of.inference.as_ref()?.prefill.time())),
        Quantity::NextTokenSpeedup => speedup(&|of| Some(of.inference.as_ref()?.decode.time())),
        Quantity::IterationSaving => {
            speedup(&|of| Some(of.training.as_ref()?.time())).map(|speedup| 1.0 - 1.0 / speedup)
        }
        _ => None,
    }
}

/// What a run of a layer says of `quantity`, if it is not a ratio of times.
fn of_layer(run: &LayerMeasurement, baseline: Option<&Outcome>, quantity: Quantity) -> Option<f64> {
    let over = |value: &dyn Fn(&LayerMeasurement) -> f64| match baseline {
        Some(Outcome::Layer(other)) => value(run) / value(other),
        _ => value(run),
    };
    match (quantity, baseline) {
        (Quantity::LayerThroughput, Some(Outcome::Layer(other))) => {
            Some(run.throughput() / other.throughput())
        }
        (Quantity::LayerUtilisation, _) => Some(run.link_utilisation()),
        (Quantity::LayerSteady, _) => Some(over(&|run| run.steady_utilisation()[0])),
        (Quantity::LayerFluctuation, _) => Some(over(&|run| run.steady_utilisation()[1])),
        (Quantity::LayerTable, _) => Some(run.peak_table() as f64 / 1024.0),
        (Quantity::LayerTables, _) => Some(run.all_tables() as f64 / 1024.0),
        (Quantity::LayerWait, _) => Some(run.mean_wait().as_micros_f64()),
        (Quantity::LayerComputing, _) => Some(run.computing()),
        (Quantity::LayerBytes, _) => Some(over(&LayerMeasurement::link_busy)),
        _ => None,
    }
}

/// How many runs [`reproduce`] makes of `experiment`.
pub fn runs_of(experiment: &Experiment) -> usize {
    let of = |series: &Series| series.values.len() * (1 + usize::from(series.baseline.is_some()));
    experiment.series.iter().map(of).sum()
}

fn runs(
    experiment: &Experiment,
    catalog: Catalog,
    schedules: Schedules,
    place: &str,
) -> Result<Vec<ExperimentRun>, ReproduceError> {
    let mut runs = Vec::new();
    for (index, series) in experiment.series.iter().enumerate() {
        for (number, point) in series.points(place)?.into_iter().enumerate() {
            let figure = figure(series, &point.value);
            let quantity = experiment.quantity_of(series);
            let mut add = |is_baseline, design: &str, set: &Table| -> Result<(), ReproduceError> {
                let job = match quantity {
                    Quantity::TrainingSpeedup => {
                        Job::Training(request(experiment, catalog, design, set, point.size)?)
                    }
                    Quantity::LayerCommunication => {
                        Job::Communication(request(experiment, catalog, design, set, point.size)?)
                    }
                    Quantity::LayerSpeedup
                    | Quantity::LayerThroughput
                    | Quantity::LayerUtilisation
                    | Quantity::LayerSteady
                    | Quantity::LayerFluctuation
                    | Quantity::LayerTable
                    | Quantity::LayerTables
                    | Quantity::LayerWait
                    | Quantity::LayerComputing
                    | Quantity::LayerBytes => {
                        let scenario = scenario(experiment, catalog, set)?;
                        let schedule = find_schedule(schedules, design).map_err(|error| {
                            let (experiment, figure) = (place.to_owned(), figure.clone());
                            ReproduceError::Layer { experiment, figure, error: Box::new(error) }
                        })?;
                        Job::Layer(LayerRequest { scenario, schedule, seed: 1 })
                    }
                    Quantity::JobTime | Quantity::JobTimeShare => {
                        let (tenancy, policy) = tenancy(experiment, place, design, set)?;
                        Job::Tenancy(Box::new(tenancy), policy)
                    }
                    Quantity::FirstTokenShare
                    | Quantity::NextTokenShare
                    | Quantity::FirstTokenSpeedup
                    | Quantity::NextTokenSpeedup
                    | Quantity::IterationSaving => {
                        Job::Prediction(Box::new(deployment(experiment, place, design, set)?), design.into())
                    }
                    _ => {
                        let request = request(experiment, catalog, design, set, point.size)?;
                        request.scenario.refuse_training()?;
                        Job::Collective(request)
                    }
                };
                let (series, point) = (index, number);
                runs.push(ExperimentRun { series, point, is_baseline, figure: figure.clone(), job });
                Ok(())
            };
            add(false, &series.design, &point.set)?;
            if let Some(baseline) = &series.baseline {
                add(true, baseline, &point.baseline_set)?;
            }
        }
    }
    Ok(runs)
}

/// The fabric of an experiment, with these keys.
fn scenario(experiment: &Experiment, catalog: Catalog, set: &Table) -> Result<Scenario, ReproduceError> {
    let mut document = Scenario::document(&experiment.fabric)?;
    document.merge(&experiment.set)?;
    document.merge(set)?;
    Ok(Scenario::read(document, catalog)?)
}

/// The cluster of an experiment, with these keys, and the policy of its name.
fn tenancy(
    experiment: &Experiment,
    place: &str,
    policy: &str,
    set: &Table,
) -> Result<(Tenancy, TenancyPolicy), ScenarioError> {
    let mut document = Tenancy::document(&experiment.fabric)?;
    document.merge(&experiment.set)?;
    document.merge(set)?;
    let policy = policy.parse().map_err(|error| ScenarioError::Key { place: place.into(), error })?;
    let mut tenancy = Tenancy::read(place, &document)?;
    // Nobody has switches: how much memory they have is of no account.
    if policy == TenancyPolicy::Ring {
        tenancy.memory_units.fill(1);
    }
    Ok((tenancy, policy))
}

/// The deployment of an experiment, with these keys. Two of them are short: `deployment` names another preset, and a `case` such as
/// `llama2-7b 8x512` sets the model, the batch and the prompt.
fn deployment(
    experiment: &Experiment,
    place: &str,
    design: &str,
    set: &Table,
) -> Result<Deployment, ScenarioError> {
    let mut set = set.clone();
    let mut taken = |key: &str| set.remove(key).and_then(|value| value.as_str().map(str::to_owned));
    let [preset, case] = [taken("deployment"), taken("case")];
    let mut document = Deployment::document(preset.as_deref().unwrap_or(&experiment.fabric))?;
    document.merge(&experiment.set)?;
    document.merge(&set)?;
    if let Some(case) = case {
        let parts = case.split_once(' ').and_then(|(model, shape)| Some((model, shape.split_once('x')?)));
        let (model, (batch, prompt)) = parts.ok_or_else(|| ScenarioError::Key {
            place: place.into(),
            error: format!("expected a case such as \"llama2-7b 8x512\", found \"{case}\"; correct it"),
        })?;
        for (key, value) in [("model", model), ("inference.batch", batch), ("inference.prompt", prompt)] {
            let value = value.parse().map_or_else(|_| value.into(), toml::Value::Integer);
            document.set(&Override { key: key.into(), value })?;
        }
    }
    document.set(&Override { key: "network.designs".into(), value: vec![design].into() })?;
    Deployment::read(place, &document)
}

/// The mean of its jobs' times, in seconds.
fn mean_job_time(
    tenancy: &Tenancy,
    policy: TenancyPolicy,
    catalog: Catalog,
    stop: &AtomicBool,
) -> Result<f64, TenancyError> {
    let cluster = Cluster::of(tenancy, catalog).map_err(TenancyError::from)?;
    let units = tenancy.memory_units[0];
    let request = TenancyRequest {
        tenancy,
        cluster: &cluster,
        catalog,
        policy,
        units,
        seed: 1,
        only: None,
        watched: false,
    };
    let mut go_on = |_| match stop.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    Ok(measure_tenancy(&request, &mut go_on)?.mean(JobOutcome::completion))
}

fn request(
    experiment: &Experiment,
    catalog: Catalog,
    design: &str,
    set: &Table,
    size: ByteCount,
) -> Result<Request, ReproduceError> {
    let scenario = scenario(experiment, catalog, set)?;
    let find = |name: &str| scenario.design(catalog, name);
    let design = find(design)?;
    // A key of the experiment is for one of its designs; not all of them are on this point's kind of fabric.
    let others = experiment.series.iter().flat_map(|series| series.baseline.iter().chain([&series.design]));
    let designs: Vec<&'static dyn AnyDesign> = others.filter_map(|name| find(name).ok()).collect();
    scenario.refuse_unused(&designs)?;
    Ok(Request {
        contents: Contents::on(&scenario, size),
        scenario,
        design,
        collective: experiment.collective,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        size,
        background: None,
        seed: 1,
    })
}

/// What a closed form of the request's design says of it.
fn closed_form(catalog: Catalog, form: ClosedForm, request: &Request) -> Result<f64, Refusal> {
    let Request { scenario, design, size, .. } = request;
    let wiring = Wiring::of(&scenario.fabric);
    let parts =
        wiring.as_ref().and_then(|wiring| Some((wiring.tree_of_switches()?, wiring.links().first()?)));
    let Some((tree, link)) = parts else {
        return Err(Refusal::new(
            "a tree of switches for a closed form",
            "another fabric",
            "choose a tree such as star-8",
        ));
    };
    let loss = scenario.faults.loss.as_ref().map_or_else(Default::default, |loss| loss.probability);
    let premises = Premises { tree, link: link.properties, size: *size, loss };
    let settings = scenario.settings(*design).map_err(|error| Refusal::of(&error))?;
    catalog.closed_form(design.name(), form, &settings, &premises)
}

/// Runs all, the longest first, so that none is left over at the end; one of those that are the same is run for all of them. None of those
/// that were not run to their end.
fn run_all(
    experiment: &Experiment,
    runs: &[ExperimentRun],
    (catalog, remembered): (Catalog, &Remembered),
    stop: &AtomicBool,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Option<Outcome>>, ReproduceError> {
    let firsts: Vec<usize> = runs
        .iter()
        .map(|run| runs.iter().position(|other| other.is_same(run)).expect("each run is the same as itself"))
        .collect();
    let mut order: Vec<usize> = (0..runs.len()).filter(|&index| firsts[index] == index).collect();
    order.sort_by_key(|&index| std::cmp::Reverse((runs[index].size(), index)));
    let mut measured = vec![None; runs.len()];
    let mut failed = None;
    let known = KnownTimes::default();
    let run = |index: usize| {
        let (run, progress) = (&runs[index], &mut unless(stop));
        let result = match &run.job {
            Job::Training(request) => {
                measure_training(request, progress).map(Outcome::Training).map_err(Failed::Training)
            }
            Job::Collective(request) => {
                let measured = measure(request, Outputs::default(), progress);
                measured.map(|run| Outcome::Collective(Box::new(run))).map_err(Failed::Collective)
            }
            Job::Layer(request) => {
                let measured = measure_remembered(request, catalog, remembered, progress);
                measured.map(|run| Outcome::Layer(Box::new(run))).map_err(Failed::Layer)
            }
            Job::Communication(Request { scenario, design, seed, .. }) => {
                let share = communication_share(scenario, *design, *seed, progress);
                share.map(Outcome::Communication).map_err(Failed::Layer)
            }
            Job::Prediction(deployment, design) => Question::new(deployment, catalog, &known)
                .and_then(|question| question.answer(design, progress))
                .map(|found| Outcome::Prediction(Box::new(found)))
                .map_err(Failed::Prediction),
            Job::Tenancy(tenancy, policy) => {
                mean_job_time(tenancy, *policy, catalog, stop).map(Outcome::Tenancy).map_err(Failed::Tenancy)
            }
        };
        firsts.iter().filter(|&&first| first == index).for_each(|_| done());
        result
    };
    sweep(order.clone(), stop, run, |place, result| {
        let index = order[place];
        match checked(experiment, &runs[index], result) {
            Ok(result) => measured[index] = result,
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    failed.map_or_else(|| Ok(firsts.iter().map(|&first| measured[first].clone()).collect()), Err)
}

/// Takes no wrong result, and nothing of a run that was stopped.
fn checked(
    experiment: &Experiment,
    run: &ExperimentRun,
    result: Result<Outcome, Failed>,
) -> Result<Option<Outcome>, ReproduceError> {
    let (figure, experiment) = (run.figure.clone(), format!("{}/{}", experiment.paper, experiment.id));
    match result {
        Err(
            Failed::Collective(MeasureError::Stopped(_))
            | Failed::Training(TrainingError::Run { error: MeasureError::Stopped(_), .. })
            | Failed::Layer(LayerError::Stopped(_))
            | Failed::Tenancy(TenancyError::Stopped(_)),
        ) => Ok(None),
        Err(Failed::Prediction(error)) if error.is_stop() => Ok(None),
        Err(Failed::Prediction(error)) => {
            Err(ReproduceError::Prediction { experiment, figure, error: Box::new(error) })
        }
        Err(Failed::Tenancy(error)) => {
            Err(ReproduceError::Tenancy { experiment, figure, error: Box::new(error) })
        }
        Err(Failed::Layer(error)) => {
            Err(ReproduceError::Layer { experiment, figure, error: Box::new(error) })
        }
        Err(Failed::Collective(error)) => {
            Err(ReproduceError::Run { experiment, figure, error: Box::new(error) })
        }
        Err(Failed::Training(TrainingError::Wrong { wrong, .. })) => {
            Err(ReproduceError::Wrong { experiment, figure, wrong })
        }
        Err(Failed::Training(error)) => {
            Err(ReproduceError::Training { experiment, figure, error: Box::new(error) })
        }
        Ok(Outcome::Collective(measured)) => match measured.wrong {
            Some(wrong @ 1..) => Err(ReproduceError::Wrong { experiment, figure, wrong }),
            _ => Ok(Some(Outcome::Collective(measured))),
        },
        Ok(trained) => Ok(Some(trained)),
    }
}

fn share_of_bound(run: &Measurement, place: &str) -> Result<f64, ReproduceError> {
    let bound = run.payload_bound.ok_or_else(|| ReproduceError::NoBound { experiment: place.into() })?;
    Ok(run.bandwidths.algorithm / bound.as_gigabytes_per_second_f64())
}

/// Ours against the published figures: one a point, or the best or least of all points against one.
fn figures(
    experiment: &Experiment,
    series: &Series,
    points: &[Point],
    published: &[f64],
    ours: &[Option<f64>],
) -> Vec<Reproduced> {
    let (quantity, tolerance) = (experiment.quantity_of(series), &experiment.tolerance);
    let judge = |figure: String, published: f64, ours: f64, times: bool| {
        let met = tolerance.accepts(series.bound, published, ours, times);
        Reproduced {
            by_absolute_alone: tolerance.accepts_by_absolute_alone(series.bound, published, ours, times),
            independent: true,
            paper: experiment.paper.clone(),
            id: experiment.id.clone(),
            figure,
            kind: series.kind,
            published,
            ours,
            error: ours / published - 1.0,
            verdict: if met { Verdict::Met } else { Verdict::Missed },
        }
    };
    if published.is_empty() {
        return Vec::new();
    }
    if published.len() < points.len() {
        let Some(ours) = ours.iter().copied().collect::<Option<Vec<f64>>>() else { return Vec::new() };
        let picked = series.pick.of(&ours).map(|(at, ours)| {
            let at = at.map_or("of all".into(), |at| format!("at {}", points[at].value));
            let name = figure(series, &format!("{}, {at}", series.pick.name()));
            judge(name, published[0], ours, false)
        });
        return picked
            .map(|row| Reproduced { independent: series.independent() > 0, ..row })
            .into_iter()
            .collect();
    }
    let one = |(number, ((point, &published), &ours)): (usize, ((&Point, &f64), &Option<f64>))| {
        let ours = ours?;
        let time = quantity.published_time(published, point.size.bytes() as f64 * series.counted_share);
        let row = judge(figure(series, &point.value), time.unwrap_or(published), ours, time.is_some());
        Some(Reproduced { independent: number < series.independent(), ..row })
    };
    points.iter().zip(published).zip(ours).enumerate().filter_map(one).collect()
}

fn figure(series: &Series, value: &str) -> String {
    format!("{} {value}", series.label.as_ref().unwrap_or(&series.design))
}
