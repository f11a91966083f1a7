//! `quincunx sim layer`.

mod rows;

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{DataSheet, Override, Scenario};
use quincunx_sim::Interrupted;
use quincunx_sim::layer::{
    KernelKind, LayerError, LayerMeasurement, LayerRequest, MeasuredKernel, Profile, TRACE_INTERVALS,
    find_schedule, measure_over_time, profile, write_trace,
};
use quincunx_units::Duration;
use rows::{header, line, row};
use serde_json::Value;
use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::options::SeedOptions;
use crate::out::say;
use crate::progress::{bar, estimate};
use crate::results::{Printed, envelope};
use crate::sweeps::{Means, add_error, run_all, say_error};

/// `quincunx sim layer`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim layer --model llama-7b --sublayer L2
  quincunx sim layer --model mega-gpt-4b --pass both --design cais,cais-base,sp-nvls,t3 --json
  quincunx sim layer --model llama-7b --sublayer L1 --design cais --set merge.entries=64 --set machine.throttle=false
  quincunx sim layer --model llama-7b --sublayer L2 --design cais --trace l2.pftrace

A tensor-parallel model's layer on accelerators at the granularity of thread blocks, whose requests are packets on the fabric's links. Sub-layers are
a product, its sum over all accelerators, a normalisation and another product (L1, L2: forward, L3, L4: backward); --pass adds what lies outside of
them. The speedup is over the design that is named last. Designs: cais, cais-partial (loads and reductions share a queue), cais-uncoordinated, cais-base
(merging alone), tp-nvls, sp-nvls, coconet, fuselib, t3, coconet-nvls, fuselib-nvls, t3-nvls, ladm, scin, scin-inq
(quantised in the network), scin-sp (ReduceScatter and AllGather). Keys of --set beside the fabric's and those of
merge and sync (`quincunx sim --show cais`): machine.gpu (h100, h100-half, h200, h200-half),
machine.sms, machine.tensor=930TFLOP/s, machine.memory, machine.l2, machine.profile=FILE (measured
kernels, data/profiles/h200.json: what they have reached is used, and the roofline's error against them is printed), machine.drift, machine.pre_launch, machine.pre_access, machine.throttle, and the others of the preset's [machine]; layer.scale multiplies the model's hidden size.")]
pub(crate) struct Layer {
    /// llama-7b, mega-gpt-4b or mega-gpt-8b; short for --set layer.model
    #[arg(long)]
    model: String,
    /// L1, L2, L3 or L4; all of them if neither this nor --pass is given
    #[arg(long, conflicts_with = "pass")]
    sublayer: Option<String>,
    /// A whole layer: forward, backward or both
    #[arg(long)]
    pass: Option<String>,
    /// A preset, a shape or a file
    #[arg(long, default_value = "cais-dgx8")]
    fabric: String,
    /// Designs, several with commas; speedups are over the last
    #[arg(long, value_delimiter = ',', default_value = "cais,cais-base,sp-nvls,t3,tp-nvls")]
    design: Vec<String>,
    /// Set a key of the fabric, of the machine or of a design: machine.sms=132
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    #[command(flatten)]
    seed_options: SeedOptions,
    /// Write when kernels ran, and over time the SMs of each, links and merging tables, to this file for ui.perfetto.dev; one design
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    printed: Printed,
}

/// Intervals from which what is printed is put together: some for each bin.
const INTERVALS: usize = 1024;

impl Layer {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let scenario = Scenario::find(&self.fabric, &self.changes()?, catalog).map_err(Failure::input)?;
        scenario.refuse_all_but_layers().map_err(Failure::input)?;
        let find = |name: &String| find_schedule(quincunx_schedules::ALL, name).map_err(Failure::input);
        let schedules: Vec<_> = self.design.iter().map(find).collect::<Result<_, Failure>>()?;
        let units = schedules.iter().filter_map(|schedule| schedule.unit());
        let units: Vec<_> = units
            .map(|unit| scenario.design(catalog, unit.design).map_err(Failure::input))
            .collect::<Result<_, Failure>>()?;
        scenario.refuse_unused(&units).map_err(Failure::input)?;
        let trace = self.trace_file(schedules.len() as u64 * self.seed_options.seeds)?;
        let intervals = if trace.is_some() { TRACE_INTERVALS } else { INTERVALS };
        let stop = interrupt::flag()?;
        let seeds = self.seed_options.seeds;
        let runs: Vec<_> = schedules
            .iter()
            .flat_map(|&schedule| self.seed_options.all().map(move |seed| (schedule, seed)))
            .collect();
        let progress = bar(runs.len());
        let run = |(schedule, seed)| {
            let request = LayerRequest { scenario: scenario.clone(), schedule, seed };
            let began = Instant::now();
            let result = measure_over_time(&request, catalog, Some(intervals), &mut |at| {
                progress.set_message(format!("{}: {}", schedule.name(), estimate(at, began.elapsed())));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let name = |place: usize| runs[place].0.name();
        let stopped = |place, error: &LayerError| match error {
            LayerError::Stopped(Interrupted { after }) => Some(format!("{} at {after}", name(place))),
            _ => None,
        };
        let mut measured = Vec::new();
        let mut means = Means::new(seeds);
        let done = |place, found| {
            means.add(place, found, |found| measured.push((name(place), LayerMeasurement::mean(found))));
        };
        let interrupted = run_all(runs.clone(), &stop, run, stopped, done);
        progress.finish_and_clear();
        let interrupted = interrupted.map_err(Failure::input)?;
        if let (Some((path, file)), Some((_, (found, _)))) = (trace, measured.first()) {
            write_trace(found, BufWriter::new(file)).map_err(|error| unwritable(path, &error))?;
        }
        let is_complete = measured.len() == schedules.len();
        let baseline = measured.last().filter(|_| is_complete).map(|(name, (last, _))| (*name, last));
        let part = scenario.layer.part.as_str();
        if self.printed.is_for_programs() {
            let rows: Vec<Value> = measured
                .iter()
                .map(|(name, (found, error))| {
                    let mut row = row((part, &self.fabric), name, found, baseline);
                    add_error(&mut row, seeds, *error);
                    row
                })
                .collect();
            self.printed.print(&envelope("sim layer", &rows));
        } else {
            say!("{}", header());
            for (name, (found, error)) in &measured {
                say!("{}", line(name, found, baseline));
                say_error(seeds, *error);
            }
            if let Some((profile, sheet)) = profile(&scenario.machine).map_err(Failure::input)? {
                say!("{}", roofline(&profile, sheet));
            }
        }
        Failure::unless_all(schedules.len(), measured.len(), &interrupted)
    }

    /// The file of the trace, so that a name that cannot be written is told before anything runs.
    fn trace_file(&self, runs: u64) -> Result<Option<(&Path, File)>, Failure> {
        let Some(path) = self.trace.as_deref() else { return Ok(None) };
        if runs > 1 {
            return Err(Failure::Input(format!(
                "expected one design and one seed with --trace, found {runs} runs; write one at a time"
            )));
        }
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Some((path, file)))
    }

    /// What is to be set: `--model`, `--sublayer` and `--pass` are short for keys.
    fn changes(&self) -> Result<Vec<Override>, Failure> {
        let mut changes = self.set.clone();
        let part = self.sublayer.as_deref().or(self.pass.as_deref()).unwrap_or("sub-layers");
        for change in [format!("layer.model={}", self.model), format!("layer.part={part}")] {
            changes.push(change.parse().map_err(Failure::input)?);
        }
        Ok(changes)
    }
}

/// How far a roofline by the data sheet is from what was measured on the whole GPU, and how far the constant and the rate of each kind are.
fn roofline(profile: &Profile, sheet: DataSheet) -> String {
    let (tensor, memory) = (sheet.tensor, sheet.memory);
    let of_sheet = |each: &MeasuredKernel| each.error(tensor, memory) * 100.0;
    let mut lines = vec![
        format!("\nroofline of {} SMs against {}; times in us", sheet.sms, profile.device),
        format!(
            "{:<12} {:>4} {:<20}{:>10}{:>10}{:>8}{:>8}",
            "model", "GPUs", "kernel", "measured", "roofline", "error", "of fit"
        ),
    ];
    let fits = KernelKind::ALL.map(|kind| (kind, profile.fit(kind, tensor, memory)));
    let fit = |of: KernelKind| fits.iter().find_map(|(kind, fit)| fit.filter(|_| *kind == of));
    lines.extend(profile.kernels.iter().map(|each| {
        let (model, split, kernel) = (&each.model, each.split, &each.kernel);
        let [time, predicted] = [each.time, each.roofline(tensor, memory)].map(Duration::as_micros_f64);
        let of_fit = fit(each.kind).map_or(0.0, |fit| each.error_of_fit(fit, tensor, memory) * 100.0);
        let error = of_sheet(each);
        format!("{model:<12} {split:>4} {kernel:<20}{time:>10.1}{predicted:>10.1}{error:>7.1}%{of_fit:>7.1}%")
    }));
    lines.push(format!(
        "\n{:<20}{:>8}{:>12}{:>10}{:>8}{:>8}   errors: half of the kernels are within these",
        "kind", "kernels", "efficiency", "constant", "error", "of fit"
    ));
    for (kind, fit) in fits {
        let Some(fit) = fit else { continue };
        let middle = |mut errors: Vec<f64>| {
            errors.iter_mut().for_each(|error| *error = error.abs());
            errors.sort_by(f64::total_cmp);
            errors[errors.len() / 2]
        };
        let error = middle(profile.of(kind).map(of_sheet).collect());
        let of_fit =
            middle(profile.of(kind).map(|each| each.error_of_fit(fit, tensor, memory) * 100.0).collect());
        let (count, constant) = (profile.of(kind).count(), fit.constant.as_micros_f64());
        let (name, efficiency) = (kind.name(), fit.efficiency);
        lines.push(format!(
            "{name:<20}{count:>8}{efficiency:>12.3}{constant:>10.1}{error:>7.1}%{of_fit:>7.1}%"
        ));
    }
    lines.join("\n")
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Input(format!("expected to write {}, found \"{error}\"; name another file", path.display()))
}
