//! `quincunx perf`.

use clap::{ArgGroup, Args, ValueEnum};
use quincunx_collective::{Collective, DataType, Op, ReduceOp};
use quincunx_control_grpc::Managers;
use quincunx_design::{AnyDesign, Catalog, FabricKind};
use quincunx_fabric::Shape;
use quincunx_perf::launch::{ChildArguments, LinkKind, Processes};
use quincunx_perf::{Case, GroupsSetup, Plan, RealLinks, Task, TokenCase};
use quincunx_scenario::{Override, Scenario};
use quincunx_units::{BitRate, ByteCount, Duration, SizeRange};
use quincunx_wire::Framing;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::Failure;
use crate::memory;
use crate::nodes::{Transport, Tuning};
use crate::options::{CollectiveOptions, IdentityOptions, Sweep, data_type};
use crate::ports::Sockets;
use crate::progress::run_with_bar;
use crate::results::{Printed, described};

use crate::running::{Running, check_addresses};

/// How long the manager waits for a word of ranks that another program has started.
const SILENCE: [&str; 2] = ["--keep-alive", "60s"];

/// Why nothing is lost where no frame is a process's of ours.
const NOBODY_LOSES: &str =
    "expected no faults with --switch-launcher, found some: all frames are the devices'; leave it out";

/// The parameter that says that ranks' queue pairs cannot skip PSNs.
const STANDARD_VERBS: &str = "group.standard_verbs";

/// The parameter that devices do not know: they go back N.
const SELECTIVE: &str = "group.selective";

/// What runs if nothing else is said.
const DEFAULT: &str = "epic-3";

/// What messages between ranks travel by.
fn offering_writes(catalog: Catalog) -> Option<&'static dyn AnyDesign> {
    catalog.on(FabricKind::Mesh).find(|design| design.about().writes)
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PerfLink {
    /// Loopback addresses: no privilege, as fast as the machine
    Udp,
    /// Loopback addresses, where the processes hold themselves to links of --rate: no privilege
    Paced,
    /// Network namespaces with a link each; needs root
    Netns,
    /// The same, where all frames between hosts go through the ports of our switches (`switch --port`); needs root
    Ports,
}

/// `quincunx perf`.
#[derive(Args)]
#[command(group = ArgGroup::new("limit").multiple(true).args(["rate", "fabric"]))]
#[command(mut_arg("identity", |identity| identity.requires("manager")))]
#[command(after_help = "Examples:
  quincunx perf all_reduce --ranks 8 --design epic-3
  quincunx perf all_reduce --design epic-1,epic-2,epic-3,ring --tree tree-2x4 --sizes 4KiB:16MiB:4
  quincunx perf all_gather --tree mesh-2x4 --design multiwrite,unicast-multipath,direct --link netns --rate 50Mbit/s --sizes 64MiB
  quincunx perf all_reduce -b 4K -e 16M -f 4 -g 8                as nccl-tests take it
  quincunx perf all_reduce --dtype double --op avg --in-place    a program's memory, and what its copies cost
  quincunx perf all_to_all --ranks 4 --sizes 1MiB                messages: also send_receive, gather and scatter
  quincunx perf all_reduce --ranks 4 --cores 2 --set group.channels=2  a switch of two cores, half of each vector on each
  quincunx perf all_reduce --ranks 8 --addresses 127.0.0.77      all ranks behind one address, as torchrun has a machine's
  quincunx perf broadcast --root 3 --link netns --rate 500Mbit/s --mtu 9000
  quincunx perf all_reduce --design epic-3,ring --link paced --rate 200Mbit/s       limited links without root
  quincunx perf all_reduce --design netreduce,ring --link netns --rate 500Mbit/s --mtu 1500 --set group.mtu=1024 --sizes 4MiB
  quincunx perf all_reduce --loss 5% --reorder 5% --duplicate 2% --seed 7 --retry-timeout 1ms
  quincunx perf all_reduce --ranks 4 --link ports --sockets xdp      between switches' own ports, by XDP sockets
  quincunx perf all_reduce --fabric my-cluster.toml --design epic-3 --link netns
  quincunx perf all_reduce --manager manager.example:4790 --identity certs/tenant-blue.pem --addresses 10.0.0.11,10.0.0.12 --ranks 8 --rank-launcher ./there.sh

Ranks on several machines: --addresses names those of the machines, and --rank-launcher a program that starts a command there, as
  exec ssh \"$QUINCUNX_ADDRESS\" \"$(printf '%q ' \"$@\")\"
with quincunx and the certificate where they are here.

With --manager the ranks use a fabric that runs already, and nothing else is started: its manager and its switches stay as they are.
Ranks have names of their own (perf-1f0c9a3b-0 and so on) and the addresses that --addresses gives, or some of loopback where the
switches are there, too.

--fabric takes the files that `quincunx sim` takes. Links are those of this machine: of what a file says of them link.rate alone is
kept, with --link paced or netns: it counts Ethernet frames as they are, headers included, without FCS and gaps. What real hosts and switches
cannot honour, such as congestion, is refused.

Columns: as nccl-tests has them, and netbw: the bytes that really crossed the busiest link of a rank over the time,
because busbw counts what a host algorithm would move. Below the table: frames that were dropped, by reason; in JSON `drops`, of ranks in\neach row, of switches beside the rows.")]
pub(crate) struct Perf {
    /// all_reduce, reduce, broadcast, barrier, reduce_scatter or all_gather; tokens to their experts and back: dispatch, combine; by messages
    /// between ranks: all_to_all, send_receive, gather or scatter
    #[arg(value_name = "COLLECTIVE")]
    task: Task,
    /// A preset, a shape or a file, in place of --ranks and --tree
    #[arg(long, conflicts_with_all = ["ranks", "tree"])]
    fabric: Option<String>,
    /// Ranks
    #[arg(short = 'g', long, default_value_t = 8)]
    ranks: u16,
    /// Designs, several with commas [default: epic-3, and for messages the one that offers writes]
    #[arg(long, value_delimiter = ',')]
    design: Vec<String>,
    /// star, tree-3-2 (levels-branches) or tree-2x4 (branches by level); mesh-2x4 (domains by ranks of each, no switches);
    /// leaf-spine-2x2x4 (leaves, spines, hosts a leaf), fat-tree-K or rail-VxAxS
    #[arg(long, default_value = "star")]
    tree: String,
    /// Set a key of the scenario, or a parameter of the designs: loss.probability=5%, group.selective=false; `quincunx sim --show DESIGN`
    /// lists them
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Relays for a rank of a mesh, paired or full: short for --set relay.relays
    #[arg(long)]
    relays: Option<String>,
    /// One size, or first:last:factor, 4K is 4KiB [default: 4KiB:16MiB:4]
    #[arg(long, visible_alias = "size")]
    sizes: Option<SizeRange>,
    #[command(flatten)]
    sweep: Sweep,
    /// f32, f16, bf16, i32, f64, i64, u64, u32, i16, i8, u8, e4m3 or e5m2 (8-bit floats), or as nccl-tests say: float, half, int8, fp8_e4m3
    /// and so on; mxfp8 or nvfp4: blocks that share a scale, in tiles of 1024 or 64 bytes
    #[arg(short = 'd', long, visible_alias = "datatype", default_value = "f32", value_parser = data_type)]
    dtype: DataType,
    /// sum, min, max, prod or avg; band, bor or bxor of integers [default: sum]
    #[arg(short = 'o', long)]
    op: Option<Op>,
    /// Input and output are one memory, an application's: through the library that programs use, so that copies are in the times
    #[arg(long)]
    in_place: bool,
    /// Of dispatch and combine: experts, as many on each rank
    #[arg(long, default_value_t = 16)]
    experts: u16,
    /// Of dispatch and combine: experts of a token
    #[arg(long, default_value_t = 8)]
    top_k: u16,
    /// Of dispatch and combine: bytes of a token; sizes are those of all of a rank's tokens
    #[arg(long, default_value = "4KiB")]
    token: ByteCount,
    /// Of dispatch and combine: ranks of a server, between which bytes are counted [default: half of all]
    #[arg(long)]
    server: Option<u16>,
    /// The root of what has one: reduce, broadcast, gather, scatter [default: 0]
    #[arg(short = 'r', long)]
    root: Option<u16>,
    /// Where the processes run
    #[arg(long, value_enum, default_value_t = PerfLink::Udp, requires_if("paced", "limit"))]
    link: PerfLink,
    /// Sockets at the ports of --link ports; links with XDP sockets have no --rate
    #[arg(long, value_enum, default_value_t)]
    sockets: Sockets,
    /// Use the fabric of this running manager, and start only ranks
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["link", "rate", "mtu"])]
    manager: Option<Managers>,
    #[command(flatten)]
    identity_options: IdentityOptions,
    /// The ranks' addresses, in rank order, of this machine, or of those where --rank-launcher starts them: fewer than ranks go round, so that
    /// several ranks share one [default: one of loopback for each]
    #[arg(long, value_delimiter = ',')]
    addresses: Vec<IpAddr>,
    /// Rate of every link, each way, with --link paced or netns, of all that is in an Ethernet frame; short for --set link.rate
    #[arg(long)]
    rate: Option<BitRate>,
    /// MTU of every link in bytes, with --link netns [default: 9000]
    #[arg(long)]
    mtu: Option<u16>,
    /// Addresses of IPv6, with --link netns or ports: its loopback has one for all
    #[arg(long, conflicts_with = "manager")]
    ipv6: bool,
    /// Bytes of payload in a full packet, short for --set group.mtu [default: 4096, or 1024 where the link's MTU is smaller or --addresses
    /// are not of loopback]
    #[arg(long)]
    payload: Option<u64>,
    /// Packets in a message, short for --set group.message [default: as many as one system call takes, 15 of 4096 bytes]
    #[arg(long)]
    message: Option<u32>,
    /// Messages in flight, short for --set group.window; what finds a receive buffer full is lost, and without root
    /// net.core.rmem_max bounds it [default: 4]
    #[arg(long)]
    window: Option<u32>,
    /// Timed repetitions [default: as many as move 128 MiB, 5 to 400]
    #[arg(short = 'n', long, visible_alias = "iters", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Combine in rank order, for equal bits every time: short for --set group.reproducible=true
    #[arg(long)]
    reproducible: bool,
    /// Time without an acknowledge after which senders send again, short for --set group.retry_timeout [default: 20ms, or what a
    /// link takes for four windows]
    #[arg(long)]
    retry_timeout: Option<Duration>,
    /// Cores of each switch, on loopback: groups are spread over them, and a group's channels (--set group.channels=2)
    #[arg(long, default_value_t = 1, conflicts_with = "manager", value_parser = clap::value_parser!(u16).range(1..=16))]
    cores: u16,
    /// A program that starts each rank where it is, with the rank's command line as its arguments and its address as QUINCUNX_ADDRESS, and
    /// passes input and output on: ssh to that machine; tools/rxe-guest/node.sh boots a guest with a kernel of its own
    #[arg(long, value_name = "PROGRAM")]
    rank_launcher: Option<PathBuf>,
    /// The same for each switch, whose queue pairs are those of a device then, too: for designs whose connections end there (epic-1)
    #[arg(long, value_name = "PROGRAM", requires = "rank_launcher", conflicts_with = "pcap")]
    switch_launcher: Option<PathBuf>,
    #[command(flatten)]
    tuning: Tuning,
    /// Write every node's frames to a file in this folder (pcapng, for Wireshark)
    #[arg(long)]
    pcap: Option<PathBuf>,
    /// Time limit for ranks to form a group; after it the run ends and names the missing ones
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    join_timeout: Duration,
    #[command(flatten)]
    printed: Printed,
}

impl Perf {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        self.check_together()?;
        let links = self.links();
        let scenario = self.scenario(catalog, links)?;
        let shape = scenario.fabric.shape().ok_or_else(|| {
            Failure::Input(format!(
                "expected a tree of switches, a mesh of hosts, or a shape such as leaf-spine-2x2x4, found {}; name another fabric, or simulate it",
                scenario.place()
            ))
        })?;
        if shape.switches() * usize::from(self.cores - 1) > 254 {
            return Err(Failure::Input(format!(
                "expected at most 254 further cores, found {} for each of {} switches; name fewer --cores",
                self.cores - 1,
                shape.switches()
            )));
        }
        self.check_library(&shape)?;
        let tokens = self.tokens(shape.ranks())?;
        let designs = self.designs(catalog, &shape)?;
        let sizes = self.sizes.or(self.sweep.sizes()?);
        let collective_options =
            CollectiveOptions { root: self.root, op: self.op, sizes, data_type: self.dtype };
        collective_options.task(self.task, shape.ranks())?;
        let sizes: Vec<u64> = match self.task {
            Task::Collective(Collective::Barrier) => vec![0],
            _ => collective_options.sizes("4KiB:16MiB:4")?.into_iter().map(ByteCount::bytes).collect(),
        };
        memory::refuse_more(sizes.iter().copied().max().unwrap_or_default(), shape.ranks())?;
        let transport = self.tuning.transport;
        if transport != Transport::Udp && !matches!(shape, Shape::Tree(_)) {
            return Err(Failure::Input(format!(
                "expected --transport udp on {shape}, found {transport}, which serves one link; leave it out"
            )));
        }
        if let Some(design) = designs.iter().find(|design| design.about().framing != Framing::RoceV2) {
            let name = design.name();
            if self.link == PerfLink::Ports {
                return Err(Failure::Input(format!(
                    "expected designs of roce-v2 frames with --link ports, found {name}; run it with --link netns"
                )));
            }
            if self.cores > 1 {
                return Err(Failure::Input(format!(
                    "expected designs of roce-v2 frames with --cores, found {name}, whose frames pass the switch on their way to others; leave it out"
                )));
            }
        }
        check_addresses(&self.addresses, shape.ranks())?;
        let setup = GroupsSetup::new(catalog, &designs, &scenario).map_err(Failure::input)?;
        self.check_pieces(&setup, &designs)?;
        let setup = GroupsSetup { join: self.join_timeout, ..setup };
        let mut plan = self.plan(&designs, setup, (&sizes, tokens));
        if self.manager.is_some() {
            // They run already, or the manager says which are missing.
            plan.setup.switches = 0;
        }
        let kind = self.kind(links, &scenario)?;
        let lossy = scenario.faults.loss.clone().filter(|loss| loss.probability.value() > 0.0);
        if lossy.is_some() && self.switch_launcher.is_some() {
            return Err(Failure::Input(NOBODY_LOSES.into()));
        }
        if lossy.is_some() && self.tuning.loss.value() > 0.0 {
            return Err(Failure::Input(format!(
                "expected --loss or loss.probability, found both; --loss {} is of every link, leave one out",
                self.tuning.loss
            )));
        }
        if let Some(folder) = self.pcap.as_ref().filter(|folder| !folder.is_dir()) {
            std::fs::create_dir(folder).map_err(|error| {
                Failure::Input(format!("expected to make the folder {}, found \"{error}\"", folder.display()))
            })?;
        }
        let program = std::env::current_exe().map_err(Failure::input)?;
        let mut nodes = self.tuning.arguments(lossy.is_none());
        let identity_options = match self.manager {
            Some(_) => self.identity_options.or_environment(),
            None => self.identity_options.clone(),
        };
        if let Some(identity) = &identity_options.identity {
            nodes.extend(["--identity".to_owned(), identity.display().to_string()]);
        }
        let running = match &self.manager {
            Some(_) if lossy.is_some() => {
                return Err(Failure::Input(
                    "expected no loss.probability with --manager, whose switches run already; --loss is of the ranks"
                        .into(),
                ));
            }
            Some(manager) => Some(Running::find(manager, &identity_options, &self.addresses, shape.ranks())?),
            None => None,
        };
        let start = |framing| {
            let (nodes, lossy) = (nodes.clone(), lossy.clone());
            let arguments = ChildArguments {
                // What starts ranks elsewhere may be slow to answer.
                manager: self.rank_launcher.iter().flat_map(|_| SILENCE).map(str::to_owned).collect(),
                nodes,
                lossy,
                framing,
                packet_sockets: self.tuning.transport != Transport::Udp,
                ipv6: self.ipv6,
                verbs: self.tuning.transport == Transport::Verbs,
                addresses: self.addresses.clone(),
                cores: self.cores,
                rank_launcher: self.rank_launcher.clone(),
                switch_launcher: self.switch_launcher.clone(),
            };
            match &running {
                Some(running) => {
                    let fabric = running.fabric(catalog, framing);
                    Ok(Processes::join(&shape, fabric, &program, arguments, self.pcap.clone()))
                }
                None => Processes::start(&shape, kind, &program, arguments, self.pcap.clone()),
            }
        };
        let mut rows = Vec::new();
        let mut drops = BTreeMap::new();
        let done =
            run_with_bar(catalog, &plan, start, !self.printed.is_for_programs(), &mut rows, &mut drops);
        if let Some(running) = &running {
            running.tidy();
        }
        if self.printed.is_for_programs() {
            let mut object = described("perf");
            object["rows"] = json!(rows);
            object["drops"] = json!(drops);
            self.printed.print(&object);
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

    /// Refuses options that do not go together. clap refuses those that never do; these depend on what the options say.
    fn check_together(&self) -> Result<(), Failure> {
        let (link, transport) = (self.link, self.tuning.transport);
        let is_loopback = matches!(link, PerfLink::Udp | PerfLink::Paced);
        let has_limit = self.rate.is_some() || self.fabric.is_some();
        let has_faults = self.tuning.has_faults();
        let is_device = self.switch_launcher.is_some();
        // A fabric that runs already has links of its own.
        let needs_ethernet =
            transport == Transport::Packet || (transport == Transport::Verbs && self.manager.is_none());
        let together = [
            (
                link == PerfLink::Udp && self.rate.is_some(),
                "expected --link paced or netns with --rate, found --link udp, which is as fast as the machine; name one",
            ),
            (
                self.sockets == Sockets::Xdp && (link != PerfLink::Ports || has_limit),
                "expected --link ports without --rate or --fabric with --sockets xdp, found another: the queue that limits a link is passed by; leave it out",
            ),
            (
                is_loopback && self.mtu.is_some(),
                "expected --link netns or ports with --mtu, found loopback, which has an MTU of its own; name one of the two",
            ),
            (
                link != PerfLink::Udp && !self.addresses.is_empty(),
                "expected --link udp with --addresses, found another, whose ranks have a link and an address each; leave one out",
            ),
            (
                is_loopback && needs_ethernet,
                "expected --link netns with --transport packet or verbs, found loopback, which is no Ethernet; name it",
            ),
            (
                transport == Transport::Verbs && self.manager.is_some() && has_faults,
                "expected no faults with --transport verbs and --manager, found some: frames are the devices', and the switches run already",
            ),
            (
                is_device && (transport != Transport::Verbs || link != PerfLink::Netns),
                "expected --transport verbs and --link netns with --switch-launcher, found another; say both, or leave it out",
            ),
            (is_device && has_faults, NOBODY_LOSES),
            (
                link != PerfLink::Udp && self.cores > 1,
                "expected --link udp with --cores, found another; other links lead to one address of a switch",
            ),
            (
                is_loopback && self.ipv6,
                "expected --link netns or ports with --ipv6, found loopback, where IPv6 has one address for all; name one of the two",
            ),
        ];
        match together.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err(Failure::Input(why.into())),
            None => Ok(()),
        }
    }

    /// What links can honour of a scenario.
    fn links(&self) -> RealLinks {
        match self.link {
            // Of what lies between machines nobody here knows more than that it takes as much as any Ethernet does.
            PerfLink::Udp if self.addresses.iter().any(|address| !address.is_loopback()) => {
                let over_ipv4 = RealLinks { mtu: 1500, is_limited: false };
                let is_ipv6 = self.addresses.iter().any(IpAddr::is_ipv6);
                if is_ipv6 { over_ipv4.over_ipv6() } else { over_ipv4 }
            }
            PerfLink::Udp => RealLinks::LOOPBACK,
            PerfLink::Paced => RealLinks::PACED,
            // A scenario's links have a rate; those that nobody says anything of are as fast as the machine.
            PerfLink::Netns | PerfLink::Ports => {
                let is_limited = self.rate.is_some() || self.fabric.is_some();
                let over_ipv4 = RealLinks { mtu: self.mtu(), is_limited };
                if self.ipv6 { over_ipv4.over_ipv6() } else { over_ipv4 }
            }
        }
    }

    /// Where the processes run, with what the scenario says of links.
    fn kind(&self, links: RealLinks, scenario: &Scenario) -> Result<LinkKind, Failure> {
        let (rate, mtu) = (links.rate(&scenario.fabric), self.mtu());
        Ok(match (self.link, rate) {
            (PerfLink::Udp, _) => LinkKind::Udp,
            (PerfLink::Paced, Some(rate)) => LinkKind::Paced { rate },
            (PerfLink::Paced, None) => {
                return Err(Failure::Input(format!(
                    "expected a fabric of packets with --link paced, found {}; name another",
                    scenario.place()
                )));
            }
            (PerfLink::Netns, rate) => LinkKind::Netns { rate, mtu },
            (PerfLink::Ports, rate) => LinkKind::Ports { rate, mtu, sockets: self.sockets.into() },
        })
    }

    /// What goes to experts, if that is what is asked for.
    fn tokens(&self, ranks: u16) -> Result<Option<TokenCase>, Failure> {
        if !matches!(self.task, Task::Collective(collective) if collective.is_routed()) {
            return Ok(None);
        }
        let refuse = |expected: &str, found: String| {
            Err(Failure::Input(format!("expected {expected} with {}, found {found}; change it", self.task)))
        };
        let Self { experts, top_k, token, .. } = *self;
        let server = self.server.unwrap_or(ranks.div_ceil(2));
        if experts == 0 || !experts.is_multiple_of(ranks) {
            return refuse(&format!("--experts in equal parts on {ranks} ranks"), experts.to_string());
        }
        if !(1..=experts).contains(&top_k) {
            return refuse(&format!("--top-k from 1 to {experts}"), top_k.to_string());
        }
        if server == 0 || server > ranks {
            return refuse(&format!("--server from 1 to {ranks} ranks"), server.to_string());
        }
        if token.bytes() == 0 || !token.bytes().is_multiple_of(self.dtype.size() as u64) {
            let expected =
                format!("--token of whole elements, {} bytes each as {}", self.dtype.size(), self.dtype);
            return refuse(&expected, token.to_string());
        }
        if self.op == Some(Op::Average) {
            return refuse("--op sum, min, max or prod", "avg".into());
        }
        Ok(Some(TokenCase { experts, top_k, token: token.bytes(), server }))
    }

    /// Refuses what the library that programs use does not do, if it is asked for.
    fn check_library(&self, shape: &Shape) -> Result<(), Failure> {
        let what = match self.task {
            Task::Collective(collective) if self.in_place && collective.is_routed() => {
                return Err(Failure::Input(format!(
                    "expected --in-place with a collective of one length, found it with {collective}; leave it out"
                )));
            }
            Task::Collective(collective) if collective.is_routed() => collective.name(),
            Task::Exchange(exchange) if self.in_place => {
                return Err(Failure::Input(format!(
                    "expected --in-place with a collective of the network, found it with {}; leave it out",
                    exchange.name()
                )));
            }
            Task::Exchange(exchange) => exchange.name(),
            Task::Collective(_) if self.in_place => "--in-place",
            Task::Collective(_) => return Ok(()),
        };
        let refuse = |expected: &str, found: &str, remedy: &str| {
            Err(Failure::Input(format!("expected {expected} with {what}, found {found}; {remedy}")))
        };
        if matches!(shape, Shape::Mesh(_)) {
            return refuse("a tree of switches", &shape.to_string(), "name another --tree");
        }
        let transport = self.tuning.transport;
        if transport != Transport::Udp {
            return refuse("--transport udp", &transport.to_string(), "leave it out");
        }
        Ok(())
    }

    /// Refuses packets and messages that elements would lie across: they are combined one by one. Ranks would refuse it, too.
    fn check_pieces(&self, setup: &GroupsSetup, designs: &[&'static dyn AnyDesign]) -> Result<(), Failure> {
        let element = self.dtype.size() as u64;
        for design in designs.iter().filter(|_| self.task.reduces()) {
            let settings = setup.settings(design.name()).map_err(Failure::input)?;
            for key in ["group.mtu", "hosts.chunk"] {
                let bytes = settings.value(key).and_then(|value| value.as_str()?.parse::<ByteCount>().ok());
                if let Some(bytes) = bytes.filter(|bytes| !bytes.bytes().is_multiple_of(element)) {
                    return Err(Failure::Input(format!(
                        "expected `{key}` of whole elements, {element} bytes each as {}, found {bytes}; set it to a multiple",
                        self.dtype
                    )));
                }
            }
        }
        Ok(())
    }

    /// The designs, each of which must run on the shape and offer the collective there.
    fn designs(&self, catalog: Catalog, shape: &Shape) -> Result<Vec<&'static dyn AnyDesign>, Failure> {
        let is_routed = matches!(self.task, Task::Collective(collective) if collective.is_routed());
        let fabric = match shape {
            _ if is_routed => FabricKind::Servers,
            Shape::Tree(_) | Shape::Switched(_) => FabricKind::Tree,
            Shape::Mesh(_) => FabricKind::Mesh,
        };
        let mut designs = Vec::new();
        if let Task::Exchange(exchange) = self.task {
            return match (offering_writes(catalog), self.design.as_slice()) {
                (Some(design), []) => Ok(vec![design]),
                (Some(design), [name]) if name == design.name() => Ok(vec![design]),
                (design, _) => Err(Failure::Input(format!(
                    "expected {} with {}, found {}; leave --design out",
                    design.map_or("a design that offers writes", |design| design.name()),
                    exchange.name(),
                    self.design.join(",")
                ))),
            };
        }
        let default = match is_routed {
            true => catalog.on(fabric).map(|design| design.name().to_owned()).collect(),
            false => vec![DEFAULT.to_owned()],
        };
        for name in if self.design.is_empty() { &default[..] } else { &self.design } {
            let design = catalog.find(name, fabric).map_err(|refusal| {
                Failure::Input(match catalog.named(name) {
                    Ok(_) => format!(
                        "expected a design that runs on {shape} ({}), found {name}; change one of the two",
                        crate::help::names(catalog, &[fabric])
                    ),
                    Err(_) => refusal.to_string(),
                })
            })?;
            if self.in_place && design.about().framing != Framing::RoceV2 {
                return Err(Failure::Input(format!(
                    "expected a design whose frames are {} with --in-place, found {name}, whose frames are {}; leave it out",
                    Framing::RoceV2,
                    design.about().framing
                )));
            }
            let offered = design.collectives(fabric);
            if !offered.iter().any(|collective| collective.name() == self.task.name()) {
                let offered: Vec<&str> = offered.iter().map(|collective| collective.name()).collect();
                return Err(Failure::Input(format!(
                    "expected a collective that {name} offers on {shape} ({}), found {}; choose another of the two, or simulate it",
                    offered.join(", "),
                    self.task
                )));
            }
            if let (Shape::Switched(_), Framing::RoceV1) = (shape, design.about().framing) {
                return Err(Failure::Input(format!(
                    "expected a tree of switches for {name}, whose frames each switch passes on by itself, found {shape}; name a --tree, or simulate it"
                )));
            }
            designs.push(design);
        }
        Ok(designs)
    }

    /// What runs: several options are short for keys.
    fn scenario(&self, catalog: Catalog, links: RealLinks) -> Result<Scenario, Failure> {
        fn value<T: ToString>(given: Option<&T>) -> Option<String> {
            given.map(T::to_string)
        }
        let name = match &self.fabric {
            Some(name) => name.clone(),
            None => Shape::for_ranks(&self.tree, self.ranks).map_err(Failure::input)?.to_string(),
        };
        let short = [
            ("link.rate", value(self.rate.as_ref())),
            ("group.mtu", value(self.payload.as_ref())),
            ("group.message", value(self.message.as_ref())),
            ("group.window", value(self.window.as_ref())),
            ("group.reproducible", self.reproducible.then(|| "true".to_owned())),
            ("group.retry_timeout", value(self.retry_timeout.as_ref())),
            ("relay.relays", self.relays.clone()),
        ];
        // Designs whose ranks skip PSNs can do without, where they must.
        let can_be_standard = |name: &String| {
            let design = catalog.named(name).ok()?;
            design.defaults().value(STANDARD_VERBS).map(|_| true)
        };
        let is_device = self.tuning.transport == Transport::Verbs;
        let is_standard = is_device && self.design.iter().any(|name| can_be_standard(name).unwrap_or(false));
        let standard = is_standard.then(|| (STANDARD_VERBS, Some("true".to_owned())));
        let going_back = is_device.then(|| (SELECTIVE, Some("false".to_owned())));
        let mut changes = Vec::new();
        let short = short.into_iter().chain(standard).chain(going_back);
        for (key, value) in short.filter_map(|(key, value)| Some((key, value?))) {
            changes.push(format!("{key}={value}").parse::<Override>().map_err(Failure::input)?);
        }
        changes.extend(said_to_programs()?);
        changes.extend(self.set.iter().cloned());
        Scenario::find_for(&links, &name, &changes, catalog).map_err(Failure::input)
    }

    fn mtu(&self) -> u16 {
        self.mtu.unwrap_or(9000)
    }

    fn plan(
        &self,
        designs: &[&'static dyn AnyDesign],
        setup: GroupsSetup,
        (sizes, tokens): (&[u64], Option<TokenCase>),
    ) -> Plan {
        let case = |design: &str, bytes: u64| {
            let iterations = self.iterations.unwrap_or(Case::iterations_for(bytes));
            Case {
                design: design.into(),
                collective: self.task.name().into(),
                in_place: self.in_place,
                root: self.root.unwrap_or_default(),
                bytes,
                data_type: self.dtype.to_string(),
                op: self.op.unwrap_or(ReduceOp::Sum.into()).to_string(),
                iterations,
                warm_up: (iterations / 10).max(2),
                tokens,
            }
        };
        let cases =
            designs.iter().flat_map(|design| sizes.iter().map(move |&bytes| case(design.name(), bytes)));
        Plan { setup, cases: cases.collect() }
    }
}

/// What the environment says to programs, which holds for those that are started here, too; --set comes after it.
fn said_to_programs() -> Result<Vec<Override>, Failure> {
    let said = std::env::var("QUINCUNX_SET").unwrap_or_default();
    let each = said.split(',').filter(|change| !change.is_empty());
    let parsed = |change: &str| {
        change.parse::<Override>().map_err(|_| {
            Failure::Input(format!(
                "expected KEY=VALUE in QUINCUNX_SET, found \"{change}\"; correct QUINCUNX_SET"
            ))
        })
    };
    each.map(parsed).collect()
}
