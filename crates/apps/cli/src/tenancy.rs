//! `quincunx sim cluster`.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_flows::{
    Cluster, Failed, JobOutcome, Stopped, TenancyError, TenancyMeasurement, TenancyRequest, Usage, Used,
    measure_tenancy,
};
use quincunx_scenario::{JobPlacement, Override, Tenancy, TenancyPolicy};
use quincunx_units::Instant;
use serde_json::{Value, json};
use std::ops::ControlFlow;

use crate::Failure;
use crate::interrupt::{self, is_set};
use crate::options::SeedOptions;
use crate::out::say;
use crate::progress::bar;
use crate::results::{Printed, envelope};
use crate::sweeps::run_all;
use crate::table::{Align, table};

/// `quincunx sim cluster`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx sim cluster epic-128
  quincunx sim cluster epic-128-scaleup --policy ring,temporal --memory-units 4,8
  quincunx sim cluster epic-2048 --json > runs/cluster.json
  quincunx sim cluster epic-128 --set routing=hashed --seeds 5       # flows take ways by a hash, as ECMP has it
  quincunx sim cluster epic-2048 --set failures.server=6000h --set failures.link=10000h --set failures.repair=2h
  quincunx sim cluster epic-2048 --set trace.sizes_of=worker.csv     # jobs as large as those of Alibaba's Lingjun data set
  quincunx sim cluster --show epic-2048 > cluster.toml               # a file to start from
  quincunx sim cluster cluster.toml --set volume=plan --set slots=sums --set unit=1MiB --set design=epic-2 --set fallback=ring

Nothing here is a packet: a collective is a flow over all its links at once, flows share each link max-min fairly, and time goes from the
beginning or end of one to the next. Jobs come, wait for accelerators in the order of their arrival, and train: in each iteration they compute,
then their tensor-parallel groups communicate, then their data-parallel ones. Who gets switches the manager's policies decide:
  ring       nobody
  edt        trees that share no link, for a job's life
  spatial    trees with memory of their own, for a job's life
  temporal   the same for one use of a group's
  contention trees for a job's life in memory that others may have, too: all of it is locked for a collective, or that runs among hosts
A group without a tree runs among its hosts. Keys:
  slots      sums: a group takes the memory that its design needs where it adds up; path: a unit at each switch that its tree passes (EPIC L)
  volume     plan: links carry what the design's plan sends; published: what EPIC's tables count, two and four bits for one
  placement  packed: a job has the first free accelerators in a row; nearest: the smallest part of the network with room for it; spread: one of
             each switch in turn; random
  routing    pinned: flows are spread over shortest ways; hashed: a hash chooses
  patience   of contention: how long groups ask again for locks that are taken (5ms), before a collective runs among hosts
  apart      true: each job has the cluster by itself
  failures   link, switch, server: mean times to failure of each (6000h, 5y); repair; recovery, after which collectives go on by other ways or
             trees; restart, of a job that lost an accelerator and begins its iteration again; adaptive: whether lost trees are asked for again
Presets: epic-128, epic-2048, and both with -scaleup, where servers of 8 have something faster within.")]
pub(crate) struct Clusters {
    /// A preset or a file
    #[arg(value_name = "FILE|PRESET", required_unless_present = "show")]
    cluster: Option<String>,
    /// Policies, several with commas [default: the file's `policies`]
    #[arg(long, value_delimiter = ',')]
    policy: Vec<TenancyPolicy>,
    /// Units of memory of each switch, several with commas [default: the file's `memory_units`]
    #[arg(long, value_delimiter = ',')]
    memory_units: Vec<u32>,
    /// Which accelerators jobs get: packed, nearest, spread or random [default: the file's `placement`]
    #[arg(long)]
    placement: Option<JobPlacement>,
    /// Set a key of the file: link.rate=200Gbit/s, routing=hashed
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    #[command(flatten)]
    seed_options: SeedOptions,
    #[command(flatten)]
    printed: Printed,
    /// Print a preset as a file, and simulate nothing
    #[arg(long, value_name = "PRESET", exclusive = true)]
    show: Option<String>,
}

/// A run: whose memory, which policy, which seed, and which job if each is by itself.
#[derive(Clone, Copy)]
struct Case {
    units: u32,
    policy: TenancyPolicy,
    seed: u64,
    only: Option<usize>,
}

/// The most jobs that the table has a line for each of.
const LISTED: usize = 16;

/// Of so many runs it is told which switches and links are used when, and of so many of these.
const TOLD: usize = 8;
const FULLEST: usize = 32;

impl Clusters {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        if let Some(name) = &self.show {
            let text = Tenancy::text(name).map_err(Failure::input)?;
            say!("{}", text.trim_end());
            return Ok(());
        }
        let name = self.cluster.as_deref().expect("clap asks for it");
        let mut tenancy = Tenancy::find(name, &self.set).map_err(Failure::input)?;
        if !self.policy.is_empty() {
            tenancy.policies = self.policy.clone();
        }
        if !self.memory_units.is_empty() {
            tenancy.memory_units = self.memory_units.clone();
        }
        tenancy.placement = self.placement.unwrap_or(tenancy.placement);
        tenancy.check().map_err(Failure::Input)?;
        let cluster = Cluster::of(&tenancy, catalog).map_err(Failure::input)?;
        let stop = interrupt::flag()?;
        let jobs = tenancy.job.len() + tenancy.trace.as_ref().map_or(0, |trace| trace.jobs as usize);
        let each = if tenancy.apart { (0..jobs).map(Some).collect() } else { vec![None] };
        let mut cases = Vec::new();
        for &units in &tenancy.memory_units {
            for &policy in &tenancy.policies {
                for seed in self.seed_options.all() {
                    cases.extend(each.iter().map(|&only| Case { units, policy, seed, only }));
                }
            }
        }
        let progress = bar(cases.len());
        let watched = self.printed.is_for_programs() && cases.len() <= TOLD;
        let run = |Case { units, policy, seed, only }: Case| {
            let (tenancy, cluster) = (&tenancy, &cluster);
            let request = TenancyRequest { tenancy, cluster, catalog, policy, units, seed, only, watched };
            let result = measure_tenancy(&request, &mut |share| {
                progress.set_message(format!(
                    "{} {units}: {:.0} % of the jobs",
                    policy.name(),
                    share * 100.0
                ));
                if is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            progress.inc(1);
            result
        };
        let stopped = |place: usize, error: &TenancyError| match error {
            TenancyError::Stopped(Stopped { after }) => {
                Some(format!("{} at {after}", cases[place].policy.name()))
            }
            _ => None,
        };
        let mut measured = Vec::new();
        let done = |place: usize, found| measured.push((cases[place], found));
        let interrupted = run_all(cases.clone(), &stop, run, stopped, done);
        progress.finish_and_clear();
        let interrupted = interrupted.map_err(Failure::input)?;
        if self.printed.is_for_programs() {
            self.printed.print(&object(&measured));
        } else {
            show(&tenancy, &measured);
            if tenancy.failures.is_some() {
                show_failures(&tenancy, &measured);
            }
        }
        Failure::unless_all(cases.len(), measured.len(), &interrupted)
    }
}

fn object(measured: &[(Case, TenancyMeasurement)]) -> Value {
    let row = |(case, job): (&Case, &JobOutcome)| {
        let at = |time: Instant| time.since(Instant::ZERO).as_secs_f64();
        json!({
            "policy": case.policy.name(),
            "units": case.units,
            "job": job.name,
            "jct_s": job.completion().as_secs_f64(),
            "seed": case.seed,
            "model": job.model,
            "gpus": job.gpus,
            "arrived_s": at(job.arrived),
            "began_s": at(job.began),
            "ended_s": at(job.ended),
            "wait_s": job.wait().as_secs_f64(),
            "in_network": job.in_network(),
            "restarts": job.restarts,
            "lost_s": job.lost.as_secs_f64(),
        })
    };
    let rows: Vec<Value> = measured
        .iter()
        .flat_map(|(case, found)| found.jobs.iter().map(move |job| row((case, job))))
        .collect();
    let mut object = envelope("sim cluster", &rows);
    let summary = |(case, found): &(Case, TenancyMeasurement)| {
        let mut run = totals(case, found);
        if case.only.is_some() {
            run["job"] = json!(found.jobs.first().map(|job| &job.name));
        }
        if let Some(usage) = &found.usage {
            used(&mut run, usage, &found.jobs);
        }
        run
    };
    object["runs"] = measured.iter().map(summary).collect();
    object
}

/// What all jobs of a run came to.
fn totals(case: &Case, found: &TenancyMeasurement) -> Value {
    let busiest = found.busiest.iter().map(|(name, share)| json!({ "name": name, "utilisation": share }));
    json!({
        "policy": case.policy.name(),
        "units": case.units,
        "seed": case.seed,
        "jobs": found.jobs.len(),
        "mean_jct_s": found.mean(JobOutcome::completion),
        "median_jct_s": found.percentile(50.0, JobOutcome::completion),
        "p99_jct_s": found.percentile(99.0, JobOutcome::completion),
        "mean_runtime_s": found.mean(JobOutcome::runtime),
        "makespan_s": found.makespan().as_secs_f64(),
        "asked": found.grants[0],
        "granted": found.grants[1],
        "events": found.events,
        "left_out": found.left_out,
        "failed": {
            "links": found.failed.links,
            "switches": found.failed.switches,
            "servers": found.failed.servers,
            "trees": found.failed.trees,
            "regained": found.failed.regained,
            "interrupted": found.failed.interrupted,
        },
        "busiest_links": busiest.collect::<Vec<_>>(),
    })
}

/// What switches and links were used for, in equal parts of the run's time: of the fullest; and of few jobs who held which switch.
fn used(run: &mut Value, usage: &Usage, jobs: &[JobOutcome]) {
    let share = |share: &f64| (share * 1000.0).round() / 1000.0;
    let parts = |used: &[Used]| -> Value {
        let row = |used: &Used| json!({ "name": used.name, "shares": used.shares.iter().map(share).collect::<Vec<_>>() });
        used.iter().take(FULLEST).map(row).collect()
    };
    run["part_s"] = json!(usage.part.as_secs_f64());
    run["switches"] = parts(&usage.switches);
    // Hosts' own links say little where there are others.
    run["links"] = parts(if usage.links.is_empty() { &usage.access } else { &usage.links });
    if jobs.len() > LISTED {
        return;
    }
    let seconds = |time: Instant| time.since(Instant::ZERO).as_secs_f64();
    let mut held: Vec<Value> = Vec::new();
    for of_one in usage.held.chunk_by(|a, b| (&a.switch, a.job) == (&b.switch, b.job)) {
        let spans: Vec<_> = of_one.iter().map(|span| [span.from, span.to].map(seconds)).collect();
        let job = &jobs[of_one[0].job as usize].name;
        held.push(json!({ "switch": of_one[0].switch, "job": job, "spans_s": spans }));
    }
    run["held"] = json!(held);
}

/// Seconds with four digits that count.
fn seconds(value: f64) -> String {
    let decimals = (3 - value.abs().max(1e-3).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.decimals$}")
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What failed under each policy, and what came of it; sums over all runs.
fn show_failures(tenancy: &Tenancy, measured: &[(Case, TenancyMeasurement)]) {
    let titles = [
        "policy",
        "units",
        "links",
        "switches",
        "servers",
        "restarts",
        "time lost",
        "trees lost",
        "regained",
        "interrupted",
    ];
    let columns = titles.map(|title| (title, if title == "policy" { Align::Left } else { Align::Right }));
    let mut rows = Vec::new();
    for &units in &tenancy.memory_units {
        for &policy in &tenancy.policies {
            let meant = |case: &Case| (case.policy, case.units) == (policy, units);
            let found: Vec<_> =
                measured.iter().filter(|(case, _)| meant(case)).map(|(_, found)| found).collect();
            let failed =
                |of: fn(&Failed) -> u64| found.iter().map(|found| of(&found.failed)).sum::<u64>().to_string();
            let jobs = || found.iter().flat_map(|found| &found.jobs);
            rows.push(vec![
                policy.name().into(),
                units.to_string(),
                failed(|failed| failed.links),
                failed(|failed| failed.switches),
                failed(|failed| failed.servers),
                jobs().map(|job| u64::from(job.restarts)).sum::<u64>().to_string(),
                format!("{:.1} s", jobs().map(|job| job.lost.as_secs_f64()).sum::<f64>()),
                failed(|failed| failed.trees),
                failed(|failed| failed.regained),
                failed(|failed| failed.interrupted),
            ]);
        }
    }
    say!("what failed\n{}", table(&columns, &rows).trim_end());
}

/// A line for each job and policy, with a column for each size of memory; of more jobs what they came to together.
fn show(tenancy: &Tenancy, measured: &[(Case, TenancyMeasurement)]) {
    let of = |policy: TenancyPolicy, units: u32| {
        measured.iter().filter(move |(case, _)| (case.policy, case.units) == (policy, units))
    };
    let mut names: Vec<&str> = Vec::new();
    for job in measured.iter().flat_map(|(_, found)| &found.jobs) {
        if names.len() <= LISTED && !names.contains(&job.name.as_str()) {
            names.push(&job.name);
        }
    }
    let units: Vec<String> = tenancy.memory_units.iter().map(|units| format!("{units} units")).collect();
    if names.len() <= LISTED {
        let mut columns = vec![("job", Align::Left), ("policy", Align::Left)];
        columns.extend(units.iter().map(|units| (units.as_str(), Align::Right)));
        let mut rows = Vec::new();
        for name in names {
            for &policy in &tenancy.policies {
                let time = |&units: &u32| {
                    let jobs = of(policy, units).flat_map(|(_, found)| &found.jobs);
                    let times: Vec<f64> = jobs
                        .filter(|job| job.name == name)
                        .map(|job| job.completion().as_secs_f64())
                        .collect();
                    if times.is_empty() { "-".into() } else { seconds(mean(&times)) }
                };
                let cells = tenancy.memory_units.iter().map(time);
                rows.push([name.to_owned(), policy.name().into()].into_iter().chain(cells).collect());
            }
        }
        say!("job completion time (s)\n{}", table(&columns, &rows).trim_end());
        return;
    }
    let titles = ["policy", "units", "jobs", "mean", "median", "99 %", "mean run", "last end", "in switches"];
    let columns = titles.map(|title| (title, if title == "policy" { Align::Left } else { Align::Right }));
    let mut rows = Vec::new();
    for &memory in &tenancy.memory_units {
        for &policy in &tenancy.policies {
            let found: Vec<&TenancyMeasurement> = of(policy, memory).map(|(_, found)| found).collect();
            if found.is_empty() {
                continue;
            }
            let over = |of: &dyn Fn(&TenancyMeasurement) -> f64| {
                mean(&found.iter().map(|found| of(found)).collect::<Vec<_>>())
            };
            let share = over(&|found| {
                let [all, granted] = found.jobs.iter().fold([0, 0], |[all, granted], job| {
                    [all + job.collectives[0], granted + job.collectives[1]]
                });
                if all == 0 { 0.0 } else { granted as f64 / all as f64 }
            });
            rows.push(vec![
                policy.name().into(),
                memory.to_string(),
                found[0].jobs.len().to_string(),
                seconds(over(&|found| found.mean(JobOutcome::completion))),
                seconds(over(&|found| found.percentile(50.0, JobOutcome::completion))),
                seconds(over(&|found| found.percentile(99.0, JobOutcome::completion))),
                seconds(over(&|found| found.mean(JobOutcome::runtime))),
                seconds(over(&|found| found.makespan().as_secs_f64())),
                format!("{:.1} %", share * 100.0),
            ]);
        }
    }
    say!("job completion time (s)\n{}", table(&columns, &rows).trim_end());
    if let Some(left_out) = measured.first().map(|(_, found)| found.left_out).filter(|&left_out| left_out > 0)
    {
        say!("# jobs of the data set that cannot be run here, and from which no size was drawn: {left_out}");
    }
}
