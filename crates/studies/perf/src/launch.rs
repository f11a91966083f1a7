//! The processes of a run: a manager, switches and ranks, on loopback addresses or in network namespaces, or ranks alone for a
//! fabric that runs already. All of them end
//! when this value is dropped, whatever became of the run, and when the process that started them is killed.

use nix::errno::Errno;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};
use quincunx_control_grpc::Managers;
use quincunx_fabric::{Shape, TreeShape};
use quincunx_netns::{Family, Layout, MAX_HOSTS, MAX_SWITCHES, NetnsFabric, NetnsNode, Switching, Wiring};
use quincunx_ports::PortSockets;
use quincunx_runtime::Drops;
use quincunx_scenario::Loss;
use quincunx_units::BitRate;
use quincunx_wire::Framing;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use crate::certificates::Certificates;
pub use crate::error::LaunchError;
use crate::printed::{Printed, Printer};

/// The job of programs that join a fabric in namespaces without being its ranks.
const GUESTS: &str = "guest";

/// TCP port of the manager in a namespace fabric; on loopback the system chooses one.
const MANAGER_PORT: u16 = 4790;

/// The last byte of its address on loopback.
const MANAGER_HOST: u8 = 254;

/// The ranks say what went wrong; a log among their lines would hide it.
const QUIET: [&str; 2] = ["--log-level", "off"];

/// How long a process that was asked to end may take.
const GRACE: Duration = Duration::from_secs(1);

/// Where the nodes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// Loopback addresses: no privilege needed, links as fast as the machine.
    Udp,
    /// The same, with every link held to a rate by the processes themselves.
    Paced {
        /// Rate of every link, each way.
        rate: BitRate,
    },
    /// Network namespaces with a link each; needs root.
    Netns {
        /// Rate of every link, each way; none: as fast as the machine.
        rate: Option<BitRate>,
        /// MTU of every link in bytes.
        mtu: u16,
    },
    /// The same, with nothing but our switches between the hosts: all frames go through their ports.
    Ports {
        /// Rate of every link, each way; none: as fast as the machine. Switches with XDP sockets send past what limits a link.
        rate: Option<BitRate>,
        /// MTU of every link in bytes.
        mtu: u16,
        /// What the switches' frames come and go by.
        sockets: PortSockets,
    },
}

enum Ground {
    /// Addresses that begin with these bytes.
    Loopback {
        block: [u8; 3],
    },
    Namespaces(NetnsFabric),
    /// Switches and manager are somebody else's.
    Running {
        addresses: Vec<IpAddr>,
        via: Option<IpAddr>,
    },
}

/// A fabric that runs already: its manager and its switches stay as they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunningFabric {
    /// Where its manager serves.
    pub manager: Managers,
    /// What the ranks' names begin with: no other node's does.
    pub prefix: String,
    /// The ranks' addresses, in rank order; fewer than ranks go round.
    pub addresses: Vec<IpAddr>,
    /// The switch that RoCE v1 frames in UDP datagrams go to.
    pub via: Option<IpAddr>,
}

impl RunningFabric {
    /// So many addresses of loopback that no other run on this machine has, but by a rare chance.
    pub fn loopback(ranks: u16) -> Vec<IpAddr> {
        let block = loopback_block();
        (0..ranks).map(|rank| loopback_address(block, NetnsNode::Host(rank.into()))).collect()
    }
}

/// Options that go to the processes as they are.
#[derive(Clone, Debug, Default)]
pub struct ChildArguments {
    /// To the manager.
    pub manager: Vec<String>,
    /// To every switch and rank.
    pub nodes: Vec<String>,
    /// Links that lose frames.
    pub lossy: Option<Loss>,
    /// How frames travel: with RoCE v1 all of a host's go to its switch's process, which sends them on.
    pub framing: Framing,
    /// Frames travel as Ethernet frames of packet sockets, not in UDP datagrams: needs namespaces.
    pub packet_sockets: bool,
    /// Nodes have addresses of IPv6: needs namespaces, for its loopback has one address.
    pub ipv6: bool,
    /// Ranks' frames are those of RDMA devices, whose queue pairs are not ours. Faults are the switches' then, there and back.
    pub verbs: bool,
    /// The ranks' addresses where they are on loopback and there is a reason for others than those of the run; fewer than ranks go round.
    pub addresses: Vec<IpAddr>,
    /// Cores of each switch, on loopback alone; none is one.
    pub cores: u16,
    /// What starts each rank, with the rank's command line as its arguments: a guest, for instance.
    pub rank_launcher: Option<PathBuf>,
    /// The same for each switch, whose queue pairs are those of an RDMA device then; needs namespaces. Bridges join all of them, and the
    /// manager has a namespace of its own at the first switch: the address of a switch is its guest's.
    pub switch_launcher: Option<PathBuf>,
}

/// The processes of a run. They end with the thread that starts them, too: keep it.
pub struct Processes {
    ground: Ground,
    wiring: Wiring,
    /// The ends of cables are the switches' own ports, with such sockets.
    ports: Option<PortSockets>,
    program: PathBuf,
    arguments: ChildArguments,
    captures: Option<PathBuf>,
    manager: Option<Managers>,
    children: Vec<(String, Child)>,
    /// Of programs that run.
    printer: Option<Printer>,
    /// What the processes show each other in namespaces, where the manager is not on loopback.
    certificates: Option<Certificates>,
    /// What each switch has said last that it has dropped, and who listens to it.
    drops: Arc<Mutex<BTreeMap<String, Drops>>>,
    listeners: Vec<JoinHandle<()>>,
    /// Errors that ranks have told of, the first one first, and who listens to them.
    said: Arc<Mutex<Vec<String>>>,
    hearers: Vec<JoinHandle<()>>,
    switches: usize,
    /// The ranks' names, in rank order.
    members: Vec<String>,
}

impl Processes {
    /// Lays out a fabric for the switches and ranks of `shape`, and starts the manager and the switches: the manager at the first
    /// switch, or on a mesh at the first host. `program` is the `quincunx` binary; with `captures` every node writes its frames to a file of its name in that folder.
    ///
    /// # Errors
    /// If namespaces are asked for and cannot be had, or a process does not start.
    pub fn start(
        shape: &Shape,
        kind: LinkKind,
        program: &Path,
        arguments: ChildArguments,
        captures: Option<PathBuf>,
    ) -> Result<Self, LaunchError> {
        let switches = shape.switches();
        let members: Vec<String> = (0..shape.ranks()).map(|rank| format!("rank{rank}")).collect();
        let wiring = wiring(shape);
        let family = if arguments.ipv6 { Family::V6 } else { Family::V4 };
        let ground = match kind {
            LinkKind::Udp | LinkKind::Paced { .. } => Ground::Loopback { block: loopback_block() },
            LinkKind::Ports { rate, mtu, .. } => {
                let layout =
                    Layout { wiring: wiring.clone(), mtu, rate, switching: Switching::Ports, family };
                Ground::Namespaces(NetnsFabric::new(layout)?)
            }
            LinkKind::Netns { rate, mtu } => {
                // Frames that are none of IP no switch can send on by address.
                let is_ethernet = arguments.packet_sockets && arguments.framing == Framing::RoceV1;
                let in_guests = arguments.switch_launcher.is_some();
                let switching = if is_ethernet || in_guests { Switching::Bridged } else { Switching::Routed };
                let mut wiring = wiring.clone();
                if let (Wiring::Tree { hosts, .. }, true) = (&mut wiring, in_guests) {
                    hosts.push(0);
                }
                let layout = Layout { wiring, mtu, rate, switching, family };
                Ground::Namespaces(NetnsFabric::new(layout)?)
            }
        };
        let program = program.to_path_buf();
        let mut arguments = arguments;
        if let LinkKind::Paced { rate } = kind {
            arguments.nodes.extend(["--pace".to_owned(), rate.to_string()]);
        }
        let certificates = match &ground {
            Ground::Namespaces(namespaces) => {
                let guests = (0..shape.ranks()).map(|rank| format!("{GUESTS}{rank}"));
                Some(Certificates::issue(
                    namespaces.folder(),
                    switches,
                    &members.iter().cloned().chain(guests).collect::<Vec<_>>(),
                )?)
            }
            Ground::Loopback { .. } | Ground::Running { .. } => None,
        };
        let mut fabric = Self {
            ground,
            wiring,
            ports: match kind {
                LinkKind::Ports { sockets, .. } => Some(sockets),
                _ => None,
            },
            program,
            arguments,
            captures,
            manager: None,
            children: Vec::new(),
            printer: None,
            certificates,
            drops: Arc::default(),
            listeners: Vec::new(),
            said: Arc::default(),
            hearers: Vec::new(),
            switches,
            members,
        };
        fabric.start_manager()?;
        fabric.start_switches()?;
        Ok(fabric)
    }

    /// Ranks for a fabric that runs already. Nothing else is started, and nothing else ends with this value.
    ///
    /// # Panics
    /// If there is not an address for each rank.
    pub fn join(
        shape: &Shape,
        fabric: RunningFabric,
        program: &Path,
        arguments: ChildArguments,
        captures: Option<PathBuf>,
    ) -> Self {
        let RunningFabric { manager, prefix, addresses, via } = fabric;
        assert!(!addresses.is_empty(), "an address for the ranks");
        Self {
            ground: Ground::Running { addresses, via },
            wiring: wiring(shape),
            ports: None,
            program: program.to_path_buf(),
            arguments,
            captures,
            manager: Some(manager),
            children: Vec::new(),
            printer: None,
            certificates: None,
            drops: Arc::default(),
            listeners: Vec::new(),
            said: Arc::default(),
            hearers: Vec::new(),
            switches: shape.switches(),
            members: (0..shape.ranks()).map(|rank| format!("{prefix}{rank}")).collect(),
        }
    }

    /// The namespaces, if there are any: other programs can be run in them.
    pub fn namespaces(&self) -> Option<&NetnsFabric> {
        match &self.ground {
            Ground::Namespaces(fabric) => Some(fabric),
            Ground::Loopback { .. } | Ground::Running { .. } => None,
        }
    }

    /// What programs of somebody else's need to know to be nodes on the ranks' hosts, in namespaces: where the manager serves, the name of their
    /// job, and the files with their certificates, to whose names each has to add its rank and `.pem`.
    pub fn guests(&self) -> Option<(String, &'static str, PathBuf)> {
        let (manager, certificates) = (self.manager.as_ref()?, self.certificates.as_ref()?);
        Some((manager.to_string(), GUESTS, certificates.file(GUESTS).with_extension("")))
    }

    /// Starts the manager, and waits until it listens.
    fn start_manager(&mut self) -> Result<(), LaunchError> {
        let place = match (self.switches, &self.arguments.switch_launcher) {
            (0, _) => NetnsNode::Host(0),
            // Behind all ranks.
            (_, Some(_)) => NetnsNode::Host(self.members.len()),
            (_, None) => NetnsNode::Switch(0),
        };
        let listen = match self.ground {
            Ground::Loopback { block: [a, b, c] } => SocketAddr::from(([a, b, c, MANAGER_HOST], 0)),
            Ground::Namespaces(_) | Ground::Running { .. } => {
                SocketAddr::new(self.address(place), MANAGER_PORT)
            }
        };
        let mut command = self.command(place, &self.program);
        command.args(["manager", "--listen", &listen.to_string()]).args(QUIET).args(&self.arguments.manager);
        if let Some(certificates) = &self.certificates {
            command.args(certificates.arguments("manager"));
        }
        command.stdout(Stdio::piped());
        let mut child = spawn("the manager", &mut command)?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            // The manager says one line and then no more.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        self.children.push(("manager".into(), child));
        let address = line.trim().rsplit(' ').next().and_then(|word| word.parse::<SocketAddr>().ok());
        self.manager =
            Some(address.map(Managers::from).ok_or(LaunchError::Manager { found: line.trim().into() })?);
        Ok(())
    }

    fn start_switches(&mut self) -> Result<(), LaunchError> {
        for index in 0..self.switches {
            let name = format!("switch{index}");
            let place = NetnsNode::Switch(index);
            let mut command = self.node_command("switch", &name, place);
            // A guest has one interface, whoever is behind it.
            let is_watched =
                matches!(self.ground, Ground::Namespaces(_)) && self.arguments.switch_launcher.is_none();
            let neighbours = neighbours(&self.wiring, index, is_watched);
            if !neighbours.is_empty() {
                command.args(["--neighbours", &neighbours.join(",")]);
            }
            command.arg("--drops").args(QUIET).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut child = spawn(&name, &mut command)?;
            if let Some(stdout) = child.stdout.take() {
                let (all, name) = (Arc::clone(&self.drops), name.clone());
                self.listeners.push(thread::spawn(move || listen(stdout, &name, &all)));
            }
            self.children.push((name, child));
        }
        Ok(())
    }

    /// Starts all ranks, each of which gets `plan` on its standard input; returns their outputs in rank order.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn start_ranks(&mut self, plan: &str) -> Result<Vec<ChildStdout>, LaunchError> {
        let members = self.members().join(",");
        let mut outputs = Vec::new();
        for (index, name) in self.members().into_iter().enumerate() {
            let mut command = self.node_command("rank", &name, NetnsNode::Host(index));
            command.args(["--members", &members]).stdin(Stdio::piped());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = spawn(&name, &mut command)?;
            if let Some(stderr) = child.stderr.take() {
                let said = Arc::clone(&self.said);
                self.hearers.push(thread::spawn(move || hear(stderr, &said)));
            }
            if let Some(mut stdin) = child.stdin.take() {
                // A rank that has died already is noticed by its output.
                let _ = writeln!(stdin, "{plan}");
            }
            outputs.extend(child.stdout.take());
            self.children.push((name, child));
        }
        Ok(outputs)
    }

    /// Starts a program of the user's on every rank, where it is and with the identity that it has. It finds in its environment what is
    /// `common` to all, its rank as torchrun says it, and what `quincunx-comm` reads. What it prints is passed on by whole lines.
    ///
    /// # Errors
    /// If a process does not start.
    pub fn start_programs(
        &mut self,
        program: &Path,
        arguments: &[String],
        common: &BTreeMap<String, String>,
        printed: &Printed,
    ) -> Result<(), LaunchError> {
        let printer = Printer::default();
        let manager = self.manager.as_ref().expect("the manager is started first").to_string();
        let members = self.members();
        let job = members.first().map_or("", |first| first.strip_suffix('0').unwrap_or(first)).to_owned();
        let master = match self.ground {
            Ground::Namespaces(_) => self.address(NetnsNode::Host(0)),
            Ground::Loopback { .. } | Ground::Running { .. } => IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        for (rank, name) in members.iter().enumerate() {
            let place = NetnsNode::Host(rank);
            let mut command = match &self.ground {
                Ground::Namespaces(fabric) => fabric.command(place, program),
                Ground::Loopback { .. } | Ground::Running { .. } => Command::new(program),
            };
            let ranks = members.len().to_string();
            command.args(arguments).envs(common);
            command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
            command.env("WORLD_SIZE", &ranks).env("LOCAL_WORLD_SIZE", &ranks);
            command.env("MASTER_ADDR", master.to_string());
            if let Ground::Namespaces(_) = self.ground {
                // Backends that look for an address by the host's name would find loopback.
                command.env("GLOO_SOCKET_IFNAME", "eth0").env("TP_SOCKET_IFNAME", "eth0");
            }
            command.env("QUINCUNX_MANAGER", &manager).env("QUINCUNX_JOB", &job);
            command.env("QUINCUNX_ADDRESS", self.address(place).to_string());
            if !matches!(self.ground, Ground::Running { .. }) {
                command.env("QUINCUNX_SWITCHES", self.switches.to_string());
            }
            if let Some(certificates) = &self.certificates {
                let [_, file] = certificates.arguments(name);
                command.env("QUINCUNX_IDENTITY", file);
            }
            let what = program.display().to_string();
            let prepared = printed.prepare(rank, &mut command);
            prepared.map_err(|error| LaunchError::Spawn { what: what.clone(), error })?;
            let mut child = spawn(&what, &mut command)?;
            printer.take(printed, rank, &mut child);
            self.children.push((name.clone(), child));
        }
        self.printer = Some(printer);
        Ok(())
    }

    /// Waits until every rank has ended, or one of them badly: then it ends the others. Those that did not end well, with how.
    pub fn wait_for_programs(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        let mut running: Vec<_> =
            self.children.iter_mut().filter(|(name, _)| self.members.contains(name)).collect();
        while failed.is_empty() && !running.is_empty() {
            running.retain_mut(|(name, child)| match child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) => {
                    if !status.success() {
                        failed.push(format!("{name} with {status}"));
                    }
                    false
                }
                Err(error) => {
                    failed.push(format!("{name}: {error}"));
                    false
                }
            });
            sleep(Duration::from_millis(20));
        }
        // The others have a moment to say what they have met.
        let limit = Instant::now() + GRACE;
        for (_, child) in running {
            while Instant::now() < limit && matches!(child.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(20));
            }
            end(child);
        }
        self.children.retain(|(name, _)| !self.members.contains(name));
        if let Some(printer) = self.printer.take() {
            printer.finish();
        }
        failed
    }

    /// The ranks' names, in rank order.
    pub fn members(&self) -> Vec<String> {
        self.members.clone()
    }

    /// How many switches there are.
    pub fn switches(&self) -> usize {
        self.switches
    }

    /// The switches' processes, if they run on the machine of the ranks.
    pub fn switch_processes(&self) -> Vec<u32> {
        let ChildArguments { rank_launcher, switch_launcher, .. } = &self.arguments;
        let beside = rank_launcher.is_none() && switch_launcher.is_none();
        let names = (0..self.switches).filter(|_| beside).map(|index| format!("switch{index}"));
        names.filter_map(|name| self.process(&name)).collect()
    }

    /// The process of that name: `manager`, `switch0`, `rank3`.
    pub fn process(&self, name: &str) -> Option<u32> {
        self.children.iter().find(|(of, _)| of == name).map(|(_, child)| child.id())
    }

    /// Ends a process, as if it had crashed: `manager`, `switch0`, `rank3`. Whether there was such a one.
    pub fn kill(&mut self, name: &str) -> bool {
        let Some(index) = self.children.iter().position(|(of, _)| of == name) else { return false };
        let (_, mut child) = self.children.remove(index);
        end(&mut child);
        true
    }

    /// Ends those of these ranks that still run: who has ended by himself is left to be [waited for](Self::wait_for_ranks).
    pub fn end_ranks(&mut self, names: &[&String]) {
        self.children.retain_mut(|(name, child)| {
            let runs = names.contains(&&*name) && matches!(child.try_wait(), Ok(None));
            if runs {
                end(child);
            }
            !runs
        });
    }

    /// Waits for the ranks to end; the names of those that did not end well.
    pub fn wait_for_ranks(&mut self) -> Vec<String> {
        let mut failed = Vec::new();
        for (name, child) in &mut self.children {
            if self.members.contains(name) && !child.wait().is_ok_and(|status| status.success()) {
                failed.push(name.clone());
            }
        }
        self.children.retain(|(name, _)| !self.members.contains(name));
        failed
    }

    /// The errors that ranks have told of, in that order: mostly the first is the cause, and the others follow from it. To be asked when
    /// all have ended.
    pub fn errors_of_ranks(&mut self) -> Vec<String> {
        for hearer in self.hearers.drain(..) {
            let _ = hearer.join();
        }
        std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends the switches in order; what each has dropped, by reason.
    pub fn end_switches(&mut self) -> BTreeMap<String, Drops> {
        let is_switch = |name: &str| name.starts_with("switch");
        self.end_nodes(is_switch);
        self.children.retain(|(name, _)| !is_switch(name));
        for listener in self.listeners.drain(..) {
            let _ = listener.join();
        }
        std::mem::take(&mut *self.drops.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends nodes; those with something to write still may do so, for as long as a grace lasts.
    fn end_nodes(&mut self, is_meant: impl Fn(&str) -> bool) {
        let mut nodes: Vec<_> = self.children.iter_mut().filter(|(name, _)| is_meant(name)).collect();
        for (_, child) in &nodes {
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
        let limit = Instant::now() + GRACE;
        for (_, child) in &mut nodes {
            while Instant::now() < limit && matches!(child.try_wait(), Ok(None)) {
                sleep(Duration::from_millis(2));
            }
            end(child);
        }
    }

    fn address(&self, place: NetnsNode) -> IpAddr {
        let of = |addresses: &[IpAddr], host: usize| addresses[host % addresses.len()];
        match (&self.ground, place) {
            (Ground::Namespaces(fabric), _) => fabric.address(place),
            (Ground::Loopback { .. }, NetnsNode::Host(host)) if !self.arguments.addresses.is_empty() => {
                of(&self.arguments.addresses, host)
            }
            (Ground::Loopback { block }, _) => loopback_address(*block, place),
            (Ground::Running { addresses, .. }, NetnsNode::Host(host)) => of(addresses, host),
            (Ground::Running { .. }, NetnsNode::Switch(_)) => {
                unreachable!("switches of a fabric that runs already have their own")
            }
        }
    }

    fn node_command(&self, role: &str, name: &str, place: NetnsNode) -> Command {
        let is_rank = role == "rank";
        let ChildArguments { rank_launcher, switch_launcher, .. } = &self.arguments;
        let mut command = match if is_rank { rank_launcher } else { switch_launcher } {
            Some(launcher) => {
                let mut command = self.command(place, launcher);
                command.arg(&self.program).env("QUINCUNX_ADDRESS", self.address(place).to_string());
                command
            }
            None => self.command(place, &self.program),
        };
        let manager = self.manager.as_ref().expect("the manager is started first");
        command.args([role, "--name", name]);
        let mut address = self.address(place).to_string();
        if let Some(sockets) = self.ports
            && let NetnsNode::Switch(index) = place
        {
            address.push_str(if self.arguments.ipv6 { "/64" } else { "/24" });
            let ports = self.wiring.ports(index);
            command.args(ports.iter().flat_map(|(_, port)| ["--port", port]));
            if sockets == PortSockets::Xdp {
                command.args(["--sockets", "xdp"]);
            }
        }
        if let (NetnsNode::Switch(index), Ground::Loopback { block }) = (place, &self.ground) {
            further_cores(*block, index, self.arguments.cores)
                .for_each(|core| address.push_str(&format!(",{core}")));
        }
        command.args(["--address", &address]);
        command.args(["--manager", &manager.to_string()]);
        if let Some(certificates) = &self.certificates {
            command.args(certificates.arguments(name));
        }
        let is_offloaded = if is_rank { self.arguments.verbs } else { switch_launcher.is_some() };
        if is_offloaded {
            // What a device sends and gets is not ours to lose or to write down.
            command.args(["--transport", "verbs"]);
            return command;
        }
        command.args(&self.arguments.nodes);
        if self.arguments.verbs {
            command.arg("--lose-sent");
        }
        if self.arguments.packet_sockets && (is_rank || self.ports.is_none()) {
            command.args(["--transport", "packet"]);
        }
        if self.arguments.framing == Framing::RoceV1 {
            command.args(["--framing", self.arguments.framing.name()]).args(self.cable(place));
        }
        if let Some(loss) = &self.arguments.lossy {
            let address = |host| self.address(NetnsNode::Host(host));
            command.args(losing(loss, self.arguments.framing, place, address));
        }
        if let Some(folder) = &self.captures {
            command.arg("--pcap").arg(folder.join(format!("{name}.pcapng")));
        }
        command
    }

    /// Where a node's RoCE v1 frames go: in UDP, a host's all go to its switch.
    fn cable(&self, place: NetnsNode) -> Vec<String> {
        if let Ground::Running { via, .. } = &self.ground {
            return via.iter().flat_map(|via| ["--via".to_owned(), via.to_string()]).collect();
        }
        match (&self.wiring, place) {
            (Wiring::Tree { hosts, .. }, NetnsNode::Host(host)) if !self.arguments.packet_sockets => {
                vec!["--via".into(), self.address(NetnsNode::Switch(hosts[host])).to_string()]
            }
            _ => Vec::new(),
        }
    }

    fn command(&self, place: NetnsNode, program: &Path) -> Command {
        match &self.ground {
            Ground::Loopback { .. } | Ground::Running { .. } => Command::new(program),
            Ground::Namespaces(fabric) => fabric.command(place, program),
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // The manager goes last: a switch that loses it complains.
        self.end_nodes(|name| name != "manager");
        for (_, child) in &mut self.children {
            end(child);
        }
    }
}

/// A block of addresses for each fabric of each process, so that runs do not meet: 127.64.0.0 and up.
fn loopback_block() -> [u8; 3] {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    // Far from the blocks of processes with the next numbers.
    let block = std::process::id().wrapping_add(serial.wrapping_mul(0x1333)) & 0x3fff;
    [127, 64 + (block >> 8) as u8, block as u8]
}

/// A node's address: in a block there is room for so many hosts and so many switches, and a run of more takes the next blocks.
fn loopback_address([a, b, c]: [u8; 3], place: NetnsNode) -> IpAddr {
    let (index, first, room) = match place {
        NetnsNode::Host(index) => (index, NetnsNode::Host(0).number(), MAX_HOSTS),
        NetnsNode::Switch(index) => (index, NetnsNode::Switch(0).number(), MAX_SWITCHES),
    };
    let [b, c] = u16::from_be_bytes([b, c]).wrapping_add((index / room) as u16).to_be_bytes();
    IpAddr::from([a, b, c, first + (index % room) as u8])
}

/// Addresses of a switch's cores but for the first: in the half of loopback's addresses where no run has its block.
fn further_cores([a, b, c]: [u8; 3], switch: usize, cores: u16) -> impl Iterator<Item = IpAddr> {
    let extra_cores = usize::from(cores.max(1)) - 1;
    let numbers = switch * extra_cores..(switch + 1) * extra_cores;
    numbers.map(move |number| IpAddr::from([a, b | 0x80, c, 1 + number as u8]))
}

/// Notes the errors that a rank tells of, until it ends; what else it says is for people.
fn hear(stderr: ChildStderr, said: &Mutex<Vec<String>>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        match line.strip_prefix("error: ") {
            Some(error) => said.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_owned()),
            None => eprintln!("{line}"),
        }
    }
}

/// Notes what a switch says of its drops, a line of JSON each time, until it ends.
fn listen(stdout: ChildStdout, name: &str, all: &Mutex<BTreeMap<String, Drops>>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if let Ok(drops) = serde_json::from_str(&line) {
            all.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), drops);
        }
    }
}

/// What a node is told of links that lose frames both ways, those of the first hosts: such a host loses whatever arrives, all others lose
/// what comes from there. Of RoCE v1 frames all come from the switch's process, and it is the only other one that loses any.
fn losing(loss: &Loss, framing: Framing, place: NetnsNode, address: impl Fn(usize) -> IpAddr) -> Vec<String> {
    let hosts = usize::from(loss.links);
    if framing == Framing::RoceV1 && matches!(place, NetnsNode::Host(host) if host >= hosts) {
        return Vec::new();
    }
    let mut arguments = vec!["--loss".to_owned(), loss.probability.to_string()];
    if !matches!(place, NetnsNode::Host(host) if host < hosts) {
        let lossy: Vec<String> = (0..hosts).map(|host| address(host).to_string()).collect();
        arguments.extend(["--faulty-peers".to_owned(), lossy.join(",")]);
    }
    arguments
}

fn wiring(shape: &Shape) -> Wiring {
    match shape {
        Shape::Tree(tree) => tree_wiring(tree),
        Shape::Mesh(mesh) => Wiring::Mesh { hosts: mesh.ranks().into() },
        Shape::Switched(shape) => crate::switched::wiring(*shape).expect("a plan for another was refused"),
    }
}

/// Whom a switch is joined with, by name; in namespaces with the interface of each link, which the switch watches then.
fn neighbours(wiring: &Wiring, switch: usize, is_watched: bool) -> Vec<String> {
    let named = |(node, port): (NetnsNode, String)| {
        let name = match node {
            NetnsNode::Switch(other) => format!("switch{other}"),
            NetnsNode::Host(host) => format!("rank{host}"),
        };
        if is_watched { format!("{name}@{port}") } else { name }
    };
    wiring.ports(switch).into_iter().map(named).collect()
}

/// Switches level by level, so that parents come first.
fn tree_wiring(shape: &TreeShape) -> Wiring {
    let branches = shape.branches();
    let mut parents = vec![None];
    let mut level = vec![0];
    for &count in &branches[..branches.len() - 1] {
        let mut next = Vec::new();
        for &parent in &level {
            for _ in 0..count {
                next.push(parents.len());
                parents.push(Some(parent));
            }
        }
        level = next;
    }
    let leaves = usize::from(branches[branches.len() - 1]);
    let hosts = level.iter().flat_map(|&switch| std::iter::repeat_n(switch, leaves)).collect();
    Wiring::Tree { parents, hosts }
}

/// Starts a process that is asked to end when the calling thread does: nobody drops a value for a parent that is killed.
#[expect(
    unsafe_code,
    reason = "only a process itself can ask for a signal at its parent's death, between fork and exec"
)]
fn spawn(what: &str, command: &mut Command) -> Result<Child, LaunchError> {
    let parent = getpid();
    let end_with_parent = move || {
        set_pdeathsig(Signal::SIGTERM)?;
        // A parent that died before the request sends no signal any more.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: after the fork of a process with threads, the closure may only do what a signal handler may: it makes two
    // system calls, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(end_with_parent) };
    command.spawn().map_err(|error| LaunchError::Spawn { what: what.into(), error })
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_switch_is_told_its_neighbours_and_in_namespaces_the_interface_to_each() {
        let told = |shape: &str, switch, is_watched| {
            let shape = Shape::for_ranks(shape, 4).expect("a shape");
            neighbours(&wiring(&shape), switch, is_watched).join(",")
        };
        assert_eq!(told("tree-2x2", 1, false), "switch0,rank0,rank1");
        assert_eq!(told("tree-2x2", 1, true), "switch0@above,rank0@h0,rank1@h1");
        assert_eq!(told("tree-2x2", 0, true), "switch1@s1,switch2@s2");
        assert_eq!(told("leaf-spine-2x2x2", 3, true), "switch0@s0,switch1@s1,rank2@h2,rank3@h3");
        assert_eq!(told("mesh-2x2", 0, true), "");
    }

    #[test]
    fn no_two_of_many_nodes_have_the_same_address_on_loopback() {
        let hosts = (0..1000).map(NetnsNode::Host);
        let all = hosts.chain((0..200).map(NetnsNode::Switch));
        let addresses: BTreeSet<IpAddr> = all.map(|node| loopback_address([127, 70, 1], node)).collect();
        assert_eq!(addresses.len(), 1200);
        let of = |node| loopback_address([127, 70, 1], node).to_string();
        assert_eq!(
            [0, 190, 191].map(|rank| of(NetnsNode::Host(rank))),
            ["127.70.1.1", "127.70.1.191", "127.70.2.1"]
        );
        assert_eq!([0, 63].map(|switch| of(NetnsNode::Switch(switch))), ["127.70.1.192", "127.70.2.192"]);
    }

    #[test]
    fn each_core_of_each_switch_has_an_address_of_its_own() {
        let block = [127, 70, 1];
        let of = |switch| further_cores(block, switch, 3).map(|core| core.to_string()).collect::<Vec<_>>();
        assert_eq!(of(0), ["127.198.1.1", "127.198.1.2"]);
        assert_eq!(of(1), ["127.198.1.3", "127.198.1.4"]);
        assert_eq!([0, 1].map(|cores| further_cores(block, 0, cores).count()), [0, 0]);
    }

    #[test]
    fn links_of_the_first_hosts_lose_frames_both_ways_and_no_others() {
        let loss = Loss { probability: "3%".parse().expect("a probability"), links: 2 };
        let arguments = |framing, place| {
            losing(&loss, framing, place, |host| IpAddr::from([10, 0, 0, host as u8])).join(" ")
        };
        let others = "--loss 0.03 --faulty-peers 10.0.0.0,10.0.0.1";
        for framing in Framing::ALL {
            assert_eq!(arguments(framing, NetnsNode::Host(1)), "--loss 0.03");
            assert_eq!(arguments(framing, NetnsNode::Switch(0)), others);
        }
        assert_eq!(arguments(Framing::RoceV2, NetnsNode::Host(2)), others);
        assert_eq!(arguments(Framing::RoceV1, NetnsNode::Host(2)), "", "all comes from the switch");
    }
}
