//! Options that several commands have or that mean nothing where they stand, and what clap says of those that it does not know, in a line.

use clap::Args;
use clap::error::ErrorKind;
use quincunx_collective::{Collective, DataType, Op, Rank, ReduceOp, Reduction};
use quincunx_control_grpc::{ClientConfig, Credentials};
use quincunx_perf::Task;
use quincunx_scenario::{Override, RankPlacement};
use quincunx_sim::{Out, Outputs};
use quincunx_units::{ByteCount, SizeRange};
use std::fs::File;
use std::io::{BufWriter, IsTerminal, stdout};
use std::path::PathBuf;

use crate::{Failure, out};

/// The key that `--placement` is short for.
pub(crate) fn placement_override(placement: &RankPlacement) -> Override {
    Override { key: "placement".into(), value: placement.to_string().into() }
}

/// Whom this end shows itself as to the other one.
#[derive(Args, Clone, Default)]
pub(crate) struct IdentityOptions {
    /// File with certificate, key and the authority that is trusted, as `quincunx manager init` makes it: the connection is TLS then
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
}

impl IdentityOptions {
    pub(crate) fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        self.identity.as_deref().map(Credentials::read).transpose().map_err(Failure::input)
    }

    /// What was said, or else what QUINCUNX_IDENTITY says: for who speaks with a manager that runs.
    pub(crate) fn or_environment(&self) -> Self {
        let said =
            || std::env::var_os("QUINCUNX_IDENTITY").filter(|path| !path.is_empty()).map(PathBuf::from);
        Self { identity: self.identity.clone().or_else(said) }
    }

    /// For a client that shows it.
    pub(crate) fn client(&self) -> Result<ClientConfig, Failure> {
        Ok(ClientConfig { credentials: self.credentials()?, ..ClientConfig::default() })
    }
}

/// How chance is decided, and how often.
#[derive(Args, Clone, Copy)]
pub(crate) struct SeedOptions {
    /// Seed of all random choices: the same seed gives the same run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of seeds to run with, from --seed on: rows are means, with the standard error of the time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: u64,
}

impl SeedOptions {
    /// Each of them.
    pub(crate) fn all(self) -> impl Iterator<Item = u64> + Clone {
        (0..self.seeds).map(move |more| self.seed.wrapping_add(more))
    }
}

/// What a simulation writes beside its rows.
#[derive(Args)]
pub(crate) struct OutputOptions {
    /// Write every frame on every link, and the waves in switches, to this file for ui.perfetto.dev; of one run
    #[arg(long, value_name = "FILE.pftrace")]
    trace: Option<PathBuf>,
    /// Write every frame on every link to this file, for Wireshark; packets of memory fabrics, which it does not know, have the
    /// link type USER0; of one run
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,
}

impl OutputOptions {
    pub(crate) fn is_some(&self) -> bool {
        self.trace.is_some() || self.pcap.is_some()
    }

    /// Refuses to write several runs into one file.
    pub(crate) fn refuse_several(&self, what: &str, runs: u64) -> Result<(), Failure> {
        match self.is_some() && runs > 1 {
            true => Err(Failure::Input(format!(
                "expected {what} with --trace or --pcap, found {runs} runs; write one at a time"
            ))),
            false => Ok(()),
        }
    }

    /// Makes the files, so that a name that cannot be written is told before anything runs.
    pub(crate) fn open(&self) -> Result<Outputs, Failure> {
        let open = |path: &Option<PathBuf>| -> Result<Option<Out>, Failure> {
            let Some(path) = path else { return Ok(None) };
            let file = File::create(path).map_err(|error| {
                Failure::Input(format!(
                    "expected to write {}, found \"{error}\"; name another file",
                    path.display()
                ))
            })?;
            Ok(Some(Box::new(BufWriter::new(file))))
        };
        Ok(Outputs { trace: open(&self.trace)?, capture: open(&self.pcap)? })
    }
}

/// What clap has to say: help as it is, an error as one line.
pub(crate) fn refused(error: &clap::Error) -> Result<(), Failure> {
    let text = error.render();
    if !error.use_stderr() {
        if stdout().is_terminal() {
            out::print(&text.ansi());
        } else {
            out::print(&text);
        }
        return Ok(());
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Err(Failure::Input(format!("expected a command, found none; one of these:\n\n{text}")));
    }
    Err(Failure::Input(in_a_line(&text.to_string())))
}

/// Clap's paragraphs as one line: the error, its tips, and where help is.
fn in_a_line(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut usage = None;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("Usage: ") {
            Some(line) => usage = line.find(['[', '<', '-']).map(|end| line[..end].trim().to_owned()),
            None if line.starts_with("For more information") => {}
            None => parts.push(line.trim_start_matches("error: ").trim_start_matches("tip: ").to_owned()),
        }
    }
    // What an option takes stands on lines of its own below it.
    let mut line = parts.join("; ").replace(":;", ":");
    line.push_str(&format!("; see {} --help", usage.as_deref().unwrap_or("quincunx")));
    line
}

/// Sizes as nccl-tests take them, in place of `--sizes`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sweep {
    /// The smallest size, as nccl-tests say it; -b 4K -e 16M -f 4 is --sizes 4K:16M:4
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", conflicts_with = "sizes")]
    first: Option<String>,
    /// The largest size [default: that of -b]
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", requires = "first")]
    last: Option<String>,
    /// Factor from one size to the next
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR", requires = "first", default_value = "2")]
    factor: String,
}

impl Sweep {
    /// The sizes, if any were given so.
    pub(crate) fn sizes(&self) -> Result<Option<SizeRange>, Failure> {
        let Some(first) = &self.first else { return Ok(None) };
        let last = self.last.as_ref().unwrap_or(first);
        let range = [first.as_str(), last, &self.factor].join(":");
        range.parse().map(Some).map_err(|_| {
            Failure::Input(format!(
                "expected -b, -e and -f such as -b 4K -e 16M -f 4, found -b {first} -e {last} -f {}; correct them",
                self.factor
            ))
        })
    }
}

/// A data type by its name here, or by that of nccl-tests.
pub(crate) fn data_type(text: &str) -> Result<DataType, String> {
    let name = match text {
        "float" => "f32",
        "half" => "f16",
        "double" => "f64",
        "bfloat16" => "bf16",
        "int8" => "i8",
        "uint8" => "u8",
        "int32" => "i32",
        "uint32" => "u32",
        "int64" => "i64",
        "uint64" => "u64",
        "f8e4m3" | "fp8_e4m3" => "e4m3",
        "f8e5m2" | "fp8_e5m2" => "e5m2",
        own => own,
    };
    name.parse().map_err(|error: quincunx_collective::ParseNameError| error.to_string())
}

/// What a collective is asked to do, as far as it was said.
pub(crate) struct CollectiveOptions {
    pub(crate) root: Option<u16>,
    pub(crate) op: Option<Op>,
    pub(crate) sizes: Option<SizeRange>,
    pub(crate) data_type: DataType,
}

impl CollectiveOptions {
    /// The collective with its root.
    ///
    /// # Errors
    /// As [`task`](Self::task).
    pub(crate) fn collective(&self, collective: Collective, ranks: u16) -> Result<Collective, Failure> {
        self.task(Task::Collective(collective), ranks)?;
        Ok(collective.with_root(Rank(self.root.unwrap_or_default())))
    }

    /// What is done, with its root.
    ///
    /// # Errors
    /// If there is no such rank, the operation is not defined for the type, or something was asked that this does not have. What is there
    /// without asking may be named: scripts that go through all collectives do.
    pub(crate) fn task(&self, task: Task, ranks: u16) -> Result<Task, Failure> {
        let refuse = |option: &str, which: &str| {
            Err(Failure::Input(format!(
                "expected --{option} with {which}, found it with {task}, where it means nothing; leave it out"
            )))
        };
        if self.root.is_some_and(|root| root != 0) && task.root().is_none() {
            return refuse("root", "what has a root: reduce, broadcast, gather or scatter");
        }
        let op = self.op.unwrap_or(Op::Reduce(ReduceOp::Sum));
        if op != Op::Reduce(ReduceOp::Sum) && !task.reduces() {
            return refuse("op", "a collective that reduces");
        }
        let reduction = Reduction { op: op.on_the_way(), data_type: self.data_type };
        if task.reduces() && !reduction.is_defined() {
            return Err(Failure::Input(format!(
                "expected {}, found {op} of {}; change --op or --dtype",
                self.data_type.defined_operations(),
                self.data_type
            )));
        }
        if self.sizes.is_some() && task == Task::Collective(Collective::Barrier) {
            return refuse("size", "a collective that moves something");
        }
        let root = self.root.unwrap_or_default();
        if root >= ranks {
            return Err(Failure::Input(format!(
                "expected a root below {ranks}, found {root}; name a rank with --root"
            )));
        }
        Ok(task.with_root(Rank(root)))
    }

    /// The sizes that are measured.
    ///
    /// # Errors
    /// If one of them is not whole elements.
    pub(crate) fn sizes(&self, default: &str) -> Result<Vec<ByteCount>, Failure> {
        let sizes = self.sizes.unwrap_or_else(|| default.parse().expect("the default is right"));
        let sizes: Vec<ByteCount> = sizes.sizes().collect();
        let element = self.data_type.size() as u64;
        match sizes.iter().find(|size| !size.bytes().is_multiple_of(element)) {
            Some(size) => Err(Failure::Input(format!(
                "expected sizes of whole elements, {element} bytes each as {}, found {size}; change --size or --dtype",
                self.data_type
            ))),
            None => Ok(sizes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_with_a_tip_and_a_usage_is_one_line() {
        let text = "error: unexpected argument '--sizes' found\n\n  tip: a similar argument exists: '--size'\n\n\
                    Usage: quincunx sim --size <SIZE> <COLLECTIVE>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            in_a_line(text),
            "unexpected argument '--sizes' found; a similar argument exists: '--size'; see quincunx sim --help"
        );
    }

    #[test]
    fn what_is_missing_stands_in_the_line() {
        let text = "error: the following required arguments were not provided:\n  <COLLECTIVE>\n\nUsage: quincunx perf <COLLECTIVE>\n";
        assert_eq!(
            in_a_line(text),
            "the following required arguments were not provided: <COLLECTIVE>; see quincunx perf --help"
        );
    }
}
