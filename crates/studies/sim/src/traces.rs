//! Chakra's traces on a fabric: what ranks compute and wait for comes from the traces, how long a communication takes from a simulation of it,
//! alone on the network.
//!
//! A collective of all ranks runs the request's design. One of some ranks does so in a group that the manager's policy places, as jobs do. A
//! message is a Broadcast from one host to another by the design that groups fall back to.

use crate::progress::ProgressFn;
use crate::times::{Times, Why};
use crate::{JobsError, JobsRequest, KnownTimes, MeasureError, Request, measure_jobs};
use quincunx_chakra::{Communication, Exchange, Machine, Operation, Replay, ReplayError, Trace, replay};
use quincunx_collective::{Collective, Rank};
use quincunx_design::Catalog;
use quincunx_scenario::{Jobs, Scenario};
use quincunx_units::{ByteCount, Duration};
use std::collections::BTreeMap;

/// Traces to replay.
pub struct TracesRequest<'a> {
    /// Where and by which design; its collective and its size are of no account.
    pub request: &'a Request,
    /// The trace of each rank, of rank 0 first. Rank r is on host r.
    pub traces: &'a [&'a Trace],
    /// The designs that there are.
    pub catalog: Catalog,
    /// What messages run by, by name.
    pub fallback: Option<&'static str>,
}

/// What traces came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracesMeasurement {
    /// When ranks did what.
    pub replay: Replay,
    /// Steps of the simulations of collectives of all ranks.
    pub steps: u64,
}

/// Why there is no time. All on one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TracesError {
    /// More traces than ranks.
    #[error(
        "expected traces of at most {ranks} ranks, those of {fabric}, found {traces}; choose a larger fabric"
    )]
    Ranks {
        /// Traces.
        traces: usize,
        /// The fabric's name.
        fabric: String,
        /// Its ranks.
        ranks: u16,
    },
    /// Ranks of a domain do collectives for themselves.
    #[error(
        "expected a fabric whose ranks do collectives all together, found {domains} domains; name another, such as star-8"
    )]
    Domains {
        /// Domains.
        domains: u16,
    },
    /// A key says nothing here.
    #[error(
        "--set: expected a key of the fabric, of a design, train.gpu.rate or train.gpu.memory, found `{key}`; leave it out"
    )]
    Key {
        /// The key.
        key: String,
    },
    /// No design here does it.
    #[error("{what}: expected one of {known}, found {found}; simulate that part by itself, or leave it out")]
    Operation {
        /// What was asked.
        what: String,
        /// What there is.
        known: String,
        /// What it is.
        found: &'static str,
    },
    /// A message has no design to run by.
    #[error(
        "{what}: expected a design that groups fall back to, for messages, found none; leave messages out"
    )]
    NoFallback {
        /// What was asked.
        what: String,
    },
    /// A collective of all ranks did not end.
    #[error("{what}: {error}")]
    Run {
        /// What was asked.
        what: String,
        /// Why.
        error: Box<MeasureError>,
    },
    /// One of some ranks did not end.
    #[error("{what}: {error}")]
    Group {
        /// What was asked.
        what: String,
        /// Why.
        error: Box<JobsError>,
    },
    /// A result is wrong.
    #[error("{what}: expected right results, found {wrong} wrong elements; this is a fault of the engines")]
    Wrong {
        /// What was asked.
        what: String,
        /// Elements.
        wrong: u64,
    },
    /// The traces say something that cannot be.
    #[error(transparent)]
    Replay(Box<ReplayError<TracesError>>),
}

impl TracesError {
    /// What was wrong at a node, or with all.
    fn innermost(&self) -> &Self {
        match self {
            Self::Replay(error) => match &**error {
                ReplayError::Communication { error, .. } => error.innermost(),
                _ => self,
            },
            _ => self,
        }
    }

    /// Whether a result was wrong.
    pub fn is_wrong(&self) -> bool {
        matches!(self.innermost(), Self::Wrong { .. })
    }

    /// When whoever watches has stopped it, and what was running.
    pub fn stopped(&self) -> Option<(String, Duration)> {
        match self.innermost() {
            Self::Run { what, error } => match **error {
                MeasureError::Stopped(stopped) => Some((what.clone(), stopped.after)),
                _ => None,
            },
            Self::Group { what, error } => match **error {
                JobsError::Stopped(stopped) => Some((what.clone(), stopped.after)),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Replays traces, and tells how far each simulation has come; whoever is told may stop it.
///
/// # Errors
/// If the traces do not fit together or onto the fabric, or a communication gives no time.
pub fn measure_traces(
    request: &TracesRequest<'_>,
    progress: ProgressFn<'_>,
) -> Result<TracesMeasurement, TracesError> {
    let TracesRequest { request: asked, traces, .. } = *request;
    check(&asked.scenario, traces.len())?;
    let gpu = &asked.scenario.training.gpu;
    let machine = Machine { rate: gpu.rate, memory: gpu.memory };
    let known = KnownTimes::default();
    let mut times = Times::new(asked, "", &known, progress);
    let mut of_groups = BTreeMap::new();
    let time_of = |communication: &Communication| {
        let size = simulated_size(communication);
        match communication.exchange {
            _ if size == ByteCount::new(0) && !is_barrier(communication) => Ok(Duration::ZERO),
            Exchange::Collective(operation)
                if communication.members.len() == usize::from(asked.scenario.ranks()) =>
            {
                let what = || communication.to_string();
                times.of(collective(operation, what())?, size).map_err(|none| match none.why {
                    Why::Run(error) => TracesError::Run { what: what(), error: Box::new(error) },
                    Why::Wrong(wrong) => TracesError::Wrong { what: what(), wrong },
                })
            }
            _ => {
                if let Some(&time) = of_groups.get(communication) {
                    return Ok(time);
                }
                let time = of_group(request, communication, size, times.progress())?;
                of_groups.insert(communication.clone(), time);
                Ok(time)
            }
        }
    };
    let replay = replay(traces, machine, time_of).map_err(|error| TracesError::Replay(Box::new(error)))?;
    Ok(TracesMeasurement { replay, steps: times.steps() })
}

/// Refuses what a scenario says that no trace needs, and traces that do not fit onto it.
fn check(scenario: &Scenario, traces: usize) -> Result<(), TracesError> {
    let ranks = scenario.ranks();
    if traces > usize::from(ranks) {
        return Err(TracesError::Ranks { traces, fabric: scenario.place().into(), ranks });
    }
    let domains = scenario.fabric.domains();
    if domains > 1 {
        return Err(TracesError::Domains { domains });
    }
    let is_of_others = |key: &&str| {
        let tables = ["train.", "machine.", "layer."];
        tables.iter().any(|table| key.starts_with(table))
            && !["train.gpu.rate", "train.gpu.memory"].contains(key)
    };
    match scenario.changed().find(is_of_others) {
        Some(key) => Err(TracesError::Key { key: key.into() }),
        None => Ok(()),
    }
}

fn is_barrier(communication: &Communication) -> bool {
    communication.exchange == Exchange::Collective(Operation::Collective(Collective::Barrier))
}

/// The collective that a fabric runs for an operation.
fn collective(operation: Operation, what: String) -> Result<Collective, TracesError> {
    match operation {
        Operation::Collective(collective) => Ok(collective),
        other => {
            let known = Collective::PRIMITIVES.map(Collective::name).join(", ");
            Err(TracesError::Operation { what, known, found: other.name() })
        }
    }
}

/// The size as simulations count it, of all ranks' vectors together for AllGather, in whole elements of four bytes for each rank that has a
/// part of its own.
fn simulated_size(communication: &Communication) -> ByteCount {
    let ranks = communication.members.len() as u64;
    let element = ByteCount::new(4);
    let whole = |part: ByteCount| element * part.pieces_of(element);
    match communication.exchange {
        Exchange::Collective(Operation::Collective(Collective::AllGather)) => {
            whole(communication.size) * ranks
        }
        Exchange::Collective(Operation::Collective(Collective::ReduceScatter)) => {
            element * ranks * communication.size.pieces_of(element * ranks)
        }
        _ => whole(communication.size),
    }
}

/// How long a group of some ranks takes, or a message.
fn of_group(
    request: &TracesRequest<'_>,
    communication: &Communication,
    size: ByteCount,
    progress: ProgressFn<'_>,
) -> Result<Duration, TracesError> {
    let what = communication.to_string();
    let Communication { exchange, members, .. } = communication;
    let (collective, design) = match *exchange {
        Exchange::Collective(operation) => {
            (collective(operation, what.clone())?, request.request.design.name())
        }
        Exchange::Message => {
            let design = request.fallback.ok_or_else(|| TracesError::NoFallback { what: what.clone() })?;
            (Collective::Broadcast { root: Rank(0) }, design)
        }
    };
    let hosts: Vec<String> = members.iter().map(|member| member.to_string()).collect();
    // A root is a rank of the group there.
    let root = collective.root().and_then(|root| members.iter().position(|member| *member == root));
    let root = if *exchange == Exchange::Message { 0 } else { root.unwrap_or(0) };
    let job = format!(
        "[[job]]\nhosts = \"{}\"\ncollective = \"{collective}\"\nroot = {root}\nsize = {}\ndesign = \"{design}\"\n",
        hosts.join(","),
        size.bytes()
    );
    let failed = |error: JobsError| TracesError::Group { what: what.clone(), error: Box::new(error) };
    let jobs = Jobs::parse("the group", &job).map_err(|error| failed(error.into()))?;
    let scenario = request.request.scenario.clone();
    let (catalog, seed) = (request.catalog, request.request.seed);
    // A group that finds no tree is told so: what runs by another design is no time of this one.
    let jobs = JobsRequest { scenario, jobs, catalog, fallback: None, seed, only: None };
    let measured = measure_jobs(&jobs, progress).map_err(failed)?;
    match measured.jobs.first() {
        Some(job) if job.wrong.unwrap_or(0) > 0 => {
            Err(TracesError::Wrong { what, wrong: job.wrong.unwrap_or(0) })
        }
        job => Ok(job.map_or(measured.time, |job| job.mean())),
    }
}
