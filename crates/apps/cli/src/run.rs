//! `quincunx run`: a program of the user's on every rank, with all that it needs around it: a manager, switches, links.

use clap::{Args, ValueEnum};
use quincunx_control_grpc::Managers;
use quincunx_design::{AnyDesign, Catalog, FabricKind, Transport, Value};
use quincunx_fabric::Shape;
use quincunx_perf::Printed;
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes, RunningFabric};
use quincunx_units::{BitRate, ByteCount, Duration};
use quincunx_wire::Framing;
use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;

use crate::Failure;
use crate::options::IdentityOptions;
use crate::running::{Running, check_addresses};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RunLink {
    /// Loopback addresses: no privilege, as fast as the machine
    Udp,
    /// Network namespaces with a link each; needs root
    Netns,
}

/// `quincunx run`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx run -n 8 -- python train.py
  quincunx run -n 8 --link netns --rate 500Mbit/s -- python train.py --steps 20
  quincunx run -n 8 -l -- python train.py          # each line with its rank's number before it
  quincunx run -n 4 --manager 127.0.0.1:4790 -- ./my-program
  quincunx run -n 4 --link netns --rate 1Gbit/s --doctor -- python train.py

Each rank finds in its environment what torchrun sets (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), and what
quincunx reads in Rust, C and Python: QUINCUNX_MANAGER, QUINCUNX_JOB, QUINCUNX_ADDRESS, QUINCUNX_INTERFACE, QUINCUNX_DESIGN, QUINCUNX_SWITCHES, QUINCUNX_SET,
QUINCUNX_PATIENCE, QUINCUNX_IDENTITY. In namespaces MASTER_ADDR is rank 0's address there, and other backends of torch.distributed use the same links: GLOO_SOCKET_IFNAME
says which. Output comes by whole lines. The status is 0 if that of every rank is; when one fails, the others are ended.")]
pub(crate) struct Run {
    /// Ranks
    #[arg(short = 'n', long, default_value_t = 2)]
    ranks: u16,
    /// What groups run
    #[arg(long, default_value = "epic-3")]
    design: String,
    /// The switches: star, tree-3-2 (levels-branches) or tree-2x4 (branches by level)
    #[arg(long, default_value = "star")]
    tree: String,
    /// Where the processes run
    #[arg(long, value_enum, default_value_t = RunLink::Udp)]
    link: RunLink,
    /// Rate of every link, each way, with --link netns
    #[arg(long)]
    rate: Option<BitRate>,
    /// MTU of every link in bytes, with --link netns
    #[arg(long, default_value_t = 9000)]
    mtu: u16,
    /// Set a parameter of the designs: group.reproducible=true
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Use the fabric of this running manager, and start only ranks
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["link", "rate", "mtu", "tree"])]
    manager: Option<Managers>,
    #[command(flatten)]
    identity_options: IdentityOptions,
    /// Addresses of this machine for the ranks, in rank order: fewer than ranks go round, so that several ranks share one [default: one of
    /// loopback for each]
    #[arg(long, value_delimiter = ',')]
    addresses: Vec<IpAddr>,
    /// Time that a process may be stopped, by a debugger say, before the others count it as gone; one that ends is gone at once
    /// [default: QUINCUNX_PATIENCE, or 10s]
    #[arg(long, value_name = "DURATION")]
    patience: Option<Duration>,
    /// Put the rank's number before each line of its output
    #[arg(short = 'l', long)]
    label: bool,
    /// Write ranks' output to files in this folder, rank0.out and rank0.err and so on
    #[arg(long, value_name = "FOLDER", conflicts_with = "label")]
    output: Option<PathBuf>,
    /// First see by `quincunx doctor` whether switches and the paths between ranks are as they should be, and end if they are not
    #[arg(long)]
    doctor: bool,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

impl Run {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        if self.rate.is_some() && self.link == RunLink::Udp {
            return Err(Failure::Input(
                "expected --link netns with --rate, found --link udp; loopback cannot be limited".into(),
            ));
        }
        let design = catalog.find(&self.design, FabricKind::Tree).map_err(Failure::input)?;
        if design.about().framing != Framing::RoceV2 {
            return Err(Failure::Input(format!(
                "expected a design whose frames are {}, found {}; name another with --design",
                Framing::RoceV2,
                design.name()
            )));
        }
        let shape = Shape::for_ranks(&self.tree, self.ranks).map_err(Failure::input)?;
        check_addresses(&self.addresses, self.ranks)?;
        if self.link == RunLink::Netns && !self.addresses.is_empty() {
            return Err(Failure::Input(
                "expected --link udp with --addresses, found namespaces, each with an address of its own; leave one out".into(),
            ));
        }
        // So long all of them wait, the manager too.
        let patience = self.patience().map(|patience| ["--keep-alive".to_owned(), patience]);
        let manager = patience.into_iter().flatten().collect();
        let arguments =
            ChildArguments { addresses: self.addresses.clone(), manager, ..ChildArguments::default() };
        let program = std::env::current_exe().map_err(Failure::input)?;
        let mut fabric = match &self.manager {
            Some(manager) => {
                let running = Running::find(
                    manager,
                    &self.identity_options.or_environment(),
                    &self.addresses,
                    self.ranks,
                )?;
                let fabric: RunningFabric = running.fabric(catalog, Framing::RoceV2);
                Processes::join(&shape, fabric, &program, arguments, None)
            }
            None => {
                let kind = match self.link {
                    RunLink::Udp => LinkKind::Udp,
                    RunLink::Netns => LinkKind::Netns { rate: self.rate, mtu: self.mtu },
                };
                Processes::start(&shape, kind, &program, arguments, None).map_err(Failure::input)?
            }
        };
        let common = self.environment(design)?;
        if self.doctor {
            let rate = self.rate.map(|rate| format!("--rate={rate}"));
            let arguments: Vec<String> = ["doctor".to_owned()].into_iter().chain(rate).collect();
            fabric.start_programs(&program, &arguments, &common, &Printed::Lines).map_err(Failure::input)?;
            if !fabric.wait_for_programs().is_empty() {
                return Err(Failure::Wrong(
                    "expected machines and paths without faults before the program, found some; see above, or leave out --doctor".into(),
                ));
            }
        }
        let (name, rest) = self.program.split_first().expect("clap asks for one");
        let printed = self.printed()?;
        fabric.start_programs(&PathBuf::from(name), rest, &common, &printed).map_err(Failure::input)?;
        match fabric.wait_for_programs() {
            failed if failed.is_empty() => Ok(()),
            failed => Err(Failure::Input(format!(
                "expected every rank to end with status 0, found {}; see what it has printed",
                failed.join(", ")
            ))),
        }
    }

    /// Where ranks' output goes; the folder is made.
    fn printed(&self) -> Result<Printed, Failure> {
        let Some(folder) = &self.output else {
            return Ok(if self.label { Printed::Labelled } else { Printed::Lines });
        };
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::Input(format!(
                "expected to make the folder {}, found \"{error}\"; name another with --output",
                folder.display()
            ))
        })?;
        Ok(Printed::Files(folder.clone()))
    }

    fn patience(&self) -> Option<String> {
        self.patience.map(|patience| patience.to_string()).or_else(|| std::env::var("QUINCUNX_PATIENCE").ok())
    }

    /// What every rank finds in its environment, whatever its number.
    fn environment(&self, design: &dyn AnyDesign) -> Result<BTreeMap<String, String>, Failure> {
        let mut set = Vec::new();
        if self.link == RunLink::Netns {
            // Slow links hold a window for long, and the acknowledges behind one of the other direction.
            let packet = if self.mtu < 4096 + 64 { 1024 } else { 4096 };
            set.push(format!("group.mtu={}", ByteCount::new(packet)));
            if let Some(rate) = self.rate {
                let windows = rate.time_for(ByteCount::new(65_536 * 4 * 4));
                set.push(format!("group.retry_timeout={}", windows.max(Transport::default().retry_timeout)));
            }
        }
        set.extend(self.set.iter().cloned());
        let mut settings = design.defaults();
        for pair in &set {
            let (key, text) = pair.split_once('=').ok_or_else(|| {
                Failure::Input(format!(
                    "expected --set KEY=VALUE, found \"{pair}\"; name a key and its value"
                ))
            })?;
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            design.set(&mut settings, key, &value).map_err(Failure::input)?;
        }
        // In a namespace the port is nobody else's; on loopback it is one that was free just now.
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(Failure::input)?;
        let mut common = BTreeMap::from([
            ("MASTER_PORT".to_owned(), port.port().to_string()),
            ("QUINCUNX_DESIGN".to_owned(), self.design.clone()),
            ("QUINCUNX_SET".to_owned(), set.join(",")),
        ]);
        common.extend(self.patience().map(|patience| ("QUINCUNX_PATIENCE".to_owned(), patience)));
        if let Some(identity) = &self.identity_options.identity {
            common.insert("QUINCUNX_IDENTITY".to_owned(), identity.display().to_string());
        }
        Ok(common)
    }
}
