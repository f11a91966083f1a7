//! `quincunx sim traffic`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{Override, Scenario};
use quincunx_sim::Interrupted;
use quincunx_sim::traffic::{
    Load, Offered, Pattern, TrafficError, TrafficMeasurement, TrafficRequest, measure_traffic_with_outputs,
};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::options::{OutputOptions, SeedOptions};
use crate::out::say;
use crate::progress::{bar, position};
use crate::results::{Printed, envelope};
use crate::sweeps::{Means, run_all};

/// `quincunx sim traffic`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim traffic --fabric star-16 --pattern uniform --load 0.9
  quincunx sim traffic --fabric scin-dgx8 --pattern uniform,hotspot --load 0.1,0.5,0.9 --json
  quincunx sim traffic --fabric star-4 --pattern hotspot --load 0.2 --packets 1000 --trace queues.pftrace

Every host makes full packets at times that chance decides (Poisson), whatever the network does. The load, and what is accepted of it,
are shares of what the links of those that send can carry, headers included. Latencies are from when a packet is made until all of
it has arrived; under a load that the fabric cannot take they grow for as long as it is offered.")]
pub(crate) struct Traffic {
    /// A preset, a shape or a file
    #[arg(long, default_value = "epic-star8")]
    fabric: String,
    /// uniform: to any other; neighbor: to the next; hotspot: all to the first; several with commas
    #[arg(long, value_delimiter = ',', default_value = "uniform")]
    pattern: Vec<Pattern>,
    /// Offered load of each host, as a share of its links, from a millionth to 1; several with commas
    #[arg(long, value_delimiter = ',', default_value = "0.9")]
    load: Vec<Load>,
    /// Number of packets to measure
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    packets: u64,
    /// Set a key of the fabric: link.rate=200Gbit/s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    #[command(flatten)]
    seed_options: SeedOptions,
    #[command(flatten)]
    output_options: OutputOptions,
    #[command(flatten)]
    printed: Printed,
}

impl Traffic {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let scenario = Scenario::find(&self.fabric, &self.set, catalog).map_err(Failure::input)?;
        scenario.refuse_training().map_err(Failure::input)?;
        let offers = self
            .pattern
            .iter()
            .flat_map(|&pattern| self.load.iter().map(move |&load| Offered { pattern, load }));
        let offers: Vec<Offered> = offers.collect();
        let seeds = self.seed_options.seeds;
        let runs: Vec<(Offered, u64)> = offers
            .iter()
            .flat_map(|&offered| self.seed_options.all().map(move |seed| (offered, seed)))
            .collect();
        self.output_options.refuse_several("one pattern, one load and one seed", runs.len() as u64)?;
        let outputs = Mutex::new(Some(self.output_options.open()?));
        let stop = interrupt::flag()?;
        let progress = bar(runs.len());
        if !self.printed.is_for_programs() {
            progress.suspend(|| say!("{}", header()));
        }
        let run = |(offered, seed): (Offered, u64)| {
            let scenario = scenario.clone();
            let request = TrafficRequest { scenario, offered, packets: self.packets, seed };
            let outputs = outputs.lock().expect("no run panics").take().unwrap_or_default();
            let result = measure_traffic_with_outputs(&request, outputs, &mut |at| {
                progress.set_message(format!("{offered}: at {}", position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let stopped = |place: usize, error: &TrafficError| match error {
            TrafficError::Stopped(Interrupted { after }) => Some(format!("{} at {after}", runs[place].0)),
            _ => None,
        };
        let (mut rows, mut means) = (Vec::new(), Means::new(seeds));
        let mut done = |offered, measured: &[TrafficMeasurement]| {
            let (mean, error) = TrafficMeasurement::mean(measured);
            let mut row = row(offered, &mean);
            if seeds > 1 {
                row["seeds"] = json!(seeds);
                row["latency_mean_stderr_us"] = json!(error.as_micros_f64());
            }
            if !self.printed.is_for_programs() {
                progress.suspend(|| {
                    say!("{}", line(offered, &mean));
                    if seeds > 1 {
                        let error = error.as_micros_f64();
                        say!("  mean of {seeds} seeds, standard error of the mean latency {error:.3} us");
                    }
                });
            }
            rows.push(row);
        };
        let interrupted = run_all(runs.clone(), &stop, run, stopped, |place, measured| {
            means.add(place, measured, |measured| done(runs[place].0, measured));
        });
        progress.finish_and_clear();
        let interrupted = interrupted.map_err(Failure::input)?;
        if self.printed.is_for_programs() {
            self.printed.print(&envelope("sim traffic", &rows));
        }
        Failure::unless_all(offers.len(), rows.len(), &interrupted)
    }
}

fn header() -> String {
    format!(
        "{:<9} {:>6} {:>9} {:>11} {:>9} {:>11} {:>11} {:>11} {:>11}",
        "pattern", "load", "accepted", "payload", "packets", "mean", "p50", "p99", "max"
    ) + "\n"
        + &format!(
            "{:<9} {:>6} {:>9} {:>11} {:>9} {:>11} {:>11} {:>11} {:>11}",
            "", "", "", "(GB/s)", "", "(us)", "(us)", "(us)", "(us)"
        )
}

fn line(offered: Offered, measured: &TrafficMeasurement) -> String {
    let [mean, p50, p99, max] =
        [measured.mean, measured.p50, measured.p99, measured.max].map(|latency| latency.as_micros_f64());
    format!(
        "{:<9} {:>6.3} {:>9.4} {:>11.4} {:>9} {mean:>11.3} {p50:>11.3} {p99:>11.3} {max:>11.3}",
        offered.pattern,
        offered.load.value(),
        measured.accepted,
        gigabytes(measured),
        measured.packets
    )
}

fn row(offered: Offered, measured: &TrafficMeasurement) -> Value {
    json!({
        "pattern": offered.pattern.name(),
        "load": offered.load.value(),
        "hosts": measured.hosts,
        "payload_bytes": measured.payload.bytes(),
        "accepted": measured.accepted,
        "accepted_GBps": gigabytes(measured),
        "packets": measured.packets,
        "latency_mean_us": measured.mean.as_micros_f64(),
        "latency_p50_us": measured.p50.as_micros_f64(),
        "latency_p99_us": measured.p99.as_micros_f64(),
        "latency_max_us": measured.max.as_micros_f64(),
        "steps": measured.steps,
    })
}

fn gigabytes(measured: &TrafficMeasurement) -> f64 {
    measured.rate.map_or(0.0, |rate| rate.as_gigabytes_per_second_f64())
}
