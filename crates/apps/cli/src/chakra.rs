//! `quincunx sim chakra`.

use clap::Args;
use quincunx_chakra::{RankTimes, Trace};
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog};
use quincunx_scenario::{Override, Scenario};
use quincunx_sim::{Contents, Request, TracesError, TracesMeasurement, TracesRequest, measure_traces};
use quincunx_units::{ByteCount, Duration};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::out::say;
use crate::progress::{bar, position};
use crate::results::{Printed, envelope};
use crate::sweeps::run_all;
use crate::table::{Align, table};

/// `quincunx sim chakra`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim chakra traces/all_reduce --fabric star-8 --design epic-3,ring
  quincunx sim chakra rank.et --ranks 16 --fabric star-16 --set train.gpu.rate=300TFLOP/s --set train.gpu.memory=2TB/s
  quincunx sim chakra ddp --kineto ddp-kineto --fabric star-2 --design ring
  quincunx sim train --model vgg-16 --design ring --chakra vgg && quincunx sim chakra vgg --fabric ars-star8 --design ring --json

A PREFIX stands for PREFIX.0.et, PREFIX.1.et and so on, one a rank, or for .json of PyTorch's ExecutionTraceObserver. A single file is run by all ranks.
Nodes take the durations that were recorded; a computation without one takes the longer of num_ops at train.gpu.rate and tensor_size at
train.gpu.memory. A collective begins when all ranks of its group have come, and takes what its simulation takes, alone on the network; in its group
(pg_name) are the ranks in whose traces the name stands. Times are those of the first of the ranks that are done last; exposed is communication
while its accelerator does nothing. The speedup is over the design that is named last.")]
pub(crate) struct Chakra {
    /// A prefix of one file a rank, the files, or a file that all ranks run
    #[arg(required = true, value_name = "PREFIX|FILE")]
    traces: Vec<String>,
    /// Timelines of Kineto, PREFIX.RANK.json, for traces that are execution traces of PyTorch: those say what there is, not how long it takes
    #[arg(long, value_name = "PREFIX|FILE")]
    kineto: Option<String>,
    /// Ranks that run a single file [default: those of the fabric]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    ranks: Option<u16>,
    /// A preset, a shape or a file
    #[arg(long, default_value = "epic-star8")]
    fabric: String,
    /// Designs, several with commas; speedups are over the last
    #[arg(long, value_delimiter = ',', default_value = "epic-3,ring")]
    design: Vec<String>,
    /// Set a key of the fabric, of a design or of the accelerator: train.gpu.rate=300TFLOP/s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Seed of all random choices: the same seed gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    printed: Printed,
}

impl Chakra {
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        let scenario = Scenario::find(&self.fabric, &self.set, catalog).map_err(Failure::input)?;
        let find = |name: &String| scenario.design(catalog, name).map_err(Failure::input);
        let designs: Vec<&'static dyn AnyDesign> =
            self.design.iter().map(find).collect::<Result<_, Failure>>()?;
        scenario.refuse_unused(&designs).map_err(Failure::input)?;
        let read = self.read(scenario.ranks())?;
        let traces: Vec<&Trace> = match (&read[..], self.ranks) {
            ([one], ranks) if !self.is_prefix() => {
                vec![one; usize::from(ranks.unwrap_or(scenario.ranks()))]
            }
            (all, _) => all.iter().collect(),
        };
        let stop = interrupt::flag()?;
        let progress = bar(designs.len());
        let run = |design: &'static dyn AnyDesign| {
            let request = Request {
                scenario: scenario.clone(),
                design,
                collective: Collective::AllReduce,
                reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
                size: ByteCount::new(0),
                contents: Contents::LengthOnly,
                background: None,
                seed: self.seed,
            };
            let request = TracesRequest { request: &request, traces: &traces, catalog, fallback };
            let result = measure_traces(&request, &mut |at| {
                progress.set_message(format!("{}: at {}", design.name(), position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let stopped = |place: usize, error: &TracesError| {
            let (what, after) = error.stopped()?;
            Some(format!("{} {what} at {after}", designs[place].name()))
        };
        let mut measured: Vec<(&str, TracesMeasurement)> = Vec::new();
        let done = |place: usize, found| measured.push((designs[place].name(), found));
        let interrupted = run_all(designs.clone(), &stop, run, stopped, done);
        progress.finish_and_clear();
        let interrupted = interrupted.map_err(|error| match error.is_wrong() {
            true => Failure::Wrong(error.to_string()),
            false => Failure::input(error),
        })?;
        let is_complete = measured.len() == designs.len();
        let baseline = measured.last().filter(|_| is_complete).map(|(name, last)| (*name, last.replay.time));
        if self.printed.is_for_programs() {
            let rows: Vec<Value> = measured.iter().map(|(name, found)| row(name, found, baseline)).collect();
            self.printed.print(&envelope("sim chakra", &rows));
        } else if !measured.is_empty() {
            let lines: Vec<Vec<String>> =
                measured.iter().map(|(name, found)| line(name, found, baseline)).collect();
            say!("{}", table(&COLUMNS, &lines).trim_end());
        }
        Failure::unless_all(designs.len(), measured.len(), &interrupted)
    }

    /// Whether what was given is no file itself, but the beginning of several names.
    fn is_prefix(&self) -> bool {
        matches!(&self.traces[..], [only] if !Path::new(only).is_file())
    }

    /// Every trace, by rank.
    fn read(&self, ranks: u16) -> Result<Vec<Trace>, Failure> {
        let paths = match &self.traces[..] {
            [prefix] if self.is_prefix() => of_prefix(prefix, ranks)?,
            [only] => vec![only.clone()],
            several => by_rank(several)?,
        };
        if self.ranks.is_some() && (paths.len() > 1 || self.is_prefix()) {
            return Err(Failure::Input(format!(
                "expected --ranks with one file, which all ranks run, found {} by rank; leave it out",
                paths.len()
            )));
        }
        if let Some(kineto) = self.kineto.as_ref().filter(|_| !is_json(&paths[0])) {
            return Err(Failure::Input(format!(
                "expected execution traces of PyTorch (.json) with --kineto {kineto}, found {}; leave it out",
                paths[0]
            )));
        }
        let read = |(rank, path): (usize, &String)| {
            let bytes = read_file(path)?;
            if !is_json(path) {
                return Trace::read(path, &bytes).map_err(Failure::input);
            }
            let timeline = self.kineto.as_ref().ok_or_else(|| {
                Failure::Input(format!(
                    "expected --kineto with {path}, an execution trace of PyTorch, which has no durations, found none; name the timelines"
                ))
            })?;
            let timeline = match Path::new(timeline).is_file() {
                true => timeline.clone(),
                false => format!("{timeline}.{rank}.json"),
            };
            Trace::of_pytorch((path, &bytes), (&timeline, &read_file(&timeline)?)).map_err(Failure::input)
        };
        paths.iter().enumerate().map(read).collect()
    }
}

fn is_json(path: &str) -> bool {
    path.ends_with(".json")
}

fn read_file(path: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::Input(format!(
            "expected to read {path}, found \"{error}\"; look at the path and its permissions"
        ))
    })
}

/// The files of a prefix, of rank 0 on; one more than the fabric has ranks is enough to refuse them.
fn of_prefix(prefix: &str, ranks: u16) -> Result<Vec<String>, Failure> {
    let is_there = |name: &String| Path::new(name).is_file();
    let ending = if is_there(&format!("{prefix}.0.json")) { "json" } else { "et" };
    let name = |rank: u32| format!("{prefix}.{rank}.{ending}");
    let found: Vec<String> = (0..=u32::from(ranks)).map(name).take_while(is_there).collect();
    if found.is_empty() {
        return Err(Failure::Input(format!(
            "expected a Chakra trace, or files such as {}, found neither; name a file or a prefix",
            name(0)
        )));
    }
    Ok(found)
}

/// Files in the order of the ranks in their names.
fn by_rank(paths: &[String]) -> Result<Vec<String>, Failure> {
    let rank = |path: &String| {
        path.strip_suffix(".et")
            .or_else(|| path.strip_suffix(".json"))?
            .rsplit_once('.')?
            .1
            .parse::<u32>()
            .ok()
    };
    let numbered: Option<Vec<(u32, &String)>> = paths.iter().map(|path| Some((rank(path)?, path))).collect();
    let mut numbered = numbered.ok_or_else(|| {
        let odd = paths.iter().find(|path| rank(path).is_none()).map_or("", |path| path);
        Failure::Input(format!("expected names such as trace.0.et, one a rank, found {odd}; rename it"))
    })?;
    numbered.sort_unstable();
    match numbered.iter().zip(0..).find(|((rank, _), place)| rank != place) {
        Some(((_, path), place)) => Err(Failure::Input(format!(
            "expected the trace of rank {place}, found {path}; name one file for each rank from 0 on"
        ))),
        None => Ok(numbered.into_iter().map(|(_, path)| path.clone()).collect()),
    }
}

const COLUMNS: [(&str, Align); 8] = [
    ("design", Align::Left),
    ("ranks", Align::Right),
    ("time(us)", Align::Right),
    ("compute(us)", Align::Right),
    ("comm(us)", Align::Right),
    ("exposed(us)", Align::Right),
    ("bytes", Align::Right),
    ("speedup", Align::Right),
];

fn line(design: &str, found: &TracesMeasurement, baseline: Option<(&str, Duration)>) -> Vec<String> {
    let RankTimes { time, compute, communication, exposed, bytes, .. } =
        found.replay.ranks[found.replay.slowest()];
    let times = [time, compute, communication, exposed].map(|time| format!("{:.1}", time.as_micros_f64()));
    let speedup = speedup(found, baseline).map_or("-".into(), |speedup| format!("{speedup:.3}"));
    let [time, compute, communication, exposed] = times;
    let ranks = found.replay.ranks.len().to_string();
    vec![design.into(), ranks, time, compute, communication, exposed, bytes.bytes().to_string(), speedup]
}

/// How much faster it is than the design that is named last; nothing where neither takes any time.
fn speedup(found: &TracesMeasurement, baseline: Option<(&str, Duration)>) -> Option<f64> {
    let speedup = baseline.map(|(_, time)| time.as_secs_f64() / found.replay.time.as_secs_f64());
    speedup.filter(|speedup| speedup.is_finite())
}

fn row(design: &str, found: &TracesMeasurement, baseline: Option<(&str, Duration)>) -> Value {
    let of_rank = |(rank, times): (usize, &RankTimes)| {
        json!({
            "rank": rank,
            "time_us": times.time.as_micros_f64(),
            "compute_us": times.compute.as_micros_f64(),
            "host_us": times.host.as_micros_f64(),
            "communication_us": times.communication.as_micros_f64(),
            "exposed_us": times.exposed.as_micros_f64(),
            "bytes": times.bytes.bytes(),
        })
    };
    let slowest = found.replay.slowest();
    let mut row = of_rank((slowest, &found.replay.ranks[slowest]));
    row["design"] = design.into();
    row["ranks"] = found.replay.ranks.len().into();
    row["nodes"] = found.replay.spans.iter().map(Vec::len).sum::<usize>().into();
    row["baseline"] = baseline.map(|(name, _)| name).into();
    row["speedup"] = speedup(found, baseline).into();
    row["steps"] = found.steps.into();
    row["per_rank"] = found.replay.ranks.iter().enumerate().map(of_rank).collect();
    row
}
