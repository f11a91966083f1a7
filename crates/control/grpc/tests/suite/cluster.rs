//! A manager and its nodes for the tests, on loopback.

use quincunx_collective::GroupId;
use quincunx_control::{
    GroupFailure, GroupRequest, GroupSummary, Instruction, LinkReport, NodeDescription, Report, Role,
};
use quincunx_control_grpc::{
    Attachment, ClientConfig, ClientError, ControlClient, GroupStatus, ManagerServer, ServerConfig, proto,
};
use quincunx_design::Value;
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_units::{ByteCount, Duration};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::thread::JoinHandle;

/// The most that any message may take: far more than any does.
pub(crate) const WAIT: std::time::Duration = std::time::Duration::from_secs(20);

pub(crate) struct Cluster {
    server: Option<ManagerServer>,
    address: SocketAddr,
    pub(crate) client: ControlClient,
    pub(crate) nodes: BTreeMap<String, Attachment>,
}

/// Names such as `rank-0`.
pub(crate) fn names(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{what}-{number}")).collect()
}

pub(crate) fn host(number: u8) -> NodeDescription {
    NodeDescription::host(format!("rank-{number}"), IpAddr::from([127, 0, 1, number]), 64)
}

pub(crate) fn switch(number: u8) -> NodeDescription {
    NodeDescription {
        role: Role::Switch,
        designs: ["epic-1", "epic-2", "epic-3"].map(String::from).into(),
        memory: ByteCount::new(1 << 20),
        ..NodeDescription::host(format!("switch-{number}"), IpAddr::from([127, 0, 2, number]), 64)
    }
}

/// A root with two switches, each with half of the hosts.
fn two_levels(hosts: u8) -> Vec<NodeDescription> {
    let link = |neighbour: String| LinkReport { interface: None, neighbour, parallel_links: 1, rate: None };
    let leaf = |number: u8| {
        let below = (0..hosts).filter(|host| host * 2 / hosts == number - 1).map(host_name);
        let links = [switch(0).name].into_iter().chain(below).map(link).collect();
        NodeDescription { links, ..switch(number) }
    };
    let root = NodeDescription { links: [1, 2].map(|number| link(switch(number).name)).into(), ..switch(0) };
    [root, leaf(1), leaf(2)].into_iter().chain((0..hosts).map(host)).collect()
}

fn host_name(number: u8) -> String {
    host(number).name
}

pub(crate) fn fast() -> ClientConfig {
    let short = Duration::from_millis(100);
    ClientConfig { connect_timeout: short, call_timeout: short, ..ClientConfig::default() }
}

/// Falls back to the ring.
pub(crate) fn config() -> ServerConfig {
    let mut config = ServerConfig::default();
    config.manager.fallback = Some(FALLBACK);
    config
}

/// A group of the first ranks, with an MTU of 1 KiB, messages of two packets and a window of four.
pub(crate) fn request(ranks: usize, design: &str) -> GroupRequest {
    let design = CATALOG.named(design).unwrap();
    let mut wanted = GroupRequest::new(names("rank", ranks), design, ByteCount::new(1 << 20));
    for (key, value) in [("group.mtu", 1024), ("group.message", 2), ("group.window", 4)] {
        design.set(&mut wanted.settings, key, &Value::from(value)).unwrap();
    }
    wanted
}

pub(crate) fn group_of(instruction: &Instruction) -> GroupId {
    match instruction {
        Instruction::Install(context) => context.group,
        Instruction::Ready(group)
        | Instruction::Remove(group)
        | Instruction::TellCalls(group)
        | Instruction::TellTimes(group)
        | Instruction::Suspend { group, .. }
        | Instruction::Resume { group, .. }
        | Instruction::Failed { group, .. } => *group,
        Instruction::ProbePaths(_) | Instruction::TellPaths(_) | Instruction::MoveMemory(_) => {
            panic!("expected a group's, found {instruction:?}")
        }
    }
}

impl Cluster {
    /// Switches and hosts in one network. Every node has a connection of its own, as a process would.
    pub(crate) fn start(switches: u8, hosts: u8, config: ServerConfig) -> Self {
        Self::of((0..switches).map(switch).chain((0..hosts).map(host)), config)
    }

    /// A root with two switches, and hosts at those.
    pub(crate) fn tree(hosts: u8, config: ServerConfig) -> Self {
        Self::of(two_levels(hosts), config)
    }

    fn of(descriptions: impl IntoIterator<Item = NodeDescription>, config: ServerConfig) -> Self {
        let server =
            ManagerServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), CATALOG, config).unwrap();
        let address = server.address();
        let connect = || ControlClient::connect(address, ClientConfig::default()).unwrap();
        let attach = |node: NodeDescription| (node.name.clone(), connect().attach(&node).unwrap());
        let nodes = descriptions.into_iter().map(attach).collect();
        Self { server: Some(server), address, client: connect(), nodes }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where its metrics are, if it was told to have any.
    pub(crate) fn metrics_address(&self) -> SocketAddr {
        self.server.as_ref().and_then(ManagerServer::metrics_address).expect("a manager with metrics")
    }

    /// Where its dashboard is, if it was told to have one.
    pub(crate) fn dashboard_address(&self) -> SocketAddr {
        self.server.as_ref().and_then(ManagerServer::dashboard_address).expect("a manager with a dashboard")
    }

    pub(crate) fn stop_manager(&mut self) {
        self.server = None;
    }

    pub(crate) fn take(&mut self, node: &str) -> Attachment {
        self.nodes.remove(node).unwrap()
    }

    /// A node whose process stops running, with its connection open for as long as the runtime is held.
    pub(crate) fn attach_hanging(&self, name: &str) -> tokio::runtime::Runtime {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut node = host(200);
        node.name = name.to_string();
        let description = proto::NodeDescription {
            name: node.name,
            role: proto::Role::Host.into(),
            address: node.address.to_string(),
            encapsulation: proto::Encapsulation::Udp.into(),
            max_endpoints: node.max_endpoints,
            ..Default::default()
        };
        let address = self.address;
        let stream = runtime.block_on(async {
            let mut stub =
                proto::control_client::ControlClient::connect(format!("http://{address}")).await.unwrap();
            stub.attach(proto::AttachRequest { node: Some(description), held: Vec::new() })
                .await
                .unwrap()
                .into_inner()
        });
        // From here on nobody polls the connection.
        std::mem::forget(stream);
        runtime
    }

    /// The next instruction to a node.
    pub(crate) fn next(&self, node: &str) -> Instruction {
        loop {
            let next = self.nodes[node].instructions().recv_timeout(WAIT).unwrap().unwrap();
            // Whoever looks at the dashboard has switches asked.
            if !(node.starts_with("switch") && matches!(next, Instruction::TellTimes(_))) {
                return next;
            }
        }
    }

    pub(crate) fn call_init_group(
        &self,
        wanted: &GroupRequest,
    ) -> JoinHandle<Result<GroupSummary, ClientError>> {
        let (client, wanted) = (self.client.clone(), wanted.clone());
        std::thread::spawn(move || client.init_group(&wanted))
    }

    /// Makes a group with a name; all nodes install what they are told to.
    pub(crate) fn init_named(&self, name: &str, wanted: &GroupRequest) -> Result<GroupStatus, ClientError> {
        let (client, name, wanted) = (self.client.clone(), name.to_owned(), wanted.clone());
        self.install_until(std::thread::spawn(move || client.init_named_group(&name, &wanted)), |group| {
            group.summary.group
        })
    }

    /// What the nodes are told to install: switches, then ranks. Nobody has reported yet.
    pub(crate) fn begin_group(&self, wanted: &GroupRequest) -> Vec<Instruction> {
        let waiting = self.call_init_group(wanted);
        let order = |name: &&String| (name.starts_with("rank"), (*name).clone());
        let mut nodes: Vec<_> = self.nodes.keys().collect();
        nodes.sort_by_key(order);
        let installs = nodes.into_iter().map(|node| self.next(node)).collect();
        // It ends with the test.
        drop(waiting);
        installs
    }

    /// All nodes install what they are told to. Only nodes of the group are told anything.
    pub(crate) fn init_group(&self, wanted: &GroupRequest) -> Result<GroupSummary, ClientError> {
        self.install_until(self.call_init_group(wanted), |group| group.group)
    }

    fn install_until<T>(
        &self,
        waiting: JoinHandle<Result<T, ClientError>>,
        number: impl Fn(&T) -> GroupId,
    ) -> Result<T, ClientError> {
        let mut involved = Vec::new();
        while !waiting.is_finished() {
            for (name, node) in &self.nodes {
                match node.instructions().try_recv() {
                    Ok(Ok(install @ Instruction::Install(_))) => {
                        node.report(group_of(&install), Report::Installed);
                        involved.push(name);
                    }
                    Ok(Ok(Instruction::Ready(_))) => involved.retain(|other| *other != name),
                    // The dashboard asks.
                    Ok(Ok(Instruction::TellTimes(_))) => {}
                    Ok(other) => panic!("expected an install, found {other:?} at {name}"),
                    Err(_) => {}
                }
            }
            std::thread::yield_now();
        }
        let group = waiting.join().unwrap()?;
        for node in involved {
            assert_eq!(self.next(node), Instruction::Ready(number(&group)), "at {node}");
        }
        Ok(group)
    }

    /// All nodes forget what they are told to.
    pub(crate) fn destroy(&self, group: GroupId) {
        let holders = self.client.list_nodes().unwrap();
        let client = self.client.clone();
        let ending = std::thread::spawn(move || client.destroy_group(group));
        for node in holders.iter().filter(|node| node.uses.iter().any(|(id, _)| *id == group)) {
            let name = &node.description.name;
            assert_eq!(self.next(name), Instruction::Remove(group));
            self.nodes[name].report(group, Report::Removed);
        }
        assert_eq!(ending.join().unwrap(), Ok(vec![]));
    }

    /// Every node is told that the group has failed, and by whom.
    pub(crate) fn expect_failure(&self, group: GroupId, by: &str) -> GroupFailure {
        let failure = self.expect_any_failure(by);
        assert_eq!(failure.0, group);
        failure.1
    }

    /// Every node is told that its group has failed, and by whom.
    pub(crate) fn expect_any_failure(&self, by: &str) -> (GroupId, GroupFailure) {
        let mut told: Vec<_> = self.nodes.keys().map(|node| self.next(node)).collect();
        assert!(told.windows(2).all(|pair| pair[0] == pair[1]), "{told:?}");
        match told.pop() {
            Some(Instruction::Failed { group, failure }) if failure.node == by => (group, failure),
            other => panic!("expected a failure by {by}, found {other:?}"),
        }
    }
}
