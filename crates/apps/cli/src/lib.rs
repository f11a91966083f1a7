//! The `quincunx` command: reads arguments, calls the rooms that do the work, prints what they say. Whoever starts it says which designs
//! there are: the project's own program takes its catalog, another one may add designs of its own.
//!
//! Exit status: 0 done and right, 1 a wrong result, 2 bad arguments or input, 130 interrupted.

// What is printed goes through `out`, which survives a reader that has gone.
#![deny(clippy::print_stdout)]

mod agent;
mod answers;
mod asked;
mod calls;
mod chakra;
mod check;
mod checks;
mod cluster;
mod compare;
mod demo;
mod doctor;
mod explain;
mod failure;
mod group;
mod groups;
mod help;
mod identity;
mod import;
mod interrupt;
mod jobs;
mod kept;
mod layer;
mod logs;
mod memory;
mod metrics;
mod model;
mod nodes;
mod operate;
mod options;
mod out;
mod perf;
mod plan;
mod ports;
mod predict;
mod predicted;
mod progress;
mod report;
mod reproduce;
mod results;
mod run;
mod running;
mod settings;
mod shell;
mod sim;
mod simulations;
mod stragglers;
mod sweeps;
mod table;
mod tenancy;
mod top;
mod traffic;
mod train;

use failure::Failure;
use help::{indented, names, with_help};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use quincunx_design::{Catalog, FabricKind};
use std::process::ExitCode;

/// Collectives computed inside the network.
#[derive(Parser)]
#[command(name = "quincunx", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  quincunx demo                                  all primitives, all modes, on this machine
  quincunx perf all_reduce --design epic-3,ring --sizes 4KiB:16MiB:4
  quincunx perf all_reduce --link netns --rate 500Mbit/s --design epic-3    (as root)
  quincunx run -n 8 --link netns --rate 500Mbit/s -- python train.py    your program on 8 ranks, with all around it
  quincunx sim all_reduce --fabric epic-star8 --design epic-3,ring --size 4KiB:16MiB:4
  quincunx predict scin-llama2                   what it would buy a language model
  quincunx plan --cluster epic-star8 --model llama3-8b     whether it is worth it, and what it takes
  quincunx import topo.xml > my-server.toml      a fabric of NCCL's topology, or of SimAI's or ASTRA-sim's network
  quincunx reproduce epic/table25                published figures and ours
  quincunx compare before.json after.json        two results of --json, row by row
  quincunx check epic-3 all_reduce --losses 1    every order, loss and time-out
  quincunx check cluster --seeds 0..100          whole clusters, and faults by seed
  quincunx cais explain examples/kernels/ag-gemm.toml
  quincunx manager init certs --node leaf1       certificates for more than one machine, then:
  quincunx manager --listen 10.0.0.9:4790 --identity certs/manager.pem
  quincunx switch --name leaf1 --address 10.0.0.1 --manager 10.0.0.9:4790 --identity certs/node-leaf1.pem
  quincunx nodes --manager 10.0.0.9:4790         who is there, and what groups hold of them
  quincunx doctor --manager 10.0.0.9:4790        whether machines and paths are as one thinks
  quincunx group why train                       why the network is not used, and who is in the way";

#[derive(Subcommand)]
enum Command {
    /// Run every primitive in every mode over real frames on this machine, and check every result
    Demo(demo::Demo),
    /// Measure a collective over real processes, in the columns of nccl-tests
    Perf(Box<perf::Perf>),
    /// Run a program on every rank, with a manager, switches and links around it
    Run(Box<run::Run>),
    /// Simulate a collective on a fabric, with the engines that run on real sockets
    Sim(Box<sim::Sim>),
    /// Predict what a language model's step takes on a network, by several designs
    Predict(predict::Predict),
    /// Say whether a design is worth it for a model on a cluster, what it needs, and what would change that
    Plan(plan::Plan),
    /// Show a language model: its size, what an accelerator keeps of it, what a step exchanges
    Model(model::Model),
    /// Make a fabric of NCCL's topology XML, or of a network of SimAI, ns-3 or ASTRA-sim
    Import(import::Import),
    /// Compare our figures with those that the papers publish
    Reproduce(reproduce::Reproduce),
    /// Model-check a small group: explore every run, and print the shortest wrong one if there is any
    Check(check::Check),
    /// Run the CAIS compiler step on a kernel
    #[command(name = quincunx_compiler::OF)]
    Compiler(explain::Compiler),
    /// Compare two results, row by row
    Compare(compare::Compare),
    /// Draw one offline HTML page from the JSON files in a folder
    Report(report::Report),
    /// Serve the control plane: attach nodes, and place groups on switches
    Manager(nodes::Manager),
    /// Run a switch: aggregate and replicate for the groups that the manager installs
    Switch(nodes::Switch),
    /// Run a machine's agent, which connects its nodes to the manager
    Agent(agent::Agent),
    /// Make, list, show and destroy groups, and ask why one does not use the network
    Group(group::Group),
    /// List the nodes that are attached to a manager, and what groups hold of them
    Nodes(operate::Nodes),
    /// See whether machines, switches and the paths between them are as one thinks, and what to do where they are not
    Doctor(doctor::Doctor),
    /// Watch a manager's switches and groups
    Top(top::Top),
    /// Print what a shell completes: commands, options and their values
    Completions(shell::Completions),
    /// Write manual pages, one a command
    Man(shell::Man),
    /// Be a rank of `perf` and `demo`: takes a plan on standard input
    #[command(hide = true)]
    Rank(nodes::Rank),
}

/// Runs the command with the designs of `catalog`. Groups whose switches have no room run `fallback`, a design among hosts alone.
pub fn main(catalog: Catalog, fallback: Option<&'static str>) -> ExitCode {
    let mut command = describe(catalog);
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let done = match parsed.map(|parsed| parsed.command) {
        Err(error) => options::refused(&error.format(&mut command)),
        Ok(Command::Demo(demo)) => demo.run(catalog),
        Ok(Command::Perf(perf)) => perf.run(catalog),
        Ok(Command::Run(run)) => run.run(catalog),
        Ok(Command::Sim(sim)) => sim.run(catalog, fallback),
        Ok(Command::Predict(predict)) => predict.run(catalog),
        Ok(Command::Plan(plan)) => plan.run(catalog),
        Ok(Command::Model(model)) => model.run(),
        Ok(Command::Import(import)) => import.run(catalog),
        Ok(Command::Reproduce(reproduce)) => reproduce.run(catalog),
        Ok(Command::Check(check)) => check.run(catalog, fallback),
        Ok(Command::Compiler(compiler)) => compiler.run(),
        Ok(Command::Compare(compare)) => compare.run(),
        Ok(Command::Report(report)) => report.run(),
        Ok(Command::Manager(manager)) => manager.run(catalog, fallback),
        Ok(Command::Switch(switch)) => switch.run(catalog),
        Ok(Command::Agent(agent)) => agent.run(),
        Ok(Command::Group(group)) => group.run(catalog),
        Ok(Command::Nodes(nodes)) => nodes.run(catalog),
        Ok(Command::Doctor(doctor)) => doctor.run(catalog),
        Ok(Command::Top(top)) => top.run(),
        Ok(Command::Completions(completions)) => completions.run(command),
        Ok(Command::Man(man)) => man.run(command),
        Ok(Command::Rank(rank)) => rank.run(catalog),
    };
    let (message, status) = match out::judge(done) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Wrong(message)) => (message, 1),
        Err(Failure::Input(message)) => (message, 2),
        Err(Failure::Interrupted(message)) => (message, interrupt::STATUS),
    };
    progress::print_error(&message);
    ExitCode::from(status)
}

/// The command, with the designs of `catalog` in its help.
fn describe(catalog: Catalog) -> clap::Command {
    let perf = format!(
        "{}; on a mesh {}; several with commas",
        names(catalog, &[FabricKind::Tree]),
        names(catalog, &[FabricKind::Mesh])
    );
    Cli::command()
        .after_help(format!("Designs:\n{}\n\n{EXAMPLES}", indented(&catalog.summary())))
        .mut_subcommand("perf", |command| with_help(command, "design", &perf))
        .mut_subcommand("sim", |command| with_help(command, "design", &sim::designs(catalog)))
        .mut_subcommand("check", |command| checks::with_help(command, catalog))
}

#[cfg(test)]
mod documented;
