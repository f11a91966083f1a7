//! The processes of a fabric: manager, switch, rank.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use quincunx_control::policy::{self, Policy};
use quincunx_control::{LinkReport, ManagerConfig, NodeDescription, Role};
use quincunx_control_grpc::{
    ClientConfig, Credentials, ManagerAddress, ManagerServer, Managers, MetricsServer, Quotas, ServerConfig,
    StorePlace,
};
use quincunx_design::Catalog;
use quincunx_driver_net::{NodeOptions, Pace, TransportOptions};
use quincunx_network::FaultRates;
use quincunx_perf::{Plan, work};
use quincunx_runtime::{
    CaptureFile, ProcessOptions, ROCE_PORT, SwitchSnapshot, encapsulation, serve_linked_switch,
};
use quincunx_sockets::{PacketKind, UdpOptions};
use quincunx_units::{BitRate, ByteCount, Duration, Probability};
use quincunx_wire::{Framing, Gid};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::identity::{Init, Revoke};
use crate::logs::Logs;
use crate::metrics;
use crate::options::IdentityOptions;
use crate::out::say;
use crate::ports::{NodeAddress, Ports};
use crate::{Failure, interrupt};

/// How often at most it is told what was dropped, and how soon a switch's end is seen.
const DROPS_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);
const ENDED_POLL: std::time::Duration = std::time::Duration::from_millis(20);

/// `quincunx manager`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  quincunx manager                                    on this machine, for whoever is on it
  quincunx manager init certs --node leaf1 --tenant blue
  quincunx manager --listen 10.0.0.9:4790 --identity certs/manager.pem --audit audit.jsonl --metrics 127.0.0.1:9790
  quincunx manager --listen [::]:4790 --identity certs/manager.pem --tenants tenants.toml --log-format json
  quincunx manager --store groups.sqlite --standby --listen 127.0.0.1:4791

A manager that listens elsewhere than on loopback must have --identity: then all that reaches it is TLS, and whoever asks must show a
certificate of the same authority. --tenants limits what each may have:

  [default]
  groups = 16
  switch_memory = \"64MiB\"
  calls_per_second = 100
  [tenants.blue]
  groups = 64

It speaks grpc.health.v1 and server reflection beside its own service."
)]
pub(crate) struct Manager {
    #[command(subcommand)]
    command: Option<ManagerCommand>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Subcommand)]
enum ManagerCommand {
    /// Make an authority and certificates for manager, nodes, tenants and operators
    Init(Init),
    /// Revoke somebody's certificates at a manager at once, or list whose are revoked
    Revoke(Revoke),
}

#[derive(Args)]
struct Serve {
    /// Address or host name to serve on; with port 0 the system chooses, and the manager prints the choice
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4790")]
    listen: ManagerAddress,
    /// Time that a node may be silent, stopped by a debugger say, before it counts as gone; one whose process ends is gone at once
    #[arg(long, default_value = "10s")]
    keep_alive: Duration,
    /// Where to keep groups: a file (SQLite), or etcd if the command is built with `--features etcd`. A manager that starts again goes on with them, if their nodes come back
    #[arg(long, value_name = "FILE|etcd://HOST:PORT/PREFIX")]
    store: Option<StorePlace>,
    /// What to show to etcd, and whom to trust there: certificate, key and authority in one file; without, etcd is on loopback
    #[arg(long, value_name = "FILE", requires = "store")]
    store_identity: Option<PathBuf>,
    /// Wait for the manager that has the store to end, and then serve in its place
    #[arg(long, requires = "store")]
    standby: bool,
    /// Time that nodes have to reconnect after the manager or their agent has restarted
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    restart_timeout: Duration,
    /// End groups that lose a switch or a link, instead of making them anew on what is left
    #[arg(long)]
    no_remake: bool,
    /// Which tree of switches a group gets: edge-disjoint (a tree shares no link with another), spatial (memory for each group's life,
    /// lowest trees first), spatial-wide (widest trees first), temporal (as spatial, and groups of a job in different phases share memory), contention
    /// (as spatial, and groups share memory that is taken: they lock it for each collective, or run it among their hosts)
    #[arg(long, default_value = "spatial", value_parser = find_policy)]
    policy: &'static dyn Policy,
    /// With the policy contention: how long a group asks for locks that others have, before it runs a collective among its hosts;
    /// best no longer than what the tree saves
    #[arg(long, value_name = "DURATION", default_value = "0ns")]
    patience: Duration,
    #[command(flatten)]
    identity_options: IdentityOptions,
    /// File with the tenants' quotas (TOML)
    #[arg(long, value_name = "FILE")]
    tenants: Option<PathBuf>,
    /// File to add a line to for each call that changes something or is refused (JSON)
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Address to serve Prometheus metrics on, without TLS: best on loopback; the node prints it
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Where a browser finds the fabric, its groups and what happens: all of them, for whoever comes, so best on loopback
    #[arg(long, value_name = "ADDRESS")]
    dashboard: Option<SocketAddr>,
    /// Most connections at once; the manager closes any further one
    #[arg(long, default_value_t = ServerConfig::default().max_connections, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    max_connections: usize,
    #[command(flatten)]
    logs: Logs,
}

impl Manager {
    pub(crate) fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        match self.command {
            Some(ManagerCommand::Init(init)) => init.run(),
            Some(ManagerCommand::Revoke(revoke)) => revoke.run(),
            None => self.serve.run(catalog, fallback),
        }
    }
}

impl Serve {
    fn run(self, catalog: Catalog, fallback: Option<&'static str>) -> Result<(), Failure> {
        self.logs.start();
        interrupt::end_when_asked()?;
        let manager = ManagerConfig {
            fallback,
            policy: self.policy,
            patience: self.patience,
            restart_timeout: self.restart_timeout,
            // Who is silent for longer is gone by then.
            remake_timeout: self.keep_alive + self.keep_alive,
            recreates: !self.no_remake,
            ..ManagerConfig::default()
        };
        manager.check().map_err(Failure::input)?;
        let listener = ManagerServer::bind(&self.listen).map_err(|error| {
            Failure::Input(format!(
                "expected to listen at {}, found \"{error}\"; choose another --listen address",
                self.listen
            ))
        })?;
        let config = ServerConfig {
            manager,
            store: self.store()?,
            standby: self.standby,
            keep_alive: self.keep_alive,
            credentials: self.identity_options.credentials()?,
            quotas: self.quotas()?,
            audit: self.audit,
            metrics: self.metrics,
            dashboard: self.dashboard,
            max_connections: self.max_connections,
        };
        let server = ManagerServer::start(listener, catalog, config).map_err(Failure::input)?;
        say!("manager listens at {}", server.address());
        if let Some(metrics) = server.metrics_address() {
            say!("metrics at http://{metrics}/metrics");
        }
        if let Some(dashboard) = server.dashboard_address() {
            say!("dashboard at http://{dashboard}/");
        }
        server.join().map_err(Failure::input)
    }

    fn store(&self) -> Result<Option<StorePlace>, Failure> {
        let mut store = self.store.clone();
        match (&mut store, &self.store_identity) {
            (Some(StorePlace::Etcd { credentials, .. }), Some(path)) => {
                *credentials = Some(Credentials::read(path).map_err(Failure::input)?);
            }
            (Some(StorePlace::File(_)), Some(_)) => {
                return Err(Failure::Input(
                    "expected no --store-identity with a file, found one; it is for etcd".into(),
                ));
            }
            _ => {}
        }
        Ok(store)
    }

    fn quotas(&self) -> Result<Quotas, Failure> {
        let Some(path) = &self.tenants else { return Ok(Quotas::default()) };
        let wrong = |reason: String| {
            Failure::Input(format!(
                "expected quotas of tenants in {}, found {reason}; see `quincunx manager --help`",
                path.display()
            ))
        };
        let text = quincunx_scenario::read_text(path).map_err(|error| wrong(format!("\"{error}\"")))?;
        toml::from_str(&text).map_err(|error| wrong(quincunx_scenario::syntax(&text, &error)))
    }
}

fn find_policy(name: &str) -> Result<&'static dyn Policy, String> {
    let names = || policy::ALL.iter().map(|policy| policy.name()).collect::<Vec<_>>().join(", ");
    policy::find(name).ok_or_else(|| format!("expected one of {}", names()))
}

/// What switches and ranks have in common.
#[derive(Args)]
pub(crate) struct NodeArguments {
    /// The node's name, unlike any other's
    #[arg(long)]
    name: String,
    /// The address of IPv4 or IPv6 that its frames come from and go to, UDP port 4791. Of a switch several, with commas: a core for each, with a thread
    /// and groups of its own
    #[arg(long, value_delimiter = ',', required = true, value_name = "ADDRESS")]
    address: Vec<NodeAddress>,
    /// Where the manager serves: a host name, or an address of IPv4 or IPv6; several with commas if others stand by
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:4790")]
    manager: Managers,
    #[command(flatten)]
    identity_options: IdentityOptions,
    /// What frames are: roce-v2, or roce-v1 for designs whose frames are added up as they pass
    #[arg(long, default_value_t)]
    framing: Framing,
    /// A host's switch: with --framing roce-v1 over UDP, all frames go there and it sends them on
    #[arg(long, value_name = "ADDRESS")]
    via: Option<IpAddr>,
    /// Time to run without a manager while looking for the next one [default: 2s, or 10s with several managers]
    #[arg(long, value_name = "DURATION")]
    patience: Option<Duration>,
    /// The names of the nodes at the other ends of its links, several with commas; who knows none is in one network with all others of
    /// that sort. A switch that is told which of its interfaces leads there (leaf1@eth1) tells the manager when that goes down
    #[arg(long, value_delimiter = ',', value_name = "NAME[@INTERFACE]")]
    neighbours: Vec<Neighbour>,
    #[command(flatten)]
    tuning: Tuning,
    /// Hold links to this rate, as if they carried no more: a switch what it sends to each neighbour, a host all that it sends and all that
    /// it gets
    #[arg(long, value_name = "RATE")]
    pace: Option<BitRate>,
    /// Senders whose frames meet faults, by address, several with commas [default: all]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    faulty_peers: Vec<IpAddr>,
    /// Frames that a switch sends to ranks meet --loss and --duplicate, too: for ranks whose frames a device takes in
    #[arg(long)]
    lose_sent: bool,
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
    /// Frames are those of the RDMA device that has the node's address, hardware's or the kernel's software RoCE, by libibverbs: a rank's, or
    /// those of a switch at which connections end. Other switches beside such ranks have packet sockets
    Verbs,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "udp",
            Self::Packet => "packet",
            Self::Verbs => "verbs",
        })
    }
}

/// How a node's loop runs.
#[derive(Args, Clone)]
pub(crate) struct Tuning {
    /// How frames reach the network
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    pub(crate) transport: Transport,
    /// Time to poll for frames before sleeping
    #[arg(long, default_value_t = NodeOptions::default().spin)]
    pub(crate) spin: Duration,
    /// Measure the time of each step of the loop
    #[arg(long)]
    pub(crate) profile: bool,
    /// Share of arriving frames to lose: 5%
    #[arg(long, default_value = "0")]
    pub(crate) loss: Probability,
    /// Share of arriving frames to duplicate
    #[arg(long, default_value = "0")]
    pub(crate) duplicate: Probability,
    /// Share of arriving frames to delay behind later ones
    #[arg(long, default_value = "0")]
    pub(crate) reorder: Probability,
    /// Seed of these faults: the same seed gives the same faults
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Tuning {
    /// Whether frames meet any fault.
    pub(crate) fn has_faults(&self) -> bool {
        [self.loss, self.duplicate, self.reorder].iter().any(|rate| rate.value() > 0.0)
    }

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

/// A node at the other end of a link, and the interface that leads there.
#[derive(Clone)]
struct Neighbour {
    name: String,
    interface: Option<String>,
}

impl FromStr for Neighbour {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once('@') {
            Some((name, interface)) => Self { name: name.into(), interface: Some(interface.into()) },
            None => Self { name: text.into(), interface: None },
        })
    }
}

fn link(neighbour: &Neighbour) -> LinkReport {
    LinkReport {
        neighbour: neighbour.name.clone(),
        parallel_links: 1,
        rate: None,
        interface: neighbour.interface.clone(),
    }
}

impl NodeArguments {
    fn options(self, catalog: Catalog, role: Role, memory: ByteCount) -> Result<ProcessOptions, Failure> {
        let Tuning { transport, spin, profile, loss, duplicate, reorder, seed } = self.tuning;
        if transport == Transport::Verbs && (self.tuning.has_faults() || self.pcap.is_some()) {
            return Err(Failure::Input(
                "expected no faults and no --pcap with --transport verbs, found some: the device sends the frames; give these options to switches instead"
                    .into(),
            ));
        }
        let address = self.address[0].ip;
        let cores: Vec<IpAddr> = self.address[1..].iter().map(|core| core.ip).collect();
        if self.pace.is_some() && !cores.is_empty() {
            return Err(Failure::Input(
                "expected one --address beside --pace, found several: a core holds back its own frames alone; limit the link itself".into(),
            ));
        }
        // Each node has its own fates.
        let seed = seed ^ u64::from(Gid::of(address).to_bits() as u32) << 32;
        // Those whose frames it would understand.
        let designs = catalog.above_queue_pairs().filter(|design| design.about().framing == self.framing);
        let transport = match (transport, self.framing, role) {
            (Transport::Udp, ..) => {
                let via = self.via.map(|switch| SocketAddr::new(switch, ROCE_PORT));
                TransportOptions::Udp(UdpOptions { via, ..UdpOptions::default() })
            }
            (Transport::Verbs, Framing::RoceV1, _) => {
                return Err(Failure::Input(
                    "expected --transport verbs of a node whose frames are roce-v2, found --framing roce-v1; leave one of the two out"
                        .into(),
                ));
            }
            (Transport::Packet | Transport::Verbs, Framing::RoceV2, _) => {
                TransportOptions::Packet(PacketKind::Udp)
            }
            (Transport::Packet, Framing::RoceV1, Role::Host) => {
                TransportOptions::Packet(PacketKind::GlobalRoute)
            }
            (Transport::Packet, Framing::RoceV1, Role::Switch) => {
                TransportOptions::Packet(PacketKind::BridgedGlobalRoute)
            }
        };
        Ok(ProcessOptions {
            description: NodeDescription {
                role,
                cores,
                encapsulation: encapsulation(&transport),
                memory,
                links: self.neighbours.iter().map(link).collect(),
                ..NodeDescription::host(self.name, address, 4096)
            }
            .offering(designs),
            control: ClientConfig {
                patience: self.patience.unwrap_or(self.manager.patience()),
                ..self.identity_options.client()?
            },
            manager: self.manager,
            framing: self.framing,
            transport,
            any_interface: self.any_interface,
            offload: self.tuning.transport == Transport::Verbs,
            hardware: None,
            lose_sent: self.lose_sent,
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
                pace: self.pace.map(|rate| Pace { rate, is_switch: role == Role::Switch }),
                seed,
            },
            capture: self.pcap.map(CaptureFile::new),
        })
    }
}

/// `quincunx switch`.
#[derive(Args)]
#[command(after_help = "Examples:\n  quincunx switch --name leaf1 --address 127.0.0.2 --memory 16MiB
  quincunx switch --name leaf1 --address 10.0.0.1 --manager 10.0.0.9:4790 --identity certs/node-leaf1.pem --metrics 127.0.0.1:9791
  quincunx switch --name leaf1 --address 127.0.0.2,127.0.0.3         two cores
  quincunx switch --name s0 --address 10.0.0.9/24 --port eth1 --port eth2 --port eth3 --port eth4
  quincunx switch --name s0 --address 10.0.0.9/24 --port eth1 --port eth2 --sockets xdp
  quincunx switch --name s0 --address 10.0.0.9 --transport verbs              a server, whose NIC has the queue pairs")]
pub(crate) struct Switch {
    #[command(flatten)]
    node: NodeArguments,
    #[command(flatten)]
    ports: Ports,
    /// Memory for payload and degree buffers; groups that need more run among their hosts
    #[arg(long, default_value = "64MiB")]
    memory: ByteCount,
    /// Allocate memory in multiples of this
    #[arg(long, value_name = "SIZE", default_value = "1B")]
    memory_unit: ByteCount,
    /// Run parts of these designs alone, as a switch whose functions are fixed does [default: all]
    #[arg(long, value_delimiter = ',', value_name = "DESIGNS")]
    offers: Vec<String>,
    /// Neighbours in a tree that it can join [default: as many as it has queue pairs]
    #[arg(long, value_name = "NUMBER")]
    max_fan_in: Option<u16>,
    /// Each port serves one group at a time, as ports with buffers of their own do
    #[arg(long)]
    one_group_a_port: bool,
    /// A simulator that `rtl/bench/simulators.py` built, to run what the switch would: groups that it cannot be in are refused
    #[arg(long, value_name = "PROGRAM")]
    hardware: Option<PathBuf>,
    /// Address to serve Prometheus metrics on, without TLS: best on loopback; the node prints it
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    #[command(flatten)]
    logs: Logs,
    /// Print how many frames were dropped, by reason, as a line of JSON: when that has changed, once a second at most, and at the end
    #[arg(long)]
    drops: bool,
}

impl Switch {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        self.logs.start();
        let memory = self.memory;
        // Asked to end, it ends in order: what a capture still holds is written.
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::input)?;
        }
        let snapshot = Arc::new(SwitchSnapshot::default());
        let interface = |neighbour: &Neighbour| Some((neighbour.name.clone(), neighbour.interface.clone()?));
        let interfaces = self.node.neighbours.iter().filter_map(interface).collect();
        let ports = self.ports.transport(&self.node.address, self.node.framing)?;
        let mut options = self.node.options(catalog, Role::Switch, memory)?;
        options.transport = ports.unwrap_or(options.transport);
        if self.hardware.is_some() && options.offload {
            return Err(Failure::Input(
                "expected frames of the switch's own for --hardware, found --transport verbs; connections end at the RDMA device there: leave one of them out".to_string(),
            ));
        }
        options.hardware = self.hardware;
        let NodeDescription { memory_unit, max_fan_in, one_group_a_port, designs, .. } =
            &mut options.description;
        if let Some(unknown) = self.offers.iter().find(|name| !designs.contains(*name)) {
            let known: Vec<&str> = designs.iter().map(String::as_str).collect();
            return Err(Failure::Input(format!(
                "expected --offers of {}, found \"{unknown}\"; name designs with this switch's framing",
                known.join(", ")
            )));
        }
        if !self.offers.is_empty() {
            *designs = self.offers.iter().cloned().collect();
        }
        *memory_unit = self.memory_unit;
        *max_fan_in = self.max_fan_in;
        *one_group_a_port = self.one_group_a_port;
        let metrics = match self.metrics {
            Some(address) => {
                let (snapshot, description) = (Arc::clone(&snapshot), options.description.clone());
                let page = move || metrics::of_switch(&description, &snapshot.counts(), &snapshot.cores());
                let served = MetricsServer::start(address, page).map_err(|error| {
                    Failure::Input(format!(
                        "expected to serve metrics at {address}, found \"{error}\"; choose another --metrics address"
                    ))
                })?;
                say!("metrics at http://{}/metrics", served.address());
                Some(served)
            }
            None => None,
        };
        let ended = AtomicBool::new(false);
        let done = thread::scope(|scope| {
            if self.drops {
                scope.spawn(|| print_drops(&snapshot, &ended));
            }
            let done =
                serve_linked_switch(catalog, &options, &interfaces, &stop, &snapshot).map_err(Failure::input);
            ended.store(true, Ordering::Release);
            done
        });
        drop(metrics);
        done.and_then(|()| captured(&options))
    }
}

/// Prints what a switch has dropped when that has changed, until it has ended.
fn print_drops(snapshot: &SwitchSnapshot, ended: &AtomicBool) {
    let (mut told, mut next) = (BTreeMap::new(), Instant::now());
    loop {
        let is_last = ended.load(Ordering::Acquire);
        if is_last || Instant::now() >= next {
            let drops = snapshot.counts().dropped;
            if drops != told {
                // Who does not listen any more does not miss it.
                let _ = writeln!(std::io::stdout(), "{}", json!(drops));
                told = drops;
            }
            next = Instant::now() + DROPS_INTERVAL;
        }
        if is_last {
            return;
        }
        thread::sleep(ENDED_POLL);
    }
}

/// `quincunx rank`.
#[derive(Args)]
pub(crate) struct Rank {
    #[command(flatten)]
    node: NodeArguments,
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
        let [address] = self.node.address[..] else {
            return Err(Failure::Input(format!(
                "expected one --address of a rank, found {}; a switch alone has several cores",
                self.node.address.len()
            )));
        };
        address.plain()?;
        let options = self.node.options(catalog, Role::Host, ByteCount::new(0))?;
        work(catalog, &plan, &options, &self.members, &mut std::io::stdout().lock())
            .map_err(|error| Failure::Input(format!("{name}: {error}")))?;
        captured(&options)
    }
}

/// Whether a node that has ended has written all of its frames, if it was to.
fn captured(options: &ProcessOptions) -> Result<(), Failure> {
    let failure = options.capture.as_ref().and_then(CaptureFile::failure);
    failure.map_or(Ok(()), |failure| Err(Failure::input(failure)))
}
