//! `quincunx perf`.

use clap::{Args, ValueEnum};
use quincunx_collective::{Collective, DataType, ReduceOp};
use quincunx_control::{Design, HostDesign, ManagerConfig, MeshDesign};
use quincunx_fabric::{Relays, Shape};
use quincunx_perf::launch::{ChildArguments, Fabric, LinkKind};
use quincunx_perf::{Case, Plan, Setup};
use quincunx_units::{BitRate, ByteCount, Duration, SizeRange};
use serde_json::json;
use std::path::PathBuf;

use crate::Failure;
use crate::nodes::{Transport, Tuning};
use crate::progress::run_with_bar;

/// Loopback carries datagrams of any size: it is not the link that limits a payload there.
const LOOPBACK_MTU: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Link {
    /// Loopback addresses: no privilege, as fast as the machine
    Udp,
    /// Network namespaces with a link each; needs root
    Netns,
}

/// `quincunx perf`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx perf all_reduce --ranks 8 --design epic-3
  quincunx perf all_reduce --design epic-1,epic-2,epic-3,ring --tree tree-2x4 --sizes 4KiB:16MiB:4
  quincunx perf all_gather --tree mesh-2x4 --design multiwrite,unicast-multipath,direct --link netns --rate 50Mbit/s --sizes 64MiB
  quincunx perf broadcast --root 3 --link netns --rate 500Mbit/s --mtu 9000
  quincunx perf all_reduce --loss 5% --reorder 5% --duplicate 2% --seed 7 --retry-timeout 1ms

Columns: as nccl-tests has them, and netbw: the bytes that really crossed the busiest link of a rank over the time,
because busbw counts what a host algorithm would move.")]
pub(crate) struct Perf {
    /// all_reduce, reduce, broadcast, barrier, reduce_scatter or all_gather
    collective: Collective,
    /// Ranks
    #[arg(long, default_value_t = 8)]
    ranks: u16,
    /// epic-1, epic-2, epic-3, ring, tree or direct; on a mesh multiwrite, unicast-multipath or direct; several with commas
    #[arg(long, value_delimiter = ',', default_value = "epic-3")]
    design: Vec<Design>,
    /// star, tree-3-2 (levels-branches) or tree-2x4 (branches by level); mesh-2x4 (domains by ranks of each, no switches)
    #[arg(long, default_value = "star")]
    tree: String,
    /// Who relays for a rank of a mesh: paired (its partner in the next domain) or full (all of that domain)
    #[arg(long, default_value_t = Relays::Paired)]
    relays: Relays,
    /// One size, or first:last:factor
    #[arg(long, default_value = "4KiB:16MiB:4")]
    sizes: SizeRange,
    /// f32, f16, bf16 or i32
    #[arg(long, default_value = "f32")]
    dtype: DataType,
    /// sum, min or max
    #[arg(long, default_value = "sum")]
    op: ReduceOp,
    /// The root of reduce and broadcast
    #[arg(long, default_value_t = 0)]
    root: u16,
    /// Where the processes run
    #[arg(long, value_enum, default_value_t = Link::Udp)]
    link: Link,
    /// Rate of every link, each way, with --link netns
    #[arg(long)]
    rate: Option<BitRate>,
    /// MTU of every link in bytes, with --link netns
    #[arg(long, default_value_t = 9000)]
    mtu: u16,
    /// Bytes of payload in a full packet [default: 4096, or 1024 where the link's MTU is smaller]
    #[arg(long)]
    payload: Option<u64>,
    /// Packets in a message [default: as many as one system call takes, 15 of 4096 bytes]
    #[arg(long)]
    message: Option<u32>,
    /// Messages in flight; what finds a receive buffer full is lost, and without root net.core.rmem_max bounds it
    #[arg(long, default_value_t = Setup::WINDOW)]
    window: u32,
    /// Timed repetitions [default: as many as move 128 MiB, 5 to 400]
    #[arg(long)]
    iterations: Option<u32>,
    /// Combine in rank order, for equal bits every time
    #[arg(long)]
    reproducible: bool,
    /// Time without an acknowledge after which senders send again [default: 20ms, or what a link takes for four windows]
    #[arg(long)]
    retry_timeout: Option<Duration>,
    #[command(flatten)]
    tuning: Tuning,
    /// Write every node's frames to a file in this folder (pcapng, for Wireshark)
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

impl Perf {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let shape = Shape::for_ranks(&self.tree, self.ranks).map_err(Failure::input)?;
        self.check_designs(&shape)?;
        if self.root >= self.ranks {
            return Err(Failure::Input(format!(
                "expected a root below {}, found {}; name a rank with --root",
                self.ranks, self.root
            )));
        }
        if self.rate.is_some() && self.link == Link::Udp {
            return Err(Failure::Input(
                "expected --link netns with --rate, found --link udp; loopback cannot be limited".into(),
            ));
        }
        if self.tuning.transport == Transport::Packet && matches!(shape, Shape::Mesh(_)) {
            return Err(Failure::Input(format!(
                "expected --transport udp on {shape}, found packet, which serves one link; leave it out"
            )));
        }
        if self.tuning.transport == Transport::Packet && self.link == Link::Udp {
            return Err(Failure::Input(
                "expected --link netns with --transport packet, found --link udp; loopback is no Ethernet"
                    .into(),
            ));
        }
        let plan = self.plan(shape.switches());
        let kind = match self.link {
            Link::Udp => LinkKind::Udp,
            Link::Netns => LinkKind::Netns { rate: self.rate, mtu: self.mtu },
        };
        if let Some(folder) = &self.pcap {
            std::fs::create_dir_all(folder).map_err(|error| {
                Failure::Input(format!("expected to make the folder {}, found \"{error}\"", folder.display()))
            })?;
        }
        let program = std::env::current_exe().map_err(Failure::input)?;
        let arguments = ChildArguments {
            manager: vec!["--retry-timeout".into(), self.retry_timeout(&plan.setup).to_string()],
            nodes: self.tuning.arguments(),
        };
        let mut fabric =
            Fabric::start(&shape, kind, &program, arguments, self.pcap.clone()).map_err(Failure::input)?;
        let mut rows = Vec::new();
        let done = run_with_bar(&mut fabric, &plan, self.json.then_some(&mut rows));
        if self.json {
            println!("{}", json!({ "schema": 1, "command": "perf", "rows": rows }));
        }
        let wrong = done.map_err(Failure::input)?;
        if wrong > 0 {
            let seed = self.tuning.seed;
            return Err(Failure::Wrong(format!(
                "expected right results, found {wrong} wrong elements; replay with the same arguments and --seed {seed}"
            )));
        }
        Ok(())
    }

    /// Slow links hold a window for long, and the acknowledges behind one of the other direction.
    fn retry_timeout(&self, setup: &Setup) -> Duration {
        let window = ByteCount::new(setup.mtu * u64::from(setup.message) * u64::from(setup.window));
        let windows = self.rate.map_or(Duration::ZERO, |rate| rate.time_for(window * 4));
        self.retry_timeout.unwrap_or(windows.max(ManagerConfig::default().retry.timeout))
    }

    /// That each design runs on what there is, and the collective on that.
    fn check_designs(&self, shape: &Shape) -> Result<(), Failure> {
        for design in &self.design {
            let gathers_on_mesh = match design {
                Design::Mesh(design) => *design != MeshDesign::Writes,
                Design::Host(design) => *design == HostDesign::Direct,
                Design::Epic(_) => false,
            };
            let (expected, found) = match shape {
                Shape::Tree(_) if matches!(design, Design::Mesh(_)) => {
                    (format!("a mesh such as --tree mesh-2x4 for {design}"), format!("--tree {shape}"))
                }
                Shape::Mesh(_) if !gathers_on_mesh => {
                    let known = "--design multiwrite, unicast-multipath or direct";
                    (format!("{known} on {shape}"), format!("--design {design}"))
                }
                _ => continue,
            };
            return Err(Failure::Input(format!("expected {expected}, found {found}; change one of the two")));
        }
        if self.collective.is_routed() {
            return Err(Failure::Input(format!(
                "expected a collective of whole vectors, found {0}; simulate it: quincunx sim {0} --fabric two-servers",
                self.collective
            )));
        }
        let is_offered = matches!(self.collective, Collective::AllGather | Collective::Barrier);
        if matches!(shape, Shape::Mesh(_)) && !is_offered {
            let found = self.collective.name();
            return Err(Failure::Input(format!(
                "expected all_gather or barrier on {shape}, found {found}; choose a star or a tree for it"
            )));
        }
        Ok(())
    }

    fn plan(&self, switches: usize) -> Plan {
        let link_mtu = match self.link {
            Link::Udp => LOOPBACK_MTU,
            Link::Netns => self.mtu,
        };
        let payload = self.payload.unwrap_or(Setup::payload_for(link_mtu));
        let message = self.message.unwrap_or(Setup::message_for(payload));
        let sizes: Vec<u64> = match self.collective {
            Collective::Barrier => vec![0],
            _ => self.sizes.sizes().map(|size| size.bytes()).collect(),
        };
        let case = |design: &Design, bytes: u64| {
            let iterations = self.iterations.unwrap_or(Case::iterations_for(bytes));
            Case {
                design: design.to_string(),
                collective: self.collective.name().into(),
                root: self.root,
                bytes,
                data_type: self.dtype.to_string(),
                op: self.op.to_string(),
                iterations,
                warm_up: (iterations / 10).max(2),
            }
        };
        Plan {
            setup: Setup {
                ranks: self.ranks,
                switches,
                tree: self.tree.clone(),
                relays: self.relays.to_string(),
                mtu: payload,
                message,
                window: self.window,
                reproducible: self.reproducible,
                limit_seconds: 60,
            },
            cases: self
                .design
                .iter()
                .flat_map(|design| sizes.iter().map(|&bytes| case(design, bytes)))
                .collect(),
        }
    }
}
