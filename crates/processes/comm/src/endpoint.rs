//! A process's place in the network: its node, the thread that has it, and the groups that it is in.

use crate::counts::Counters;
use crate::options::deadline;
use crate::peers::{SLOT, SLOTS};
use crate::traffic::EndpointTraffic;
use crate::worker::{Command, Designs, Wanted, Worker, refuse};
use crate::{CommError, Counts, Options};
use quincunx_collective::{Collective, GroupId};
use quincunx_control::{Encapsulation, GroupRequest, NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ControlClient};
use quincunx_design::{AnyDesign, Catalog, Demand, FabricKind, Placement, Settings, Transport, Value};
use quincunx_driver_net::{NodeOptions, TransportOptions, Waker};
use quincunx_fabric::MeshShape;
use quincunx_runtime::{JoinedGroup, ProcessOptions, Rank, encapsulation};
use quincunx_sockets::UdpOptions;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::Framing;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SendError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// How long ranks that close wait for each other.
const CLOSE_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// The longest name that the manager takes for a group.
const LONGEST_NAME: usize = 64;

/// Messages in flight that serve well on real links.
const WINDOW: u32 = 4;

/// A process's place in the network. Clones are the same; the last one that is dropped leaves, without a word to the others.
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) options: Options,
    catalog: Catalog,
    client: ControlClient,
    commands: Mutex<Sender<Command>>,
    waker: Waker,
    pub(crate) counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What the thread has ended with.
    end: Arc<OnceLock<CommError>>,
    /// Groups have been given back since the manager was last waited for.
    has_released: AtomicBool,
    /// Why the last group that this process asked for runs among its hosts.
    fallback: Mutex<Option<String>>,
    /// What groups run that were made anew.
    designs: Designs,
    /// Groups that it has asked for.
    made: AtomicU32,
    is_closed: AtomicBool,
    address: IpAddr,
    /// Whose thread the node's is: a child that this process forks has none.
    process: u32,
}

/// The addresses of the fabric's switches, and of the job's other ranks, as far as the manager says.
fn partners(options: &Options, control: &ClientConfig) -> Result<Vec<IpAddr>, CommError> {
    let client = ControlClient::connect(options.manager.clone(), control.clone())?;
    // Those that will be there may not be yet. Who may not ask is told so when it asks for a group.
    let _ = client.wait_for_nodes(&[], options.switches, options.join_limit);
    let nodes = client.list_nodes().unwrap_or_default().into_iter().map(|node| node.description);
    let (switches, hosts): (Vec<_>, Vec<_>) = nodes.partition(|node| node.role == Role::Switch);
    let ours = hosts.into_iter().filter(|host| host.name.starts_with(&options.job));
    Ok(switches.into_iter().chain(ours).map(|node| node.address).collect())
}

/// The numbers of a group: one for collectives, one for messages between two ranks. A group of one has none.
pub(crate) type Numbers = [u32; 2];

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Attaches this process to the manager, to run designs of a catalog, and starts the thread that answers the network.
    ///
    /// # Errors
    /// If the options make no sense, or socket or manager cannot be had.
    pub fn attach(catalog: Catalog, options: Options) -> Result<Self, CommError> {
        options.check()?;
        let options = options.named()?;
        let design = catalog.find(&options.design, FabricKind::Tree)?;
        if design.about().framing != Framing::RoceV2 {
            return Err(CommError::misuse(
                "a design whose frames are those of RoCE v2",
                format!("{}, whose frames are {}", design.name(), design.about().framing),
                "name another design",
            ));
        }
        let control = ClientConfig {
            connect_timeout: options.join_limit,
            call_timeout: options.join_limit,
            patience: options.manager.patience(),
            keep_alive: options.patience,
            credentials: options.credentials()?,
        };
        let address = options.own_address(|| partners(&options, &control))?;
        let transport = TransportOptions::Udp(UdpOptions::default());
        let designs = catalog.above_queue_pairs().filter(|design| design.about().framing == Framing::RoceV2);
        let process = ProcessOptions {
            description: NodeDescription {
                encapsulation: encapsulation(&transport),
                ..NodeDescription::host(options.node(options.rank), address, 4096)
            }
            .offering(designs),
            manager: options.manager.clone(),
            control,
            framing: Framing::RoceV2,
            transport,
            any_interface: false,
            offload: false,
            hardware: None,
            lose_sent: false,
            node: NodeOptions {
                spin: options.spin.unwrap_or(NodeOptions::default().spin),
                ..NodeOptions::default()
            },
            capture: None,
        };
        debug_assert_eq!(process.description.encapsulation, Encapsulation::Udp);
        Self::attach_as(catalog, options, &process)
    }

    /// The same, as a process of which everything is said already: of the options, what the node is and where its manager serves is not
    /// looked at.
    ///
    /// # Errors
    /// If socket or manager cannot be had.
    pub fn attach_as(
        catalog: Catalog,
        options: Options,
        process: &ProcessOptions,
    ) -> Result<Self, CommError> {
        let address = process.description.address;
        let rank = Rank::attach(catalog, process)?;
        let (client, waker) = (rank.control().clone(), rank.waker());
        let counters = Arc::new(Counters::default());
        let (commands, received) = channel();
        let designs = Designs::default();
        let shared = (Arc::clone(&counters), Arc::clone(&designs));
        let worker = Worker::new(rank, received, shared, options.notice.into());
        let end = Arc::new(OnceLock::new());
        let told = Arc::clone(&end);
        let thread = std::thread::Builder::new()
            .name("quincunx".into())
            .spawn(move || worker.run(&told))
            .map_err(|error| {
                CommError::Endpoint(format!("expected to start a thread, found \"{error}\"; see the limits"))
            })?;
        Ok(Self(Arc::new(Inner {
            options,
            catalog,
            client,
            commands: Mutex::new(commands),
            waker,
            counters,
            thread: Mutex::new(Some(thread)),
            end,
            has_released: AtomicBool::new(false),
            fallback: Mutex::new(None),
            designs,
            made: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
            address,
            process: std::process::id(),
        })))
    }

    /// Asks the manager for a group of some of the job's ranks, for one of them; the others are told the numbers in any way, and all of
    /// them, this one too, join by [`join_group`](Self::join_group).
    ///
    /// # Errors
    /// If this rank is none of them, one of them does not come in time, or the manager refuses.
    pub fn make_group(&self, members: &[u16]) -> Result<[u32; 2], CommError> {
        self.check_process()?;
        self.place(members)?;
        if members.len() == 1 {
            return Ok([0; 2]);
        }
        self.settle();
        let options = &self.0.options;
        let names: Vec<String> = members.iter().map(|rank| options.node(*rank)).collect();
        self.0.client.wait_for_nodes(&names, options.switches, options.join_limit)?;
        let design = self.0.catalog.find(&options.design, FabricKind::Tree)?;
        let request = GroupRequest {
            settings: self.settings(design)?,
            ..GroupRequest::new(names.clone(), design, ByteCount::new(1 << 20))
        };
        let name = self.group_name(members);
        let made = self.0.client.init_named_group(&name, &request)?.summary;
        let fallback = made.fallback.map(|lack| lack.to_string());
        let before = {
            let mut last = self.0.fallback.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, fallback.clone())
        };
        // Said once, not for each group of a row.
        if let Some(why) =
            fallback.filter(|why| before.as_ref() != Some(why) && options.notice > Duration::ZERO)
        {
            let Options { design: asked, .. } = options;
            eprintln!(
                "quincunx: group {} runs {} among its hosts, not {asked}: {why}",
                made.group, made.design
            );
        }
        let tree = made.group;
        let writes = self.0.catalog.on(FabricKind::Mesh).find(|design| design.about().writes);
        let Some(writes) = writes else { return Ok([tree.0, tree.0]) };
        let request = GroupRequest {
            settings: self.settings_of_messages(writes)?,
            demand: Demand::Writes { slots: SLOTS, length: ByteCount::new(SLOT as u64) },
            mesh: self.servers(members),
            ..GroupRequest::new(names, writes, ByteCount::new(0))
        };
        let name = if name.is_empty() { name } else { format!("{name}/messages") };
        match self.0.client.init_named_group(&name, &request) {
            Ok(mesh) => Ok([tree.0, mesh.summary.group.0]),
            Err(error) => {
                // Nobody will join it. If the manager does not answer, nobody can end it.
                let _ = self.0.client.destroy_group(tree);
                Err(error.into())
            }
        }
    }

    /// Asks the manager for a group of some of the job's ranks that dispatches tokens, by a design's name or by the first
    /// that does so there.
    pub(crate) fn make_for_tokens(
        &self,
        members: &[u16],
        design: Option<&str>,
        demand: Demand,
    ) -> Result<u32, CommError> {
        self.check_process()?;
        self.settle();
        let fabric = FabricKind::Servers;
        let mesh = self.servers(members);
        let domains = mesh.map_or(1, MeshShape::domains);
        let ranks = members.len() as u16;
        let placement = Placement { domains, demand, ..Placement::new(ranks, None, ByteCount::new(0)) };
        // Not all of them run on one server.
        let suits = |design: &&'static dyn AnyDesign| {
            design.collectives(fabric).contains(&Collective::Dispatch)
                && self
                    .settings_of_messages(*design)
                    .is_ok_and(|settings| design.plan(&settings, &placement).is_ok())
        };
        let found = match design {
            Some(name) => self.0.catalog.find(name, fabric)?,
            None => self.0.catalog.on(fabric).find(suits).ok_or_else(|| {
                let expected =
                    format!("a design that dispatches {demand:?} on {domains} servers of {ranks} ranks");
                CommError::misuse(expected, "none", "name one, to hear why not")
            })?,
        };
        let names: Vec<String> = members.iter().map(|rank| self.0.options.node(*rank)).collect();
        let request = GroupRequest {
            settings: self.settings_of_messages(found)?,
            demand,
            mesh,
            ..GroupRequest::new(names, found, ByteCount::new(0))
        };
        let name = self.group_name(members);
        let name = if name.is_empty() { name } else { format!("{name}/experts") };
        Ok(self.0.client.init_named_group(&name, &request)?.summary.group.0)
    }

    /// Whether the design that is asked for offers AllGather: at all ranks the same, whatever groups fall back to.
    pub(crate) fn gathers(&self) -> bool {
        let asked = self.0.catalog.find(&self.0.options.design, FabricKind::Tree);
        asked.is_ok_and(|design| design.collectives(FabricKind::Tree).contains(&Collective::AllGather))
    }

    /// What operators call a group that this rank makes: by the job, `all` or the first and last of its ranks, and but for the first of all ranks,
    /// who has made it and how many before. None where the job's name is none for a group.
    fn group_name(&self, members: &[u16]) -> String {
        let Options { job, rank, world, .. } = &self.0.options;
        let made = self.0.made.fetch_add(1, Ordering::Relaxed);
        let ranks = match members {
            _ if members.len() == usize::from(*world) => "all".to_owned(),
            [first, .., last] => format!("{first}-{last}"),
            _ => String::new(),
        };
        let job = job.trim_end_matches(['.', '-']);
        let name = match (*rank, made) {
            (0, 0) if ranks == "all" => format!("{job}.{ranks}"),
            _ => format!("{job}.{ranks}.{rank}.{made}"),
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        let is_short = name.len() + "/messages".len() <= LONGEST_NAME;
        if is_short && name.chars().all(is_plain) { name } else { String::new() }
    }

    /// Gives a group back, without waiting: it may be called by whoever collects garbage.
    pub(crate) fn release(&self, groups: &[GroupId]) {
        for &group in groups {
            self.0.command(Command::Release { group });
        }
        self.0.has_released.store(true, Ordering::Release);
    }

    /// Ends what is under way in groups of this rank, gives them back, and has the manager end them for the others.
    pub(crate) fn abort(&self, groups: [GroupId; 2]) {
        for group in groups {
            let (answer, answered) = channel();
            self.command(Command::Abort { group, answer });
            // A thread that has gone has ended everything.
            let _ = answered.recv();
        }
        if self.check_process().is_ok() {
            for group in groups {
                // A manager that does not answer tells the others by its silence.
                let _ = self.0.client.destroy_group(group);
            }
        }
        self.0.has_released.store(true, Ordering::Release);
    }

    /// Waits until the manager has heard of the groups that this rank has given back: what they held is free for the next one.
    pub(crate) fn settle(&self) {
        if self.0.has_released.swap(false, Ordering::AcqRel) {
            let (answer, answered) = channel();
            self.command(Command::Flush { answer });
            if answered.recv().is_ok() {
                self.0.client.wait_for_releases();
            }
        }
    }

    /// What has been done since the start.
    pub fn counts(&self) -> Counts {
        self.0.counters.read()
    }

    /// Why the last group that this process has asked the manager for runs among its hosts and not what was asked for, if it does. Others
    /// see what it runs by [`Group::design`](crate::Group::design).
    pub fn fallback(&self) -> Option<String> {
        self.0.fallback.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What a group runs since it was made anew, if it was.
    pub(crate) fn made_anew_on(&self, group: GroupId) -> Option<String> {
        self.0.designs.lock().unwrap_or_else(PoisonError::into_inner).get(&group).cloned()
    }

    /// What its node has counted.
    ///
    /// # Errors
    /// If it has ended: with what it has ended.
    pub fn traffic(&self) -> Result<EndpointTraffic, CommError> {
        let (answer, answered) = channel();
        self.command(Command::Count { answer });
        answered.recv().map_err(|_| self.0.ended())
    }

    /// How it was attached.
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The address that its frames come from.
    pub fn address(&self) -> IpAddr {
        self.0.address
    }

    /// Leaves together with all others: every rank calls it when all that it has begun has ended. Its groups end.
    ///
    /// # Errors
    /// If the others do not come.
    pub fn close(&self) -> Result<(), CommError> {
        if self.0.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let (left, is_left) = channel();
        self.0.command(Command::Close { deadline: Instant::now() + CLOSE_LIMIT, left: Some(left) });
        // Groups that others do not give back in time end all the same: their first rank sees to that.
        for group in is_left.recv().unwrap_or_default() {
            // A rank that is gone already makes the manager end the group by itself.
            let _ = self.0.client.destroy_group(group);
        }
        self.0.join();
        Ok(())
    }

    pub(crate) fn command(&self, command: Command) {
        self.0.command(command);
    }

    /// Nothing of it runs in a forked child, and the locks there are as they were.
    pub(crate) fn check_process(&self) -> Result<(), CommError> {
        if self.0.is_forked() { Err(CommError::forked()) } else { Ok(()) }
    }

    /// The connection to the manager, for what operators ask.
    pub fn client(&self) -> &ControlClient {
        &self.0.client
    }

    /// Waits until a group is ready.
    pub(crate) fn await_group(&self, wanted: Wanted) -> Result<JoinedGroup, CommError> {
        let (answer, answered) = channel();
        let limit = std::time::Duration::from(self.0.options.join_limit);
        self.command(Command::Await { wanted, deadline: deadline(limit), answer });
        answered.recv().unwrap_or_else(|_| Err(self.0.ended()))
    }

    /// This rank's place among the members, who are each other and ranks of the job.
    pub(crate) fn place(&self, members: &[u16]) -> Result<u16, CommError> {
        let Options { rank, world, .. } = &self.0.options;
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() != members.len() || sorted.last().is_none_or(|last| last >= world) {
            return Err(CommError::misuse(
                format!("ranks below {world}, each once"),
                format!("{members:?}"),
                "correct the members",
            ));
        }
        match members.iter().position(|member| member == rank) {
            Some(place) => Ok(place as u16),
            None => Err(CommError::misuse(
                format!("rank {rank}, which asks, among the members"),
                format!("{members:?}"),
                "let members alone ask",
            )),
        }
    }

    /// The servers that members are on; one for all where each has one member, some have more than others, or members lie mixed.
    fn servers(&self, members: &[u16]) -> Option<MeshShape> {
        let on = |rank: &u16| *rank / self.0.options.server.unwrap_or(u16::MAX);
        let servers: Vec<&[u16]> = members.chunk_by(|a, b| on(a) == on(b)).collect();
        let mut numbers: Vec<u16> = servers.iter().map(|ranks| on(&ranks[0])).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let each = servers[0].len();
        let are_alike = each > 1 && servers.iter().all(|ranks| ranks.len() == each);
        let count = if are_alike && numbers.len() == servers.len() { servers.len() } else { 1 };
        MeshShape::new(count as u16, (members.len() / count) as u16)
    }

    /// Parameters of the design of messages between two ranks, which have one channel whatever collectives have.
    fn settings_of_messages(&self, design: &dyn AnyDesign) -> Result<Settings, CommError> {
        let mut settings = self.settings(design)?;
        design.set(&mut settings, "group.channels", &1.into())?;
        Ok(settings)
    }

    /// A design's parameters: what serves well on such links, and above it what was said.
    fn settings(&self, design: &dyn AnyDesign) -> Result<Settings, CommError> {
        let said = &self.0.options.settings;
        let mtu = said.iter().rev().find(|(key, _)| key == "group.mtu").map(|(_, value)| value.as_str());
        let mtu: ByteCount = match mtu {
            Some(text) => text.parse().map_err(|_| {
                CommError::misuse(
                    "a size for group.mtu, as 1KiB",
                    format!("\"{text}\""),
                    "correct QUINCUNX_SET",
                )
            })?,
            None if self.0.address.is_loopback() => ByteCount::new(4096),
            None => ByteCount::new(1024),
        };
        // As many packets as one datagram of 64 KiB holds with their headers.
        let message = (65_507 / (mtu.bytes() + 16)).clamp(1, 64);
        let mut settings = design.defaults();
        let again = said.iter().rev().find(|(key, _)| key == "group.retry_timeout");
        let again =
            again.and_then(|(_, text)| text.parse().ok()).unwrap_or(Transport::default().retry_timeout);
        let base: [(&str, Value); 4] = [
            ("group.retry_count", retries(self.0.options.patience, again).into()),
            ("group.mtu", mtu.to_string().into()),
            ("group.message", message.into()),
            ("group.window", WINDOW.into()),
        ];
        // Whoever else is on the links gets a share.
        let gives_way = Some((Transport::CONGESTION_WINDOW, true.into()));
        let gives_way = gives_way.filter(|(key, _)| settings.has(key));
        for (key, value) in base.iter().chain(&gives_way) {
            design.set(&mut settings, key, value)?;
        }
        for (key, text) in said {
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.clone()));
            // A key of one design may be none of another's.
            let knows = design.help().iter().any(|help| help.0 == key.as_str());
            if knows {
                design.set(&mut settings, key, &value)?;
            }
        }
        Ok(settings)
    }
}

/// How many time-outs in a row are a silence that long.
fn retries(patience: Duration, again: Duration) -> u16 {
    let count = patience.as_picos().div_ceil(again.as_picos().max(1));
    // The largest would mean for ever.
    u16::try_from(count).unwrap_or(u16::MAX).min(u16::MAX - 1)
}

impl Inner {
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn command(&self, command: Command) {
        if self.is_forked() {
            _ = refuse(command, &CommError::forked());
            return;
        }
        let sent = self.commands.lock().unwrap_or_else(PoisonError::into_inner).send(command);
        match sent {
            Ok(()) => self.waker.wake(),
            // The thread is gone: whoever waits hears why.
            Err(SendError(command)) => _ = refuse(command, &self.ended()),
        }
    }

    /// Why nothing is done any more.
    fn ended(&self) -> CommError {
        if self.is_forked() {
            return CommError::forked();
        }
        self.end.get().cloned().unwrap_or_else(CommError::closed)
    }

    fn join(&self) {
        if self.is_forked() {
            return;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What drops the last clone may be the thread itself: it does not wait for itself.
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != std::thread::current().id();
        if let Some(thread) = thread.filter(is_other) {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.is_closed.load(Ordering::Acquire) {
            self.command(Command::Close { deadline: Instant::now(), left: None });
            self.join();
        }
    }
}
