//! Simulations, many at once, as rows of a table and of a JSON object.

use quincunx_collective::Reduction;
use quincunx_report::Columns;
use quincunx_scenario::Fabric;
use quincunx_sim::{MeasureError, Measurement, Outputs, Progress, Request, measure, sweep};
use quincunx_units::Instant;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use crate::Failure;
use crate::interrupt::is_set;
use crate::progress::bar;

/// A row to be: one simulation, or its mean over several seeds.
pub(crate) struct Case {
    /// With the first seed.
    pub(crate) request: Request,
    /// How many, counted from the first.
    pub(crate) seeds: u64,
    /// Whether the row says how busy links were over time; for one seed.
    pub(crate) over_time: bool,
    /// What the run writes; for one seed.
    pub(crate) outputs: Outputs,
}

/// What has come of the cases.
#[derive(Default)]
pub(crate) struct Simulated {
    pub(crate) rows: Vec<Value>,
    /// Elements over all of them.
    pub(crate) wrong: u64,
    /// What ran when it was interrupted.
    interrupted: Vec<String>,
}

/// Simulates `cases` on all processors. `print` gets the lines of the table, in order, as rows are finished.
pub(crate) fn simulate(
    cases: Vec<Case>,
    stop: &AtomicBool,
    mut print: impl FnMut(&str),
) -> Result<Simulated, Failure> {
    let mut jobs = Vec::new();
    let mut places = Vec::new();
    for Case { request, seeds, over_time, mut outputs } in cases {
        let first = request.seed;
        for number in 0..seeds {
            let seed = first.wrapping_add(number);
            places.push((Request { seed, ..request.clone() }, number, seeds, over_time));
            jobs.push((Request { seed, ..request.clone() }, std::mem::take(&mut outputs)));
        }
    }
    let progress = bar(jobs.len());
    let run = |(request, outputs): (Request, Outputs)| {
        let name = name(&request);
        progress.set_message(name.clone());
        let result = measure(&request, outputs, &mut |at| {
            progress.set_message(format!("{name}: at {}", position(at)));
            if is_set(stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        progress.inc(1);
        result
    };
    let (mut simulated, mut failed) = (Simulated::default(), None);
    let mut group: Vec<Measurement> = Vec::new();
    sweep(jobs, stop, run, |place, result| {
        let (request, number, seeds, over_time) = &places[place];
        if *number == 0 {
            group.clear();
        }
        match result {
            Ok(measured) => group.push(measured),
            Err(MeasureError::Stopped { after }) => {
                simulated.interrupted.push(format!("{} at {after}", name(request)));
            }
            Err(error) => {
                failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        if group.len() as u64 == *seeds {
            let (mean, deviation) = Measurement::mean(&group);
            simulated.wrong += mean.wrong.unwrap_or(0);
            let (mut row, line) = show(request, &mean);
            progress.suspend(|| print(&line));
            if *over_time {
                add_over_time(&mut row, &mean);
            }
            if *seeds > 1 {
                row["seeds"] = json!(seeds);
                row["time_stderr_us"] = json!(deviation.as_micros_f64());
                let (time, error) = (mean.time.as_micros_f64(), deviation.as_micros_f64());
                progress.suspend(|| {
                    print(&format!("  mean of {seeds} seeds: {time:.3} us, standard error {error:.3} us"))
                });
            }
            simulated.rows.push(row);
        }
        ControlFlow::Continue(())
    });
    progress.finish_and_clear();
    match failed {
        Some(error) => Err(Failure::input(error)),
        None => Ok(simulated),
    }
}

impl Simulated {
    /// Fails if a result was wrong, or if not all `rows` rows are there because somebody interrupted.
    pub(crate) fn check(&self, rows: usize) -> Result<(), Failure> {
        let (wrong, found) = (self.wrong, self.rows.len());
        if wrong > 0 {
            return Err(Failure::Wrong(format!(
                "expected right results, found {wrong} wrong elements; replay with the same arguments and --seed"
            )));
        }
        Failure::unless_all(rows, found, &self.interrupted)
    }
}

/// The object that a command prints with `--json`.
pub(crate) fn envelope(command: &str, rows: &[Value]) -> Value {
    json!({ "schema": 1, "command": command, "rows": rows })
}

fn name(request: &Request) -> String {
    format!("{} {}", request.design, request.size)
}

/// How far a run has come, as people read it.
pub(crate) fn position(at: Progress) -> String {
    format!("{:.1} us, {} steps", at.now.since(Instant::ZERO).as_micros_f64(), at.steps)
}

/// How busy links were, bin by bin of time, rounded to a thousandth.
fn add_over_time(row: &mut Value, measured: &Measurement) {
    let busy = &measured.busy_over_time;
    row["bin_us"] = json!(busy.bin.as_micros_f64());
    for (link, shares) in busy.directions.iter().enumerate() {
        let shares = shares.iter().map(|share| (share * 1e3).round() / 1e3);
        row["links"][link]["over_time"] = shares.collect();
    }
}

/// A measurement as JSON and as a line of the table.
fn show(request: &Request, measured: &Measurement) -> (Value, String) {
    let Request { collective, reduction, .. } = *request;
    let Reduction { data_type, op } = reduction;
    let (type_name, op) = (data_type.to_string(), op.to_string());
    let rates = measured.bandwidths;
    let columns = Columns {
        design: &request.design,
        collective: match request.fabric {
            Fabric::Servers(_) => "dispatch",
            _ => collective.name(),
        },
        size: measured.size.bytes(),
        count: measured.size.bytes() / data_type.size() as u64,
        data_type: &type_name,
        redop: if collective.reduces() { &op } else { "none" },
        root: collective.root().map_or(-1, |root| i32::from(root.0)),
        time: measured.time.as_micros_f64(),
        algbw: rates.algorithm,
        busbw: rates.bus,
        netbw: rates.network,
        wrong: measured.wrong,
    };
    let links: Vec<Value> = measured
        .links
        .iter()
        .map(|(name, utilisation)| json!({ "name": name, "utilisation": utilisation }))
        .collect();
    let row = json!({
        "design": columns.design,
        "collective": columns.collective,
        "size": columns.size,
        "count": columns.count,
        "type": columns.data_type,
        "redop": columns.redop,
        "root": columns.root,
        "time_us": columns.time,
        "algbw_GBps": columns.algbw,
        "busbw_GBps": columns.busbw,
        "netbw_GBps": columns.netbw,
        "wrong": columns.wrong,
        "switch_buffer_bytes": measured.switch_buffer.bytes(),
        "frames": measured.frames,
        "steps": measured.steps,
        "links": links,
    });
    (row, columns.to_string())
}
