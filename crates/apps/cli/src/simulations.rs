//! Simulations, many at once, as rows of a table and of a JSON object.

use quincunx_collective::Reduction;
use quincunx_design::AnyDesign;
use quincunx_report::Columns;
use quincunx_sim::{
    Candidate, Choice, Interrupted, MeasureError, Measurement, Outputs, Request, choose, measure, sweep,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

use crate::Failure;
use crate::interrupt::is_set;
use crate::progress::{bar, position};

/// A row to be: one simulation, or its mean over several seeds; of several designs, the fastest.
pub(crate) struct Case {
    /// With the first seed, and the first design.
    pub(crate) request: Request,
    /// One, or the candidates.
    pub(crate) designs: Vec<&'static dyn AnyDesign>,
    /// How many, counted from the first.
    pub(crate) seeds: u64,
    /// Whether the row says how busy links were over time; for one seed.
    pub(crate) over_time: bool,
    /// What the run writes; for one design and one seed.
    pub(crate) outputs: Outputs,
}

/// What has come of the cases.
#[derive(Default)]
pub(crate) struct Simulated {
    pub(crate) rows: Vec<Value>,
    /// Elements over all of them.
    pub(crate) wrong: u64,
    /// Rows that there are not, because their design does not run there, though another one of the cases does.
    refused: Vec<Value>,
    /// What ran when it was interrupted.
    interrupted: Vec<String>,
}

impl Case {
    /// The names of its designs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.designs.iter().map(|design| design.name())
    }
}

/// Simulates `cases` on all processors. `print` gets the lines of the table, in order, as rows are finished; their first column is so
/// wide.
pub(crate) fn simulate(
    mut cases: Vec<Case>,
    width: usize,
    stop: &AtomicBool,
    mut print: impl FnMut(&str),
) -> Result<Simulated, Failure> {
    let mut jobs = Vec::new();
    let mut places = Vec::new();
    for (number, case) in cases.iter_mut().enumerate() {
        for &design in &case.designs {
            for seed in (0..case.seeds).map(|more| case.request.seed.wrapping_add(more)) {
                let request = Request { seed, design, ..case.request.clone() };
                places.push((number, name(&request)));
                jobs.push((request, std::mem::take(&mut case.outputs)));
            }
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
    let (mut simulated, mut failed, mut refusal) = (Simulated::default(), None, None);
    let first = cases.first().map(|case| case.request.design.name());
    let has_others = cases.iter().any(|case| Some(case.request.design.name()) != first);
    // The runs of the case that is being finished, and the last one that was refused.
    let (mut current, mut runs, mut refused_case) = (0, Vec::new(), None);
    sweep(jobs, stop, run, |place, result| {
        let (number, name) = &places[place];
        let case = &cases[*number];
        if current != *number {
            current = *number;
            runs.clear();
        }
        match result {
            Err(MeasureError::Stopped(Interrupted { after })) => {
                simulated.interrupted.push(format!("{name} at {after}"));
                return ControlFlow::Continue(());
            }
            Err(error) if case.designs.len() == 1 && has_others && error.is_refusal() => {
                let (design, verdict) = (case.request.design.name(), Choice::Impossible(error.clone()));
                if simulated.refused.last().is_none_or(|last: &Value| last["design"] != design) {
                    progress.suspend(|| print(&format!("  {design:<17} {verdict}")));
                }
                let (size, verdict) = (case.request.size.bytes(), verdict.to_string());
                // Other seeds are refused alike.
                if refused_case != Some(*number) {
                    simulated.refused.push(json!({ "design": design, "size": size, "verdict": verdict }));
                }
                refused_case = Some(*number);
                refusal.get_or_insert(error);
                return ControlFlow::Continue(());
            }
            Err(error) if case.designs.len() == 1 => {
                failed = Some(Failure::input(error));
                return ControlFlow::Break(());
            }
            result => runs.push(result),
        }
        if runs.len() == case.designs.len() * case.seeds as usize {
            match finish(case, width, std::mem::take(&mut runs)) {
                Ok(Finished { row, lines, wrong }) => {
                    progress.suspend(|| lines.iter().for_each(|line| print(line)));
                    simulated.wrong += wrong;
                    simulated.rows.push(row);
                }
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    });
    progress.finish_and_clear();
    // Where no design runs, the first one's reason is an error.
    if simulated.refused.len() == cases.len()
        && let Some(error) = refusal
    {
        failed = Some(Failure::input(error));
    }
    failed.map_or(Ok(simulated), Err)
}

/// A row with its lines of the table.
struct Finished {
    row: Value,
    lines: Vec<String>,
    /// Elements over all runs.
    wrong: u64,
}

/// Makes a row of all runs of `case`, design by design and seed by seed.
fn finish(
    case: &Case,
    width: usize,
    runs: Vec<Result<Measurement, MeasureError>>,
) -> Result<Finished, Failure> {
    let mut runs = runs.into_iter();
    let mut measured = Vec::new();
    let mut deviations = BTreeMap::new();
    for design in &case.designs {
        let of_seeds: Vec<_> = runs.by_ref().take(case.seeds as usize).collect();
        let mean = of_seeds.into_iter().collect::<Result<Vec<Measurement>, _>>().map(|of_seeds| {
            let (mean, deviation) = Measurement::mean(&of_seeds);
            deviations.insert(design.name(), deviation);
            mean
        });
        measured.push((design.name().to_owned(), mean));
    }
    let wrong = measured.iter().filter_map(|(_, mean)| mean.as_ref().ok()?.wrong).sum();
    let candidates = choose(measured).map_err(Failure::input)?;
    let chosen = &candidates[0];
    let mean = chosen.measurement.as_ref().expect("what is chosen was measured");
    let (mut row, line) = show(&chosen.design, width, &case.request, mean);
    let mut lines = vec![line];
    if mean.lost + mean.retransmitted > 0 {
        lines.push(format!("  {} frames lost, {} sent again", mean.lost, mean.retransmitted));
    }
    if case.over_time {
        add_over_time(&mut row, mean);
    }
    if case.seeds > 1 {
        let (time, error) = (mean.time.as_micros_f64(), deviations[&*chosen.design].as_micros_f64());
        row["seeds"] = json!(case.seeds);
        row["time_stderr_us"] = json!(error);
        lines.push(format!("  mean of {} seeds: {time:.3} us, standard error {error:.3} us", case.seeds));
    }
    if candidates.len() > 1 {
        row["candidates"] = candidates.iter().map(candidate_json).collect();
        lines.extend(candidates.iter().map(candidate_line));
    }
    Ok(Finished { row, lines, wrong })
}

/// What the lines of candidates say, for above the table.
pub(crate) fn candidates_header() -> String {
    let names = ["candidate", "time", "up", "down"];
    let units = ["", "(us)", "(B)", "(B)"];
    let line = |[a, b, c, d]: [&str; 4]| format!("  {a:<17} {b:>11} {c:>11} {d:>11}");
    format!("{}  verdict\n{}", line(names), line(units))
}

fn candidate_line(candidate: &Candidate) -> String {
    let cells = candidate.measurement.as_ref().map_or(["-".into(), "-".into(), "-".into()], |found| {
        let time = format!("{:.1}", found.time.as_micros_f64());
        [time, found.uplink.bytes().to_string(), found.downlink.bytes().to_string()]
    });
    let [time, up, down] = cells;
    format!("  {:<17} {time:>11} {up:>11} {down:>11}  {}", candidate.design, candidate.verdict)
}

fn candidate_json(candidate: &Candidate) -> Value {
    let Candidate { design, measurement, verdict } = candidate;
    let mut line = json!({ "design": design, "verdict": verdict.to_string() });
    if let Some(found) = measurement {
        line["time_us"] = json!(found.time.as_micros_f64());
        line["uplink_bytes"] = json!(found.uplink.bytes());
        line["downlink_bytes"] = json!(found.downlink.bytes());
    }
    if let Choice::Slower(share) = verdict {
        line["slower_by"] = json!(share);
    }
    line
}

impl Simulated {
    /// The designs that do not run there, though others do: design, size and verdict of each row that there is not.
    pub(crate) fn refused(&self) -> &[Value] {
        &self.refused
    }

    /// Fails if a result was wrong, or if not all `rows` rows are there because somebody interrupted.
    pub(crate) fn check(&self, rows: usize) -> Result<(), Failure> {
        let (wrong, found) = (self.wrong, self.rows.len() + self.refused.len());
        if wrong > 0 {
            return Err(Failure::Wrong(format!(
                "expected right results, found {wrong} wrong elements; replay with the same arguments and --seed"
            )));
        }
        Failure::unless_all(rows, found, &self.interrupted)
    }
}

fn name(request: &Request) -> String {
    format!("{} {}", request.design.name(), request.size)
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
fn show(design: &str, width: usize, request: &Request, measured: &Measurement) -> (Value, String) {
    let Request { collective, reduction, .. } = *request;
    let Reduction { data_type, op } = reduction;
    let (type_name, op) = (data_type.to_string(), op.to_string());
    let rates = measured.bandwidths;
    let columns = Columns {
        design,
        collective: collective.name(),
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
        .map(
            |link| json!({ "name": link.name, "utilisation": link.utilisation, "bytes": link.bytes.bytes() }),
        )
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
        "uplink_bytes": measured.uplink.bytes(),
        "downlink_bytes": measured.downlink.bytes(),
        "frames": measured.frames,
        "lost": measured.lost,
        "retransmitted": measured.retransmitted,
        "steps": measured.steps,
        "links": links,
    });
    (row, format!("{columns:width$}"))
}
