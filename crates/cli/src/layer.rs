//! `quincunx sim layer`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{DataSheet, Override, Scenario};
use quincunx_sim::layer::{
    LayerError, LayerMeasurement, LayerRequest, Profile, find_schedule, measure_layer, profile,
};
use quincunx_sim::sweep;
use quincunx_units::Duration;
use serde_json::{Value, json};
use std::ops::ControlFlow;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::progress::bar;
use crate::simulations::{envelope, position};

/// `quincunx sim layer`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim layer --model llama-7b --sublayer L2
  quincunx sim layer --model mega-gpt-4b --pass both --design cais,cais-base,sp-nvls,t3 --json
  quincunx sim layer --model llama-7b --sublayer L1 --design cais --set merge.entries=64 --set machine.throttle=false

A tensor-parallel model's layer on accelerators at the granularity of thread blocks, whose requests are packets on the fabric's links. Sub-layers are
a product, its sum over all accelerators, a normalisation and another product (L1, L2: forward, L3, L4: backward); --pass adds what lies outside of
them. The speedup is over the design that is named last. Designs: cais, cais-partial (loads and reductions share a queue), cais-uncoordinated, cais-base
(merging alone), tp-nvls, sp-nvls, coconet, fuselib, t3, coconet-nvls, fuselib-nvls, t3-nvls, ladm. Keys of --set beside the fabric's and those of
merge and sync (`quincunx sim --show cais`): machine.gpu (h100, h100-half, h200, h200-half),
machine.sms, machine.tensor=930TFLOP/s, machine.memory, machine.l2, machine.profile=FILE (measured
products: what they have reached is used, and the roofline's error against them is printed), machine.dispatch_window, machine.pre_launch, machine.pre_access, machine.throttle, and the others of the preset's [machine]; layer.scale multiplies the model's hidden size.")]
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
    /// Decides all that chance decides: the same seed, the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

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
        let stop = interrupt::flag()?;
        let progress = bar(schedules.len());
        let run = |schedule| {
            let request = LayerRequest { scenario: scenario.clone(), schedule, seed: self.seed };
            let result = measure_layer(&request, catalog, &mut |at| {
                progress.set_message(format!("{}: at {}", schedule.name(), position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let (mut measured, mut failed, mut interrupted) = (Vec::new(), None, Vec::new());
        sweep(schedules.clone(), &stop, run, |place, result| {
            let name = schedules[place].name();
            match result {
                Ok(found) => measured.push((name, found)),
                Err(LayerError::Stopped { after }) => interrupted.push(format!("{name} at {after}")),
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        progress.finish_and_clear();
        if let Some(error) = failed {
            return Err(Failure::input(error));
        }
        let is_complete = measured.len() == schedules.len();
        let baseline = measured.last().filter(|_| is_complete).map(|(name, last)| (*name, last.time));
        if self.json {
            let rows: Vec<Value> = measured.iter().map(|(name, found)| row(name, found, baseline)).collect();
            println!("{}", envelope("sim layer", &rows));
        } else {
            println!("{}", header());
            measured.iter().for_each(|(name, found)| println!("{}", line(name, found, baseline)));
            if let Some((profile, sheet)) = profile(&scenario.machine).map_err(Failure::input)? {
                println!("{}", roofline(&profile, sheet));
            }
        }
        Failure::unless_all(schedules.len(), measured.len(), &interrupted)
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

fn header() -> String {
    let names = ["ranks", "time", "outside", "SMs", "up", "down", "table", "wait", "speedup"];
    let units = ["", "(us)", "(us)", "(%)", "(%)", "(%)", "(KiB)", "(us)", ""];
    let cells = |cells: [&str; 9]| cells.map(|cell| format!("{cell:>10}")).concat();
    let units = format!("{:<20} {:<12}{}", "", "", cells(units));
    format!("{:<20} {:<12}{}\n{}", "design", "model", cells(names), units.trim_end())
}

/// A mean over sub-layers, in per cent.
fn mean(found: &LayerMeasurement, of: impl Fn(&quincunx_sim::layer::PartMeasurement) -> f64) -> f64 {
    found.parts.iter().map(of).sum::<f64>() / found.parts.len().max(1) as f64 * 100.0
}

fn speedup(found: &LayerMeasurement, baseline: Option<(&str, Duration)>) -> Option<f64> {
    baseline.map(|(_, time)| time.as_secs_f64() / found.time.as_secs_f64())
}

fn line(design: &str, found: &LayerMeasurement, baseline: Option<(&str, Duration)>) -> String {
    let [time, outside] = [found.time, found.outside].map(Duration::as_micros_f64);
    let sms = mean(found, |part| part.outcome.sm_utilisation);
    let [up, down] = [0, 1].map(|way| mean(found, |part| part.outcome.directions[way]));
    let merges = found.parts.iter().any(|part| part.outcome.counted.contains_key("ended"));
    let merged = |text: String| if merges { text } else { "-".into() };
    let table = merged(format!("{:.1}", found.peak_table() as f64 / 1024.0));
    let wait = merged(format!("{:.2}", found.mean_wait().as_micros_f64()));
    let speedup = speedup(found, baseline).map_or("-".into(), |speedup| format!("{speedup:.3}"));
    let (model, ranks) = (&found.model, found.ranks);
    format!(
        "{design:<20} {model:<12}{ranks:>10}{time:>10.1}{outside:>10.1}{sms:>10.1}{up:>10.1}{down:>10.1}{table:>10}{wait:>10}{speedup:>10}"
    )
}

/// How far a roofline by the data sheet is from what was measured on the whole GPU.
fn roofline(profile: &Profile, sheet: DataSheet) -> String {
    let head = ["kernel", "m", "n", "k", "measured", "roofline", "error"].map(|cell| format!("{cell:>10}"));
    let mut lines = vec![
        format!("\nroofline of {} SMs against {}; times in us", sheet.sms, profile.device),
        format!("{:<12} {:>4}{}", "model", "GPUs", head.concat()),
    ];
    lines.extend(profile.gemms.iter().map(|each| {
        let (model, split, kernel, gemm) = (&each.model, each.split, &each.kernel, each.gemm);
        let [time, predicted] = [each.time, each.roofline(sheet.tensor, sheet.memory)].map(Duration::as_micros_f64);
        let error = each.error(sheet.tensor, sheet.memory) * 100.0;
        let (m, n, k) = (gemm.m, gemm.n, gemm.k);
        format!("{model:<12} {split:>4}{kernel:>10}{m:>10}{n:>10}{k:>10}{time:>10.1}{predicted:>10.1}{error:>9.1}%")
    }));
    lines.join("\n")
}

fn row(design: &str, found: &LayerMeasurement, baseline: Option<(&str, Duration)>) -> Value {
    let part = |part: &quincunx_sim::layer::PartMeasurement| {
        let outcome = &part.outcome;
        let kernels = outcome.kernels.iter().map(|kernel| {
            json!({
                "name": kernel.name,
                "rank": kernel.rank,
                "from_us": kernel.from.as_micros_f64(),
                "to_us": kernel.to.as_micros_f64(),
            })
        });
        let counted = outcome
            .counted
            .iter()
            .map(|(name, (all, most))| ((*name).to_owned(), json!({ "all": all, "most": most })));
        // Over all accelerators, bin by bin of time.
        let busy = &outcome.busy_over_time;
        let over_time = |way: usize| -> Vec<f64> {
            let of: Vec<_> = busy.directions.iter().skip(way).step_by(2).collect();
            let bins = of.first().map_or(0, |bins| bins.len());
            let at = |bin: usize| of.iter().map(|bins| bins[bin]).sum::<f64>() / of.len() as f64;
            (0..bins).map(|bin| (at(bin) * 1e3).round() / 1e3).collect()
        };
        json!({
            "sub_layer": part.sub_layer.to_string(),
            "time_us": outcome.time.as_micros_f64(),
            "sm_utilisation": outcome.sm_utilisation,
            "link_utilisation": outcome.link_utilisation,
            "uplink_utilisation": outcome.directions[0],
            "downlink_utilisation": outcome.directions[1],
            "bin_us": busy.bin.as_micros_f64(),
            "uplinks_over_time": over_time(0),
            "downlinks_over_time": over_time(1),
            "kernels": kernels.collect::<Vec<_>>(),
            "counted": counted.collect::<serde_json::Map<_, _>>(),
            "packets": outcome.packets,
            "drops": outcome.drops,
            "steps": outcome.steps,
        })
    };
    json!({
        "design": design,
        "model": found.model,
        "ranks": found.ranks,
        "time_us": found.time.as_micros_f64(),
        "outside_us": found.outside.as_micros_f64(),
        "peak_table_bytes": found.peak_table(),
        "mean_wait_us": found.mean_wait().as_micros_f64(),
        "operations_per_second": found.throughput(),
        "baseline": baseline.map(|(name, _)| name),
        "speedup": speedup(found, baseline),
        "sub_layers": found.parts.iter().map(part).collect::<Vec<_>>(),
    })
}
