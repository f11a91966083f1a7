//! Ours and what people use today, side by side: AllReduce and Barrier on one fabric of namespaces, in one run.
//!
//! The contenders take turns, all of them in every round and the other way round in every second one, so that whatever
//! else the machine does meets them all. Only one runs at a time; all take the same links, sizes, repetitions and checks.
//! `benches/README.md` says what the numbers mean. Needs root and iproute2 (else it says so and does nothing), gcc for
//! the TCP ring, OpenMPI for OpenMPI.
//!
//! `cargo build --release -p quincunx-cli -p quincunx-perf --bins --examples && target/release/examples/side_by_side`

mod contender;
mod loss;
mod machine;
mod peers;
mod summary;

use clap::Parser;
use contender::Contender;
use peers::Peers;
use quincunx_design::AnyDesign;
use quincunx_designs::CATALOG;
use quincunx_fabric::Shape;
use quincunx_netns as netns;
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks};
use quincunx_scenario::Scenario;
use quincunx_units::{BitRate, ByteCount, Probability};
use serde_json::json;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use summary::{FabricLinks, Sample, Summary, table_header};

/// Measures our designs, a TCP ring and OpenMPI on the same links, in turns
#[derive(Parser)]
#[command(max_term_width = 100)]
struct Arguments {
    /// Ranks; several with commas, each on a fabric of its own
    #[arg(long, value_delimiter = ',', default_value = "8", value_parser = clap::value_parser!(u16).range(2..=64))]
    ranks: Vec<u16>,
    /// Rate of every link, each way: 500Mbit/s, or none
    #[arg(long, default_value = "none")]
    rate: Rate,
    /// MTU of every link in bytes; several with commas, each on a fabric of its own
    #[arg(long, value_delimiter = ',', default_value = "1500")]
    mtu: Vec<u16>,
    /// Bytes of a rank's FP32 vector, multiples of 4; 0 is a barrier
    #[arg(long, value_delimiter = ',', default_value = "0,4KiB,1MiB,16MiB")]
    sizes: Vec<ByteCount>,
    /// Share of frames that every link loses, each way, of whomever they are: 1%; MTU of up to 3000. Without it nothing looks at frames
    #[arg(long)]
    loss: Option<Probability>,
    /// How often each contender has its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Who takes part
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "epic-3,epic-2,epic-1,ring,tcp-ring,openmpi,openmpi-ring"
    )]
    contenders: Vec<Contender>,
    /// The quincunx program [default: the one that was built beside this one]
    #[arg(long)]
    program: Option<PathBuf>,
    /// Write everything that was measured to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// A rate, or none.
#[derive(Clone, Copy)]
struct Rate(Option<BitRate>);

impl FromStr for Rate {
    type Err = <BitRate as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|rate| Self(Some(rate))) }
    }
}

/// How long one collective of ours may take, in seconds.
const LIMIT_SECONDS: u64 = 30;

fn main() -> ExitCode {
    match Arguments::parse().run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

impl Arguments {
    /// Whether everything ran and every result was right.
    fn run(self) -> Result<bool, Box<dyn Error>> {
        if let Some(odd) = self.sizes.iter().find(|size| size.bytes() % 4 != 0) {
            return Err(
                format!("expected sizes in whole FP32 numbers, found {odd}; use a multiple of 4").into()
            );
        }
        if let (Some(_), Some(mtu)) = (self.loss, self.mtu.iter().find(|&&mtu| mtu > loss::LONGEST_MTU)) {
            return Err(format!(
                "expected an MTU of up to {} with --loss, found {mtu}; such frames come in several pieces",
                loss::LONGEST_MTU
            )
            .into());
        }
        if let Err(why) = netns::available() {
            println!("skipped side by side: {why}");
            return Ok(true);
        }
        let beside = std::env::current_exe()?;
        let built = beside
            .parent()
            .and_then(|examples| examples.parent())
            .ok_or("expected to run from a build folder")?;
        let program = self.program.clone().unwrap_or_else(|| built.join("quincunx"));
        if !program.exists() {
            let found = program.display();
            return Err(
                format!("expected the quincunx program, found no {found}; build -p quincunx-cli").into()
            );
        }
        let peers = Peers::build(&built.join("peers"), &self.contenders)?;
        let mut contenders = self.contenders.clone();
        contenders.retain(|contender| match peers.missing(*contender) {
            Some(why) => {
                println!("skipped {contender}: {why}");
                false
            }
            None => true,
        });

        let machine = machine::describe();
        println!("{machine}");
        println!("{}", table_header());
        let mut summaries = Vec::new();
        let mut complaints = Vec::new();
        for &ranks in &self.ranks {
            for &mtu in &self.mtu {
                let link = FabricLinks { ranks, rate: self.rate.0, mtu, loss: self.loss };
                let samples = self.measure(link, &program, &peers, &contenders, &mut complaints)?;
                for of in Summary::of(link, &samples) {
                    println!("{of}");
                    summaries.push(of);
                }
            }
        }
        if let Some(file) = &self.json {
            let all = json!({
                "schema": 1, "command": "side_by_side", "machine": machine, "rounds": self.rounds,
                "complaints": complaints, "rows": summaries,
            });
            std::fs::write(file, format!("{all:#}\n")).map_err(|error| {
                format!(
                    "expected to write {}, found \"{error}\"; name a file in a folder that exists",
                    file.display()
                )
            })?;
        }
        for complaint in &complaints {
            eprintln!("error: {complaint}");
        }
        Ok(complaints.is_empty())
    }

    /// All rounds on one fabric. A contender that fails loses its turn, and the others go on.
    fn measure(
        &self,
        link: FabricLinks,
        program: &std::path::Path,
        peers: &Peers,
        contenders: &[Contender],
        complaints: &mut Vec<String>,
    ) -> Result<Vec<Sample>, Box<dyn Error>> {
        let shape = Shape::for_ranks("star", link.ranks)?;
        let kind = LinkKind::Netns { rate: link.rate, mtu: link.mtu };
        let mut fabric = Processes::start(&shape, kind, program, ChildArguments::default(), None)?;
        let namespaces = fabric.namespaces().ok_or("expected namespaces")?;
        let _losing = self
            .loss
            .map(|loss| loss::lose(namespaces, loss))
            .transpose()
            .map_err(|error| error as Box<dyn Error>)?;
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            let mut order = contenders.to_vec();
            if round % 2 == 1 {
                order.reverse();
            }
            for contender in order {
                eprintln!("{link}: round {} of {}: {contender}", round + 1, self.rounds);
                let done = match contender {
                    Contender::Ours(design) => self.turn_of_ours(&mut fabric, link, design),
                    _ => {
                        let place = fabric.namespaces().ok_or("expected namespaces")?;
                        let guests = fabric.guests().ok_or("expected namespaces")?;
                        peers.turn(contender, place, &guests, &self.sizes)
                    }
                };
                match done {
                    Ok(turn) => samples.extend(turn),
                    Err(error) => {
                        complaints.push(format!("{link}: round {}: {contender}: {error}", round + 1))
                    }
                }
            }
        }
        for sample in samples.iter().filter(|sample| sample.wrong > 0) {
            let Sample { contender, bytes, wrong, .. } = sample;
            complaints.push(format!(
                "{link}: {contender}: expected right results, found {wrong} wrong elements of {bytes} bytes"
            ));
        }
        Ok(samples)
    }

    fn turn_of_ours(
        &self,
        fabric: &mut Processes,
        link: FabricLinks,
        design: &'static dyn AnyDesign,
    ) -> Result<Vec<Sample>, Box<dyn Error>> {
        // As `quincunx perf` sets groups up, unless told otherwise.
        let name = format!("star-{}", link.ranks);
        // Everybody waits for lost packets alike, whatever the rate.
        let links = RealLinks { mtu: link.mtu, is_limited: false };
        let limit = format!("measure.limit={LIMIT_SECONDS}s").parse()?;
        let scenario = Scenario::find_for(&links, &name, &[limit], CATALOG)?;
        let setup = GroupsSetup::new(CATALOG, &[design], &scenario)?;
        let case = |size: &ByteCount| {
            let repetitions = contender::repetitions(*size);
            Case {
                design: design.name().into(),
                collective: if size.bytes() == 0 { "barrier" } else { "all_reduce" }.into(),
                in_place: false,
                root: 0,
                bytes: size.bytes(),
                data_type: "f32".into(),
                op: "sum".into(),
                iterations: repetitions.timed,
                warm_up: repetitions.warm_up,
                tokens: None,
            }
        };
        let plan = Plan { setup, cases: self.sizes.iter().map(case).collect() };
        let mut samples = Vec::new();
        let mut other = None;
        let done = quincunx_perf::run(fabric, &plan, |row| {
            if row.design != design.name() {
                other = Some(row.design.clone());
            }
            samples.push(Sample {
                contender: Contender::Ours(design),
                bytes: row.size,
                mean_us: row.time_us,
                median_us: row.median_us,
                p99_us: row.p99_us,
                wrong: row.wrong,
                rank_processor_us: row.rank_processor_us,
                switch_processor_us: row.switch_processor_us,
            });
        });
        if done.is_err() {
            // The next turn starts ranks of the same names.
            for rank in fabric.members() {
                fabric.kill(&rank);
            }
        }
        done?;
        match other {
            Some(other) => {
                Err(format!("expected {}, found that the group fell back to {other}", design.name()).into())
            }
            None => Ok(samples),
        }
    }
}
