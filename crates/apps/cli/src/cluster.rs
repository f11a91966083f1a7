//! `quincunx check cluster`: a whole cluster in virtual time, under faults by seed.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_sim::sweep;
use quincunx_units::Duration;
use quincunx_world::{
    Coverage, Outcome, Plan, Planted, Setup, Telling, USUAL, Violation, generate, run, shrink,
};
use serde_json::{Value, json};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::out::say;
use crate::progress::spinner;
use crate::results::envelope;
use crate::sweeps::run_all;
use crate::{Failure, interrupt};

/// Runs that it may take to make a failing plan smaller.
const MOST_RUNS: u32 = 300;

/// `A..B`, without B.
#[derive(Clone, Debug)]
pub(crate) struct Seeds(Range<u64>);

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected seeds A..B with A below B, found \"{text}\"; write 0..100 for the first hundred"
            )
        };
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
        if from < to { Ok(Self(from..to)) } else { Err(wrong()) }
    }
}

/// Run a whole cluster in virtual time, under faults that a seed decides, and see whether what is promised is kept
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx check cluster --seed 7                        one cluster: its plan, and what it has met
  quincunx check cluster --seeds 0..1000                 a thousand of them; the first that breaks a promise is made smaller
  quincunx check cluster --seed 7 --for 1h               faults for an hour
  quincunx check cluster --seed 7 --story                and what happens, as a sequence diagram
  quincunx check cluster --seed 7 --trace run.pftrace --pcap run.pcapng
                                                         the same for ui.perfetto.dev, and its frames for Wireshark
  quincunx check cluster --seeds 0..100 --mutate ends-at-first-release
                                                         with a bug that is planted: it must be found
  quincunx check cluster --seeds 0..100 --mutate all     each planted bug, and the seed that finds it
  quincunx check cluster --seeds 0..10000 --write fault.json
                                                         and write the smallest plan that fails
  quincunx check cluster --replay fault.json             run that again, with its story
  quincunx check cluster --seed 7 --plan                 the plan alone, for python3 benches/faults.py, which plays it with real processes

What runs is what ships: managers (one, or one that stands by), agents, switches and ranks with the designs of the catalog, with numbers in their frames.
Threads, sockets, gRPC and the store have stand-ins (crates/studies/world). Promised: results are right to the bit, in order, and nobody is told of success alone; memory and queue
pairs are never given twice and never lost; a group ends for what befalls it alone; whoever waits has an answer; when faults end all is well again within 90 seconds, and nothing is left over.
Exit status 1: a promise was broken, or a planted bug was not found.")]
pub(crate) struct Cluster {
    /// The seed of one cluster
    #[arg(long, conflicts_with_all = ["seeds", "replay"], required_unless_present_any = ["seeds", "replay"])]
    seed: Option<u64>,
    /// The seeds of many, the last one not among them
    #[arg(long, value_name = "A..B", conflicts_with = "replay")]
    seeds: Option<Seeds>,
    /// For how long faults happen, in the cluster's time
    #[arg(long = "for", value_name = "DURATION", default_value = "20s", conflicts_with = "replay")]
    lasts: Duration,
    /// Run a plan again that --write has written
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write the plan that fails, as small as it was made, to a file
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    write: Option<PathBuf>,
    /// Break a rule on purpose; `all`: one after the other, each until it is found
    #[arg(long, value_name = "NAME", conflicts_with = "replay")]
    mutate: Option<String>,
    /// Print the plan of a seed, and run nothing: what benches/faults.py plays with real processes
    #[arg(long, conflicts_with_all = ["seeds", "replay", "story", "trace", "pcap", "json", "write"])]
    plan: bool,
    /// Print what happens, as a sequence diagram
    #[arg(long)]
    story: bool,
    /// Write what happens to a file for <https://ui.perfetto.dev>; of many seeds, with the smallest plan that fails
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    /// Write the last hundred thousand frames to a file for Wireshark; of many seeds, with the smallest plan that fails
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Cluster {
    /// Runs what is asked for, and prints what is found.
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        let setup = Setup { catalog, fallback };
        // A panic in what runs is a broken promise, which is told as the others.
        std::panic::set_hook(Box::new(|_| {}));
        if let Some(file) = &self.replay {
            let text = std::fs::read_to_string(file).map_err(|error| {
                Failure::Input(format!(
                    "expected a plan in {}, found \"{error}\"; write one with --write",
                    file.display()
                ))
            })?;
            let plan = Plan::from_text(&text).map_err(Failure::Input)?;
            let outcome = run(&plan, setup, Telling::Story).map_err(Failure::Input)?;
            return self.tell_one(&plan, &outcome);
        }
        if self.mutate.as_deref() == Some("all") {
            return self.hunt(setup);
        }
        if let Some(name) = &self.mutate {
            Planted::find(catalog, name).map_err(Failure::Input)?;
        }
        if let Some(seed) = self.seed {
            let plan = self.plan(seed, setup, self.mutate.as_deref());
            if self.plan {
                say!("{}", plan.to_text());
                return Ok(());
            }
            let tells = self.story || self.trace.is_some() || self.pcap.is_some();
            let telling = if tells { Telling::Story } else { Telling::Nothing };
            let outcome = run(&plan, setup, telling).map_err(Failure::Input)?;
            if let Some(violation) = &outcome.violation
                && !self.story
            {
                return self.tell_smaller(&plan, violation, setup);
            }
            return self.tell_one(&plan, &outcome);
        }
        self.run_many(setup)
    }

    fn plan(&self, seed: u64, setup: Setup, mutation: Option<&str>) -> Plan {
        let plan = generate(seed, self.lasts, setup.catalog);
        Plan { mutation: mutation.map(str::to_owned), ..plan }
    }

    fn range(&self) -> Range<u64> {
        match (&self.seeds, self.seed) {
            (Some(Seeds(seeds)), _) => seeds.clone(),
            (None, seed) => seed.map_or(0..1, |seed| seed..seed + 1),
        }
    }

    fn run_many(&self, setup: Setup) -> Result<(), Failure> {
        let (stop, bar, begin) = (interrupt::flag()?, spinner(), Instant::now());
        let (mut all, mut broken, mut wrong) = (Many::default(), None, None);
        let run = |seed| {
            let plan = self.plan(seed, setup, self.mutate.as_deref());
            let outcome = run(&plan, setup, Telling::Nothing);
            (plan, outcome)
        };
        // A flag of its own: the first broken promise is no interrupt.
        let is_over = AtomicBool::new(false);
        let run_unless_stopped = |seed| (!interrupt::is_set(&stop)).then(|| run(seed));
        sweep(self.range().collect(), &is_over, run_unless_stopped, |_, ran| {
            match ran {
                Some((plan, Ok(outcome))) => {
                    all.add(&outcome);
                    let speed = all.simulated_s / begin.elapsed().as_secs_f64();
                    bar.set_message(format!("seed {}, {speed:.0} times as fast as a clock", plan.seed));
                    bar.tick();
                    broken = outcome.violation.map(|violation| (plan, violation));
                }
                Some((_, Err(error))) => wrong = Some(error),
                None => {}
            }
            match interrupt::is_set(&stop) || broken.is_some() || wrong.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        bar.finish_and_clear();
        if let Some(error) = wrong {
            return Err(Failure::Input(error));
        }
        if let Some((plan, violation)) = broken {
            return self.tell_smaller(&plan, &violation, setup);
        }
        if interrupt::is_set(&stop) {
            return Err(Failure::Interrupted(format!(
                "expected to run all seeds, found an interrupt after {}; all of these keep what is promised",
                all.seeds
            )));
        }
        self.tell_many(&all, begin.elapsed().as_secs_f64());
        match &self.mutate {
            None => Ok(()),
            Some(name) => Err(Failure::Wrong(format!(
                "expected to find the planted bug {name}, found none in {} seeds; run more",
                all.seeds
            ))),
        }
    }

    fn tell_many(&self, all: &Many, seconds: f64) {
        let Many { seeds, simulated_s, steps, digest, coverage } = all;
        if self.json {
            let row = json!({
                "seeds": seeds, "simulated_s": simulated_s, "seconds": seconds, "steps": steps,
                "digest": format!("{digest:016x}"), "kept": true, "met": met(coverage),
            });
            return say!("{}", envelope("check cluster", &[row]));
        }
        say!("{coverage}");
        say!(
            "all promises kept by {seeds} seeds: {simulated_s:.0} s of clusters in {seconds:.1} s, {:.0} times as fast as a clock, {steps} steps, digest {digest:016x}",
            simulated_s / seconds
        );
    }

    /// Each planted bug, and which seed finds it.
    fn hunt(&self, setup: Setup) -> Result<(), Failure> {
        let (stop, bar) = (interrupt::flag()?, spinner());
        let (mut rows, mut missing) = (Vec::new(), Vec::new());
        let first = |name: &'static str| {
            for seed in self.range() {
                if interrupt::is_set(&stop) {
                    return Err(None);
                }
                bar.set_message(format!("{name}: seed {seed}"));
                bar.tick();
                let plan = self.plan(seed, setup, Some(name));
                let outcome = run(&plan, setup, Telling::Nothing).map_err(Some)?;
                if let Some(violation) = outcome.violation {
                    return Ok((name, Some((seed, violation))));
                }
            }
            Ok((name, None))
        };
        let interrupted = |_, error: &Option<String>| error.is_none().then(String::new);
        let interrupts =
            run_all(Planted::names(setup.catalog), &stop, first, interrupted, |_, (name, found)| {
                let row = match &found {
                    Some((seed, violation)) => {
                        json!({ "planted": name, "seed": seed, "promise": violation.promise.name(), "what": violation.what })
                    }
                    None => json!({ "planted": name }),
                };
                match &found {
                    _ if self.json => {}
                    Some((seed, violation)) => bar.suspend(|| {
                        say!("{name:<30} {seed:>6}  {}: {}", violation.promise.name(), violation.what)
                    }),
                    None => bar.suspend(|| say!("{name:<30}      -  not found")),
                }
                missing.extend(found.is_none().then_some(name));
                rows.push(row);
            })
            .map_err(|error| Failure::Input(error.unwrap_or_default()))?;
        bar.finish_and_clear();
        if interrupt::is_set(&stop) || !interrupts.is_empty() {
            return Err(Failure::Interrupted(format!(
                "expected to try all planted bugs, found an interrupt after {}; run it again",
                rows.len()
            )));
        }
        if self.json {
            say!("{}", envelope("check cluster", &rows));
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Failure::Wrong(format!(
                "expected to find every planted bug, found nothing of {}; run more seeds",
                missing.join(", ")
            ))),
        }
    }

    /// One run, as it was asked for.
    fn tell_one(&self, plan: &Plan, outcome: &Outcome) -> Result<(), Failure> {
        if let Some(file) = &self.trace {
            let trace = outcome.story.write_trace(&plan.faults, Vec::new()).map_err(Failure::input)?;
            write(file, &trace)?;
        }
        if let Some(file) = &self.pcap {
            write(file, &outcome.story.capture())?;
        }
        if self.json {
            say!("{}", envelope("check cluster", &[row(plan, outcome)]));
        } else {
            say!("{}", plan.to_text());
            outcome.story.diagram().for_each(|line| say!("{line}"));
            say!("{}", outcome.coverage);
            say!("{} of the cluster, {} steps, digest {:016x}", outcome.time, outcome.steps, outcome.digest);
        }
        outcome.violation.as_ref().map_or(Ok(()), |violation| Err(wrong(plan.seed, violation)))
    }

    /// A plan that fails, made smaller, and its story.
    fn tell_smaller(&self, plan: &Plan, violation: &Violation, setup: Setup) -> Result<(), Failure> {
        let (stop, bar) = (interrupt::flag()?, spinner());
        let (smallest, runs) = shrink(plan, violation.promise, setup, |runs| {
            bar.set_message(format!(
                "seed {} breaks a promise, a smaller plan is looked for: run {runs}",
                plan.seed
            ));
            bar.tick();
            runs < MOST_RUNS && !interrupt::is_set(&stop)
        });
        bar.finish_and_clear();
        let outcome = run(&smallest, setup, Telling::Story).map_err(Failure::Input)?;
        if let Some(file) = &self.write {
            write(file, smallest.to_text().as_bytes())?;
        }
        if !self.json {
            say!("seed {} breaks a promise; the smallest plan of {runs} that does so, too:", plan.seed);
        }
        self.tell_one(&smallest, &outcome)
    }
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(file, bytes).map_err(|error| {
        Failure::Input(format!(
            "expected to write {}, found \"{error}\"; name a file in a folder that exists",
            file.display()
        ))
    })
}

/// What came of many seeds that keep what is promised.
#[derive(Default)]
struct Many {
    seeds: u64,
    simulated_s: f64,
    steps: u64,
    /// Runs of the same seeds have the same.
    digest: u64,
    coverage: Coverage,
}

impl Many {
    /// Adds the next seed's.
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.simulated_s += outcome.time.as_secs_f64();
        self.steps += outcome.steps;
        self.digest = (self.digest.rotate_left(5) ^ outcome.digest).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.coverage.add(&outcome.coverage);
    }
}

fn wrong(seed: u64, violation: &Violation) -> Failure {
    let Violation { promise, at, what } = violation;
    Failure::Wrong(format!(
        "expected the promise \"{}\" to be kept, found with seed {seed} at {at}: {what}",
        promise.name()
    ))
}

fn met(coverage: &Coverage) -> Value {
    coverage
        .counts()
        .map(|(name, count)| (name.to_owned(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn row(plan: &Plan, outcome: &Outcome) -> Value {
    let broken = outcome.violation.as_ref().map(|violation| {
        json!({ "promise": violation.promise.name(), "at_s": violation.at.as_secs_f64(), "what": violation.what })
    });
    let plan: Value = serde_json::from_str(&plan.to_text()).unwrap_or_default();
    json!({
        "plan": plan,
        "kept": outcome.violation.is_none(),
        "broken": broken,
        "simulated_s": outcome.time.as_secs_f64(),
        "steps": outcome.steps,
        "digest": format!("{:016x}", outcome.digest),
        "met": met(&outcome.coverage),
        "story": outcome.story.lines().collect::<Vec<_>>(),
    })
}

const _: () = assert!(USUAL.as_nanos() == 20_000_000_000, "the default of --for says it");
