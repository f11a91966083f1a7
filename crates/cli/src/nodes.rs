//! The processes of a fabric: manager, switch, rank.

use clap::{Args, ValueEnum};
use quincunx_control::{ManagerConfig, NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ManagerServer, ServerConfig};
use quincunx_design::Catalog;
use quincunx_driver_net::{NodeOptions, PacketKind, TransportOptions, UdpOptions};
use quincunx_network::FaultRates;
use quincunx_perf::{Plan, work};
use quincunx_runtime::{Drops, ProcessOptions, ROCE_PORT, encapsulation, serve_switch};
use quincunx_units::{ByteCount, Duration, Probability};
use quincunx_wire::Framing;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::Failure;

/// `quincunx manager`.
#[derive(Args)]
#[command(after_help = "Example:\n  quincunx manager --listen 10.0.0.9:4790")]
pub(crate) struct Manager {
    /// Where to serve; port 0 lets the system choose, and the choice is printed
    #[arg(long, default_value = "127.0.0.1:4790")]
    listen: SocketAddr,
    /// Silence after which a node counts as gone
    #[arg(long, default_value = "2s")]
    keep_alive: Duration,
}

impl Manager {
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        let listener = TcpListener::bind(self.listen).map_err(|error| {
            Failure::Input(format!(
                "expected to listen at {}, found \"{error}\"; choose another --listen address",
                self.listen
            ))
        })?;
        let manager = ManagerConfig { fallback, ..ManagerConfig::default() };
        let config = ServerConfig { manager, keep_alive: self.keep_alive };
        let server = ManagerServer::start(listener, catalog, config).map_err(Failure::input)?;
        println!("manager listens at {}", server.address());
        server.join().map_err(Failure::input)
    }
}

/// What switches and ranks have in common.
#[derive(Args)]
pub(crate) struct Node {
    /// The node's name, unlike any other's
    #[arg(long)]
    name: String,
    /// The IPv4 address that its frames come from and go to, UDP port 4791
    #[arg(long)]
    address: Ipv4Addr,
    /// Where the manager serves
    #[arg(long, default_value = "127.0.0.1:4790")]
    manager: SocketAddr,
    /// What frames are: roce-v2, or roce-v1 for designs whose frames are added up as they pass
    #[arg(long, default_value_t)]
    framing: Framing,
    /// A host's switch: with --framing roce-v1 over UDP, all frames go there and it sends them on
    #[arg(long, value_name = "ADDRESS")]
    via: Option<Ipv4Addr>,
    #[command(flatten)]
    tuning: Tuning,
    /// Whose frames meet faults, by address, several with commas [default: everybody's]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    faulty_peers: Vec<Ipv4Addr>,
    /// Take a neighbour's frames by whatever interface they come: needed where ways there and back differ. Else only by the one that `ip route
    /// get` names, so that nobody behind another can send as that neighbour
    #[arg(long)]
    any_interface: bool,
    /// Write all frames to this file (pcapng, for Wireshark)
    #[arg(long)]
    pcap: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// An ordinary UDP socket: no privilege, and the kernel takes many frames as one. RoCE v1 frames are in its datagrams, whole
    Udp,
    /// Whole Ethernet frames on the interface that has the node's address, one by one: needs root, and what other RoCE peers need
    Packet,
}

/// How a node's loop runs.
#[derive(Args, Clone)]
pub(crate) struct Tuning {
    /// How frames reach the network
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    pub(crate) transport: Transport,
    /// Look for frames for so long before sleeping
    #[arg(long, default_value_t = NodeOptions::default().spin)]
    pub(crate) spin: Duration,
    /// Measure where the time goes
    #[arg(long)]
    pub(crate) profile: bool,
    /// Lose so many arriving frames: 5%
    #[arg(long, default_value = "0")]
    pub(crate) loss: Probability,
    /// Take so many arriving frames twice
    #[arg(long, default_value = "0")]
    pub(crate) duplicate: Probability,
    /// Hold so many arriving frames back behind later ones
    #[arg(long, default_value = "0")]
    pub(crate) reorder: Probability,
    /// What decides over single frames: the same seed, the same fates
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Tuning {
    /// The same options for a child process, but for the transport; `with_loss` says whether every link loses frames alike.
    pub(crate) fn arguments(&self, with_loss: bool) -> Vec<String> {
        let mut arguments: Vec<String> = [
            ("--spin", self.spin.to_string()),
            ("--loss", self.loss.to_string()),
            ("--duplicate", self.duplicate.to_string()),
            ("--reorder", self.reorder.to_string()),
            ("--seed", self.seed.to_string()),
        ]
        .into_iter()
        .filter(|(name, _)| with_loss || *name != "--loss")
        .flat_map(|(name, value)| [name.to_string(), value])
        .collect();
        if self.profile {
            arguments.push("--profile".into());
        }
        arguments
    }
}

impl Node {
    fn options(self, catalog: Catalog, role: Role, memory: ByteCount) -> ProcessOptions {
        let Tuning { transport, spin, profile, loss, duplicate, reorder, seed } = self.tuning;
        // Each node has its own fates.
        let seed = seed ^ u64::from(self.address.to_bits()) << 32;
        // Those whose frames it would understand.
        let designs = catalog.iter().filter(|design| design.framing() == self.framing);
        let transport = match (transport, self.framing, role) {
            (Transport::Udp, ..) => {
                let via = self.via.map(|switch| SocketAddrV4::new(switch, ROCE_PORT));
                TransportOptions::Udp(UdpOptions { via, ..UdpOptions::default() })
            }
            (Transport::Packet, Framing::RoceV2, _) => TransportOptions::Packet(PacketKind::Udp),
            (Transport::Packet, Framing::RoceV1, Role::Host) => {
                TransportOptions::Packet(PacketKind::GlobalRoute)
            }
            (Transport::Packet, Framing::RoceV1, Role::Switch) => {
                TransportOptions::Packet(PacketKind::BridgedGlobalRoute)
            }
        };
        ProcessOptions {
            description: NodeDescription {
                name: self.name,
                role,
                address: self.address,
                encapsulation: encapsulation(transport),
                designs: designs.map(|design| design.name().to_owned()).collect(),
                max_endpoints: 4096,
                memory,
            },
            manager: self.manager,
            control: ClientConfig::default(),
            framing: self.framing,
            transport,
            any_interface: self.any_interface,
            node: NodeOptions {
                spin,
                profile,
                faults: FaultRates {
                    loss,
                    duplication: duplicate,
                    reordering: reorder,
                    ..FaultRates::default()
                },
                faulty_peers: self.faulty_peers,
                seed,
            },
            capture: self.pcap,
        }
    }
}

/// `quincunx switch`.
#[derive(Args)]
#[command(
    after_help = "Example:\n  quincunx switch --name leaf1 --address 10.0.0.1 --manager 10.0.0.9:4790 --memory 16MiB"
)]
pub(crate) struct Switch {
    #[command(flatten)]
    node: Node,
    /// Memory for payload and degree buffers; groups that need more run among their hosts
    #[arg(long, default_value = "64MiB")]
    memory: ByteCount,
    /// Print how many frames were dropped, by reason, as a line of JSON: when that has changed, once a second at most, and at the end
    #[arg(long)]
    drops: bool,
}

impl Switch {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let memory = self.memory;
        // Asked to end, it ends in order: what a capture still holds is written.
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::input)?;
        }
        let print = |drops: &Drops| {
            if self.drops {
                // Who does not listen any more does not miss it.
                let _ = writeln!(std::io::stdout(), "{}", json!(drops));
            }
        };
        serve_switch(catalog, &self.node.options(catalog, Role::Switch, memory), &stop, print)
            .map_err(Failure::input)
    }
}

/// `quincunx rank`.
#[derive(Args)]
pub(crate) struct Rank {
    #[command(flatten)]
    node: Node,
    /// All ranks' names, in rank order
    #[arg(long, value_delimiter = ',')]
    members: Vec<String>,
}

impl Rank {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map_err(Failure::input)?;
        let plan: Plan = serde_json::from_str(&line).map_err(Failure::input)?;
        let name = self.node.name.clone();
        let options = self.node.options(catalog, Role::Host, ByteCount::new(0));
        work(catalog, &plan, &options, &self.members, &mut std::io::stdout().lock())
            .map_err(|error| Failure::Input(format!("{name}: {error}")))
    }
}
