//! `quincunx check`.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use quincunx_check::{
    Counterexample, Exploration, Finding, MOST, Statistics, StepDescription, Subject, Unfinished,
};
use quincunx_design::Catalog;
use quincunx_units::ByteCount;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::checks::Target;
use crate::cluster::Cluster;
use crate::out::say;
use crate::progress::spinner;
use crate::results::envelope;
use crate::{Failure, interrupt};

/// Other things to check.
#[derive(Subcommand)]
enum Other {
    Cluster(Cluster),
}

/// `quincunx check`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Check {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    pub(crate) target: Option<Target>,
    /// Frames that may be lost [default: 1; on a memory fabric, which loses nothing, 0]
    #[arg(long, value_parser = most())]
    losses: Option<u8>,
    /// Frames that may be late, overtaken by any number of others and by time-outs; without a value: 1
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "1", value_name = "FRAMES", value_parser = most())]
    reorder: u8,
    /// Frames that may be duplicated, with the copy arriving later; without a value: 1
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "1", value_name = "FRAMES", value_parser = most())]
    duplicate: u8,
    /// Time-outs that may expire while frames are on their way
    #[arg(long, default_value_t = 0, value_name = "TIMES", value_parser = most())]
    early_timeouts: u8,
    /// Times that the clock of all nodes may jump past every time-out; otherwise it stands still. Without a value: 1
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "1", value_name = "TIMES", value_parser = most())]
    clock: u8,
    /// Frames that a congested link may mark, where senders react to marks; without a value: 1
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "1", value_name = "FRAMES", value_parser = most())]
    marks: u8,
    /// Explore without reductions: no symmetry, no persistent sets, and nodes send and start when they may, not at once
    #[arg(long)]
    full: bool,
    /// Write the counterexample to a file for <https://ui.perfetto.dev>, a microsecond a step
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    /// Memory limit
    #[arg(long, default_value = "16GiB")]
    memory: ByteCount,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// How often anything may happen.
fn most() -> RangedU64ValueParser<u8> {
    RangedU64ValueParser::new().range(..=u64::from(MOST))
}

impl Check {
    /// Explores what is asked for, and prints what is found.
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        if let Some(Other::Cluster(cluster)) = self.other {
            return cluster.run(catalog, fallback);
        }
        let Some(target) = &self.target else {
            return Err(Failure::Input(
                "expected a design and a collective, or `cluster`, found neither; see `quincunx check --help`".to_owned(),
            ));
        };
        let subject = target.find(catalog)?;
        let losses = subject.losses(self.losses, self.duplicate).map_err(Failure::input)?;
        let rules = Exploration {
            losses,
            duplicates: self.duplicate,
            delays: self.reorder,
            early_timeouts: self.early_timeouts,
            jumps: self.clock,
            marks: self.marks,
            at_once: !self.full,
            symmetry: !self.full,
            persistent_sets: !self.full,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: self.memory,
        };
        let stop = interrupt::flag()?;
        let bar = spinner();
        let begin = Instant::now();
        let (statistics, finding) = subject.network.explore(rules, &mut |statistics| {
            bar.set_message(line(statistics, begin.elapsed().as_secs_f64()));
            bar.tick();
            if interrupt::is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        let seconds = begin.elapsed().as_secs_f64();
        if self.json {
            say!(
                "{}",
                envelope("check", &[self.row(target, &subject, losses, &statistics, seconds, &finding)])
            );
        } else {
            say!("{}: {}", word(&finding), line(&statistics, seconds));
            if let Finding::Wrong(counterexample) = &finding {
                crate::out::print(&counterexample);
            }
        }
        if let Some(file) = &self.trace {
            match &finding {
                Finding::Wrong(counterexample) => write_trace(file, counterexample)?,
                _ => eprintln!("{} is not written: there is no way to a fault to show", file.display()),
            }
        }
        match finding {
            Finding::Correct => Ok(()),
            Finding::NeverMattered => Err(Failure::Wrong(
                "expected a run in which the broken rule matters, found that every node answers as it does with the rule in all of them; explore \
                 more packets, losses, late frames or copies, or another collective or tree"
                    .to_owned(),
            )),
            Finding::Wrong(Counterexample { fault, lines, .. }) => Err(Failure::Wrong(format!(
                "expected every run to be right, found one of {} steps where {fault}",
                lines.len()
            ))),
            Finding::Unfinished(Unfinished::Stopped) => Err(Failure::Interrupted(format!(
                "expected to see every state, found an interrupt after {}; all of them are right, {} wait",
                statistics.distinct, statistics.waiting
            ))),
            Finding::Unfinished(Unfinished::Memory { resident }) => Err(Failure::Wrong(format!(
                "expected to need at most {}, found {resident} in use after {} states, all of them right; give --memory more, or \
                 explore less",
                self.memory, statistics.distinct
            ))),
        }
    }

    /// The row of `--json`.
    fn row(
        &self,
        target: &Target,
        subject: &Subject,
        losses: u8,
        statistics: &Statistics,
        seconds: f64,
        finding: &Finding,
    ) -> Value {
        let found = match finding {
            Finding::Wrong(found) => Some(found),
            _ => None,
        };
        json!({
            "design": target.design,
            "collective": target.collective,
            "tree": subject.tree,
            "packets": subject.packets,
            "senders": subject.senders,
            "groups": target.groups,
            "losses": losses,
            "reorder": self.reorder,
            "duplicate": self.duplicate,
            "clock": self.clock,
            "marks": self.marks,
            "mutation": target.mutate,
            "disagree": target.disagree,
            "rule": target.rule,
            "states": statistics.states,
            "distinct": statistics.distinct,
            "diameter": statistics.diameter,
            "seconds": seconds,
            "verdict": word(finding),
            "fault": found.map(|found| found.fault.to_string()),
            "counterexample": found.map(|found| &found.lines),
            "decided": found.map(|found| found.decided),
            "nodes": found.map(|found| &found.nodes),
            "steps": found.map(|found| found.steps.iter().map(step).collect::<Vec<_>>()),
        })
    }
}

/// A step of a counterexample in parts.
fn step(step: &StepDescription) -> Value {
    let (from, frame) = step.frame.clone().unzip();
    let sent: Vec<Value> = step.sent.iter().map(|(to, frame)| json!({"to": to, "frame": frame})).collect();
    json!({
        "node": step.node,
        "what": step.what.name(),
        "from": from,
        "frame": frame,
        "words": step.words,
        "drops": step.drops,
        "sent": sent,
    })
}

/// What was found, in a word.
fn word(finding: &Finding) -> &'static str {
    match finding {
        Finding::Correct => "correct",
        Finding::NeverMattered => "never-mattered",
        Finding::Wrong(_) => "wrong",
        Finding::Unfinished(_) => "unfinished",
    }
}

fn write_trace(file: &Path, counterexample: &Counterexample) -> Result<(), Failure> {
    std::fs::write(file, &counterexample.trace).map_err(|error| {
        Failure::Input(format!("expected to write {}, found \"{error}\"; name another file", file.display()))
    })
}

/// How far it has come, on a line.
fn line(statistics: &Statistics, seconds: f64) -> String {
    let Statistics { states, distinct, diameter, node_states, .. } = statistics;
    let rate = *states as f64 / seconds.max(1e-9);
    format!(
        "{states} states, {distinct} distinct kept, diameter {diameter}, {node_states} node states, {seconds:.1} s, {rate:.0} states a second"
    )
}
