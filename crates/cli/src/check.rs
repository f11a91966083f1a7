//! `quincunx check`.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quincunx_check::earlier::Earlier;
use quincunx_check::{
    Describe, Exchange, Exploration, Fault, Group, Relays, Sequence, Statistics, Unfinished, Verdict, explore,
};
use quincunx_units::ByteCount;
use serde_json::{Value, json};
use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::checks::Case;
use crate::simulations::envelope;
use crate::{Failure, interrupt};

/// What is explored.
#[derive(Args)]
pub(crate) struct What {
    /// epic-1, epic-2, epic-3, roce, roce-selective, multiwrite, or the rules of switchml, atp or netreduce
    pub(crate) design: String,
    /// all_reduce, reduce, broadcast, barrier, reduce_scatter or all_gather; of roce: send or write; of multiwrite: write or all_gather
    pub(crate) collective: String,
    /// star-N, tree-X-Y or tree-AxB [default: tree-3-2; of switchml, atp and netreduce: star-2]; of multiwrite: mesh-2x2, ring-4,
    /// servers-2x2, or with tables that contradict each other loop-2, loop-3 [default: mesh-2x2]
    #[arg(long)]
    pub(crate) tree: Option<String>,
    /// Packets of data from each sender; in EPIC a control message goes before them; of roce and netreduce: packets of each message
    /// [default: 3; of multiwrite: 2]
    #[arg(long)]
    pub(crate) packets: Option<u32>,
    /// Of multiwrite: ranks that send anything of their own, the others relay [default: 2]
    #[arg(long)]
    pub(crate) senders: Option<u16>,
    /// Of multiwrite: relaying takes its time, until nothing else is on its way or as an early time-out
    #[arg(long)]
    pub(crate) slow: bool,
    /// Packets that a rank may have in flight; of switchml that is its slots, of netreduce it is messages
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window: u32,
    /// How often in sequence; of roce and netreduce: messages
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) times: u8,
    /// The root of reduce and broadcast [default: 0]
    #[arg(long)]
    pub(crate) root: Option<u16>,
    /// Break a rule of the protocol
    #[arg(long, value_name = "NAME")]
    pub(crate) mutate: Option<String>,
    /// The rule of switchml (one-pool, two-pools or chunk-numbers), atp (fallback, resends-bypass or deadlines) or netreduce (as-told,
    /// stamped-results, in-order or tied-window), from worst to best [default: the system's own]
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Option<String>,
}

/// `quincunx check`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx check epic-3 all_reduce                       three packets, one loss
  quincunx check epic-2 broadcast --reorder --duplicate  and one frame may be late, and one may come twice
  quincunx check epic-3 all_reduce --times 2 --packets 1 two in sequence on one group
  quincunx check epic-3 reduce --mutate mode-ii-recycling
                                                         break a rule, and see a short way to the fault
  quincunx check epic-2 all_reduce --tree star-2 --duplicate --mutate no-duplicate-check --trace fault.pftrace
                                                         and see it in Perfetto
  quincunx check roce send --times 2 --reorder           the queue pair alone: two messages of three packets, go-back-N
  quincunx check multiwrite write --tree ring-4 --reorder
                                                         two ranks write to all others, over relays
  quincunx check switchml all_reduce --window 1 --reorder
                                                         what an earlier system's rule admits
  quincunx check switchml all_reduce --window 1 --reorder --rule chunk-numbers
                                                         and what repairs it
  quincunx check netreduce all_reduce --times 5 --packets 1 --window 5 --losses 0
                                                         five messages in flight where four are buffered

Explored are the engines that run on real sockets; those of switchml, atp and netreduce are written for this alone. Nothing is sampled:
`correct` means that every run within the limits gives every rank the right result, and ends. The limits: as many losses, late frames, copies and early time-outs as are asked for; all other frames keep
their order on each link, and time-outs expire when nothing else is on its way. Nodes send as soon as they may; `--full` explores when they
do not, too, and leaves the other reductions out: try it on tree-2-2.
Exit status 1: a fault was found, or memory did not suffice.")]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) what: What,
    /// Frames that may be lost
    #[arg(long, default_value_t = 1)]
    losses: u8,
    /// Frames that may be late, overtaken by any number of others and by time-outs; alone: 1
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "1", value_name = "FRAMES")]
    reorder: u8,
    /// Frames of which a copy may come later; alone: 1
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = 0, default_missing_value = "1", value_name = "FRAMES")]
    duplicate: u8,
    /// Time-outs that may expire while frames are on their way
    #[arg(long, default_value_t = 0, value_name = "TIMES")]
    early_timeouts: u8,
    /// Explore without reductions: no symmetry, no persistent sets, and nodes send and start when they may, not at once
    #[arg(long)]
    full: bool,
    /// Write the way to the fault to a file that <https://ui.perfetto.dev> opens, a microsecond a step
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    /// Memory that may be used
    #[arg(long, default_value = "16GiB")]
    memory: ByteCount,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match self.what.case()? {
            Case::Epic(setup) => self.explore(&Group::new(setup).map_err(Failure::input)?),
            Case::Exchange(setup) => self.explore(&Exchange::new(setup).map_err(Failure::input)?),
            Case::MultiWrite(setup) => self.explore(&Relays::new(setup).map_err(Failure::input)?),
            Case::Earlier(setup) => self.explore(&Earlier::new(setup).map_err(Failure::input)?),
        }
    }

    /// Explores a network, and prints what is found.
    fn explore<S: Describe>(&self, network: &S) -> Result<(), Failure> {
        let rules = Exploration {
            losses: self.losses,
            duplicates: self.duplicate,
            delays: self.reorder,
            early_timeouts: self.early_timeouts,
            at_once: !self.full,
            symmetry: !self.full,
            persistent_sets: !self.full,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: self.memory,
        };
        let stop = interrupt::flag()?;
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
            .with_style(ProgressStyle::with_template("{spinner} {msg}").expect("the template is right"));
        let begin = Instant::now();
        let (statistics, verdict) = explore(network, rules, &mut |statistics| {
            bar.set_message(line(statistics, begin.elapsed().as_secs_f64()));
            bar.tick();
            if interrupt::is_set(&stop) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        let seconds = begin.elapsed().as_secs_f64();
        let (word, sequence) = match &verdict {
            Verdict::Correct => ("correct", None),
            Verdict::Wrong { path, .. } => ("wrong", Some(Sequence { network, path })),
            Verdict::Unfinished(_) => ("unfinished", None),
        };
        if self.json {
            let lines = sequence.as_ref().map(Sequence::lines);
            let fault = match &verdict {
                Verdict::Wrong { fault, .. } => json!(fault.to_string()),
                _ => Value::Null,
            };
            let row = json!({
                "design": self.what.design,
                "collective": self.what.collective,
                "tree": self.what.tree_name(),
                "packets": self.what.packets(),
                "senders": self.what.senders(),
                "losses": self.losses,
                "reorder": self.reorder,
                "duplicate": self.duplicate,
                "mutation": self.what.mutate,
                "rule": self.what.rule,
                "states": statistics.states,
                "distinct": statistics.distinct,
                "diameter": statistics.diameter,
                "seconds": seconds,
                "verdict": word,
                "fault": fault,
                "counterexample": lines,
            });
            println!("{}", envelope("check", &[row]));
        } else {
            println!("{word}: {}", line(&statistics, seconds));
            if let Some(sequence) = &sequence {
                print!("{sequence}");
            }
        }
        if let Some(file) = &self.trace {
            match (&sequence, &verdict) {
                (Some(sequence), Verdict::Wrong { fault, .. }) => write_trace(file, sequence, fault)?,
                _ => eprintln!("{} is not written: there is no way to a fault to show", file.display()),
            }
        }
        match verdict {
            Verdict::Correct => Ok(()),
            Verdict::Wrong { fault, path } => Err(Failure::Wrong(format!(
                "expected every run to be right, found one of {} steps where {fault}",
                path.0.len()
            ))),
            Verdict::Unfinished(Unfinished::Stopped) => Err(Failure::Interrupted(format!(
                "expected to see every state, found an interrupt after {}; all of them are right, {} wait",
                statistics.distinct, statistics.waiting
            ))),
            Verdict::Unfinished(Unfinished::Memory { resident }) => Err(Failure::Wrong(format!(
                "expected to need at most {}, found {resident} in use after {} states, all of them right; give --memory more, or \
                 explore less",
                self.memory, statistics.distinct
            ))),
        }
    }
}

fn write_trace<S: Describe>(file: &Path, sequence: &Sequence<'_, S>, fault: &Fault) -> Result<(), Failure> {
    let written = File::create(file).and_then(|out| sequence.write_trace(fault, BufWriter::new(out)));
    written.map(drop).map_err(|error| {
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
