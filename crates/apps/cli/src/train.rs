//! `quincunx sim train`.

use clap::Args;
use quincunx_chakra::Trace;
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_design::{AnyDesign, Catalog};
use quincunx_scenario::{Override, Scenario};
use quincunx_sim::{
    Contents, Interrupted, MeasureError, Request, TrainingError, TrainingMeasurement, measure_training,
    training_trace,
};
use quincunx_units::{ByteCount, Duration};
use serde_json::{Value, json};
use std::ops::ControlFlow;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::options::SeedOptions;
use crate::out::say;
use crate::progress::{bar, position};
use crate::results::{Printed, envelope};
use crate::sweeps::{Means, add_error, run_all, say_error};

/// `quincunx sim train`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim train --model resnet-50
  quincunx sim train --model vgg-16 --set train.copy=2.44GB/s --set train.reduction=6GB/s
  quincunx sim train --model vgg-16 --design ring --chakra vgg16
  quincunx sim train --model alexnet --fabric star-16 --design epic-3 --batch 32 --set link.rate=25Gbit/s --json

Every rank has the whole model and a batch of its own. Its gradients become ready layer by layer from the last; they are added up over all
ranks in buckets of those that are ready together, while the backward pass goes on. Computation is a roofline of each layer. The speedup is over
the design that is named last. Keys of --set beside the fabric's and the designs':
  train.overlap     true         gradients are sent while the backward pass goes on
  train.fusion      64MiB        most bytes of ready gradients that one collective sends together; 0: one for each layer
  train.cycle       5ms          interval at which an idle rank checks for ready gradients; 0s: it sends as soon as one is ready
  train.copy                     rate of copies to host memory before a bucket is sent, and back behind it; none if not said
  train.reduction                rate at which a processor adds up vectors while the network waits, as MPI's does; nobody waits if not said
  train.gpu.rate    3.96TFLOP/s  rate that convolutions and matrix products reach (a GeForce RTX 2080)
  train.gpu.memory  448GB/s      traffic to the accelerator's memory
  train.gpu.tile    4            side of the tiles of Winograd's convolution; 1: without")]
pub(crate) struct Train {
    /// alexnet, googlenet, resnet-50, vgg-11, vgg-16 or vgg-19; short for --set train.model
    #[arg(long)]
    model: String,
    /// Samples of each rank in an iteration, short for --set train.batch; what the model's file says if not given
    #[arg(long)]
    batch: Option<u32>,
    /// A preset, a shape or a file
    #[arg(long, default_value = "ars-star8")]
    fabric: String,
    /// Designs, several with commas; speedups are over the last
    #[arg(long, value_delimiter = ',', default_value = "netreduce,ring")]
    design: Vec<String>,
    /// Set a key of the fabric, of a design or of the training: train.fusion=25MiB
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Write the iteration as Chakra traces, one a rank, to PREFIX.RANK.et; of one run
    #[arg(long, value_name = "PREFIX")]
    chakra: Option<String>,
    #[command(flatten)]
    seed_options: SeedOptions,
    #[command(flatten)]
    printed: Printed,
}

impl Train {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let scenario = Scenario::find(&self.fabric, &self.changes()?, catalog).map_err(Failure::input)?;
        let find = |name: &String| scenario.design(catalog, name).map_err(Failure::input);
        let designs: Vec<&'static dyn AnyDesign> =
            self.design.iter().map(find).collect::<Result<_, Failure>>()?;
        scenario.refuse_unused(&designs).map_err(Failure::input)?;
        let seeds = self.seed_options.seeds;
        if self.chakra.is_some() && designs.len() as u64 * seeds > 1 {
            return Err(Failure::Input(format!(
                "expected one design and one seed with --chakra, found {} runs; write one at a time",
                designs.len() as u64 * seeds
            )));
        }
        let stop = interrupt::flag()?;
        let runs: Vec<(&'static dyn AnyDesign, u64)> = designs
            .iter()
            .flat_map(|&design| self.seed_options.all().map(move |seed| (design, seed)))
            .collect();
        let progress = bar(runs.len());
        let run = |(design, seed): (&'static dyn AnyDesign, u64)| {
            let request = Request {
                scenario: scenario.clone(),
                design,
                collective: Collective::AllReduce,
                reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
                size: ByteCount::new(0),
                contents: Contents::LengthOnly,
                background: None,
                seed,
            };
            let result = measure_training(&request, &mut |at| {
                progress.set_message(format!("{}: at {}", design.name(), position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let name = |place: usize| runs[place].0.name();
        let stopped = |place, error: &TrainingError| match error {
            TrainingError::Run { size, error: MeasureError::Stopped(Interrupted { after }) } => {
                Some(format!("{} {size} at {after}", name(place)))
            }
            _ => None,
        };
        let mut measured = Vec::new();
        let mut means = Means::new(seeds);
        let done = |place, found| {
            means.add(place, found, |found| measured.push((name(place), TrainingMeasurement::mean(found))));
        };
        let interrupted = run_all(runs.clone(), &stop, run, stopped, done);
        progress.finish_and_clear();
        let interrupted = interrupted.map_err(|error| match error {
            TrainingError::Wrong { .. } => Failure::Wrong(error.to_string()),
            error => Failure::input(error),
        })?;
        if let (Some(prefix), Some((_, (found, _)))) = (&self.chakra, measured.first()) {
            write(prefix, &training_trace(&scenario, found).map_err(Failure::input)?, found.ranks)?;
        }
        let is_complete = measured.len() == designs.len();
        let baseline =
            measured.last().filter(|_| is_complete).map(|(name, (last, _))| (*name, last.iteration.time));
        if self.printed.is_for_programs() {
            let row = |(name, (found, error)): &(&str, (TrainingMeasurement, Duration))| {
                let mut row = row(name, found, baseline);
                add_error(&mut row, seeds, *error);
                row
            };
            self.printed.print(&envelope("sim train", &measured.iter().map(row).collect::<Vec<_>>()));
        } else {
            say!("{}", header());
            for (name, (found, error)) in &measured {
                say!("{}", line(name, found, baseline));
                say_error(seeds, *error);
            }
        }
        Failure::unless_all(designs.len(), measured.len(), &interrupted)
    }

    /// What is to be set: `--model` and `--batch` are short for keys.
    fn changes(&self) -> Result<Vec<Override>, Failure> {
        let mut changes = self.set.clone();
        let batch = self.batch.map(|batch| format!("train.batch={batch}"));
        for change in [Some(format!("train.model={}", self.model)), batch].into_iter().flatten() {
            changes.push(change.parse().map_err(Failure::input)?);
        }
        Ok(changes)
    }
}

/// One file a rank; all ranks do the same.
pub(crate) fn write(prefix: &str, trace: &Trace, ranks: u16) -> Result<(), Failure> {
    let bytes = trace.write();
    for rank in 0..ranks {
        let path = format!("{prefix}.{rank}.et");
        std::fs::write(&path, &bytes).map_err(|error| {
            Failure::Input(format!("expected to write {path}, found \"{error}\"; name another prefix"))
        })?;
    }
    Ok(())
}

fn header() -> String {
    let names = ["batch", "ranks", "compute", "all_reduce", "hidden", "iteration", "samples/s", "speedup"];
    let units = ["", "", "(ms)", "(ms)", "(ms)", "(ms)", "", ""];
    let cells = |cells: [&str; 8]| cells.map(|cell| format!("{cell:>11}")).concat();
    let units = format!("{:<12} {:<10}{}", "", "", cells(units));
    format!("{:<12} {:<10}{}\n{}", "design", "model", cells(names), units.trim_end())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_micros_f64() / 1e3
}

fn line(design: &str, found: &TrainingMeasurement, baseline: Option<(&str, Duration)>) -> String {
    let TrainingMeasurement { model, batch, ranks, iteration, .. } = found;
    let times = [iteration.compute, iteration.communication, iteration.hidden(), iteration.time];
    let times = times.map(|time| format!("{:>11.2}", milliseconds(time))).concat();
    let speedup = speedup(found, baseline).map_or("-".into(), |speedup| format!("{speedup:.3}"));
    let rate = found.samples_per_second();
    format!("{design:<12} {model:<10}{batch:>11}{ranks:>11}{times}{rate:>11.1}{speedup:>11}")
}

/// How much faster it is than the design that is named last.
fn speedup(found: &TrainingMeasurement, baseline: Option<(&str, Duration)>) -> Option<f64> {
    baseline.map(|(_, time)| time.as_secs_f64() / found.iteration.time.as_secs_f64())
}

fn row(design: &str, found: &TrainingMeasurement, baseline: Option<(&str, Duration)>) -> Value {
    let TrainingMeasurement { model, batch, ranks, iteration, steps } = found;
    let buckets = iteration.buckets.iter().map(|bucket| {
        json!({
            "bytes": bucket.size.bytes(),
            "layers": bucket.layers,
            "ready_us": bucket.ready.as_micros_f64(),
            "begin_us": bucket.begin.as_micros_f64(),
            "end_us": bucket.end.as_micros_f64(),
        })
    });
    json!({
        "design": design,
        "model": model,
        "batch": batch,
        "ranks": ranks,
        "time_us": iteration.time.as_micros_f64(),
        "compute_us": iteration.compute.as_micros_f64(),
        "communication_us": iteration.communication.as_micros_f64(),
        "hidden_us": iteration.hidden().as_micros_f64(),
        "samples_per_second": found.samples_per_second(),
        "baseline": baseline.map(|(name, _)| name),
        "speedup": speedup(found, baseline),
        "buckets": buckets.collect::<Vec<_>>(),
        "steps": steps,
    })
}
