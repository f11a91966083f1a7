//! `quincunx sim jobs`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_scenario::{Jobs as JobsFile, Override, RankPlacement, Scenario};
use quincunx_sim::{
    Interrupted, JobMeasurement, JobsError, JobsMeasurement, JobsRequest, StreamMeasurement,
    measure_jobs_with_outputs,
};
use quincunx_units::{Duration, Instant};
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::options::{OutputOptions, SeedOptions, placement_override};
use crate::out::say;
use crate::progress::{bar, position};
use crate::results::{Printed, described};
use crate::sweeps::run_all;
use crate::table::{Align, or_dash, table};

/// `quincunx sim jobs`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim jobs examples/jobs/leaf-spine-64.toml
  quincunx sim jobs examples/jobs/leaf-spine-64.toml --fabric fat-tree-8 --alone --json > runs/jobs.json
  quincunx sim jobs examples/jobs/leaf-spine-64.toml --seeds 8    # flows take other ways with each
  quincunx sim jobs examples/jobs/victim-flow.toml --trace jobs.pftrace
  quincunx sim jobs examples/jobs/leaf-spine-64.toml --placement spread

A file of jobs is TOML. Each [[job]] is a group of its own, made before anything runs, in the order of the file, as the manager makes it:
by `policy` (edge-disjoint if not said: a tree that shares no link with another) and out of the `memory` (64MiB) of each switch. A group for
which there is no tree runs among its hosts, and the reason stands below the table. With `contention` groups lock the memory that they share, and
`locked` says for how many of their collectives they had it; the others ran among their hosts, once `patience` (none) was over. Frames of a tree keep to its links; all others take the
ways of equal cost, each flow one by a hash. With --placement the numbers of hosts are places in that order: the same file with its jobs
packed, spread or at random. On a memory fabric (memory-8, scin-dgx8) each job has all accelerators, several may run in the switches and one
outside, and there is no policy, no memory and no traffic to say.

  fabric = \"leaf-spine-8x4x8\"             # --fabric comes before it
  [[job]]
  name = \"a\"                              # job-1, job-2, ... if not said
  hosts = \"0-15\"                          # in rank order; 0-7,16-23 and 0-56:8 (every eighth), too
  collective = \"all_reduce\"               # root, dtype (f32) and op (sum) as --root, --dtype and --op of sim
  size = \"1MiB\"
  design = \"epic-3\"
  at = \"0us\"
  times = 4                               # one after the other, 1 if not said
  [[traffic]]                             # packets at times that chance decides, until the last job ends
  pattern = \"uniform\"                     # of hosts = \"16-63\", all if not said; or from = \"16-31\" and to = \"0\"
  load = 0.3                              # of the sender's link; or rate = \"30Gbit/s\"
  at = \"0us\"")]
pub(crate) struct Jobs {
    /// The file
    file: String,
    /// A preset, a shape or a file [default: the file's `fabric`]
    #[arg(long)]
    fabric: Option<String>,
    /// Set a key of the scenario, or a parameter of the designs: link.rate=200Gbit/s, group.window=16
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// In which order hosts count: packed, spread over switches, random:SEED, or hosts such as 0-56:8,1-57:8; short for --set placement
    #[arg(long)]
    placement: Option<RankPlacement>,
    /// Run each job by itself, too, and say how much longer it takes beside the others
    #[arg(long)]
    alone: bool,
    #[command(flatten)]
    seed_options: SeedOptions,
    #[command(flatten)]
    output_options: OutputOptions,
    #[command(flatten)]
    printed: Printed,
}

impl Jobs {
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        let jobs = JobsFile::read(&self.file).map_err(Failure::input)?;
        let Some(fabric) = self.fabric.clone().or_else(|| jobs.fabric.clone()) else {
            return Err(Failure::Input(format!(
                "expected a fabric, found none; give --fabric leaf-spine-8x4x8, or set `fabric` in {}",
                self.file
            )));
        };
        let mut changes = self.set.clone();
        changes.extend(self.placement.as_ref().map(placement_override));
        let scenario = Scenario::find(&fabric, &changes, catalog).map_err(Failure::input)?;
        scenario.refuse_training().map_err(Failure::input)?;
        let SeedOptions { seed, seeds } = self.seed_options;
        self.output_options.refuse_several("one seed", seeds)?;
        let all = JobsRequest { scenario, jobs, catalog, fallback, seed, only: None };
        let count = all.jobs.jobs().count();
        let alone = if self.alone { count } else { 0 };
        let sets = std::iter::once(None).chain((0..alone).map(Some));
        let requests: Vec<JobsRequest> = sets
            .flat_map(|only| self.seed_options.all().map(move |seed| (only, seed)))
            .map(|(only, seed)| JobsRequest { only, seed, ..all.clone() })
            .collect();
        let outputs = Mutex::new(Some(self.output_options.open()?));
        let stop = interrupt::flag()?;
        let progress = bar(requests.len());
        let run = |request: JobsRequest| {
            let what = request.only.map_or("all jobs".to_owned(), |only| format!("job {} alone", only + 1));
            // Those of all jobs together.
            let outputs =
                request.only.is_none().then(|| outputs.lock().expect("no run panics").take()).flatten();
            let result = measure_jobs_with_outputs(&request, outputs.unwrap_or_default(), &mut |at| {
                progress.set_message(format!("{what}: at {}", position(at)));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let stopped = |_, error: &JobsError| match error {
            JobsError::Stopped(Interrupted { after }) => Some(format!("a run at {after}")),
            _ => None,
        };
        let (runs, mut measured) = (requests.len(), Vec::new());
        let interrupted = run_all(requests, &stop, run, stopped, |_, found| measured.push(found));
        progress.finish_and_clear();
        let interrupted = interrupted.map_err(Failure::input)?;
        Failure::unless_all(runs, measured.len(), &interrupted)?;
        let mut measured = measured.chunks(seeds as usize).map(JobsMeasurement::pooled);
        let (together, errors) = measured.next().expect("all jobs together are the first runs");
        let errors = if seeds > 1 { errors } else { Vec::new() };
        let alone: Vec<Duration> = measured.map(|(found, _)| found.jobs[0].mean()).collect();
        if self.printed.is_for_programs() {
            say!("{}", object(&fabric, &all, seeds, &together, &errors, &alone));
        } else {
            show(&together, &errors, &alone);
        }
        let wrong: u64 = together.jobs.iter().filter_map(|job| job.wrong).sum();
        if wrong > 0 {
            return Err(Failure::Wrong(format!(
                "expected right results, found {wrong} wrong elements; replay with the same arguments and --seed"
            )));
        }
        Ok(())
    }
}

/// How many times as long as alone a job takes.
fn slowdown(job: &JobMeasurement, alone: Option<&Duration>) -> Option<f64> {
    alone.map(|alone| job.mean().as_secs_f64() / alone.as_secs_f64().max(f64::MIN_POSITIVE))
}

fn micros(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_micros_f64()
}

fn show(found: &JobsMeasurement, errors: &[Duration], alone: &[Duration]) {
    use Align::{Left, Right};
    let mut columns = vec![
        ("job", Left),
        ("design", Left),
        ("collective", Left),
        ("size", Right),
        ("ranks", Right),
        ("begin(us)", Right),
        ("end(us)", Right),
        ("times", Right),
        ("mean(us)", Right),
        ("max(us)", Right),
        ("algbw(GB/s)", Right),
        ("busbw(GB/s)", Right),
        ("tree", Left),
        ("#wrong", Right),
    ];
    let is_troubled = found.jobs.iter().any(|job| job.marked + job.lost + job.retransmitted > 0);
    if is_troubled {
        columns.push(("marked", Right));
        columns.push(("lost", Right));
        columns.push(("again", Right));
    }
    let contends = found.jobs.iter().any(|job| job.ways.is_some());
    if contends {
        columns.push(("locked", Right));
    }
    if !errors.is_empty() {
        columns.push(("error(us)", Right));
    }
    if !alone.is_empty() {
        columns.push(("alone(us)", Right));
        columns.push(("slowdown", Right));
    }
    let row = |(number, job): (usize, &JobMeasurement)| {
        let longest = job.times().max().unwrap_or_default();
        let tree = match &job.switches[..] {
            [] => String::new(),
            [root] => root.clone(),
            [root, others @ ..] => format!("{root} +{}", others.len()),
        };
        let mut cells = vec![
            job.name.clone(),
            job.design.to_owned(),
            job.collective.name().to_owned(),
            job.size.to_string(),
            job.ranks.to_string(),
            format!("{:.1}", micros(job.begin())),
            format!("{:.1}", micros(job.end())),
            job.runs.len().to_string(),
            format!("{:.1}", job.mean().as_micros_f64()),
            format!("{:.1}", longest.as_micros_f64()),
            format!("{:.3}", job.bandwidths.algorithm),
            format!("{:.3}", job.bandwidths.bus),
            or_dash(&tree),
            job.wrong.map_or("-".into(), |wrong| wrong.to_string()),
        ];
        if is_troubled {
            cells.extend([job.marked, job.lost, job.retransmitted].map(|count| count.to_string()));
        }
        if contends {
            cells.push(
                job.ways.map_or("-".into(), |ways| format!("{}/{}", ways.tree, ways.tree + ways.hosts)),
            );
        }
        if let Some(error) = errors.get(number) {
            cells.push(format!("{:.1}", error.as_micros_f64()));
        }
        if let Some(alone) = alone.get(number) {
            cells.push(format!("{:.1}", alone.as_micros_f64()));
            cells.push(format!("{:.2}", slowdown(job, Some(alone)).unwrap_or_default()));
        }
        cells
    };
    let rows: Vec<_> = found.jobs.iter().enumerate().map(row).collect();
    crate::out::print(&table(&columns, &rows));
    for JobMeasurement { name, asked, design, fell_back, .. } in &found.jobs {
        if let Some(reason) = fell_back {
            say!("# {name}: {asked} fell back to {design}: {reason}");
        }
    }
    if !found.traffic.is_empty() {
        let columns = [
            ("traffic", Left),
            ("sent", Right),
            ("arrived", Right),
            ("rate(GB/s)", Right),
            ("mean(us)", Right),
            ("p50(us)", Right),
            ("p99(us)", Right),
        ];
        let row = |stream: &StreamMeasurement| {
            let latency = |which: usize| {
                stream.latencies.map_or("-".into(), |found| format!("{:.2}", found[which].as_micros_f64()))
            };
            vec![
                stream.name.clone(),
                stream.sent.to_string(),
                stream.arrived.to_string(),
                stream.rate.map_or("-".into(), |rate| format!("{:.3}", rate.as_gigabytes_per_second_f64())),
                latency(0),
                latency(1),
                latency(2),
            ]
        };
        say!();
        crate::out::print(&table(&columns, &found.traffic.iter().map(row).collect::<Vec<_>>()));
    }
    say!();
    for (name, is_meant) in BETWEEN {
        let used: Vec<f64> = between(found, is_meant).map(|link| link.utilisation).collect();
        let mean = used.iter().sum::<f64>() / used.len().max(1) as f64;
        let most = used.iter().copied().fold(0.0, f64::max);
        if !used.is_empty() {
            say!(
                "{name}: {} directions, busy {:.1} % on average, {:.1} % at most",
                used.len(),
                mean * 100.0,
                most * 100.0
            );
        }
    }
}

type IsMeant = fn(&quincunx_sim::SharedLink) -> bool;

/// Links between switches, by who has them.
const BETWEEN: [(&str, IsMeant); 2] = [
    ("links of trees between switches", |link| !link.trees.is_empty()),
    ("other links between switches", |link| link.trees.is_empty()),
];

fn between(found: &JobsMeasurement, is_meant: IsMeant) -> impl Iterator<Item = &quincunx_sim::SharedLink> {
    found.links.iter().filter(move |link| !link.is_access && is_meant(link))
}

fn object(
    fabric: &str,
    request: &JobsRequest,
    seeds: u64,
    found: &JobsMeasurement,
    errors: &[Duration],
    alone: &[Duration],
) -> Value {
    let name = |&place: &usize| &found.jobs[place].name;
    let links = found.links.iter().map(|link| {
        json!({
            "name": link.name,
            "access": link.is_access,
            "trees": link.trees.iter().map(name).collect::<Vec<_>>(),
            "utilisation": link.utilisation,
            "bytes": link.bytes.bytes(),
            "peak_queue_bytes": link.peak_queue.bytes(),
        })
    });
    let rows: Vec<Value> =
        found.jobs.iter().zip(0..).map(|(job, at)| row(job, errors.get(at), alone.get(at))).collect();
    let mut object = described("sim jobs");
    object["fabric"] = json!(fabric);
    object["seed"] = json!(request.seed);
    object["seeds"] = json!(seeds);
    object["time_us"] = json!(found.time.as_micros_f64());
    object["frames"] = json!(found.frames);
    object["steps"] = json!(found.steps);
    object["rows"] = rows.into();
    object["traffic"] = found.traffic.iter().map(stream_row).collect();
    object["links"] = links.collect();
    object
}

fn row(job: &JobMeasurement, error: Option<&Duration>, alone: Option<&Duration>) -> Value {
    let runs = job.runs.iter().map(|[begin, end]| json!([micros(*begin), micros(*end)]));
    let mut row = json!({
        "job": job.name,
        "line": job.line,
        "design": job.design,
        "collective": job.collective.name(),
        "size": job.size.bytes(),
        "type": job.reduction.data_type.to_string(),
        "redop": if job.collective.reduces() { job.reduction.op.to_string() } else { "none".into() },
        "root": job.collective.root().map_or(-1, |root| i32::from(root.0)),
        "ranks": job.ranks,
        "begin_us": micros(job.begin()),
        "end_us": micros(job.end()),
        "time_us": job.mean().as_micros_f64(),
        "algbw_GBps": job.bandwidths.algorithm,
        "busbw_GBps": job.bandwidths.bus,
        "switches": job.switches,
        "marked": job.marked,
        "lost": job.lost,
        "retransmitted": job.retransmitted,
        "wrong": job.wrong,
        "runs_us": runs.collect::<Vec<_>>(),
    });
    if let Some(reason) = &job.fell_back {
        row["fell_back"] = json!({ "asked": job.asked, "reason": reason });
    }
    if let Some(ways) = job.ways {
        row["ways"] = json!({ "tree": ways.tree, "hosts": ways.hosts });
    }
    if let Some(error) = error {
        row["time_stderr_us"] = json!(error.as_micros_f64());
    }
    if let Some(alone) = alone {
        row["alone_us"] = json!(alone.as_micros_f64());
        row["slowdown"] = json!(slowdown(job, Some(alone)));
    }
    row
}

fn stream_row(stream: &StreamMeasurement) -> Value {
    let latency = |which: usize| stream.latencies.map(|found| found[which].as_micros_f64());
    json!({
        "traffic": stream.name,
        "line": stream.line,
        "sent": stream.sent,
        "arrived": stream.arrived,
        "rate_GBps": stream.rate.map(|rate| rate.as_gigabytes_per_second_f64()),
        "latency_mean_us": latency(0),
        "latency_p50_us": latency(1),
        "latency_p99_us": latency(2),
    })
}
