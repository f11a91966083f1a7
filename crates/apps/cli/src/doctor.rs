//! `quincunx doctor`: whether machines, switches and the paths between them are as one thinks, before a job or when it is slow.

mod finding;
mod machine;
mod paths;

use clap::Args;
use quincunx_comm::{Endpoint, Options};
use quincunx_control::Role;
use quincunx_control_grpc::{ControlClient, Managers};
use quincunx_design::Catalog;
use quincunx_units::BitRate;
use serde_json::Value;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::options::IdentityOptions;
use crate::out::{print, say};
use crate::progress;
use crate::results::described;
use finding::{Finding, Verdict};
pub(crate) use machine::name as machine_name;
use paths::Node;

/// How long a node may take for each of the others.
const EACH: Duration = Duration::from_secs(1);

/// Between questions of how far nodes are.
const LOOK: Duration = Duration::from_millis(100);

/// How long the others wait for the first to be done with all.
const LIMIT: Duration = Duration::from_secs(300);

#[derive(Args)]
#[command(after_help = "Examples:
  quincunx doctor --manager 10.0.0.9:4790          # this machine, and the paths between it and all switches
  quincunx doctor --rate 100Gbit/s
  quincunx run -n 4 --manager 10.0.0.9:4790 --doctor -- python train.py    # before the program, among its ranks
  srun quincunx doctor                             # among all machines of a job; so does torchrun --no-python

It reads the environment as ranks do (QUINCUNX_MANAGER, QUINCUNX_ADDRESS, QUINCUNX_INTERFACE, QUINCUNX_IDENTITY, RANK, WORLD_SIZE) and is a host of the fabric
while it runs. Each node sends each other one 24 frames of six sizes and 1,000 frames of 1 KiB, which others' traffic feels for some
milliseconds; frames are checked. Each line says what is well, or what to do and what that brings. The status is 0 if nothing is to be mended, 1 otherwise.")]
pub(crate) struct Doctor {
    /// Where the manager serves [default: QUINCUNX_MANAGER, or 127.0.0.1:4790]
    #[arg(long, value_name = "HOST:PORT")]
    manager: Option<Managers>,
    #[command(flatten)]
    identity_options: IdentityOptions,
    /// What each path should carry: less than half of it is told [default: a tenth of what half of them carry, if that is less than 150Mbit/s]
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let options = self.options()?;
        let endpoint = Endpoint::attach(catalog, options.clone()).map_err(Failure::input)?;
        let mut findings = machine::look(endpoint.address());
        let client = endpoint.client();
        let ranks: Vec<String> = (0..options.world).map(|rank| format!("{}{rank}", options.job)).collect();
        client.wait_for_nodes(&ranks, options.switches, options.join_limit).map_err(Failure::input)?;
        let mut ways = Vec::new();
        if options.rank == 0 {
            let nodes = self.examine(client, &ranks, &mut findings)?;
            ways = paths::ways(&nodes);
            findings.extend(paths::judge_nodes(&nodes, env!("CARGO_PKG_VERSION")));
            findings.extend(paths::judge_ways(&nodes, &ways, self.rate));
        } else {
            wait_for_the_first(client, &ranks[0])?;
        }
        let faults = findings.iter().filter(|finding| finding.is_fault()).count();
        if self.json {
            let mut object = described("doctor");
            object["rows"] = findings.iter().map(Finding::json).collect::<Vec<Value>>().into();
            object["paths"] = ways.iter().map(paths::Way::json).collect::<Vec<Value>>().into();
            say!("{object}");
        } else if options.rank == 0 || faults > 0 {
            let ways = if ways.is_empty() { String::new() } else { paths::in_words(&ways) + "\n" };
            print(&format!("{ways}{}", finding::in_words(&findings)));
        }
        match faults {
            0 => Ok(()),
            _ => Err(Failure::Wrong(format!(
                "expected machines and paths without faults, found {faults}; do what the lines with MEND say"
            ))),
        }
    }

    /// As a rank has them; alone, it is a job of its own.
    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::from_environment().map_err(Failure::input)?;
        if std::env::var_os("QUINCUNX_JOB").is_none() && options.world == 1 {
            let credentials = self.identity_options.credentials()?;
            let tenant = credentials.as_ref().and_then(|credentials| credentials.tenant());
            let own = tenant.map_or_else(String::new, |tenant| format!("{tenant}/"));
            options.job = format!("{own}doctor-{}-{}.", machine::name(), std::process::id());
        }
        if let Some(manager) = &self.manager {
            options.manager = manager.clone();
        }
        if let Some(identity) = &self.identity_options.identity {
            options.identity = Some(identity.clone());
        }
        Ok(options)
    }

    /// Has switches and ranks try the paths between them, and asks what they have found.
    fn examine(
        &self,
        client: &ControlClient,
        ranks: &[String],
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<Node>, Failure> {
        let nodes = client.list_nodes().map_err(Failure::input)?;
        let (mut asked, mut drained) = (Vec::new(), Vec::new());
        for node in nodes {
            let is_ours = node.description.role == Role::Switch || ranks.contains(&node.description.name);
            if node.drains {
                drained.push(node.description.name.clone());
            }
            if is_ours {
                asked.push(node.description);
            }
        }
        let (asked, others) = paths::of_udp(asked);
        findings.extend(others);
        for name in drained {
            let found = "is drained: no new group uses it, until `quincunx nodes undrain`";
            findings.push(Finding::new("switch", &name, found, Verdict::Note));
        }
        if !asked.iter().any(|node| node.role == Role::Switch) {
            let found = "none is attached: groups run among their hosts";
            findings.push(Finding::new("switch", "fabric", found, Verdict::Note));
        }
        let names: Vec<String> = asked.iter().map(|node| node.name.clone()).collect();
        let run = client.probe_paths(&names).map_err(Failure::input)?;
        let end = Instant::now() + Duration::from_secs(2) + EACH * names.len() as u32;
        // To each node from each other one.
        let bar = progress::quiet_bar(names.len() * names.len().saturating_sub(1));
        let mut before = None;
        loop {
            let answers = client.ask_paths(run, &names).map_err(Failure::input)?;
            // Who does not answer is not waited for: it is asked half a second each time.
            let paths = || answers.iter().flatten().map(|answer| &answer.paths);
            let pending: u32 = paths().map(|paths| paths.pending).sum();
            bar.set_position(bar.length().unwrap_or(0).saturating_sub(pending.into()));
            // What is under way on a slow link comes still.
            let come: u32 = paths().flat_map(|paths| &paths.paths).map(|path| path.stream).sum();
            let is_done = pending == 0 && before.replace(come) == Some(come);
            if is_done || Instant::now() >= end {
                bar.finish_and_clear();
                let nodes = asked.into_iter().zip(answers);
                return Ok(nodes.map(|(description, answer)| Node { description, answer }).collect());
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Answers others, until the first has asked all that it wants to know.
fn wait_for_the_first(client: &ControlClient, first: &String) -> Result<(), Failure> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        let nodes = client.list_nodes().map_err(Failure::input)?;
        if !nodes.iter().any(|node| node.description.name == *first) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
    let limit = LIMIT.as_secs();
    Err(Failure::Input(format!(
        "expected \"{first}\" to be done within {limit} s, found it at work; see what it says"
    )))
}
