//! A manager and a switch in this process, and a job of ranks, each with a thread of its own.

use quincunx_comm::{Endpoint, Group, Options, ReduceOp};
use quincunx_control::{ManagerConfig, NodeDescription, Role};
use quincunx_control_grpc::{ClientConfig, ControlClient, ManagerServer, ServerConfig};
use quincunx_design::{FabricKind, Placement};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_driver_net::{NodeOptions, TransportOptions};
use quincunx_fabric::IncTree;
use quincunx_runtime::{ProcessOptions, SwitchSnapshot, serve_switch};
use quincunx_sockets::UdpOptions;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::Framing;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

pub(crate) const DESIGN: &str = "epic-3";
const SETTINGS: [(&str, &str); 3] = [("group.mtu", "1024"), ("group.message", "4"), ("group.window", "4")];
const LIMIT: Duration = Duration::from_secs(30);

/// Where the `index`th node is: no other test process uses these addresses, and one test of this process at a time.
fn address(index: u8) -> IpAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    IpAddr::from([127, high, low, 1 + index])
}

fn process(manager: SocketAddr, description: NodeDescription) -> ProcessOptions {
    ProcessOptions {
        description,
        manager: manager.into(),
        control: ClientConfig::default(),
        framing: Framing::RoceV2,
        transport: TransportOptions::Udp(UdpOptions::default()),
        any_interface: false,
        offload: false,
        hardware: None,
        lose_sent: false,
        node: NodeOptions::default(),
        capture: None,
    }
}

/// What so many groups of two ranks take of a switch.
fn room(groups: u64) -> ByteCount {
    let design = CATALOG.find(DESIGN, FabricKind::Tree).unwrap();
    let mut settings = design.defaults();
    for (key, value) in SETTINGS {
        design.set(&mut settings, key, &serde_json::from_str(value).unwrap()).unwrap();
    }
    let tree = IncTree::from_shape(&"star-2".parse().unwrap());
    let placement = Placement::new(2, Some(tree), ByteCount::new(1 << 20));
    ByteCount::new(design.plan(&settings, &placement).unwrap().switches[0].memory.bytes() * groups)
}

/// The fabric of a test; others wait for its end.
pub(crate) struct LoopbackFabric {
    server: Option<ManagerServer>,
    address: SocketAddr,
    pub(crate) client: ControlClient,
    stop: Arc<AtomicBool>,
    switch: Option<thread::JoinHandle<()>>,
    _alone: MutexGuard<'static, ()>,
}

impl LoopbackFabric {
    /// With a switch that has room for so many groups of two ranks.
    pub(crate) fn with_room_for(groups: u64) -> Self {
        Self::start(room(groups), false)
    }

    /// With a switch that may go, and with it a group of two ranks.
    pub(crate) fn that_remakes_groups() -> Self {
        Self::start(room(1), true)
    }

    fn start(memory: ByteCount, recreates: bool) -> Self {
        static ADDRESSES: Mutex<()> = Mutex::new(());
        let alone = ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let manager = ManagerConfig { fallback: Some(FALLBACK), recreates, ..ManagerConfig::default() };
        let config = ServerConfig { manager, ..ServerConfig::default() };
        let server = ManagerServer::start(listener, CATALOG, config).unwrap();
        let description = NodeDescription {
            role: Role::Switch,
            designs: [DESIGN.to_string()].into(),
            memory,
            ..NodeDescription::host("leaf".into(), address(250), 4096)
        };
        let manager = server.address();
        let options = process(manager, description);
        let stop = Arc::new(AtomicBool::new(false));
        let switch = {
            let stop = Arc::clone(&stop);
            // It ends with an error where a test ends the manager first.
            thread::spawn(move || _ = serve_switch(CATALOG, &options, &stop, &SwitchSnapshot::default()))
        };
        let client = ControlClient::connect(manager, ClientConfig::default()).unwrap();
        Self { server: Some(server), address: manager, client, stop, switch: Some(switch), _alone: alone }
    }

    /// Ends the manager.
    pub(crate) fn stop(&mut self) {
        self.server = None;
    }

    /// Tells the switch to end.
    pub(crate) fn stop_switch(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn options(&self, rank: u16, world: u16) -> Options {
        Options {
            address: Some(address(rank as u8)),
            switches: 1,
            join_limit: LIMIT,
            limit: LIMIT,
            design: DESIGN.into(),
            settings: SETTINGS.map(|(key, value)| (key.into(), value.into())).into(),
            ..Options::new(self.address.into(), "r", rank, world)
        }
    }

    /// Attaches a rank whose node has so many queue pairs.
    pub(crate) fn attach(&self, place: (u16, u16), queue_pairs: u32) -> Endpoint {
        self.attach_for(place, queue_pairs, LIMIT)
    }

    /// The same of one that waits so long for others.
    pub(crate) fn attach_for(
        &self,
        (rank, world): (u16, u16),
        queue_pairs: u32,
        join_limit: Duration,
    ) -> Endpoint {
        let options = Options { join_limit, ..self.options(rank, world) };
        let description = NodeDescription::host(format!("r{rank}"), address(rank as u8), queue_pairs);
        Endpoint::attach_as(CATALOG, options, &process(self.address, description)).unwrap()
    }

    /// Has each of so many ranks do something with the group of all, and leave.
    pub(crate) fn run(&self, ranks: u16, job: impl Fn(&Group) + Sync) {
        self.run_to_the_end(ranks, |world| {
            job(&world);
            world.barrier().unwrap();
            world.endpoint().close().unwrap();
        });
    }

    /// The same of ranks that ask for another design.
    pub(crate) fn run_as(&self, design: &str, ranks: u16, job: impl Fn(&Group) + Sync) {
        let more = |options: Options| Options { design: design.to_owned(), ..options };
        self.run_with(ranks, more, |world| {
            job(&world);
            world.barrier().unwrap();
            world.endpoint().close().unwrap();
        });
    }

    /// The same of ranks on servers of so many each, with more settings.
    pub(crate) fn run_on_servers(
        &self,
        ranks: u16,
        server: u16,
        settings: &[(&str, &str)],
        job: impl Fn(&Group) + Sync,
    ) {
        let more = |options: Options| {
            let said = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let settings = options.settings.into_iter().chain(said).collect();
            Options { server: Some(server), settings, ..options }
        };
        self.run_with(ranks, more, |world| {
            job(&world);
            world.barrier().unwrap();
            world.endpoint().close().unwrap();
        });
    }

    /// The same of ranks that leave as they like.
    pub(crate) fn run_to_the_end(&self, ranks: u16, job: impl Fn(Group) + Sync) {
        self.run_with(ranks, |options| options, job);
    }

    fn run_with(&self, ranks: u16, more: impl Fn(Options) -> Options + Sync, job: impl Fn(Group) + Sync) {
        thread::scope(|scope| {
            let (job, more) = (&job, &more);
            let started: Vec<_> = (0..ranks)
                .map(|rank| {
                    scope.spawn(move || {
                        let options = more(self.options(rank, ranks));
                        let endpoint = Endpoint::attach(CATALOG, options).unwrap();
                        job(endpoint.world().unwrap());
                    })
                })
                .collect();
            started.into_iter().for_each(|rank| rank.join().unwrap());
        });
    }

    /// Numbers of the groups that the manager knows.
    pub(crate) fn groups(&self) -> Vec<u32> {
        self.client.list_groups().unwrap().iter().map(|group| group.summary.group.0).collect()
    }

    /// Waits until nodes hold nothing of any group.
    pub(crate) fn expect_nothing_held(&self) {
        let end = Instant::now() + std::time::Duration::from(LIMIT);
        loop {
            let nodes = self.client.list_nodes().unwrap();
            if nodes.iter().all(|node| node.uses.is_empty()) {
                return;
            }
            assert!(Instant::now() < end, "expected nothing held, found {nodes:?}");
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Waits until the manager knows of so many groups, and nodes hold something of so many and no more.
    pub(crate) fn expect_groups(&self, count: usize) {
        let end = Instant::now() + std::time::Duration::from(LIMIT);
        loop {
            let nodes = self.client.list_nodes().unwrap();
            let held = nodes.iter().map(|node| node.uses.len()).max().unwrap_or(0);
            let groups = self.groups();
            if (groups.len(), held) == (count, count) {
                return;
            }
            assert!(Instant::now() < end, "expected {count} groups, found {groups:?}, and {nodes:?}");
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for LoopbackFabric {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(switch) = self.switch.take() {
            let _ = switch.join();
        }
    }
}

/// A sum over a group, which must be right.
#[track_caller]
pub(crate) fn add_up(group: &Group) {
    let mut values = vec![i32::from(group.rank()) + 1; 3000];
    group.all_reduce(&mut values, ReduceOp::Sum).unwrap();
    let ranks = i32::from(group.size());
    assert!(values.iter().all(|value| *value == ranks * (ranks + 1) / 2), "{}", values[0]);
}
