//! `quincunx sim traffic`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{Override, Scenario};
use quincunx_sim::Interrupted;
use quincunx_sim::traffic::{
    Load, Offered, Pattern, TrafficError, TrafficMeasurement, TrafficRequest, measure_traffic,
};
use serde_json::{Value, json};
use std::ops::ControlFlow;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::out::say;
use crate::progress::{bar, position};
use crate::results::{Printed, envelope};
use crate::sweeps::run_all;

/// `quincunx sim traffic`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim traffic --fabric star-16 --pattern uniform --load 0.9
  quincunx sim traffic --fabric scin-dgx8 --pattern uniform,hotspot --load 0.1,0.5,0.9 --json

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
    /// Offered load of each host, as a share of its links, above 0 and at most 1; several with commas
    #[arg(long, value_delimiter = ',', default_value = "0.9")]
    load: Vec<Load>,
    /// Number of packets to measure
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    packets: u64,
    /// Set a key of the fabric: link.rate=200Gbit/s
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Seed of all random choices: the same seed gives the same run
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
        let stop = interrupt::flag()?;
        let progress = bar(offers.len());
        if !self.printed.is_for_programs() {
            progress.suspend(|| say!("{}", header()));
        }
        let run = |offered: Offered| {
            let scenario = scenario.clone();
            let request = TrafficRequest { scenario, offered, packets: self.packets, seed: self.seed };
            let result = measure_traffic(&request, &mut |at| {
                progress.set_message(format!("{offered}: at {}", position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let stopped = |place: usize, error: &TrafficError| match error {
            TrafficError::Stopped(Interrupted { after }) => Some(format!("{} at {after}", offers[place])),
            _ => None,
        };
        let mut rows = Vec::new();
        let interrupted = run_all(offers.clone(), &stop, run, stopped, |place, measured| {
            if !self.printed.is_for_programs() {
                progress.suspend(|| say!("{}", line(offers[place], &measured)));
            }
            rows.push(row(offers[place], &measured));
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
