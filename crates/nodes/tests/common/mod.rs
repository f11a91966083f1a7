//! A network of nodes in virtual time: frames take a while, some are lost, held back or doubled, all by seed. It is the
//! smallest driver there is, for tests of protocols alone. `QUINCUNX_TRACE=1` prints every frame that arrives.
#![allow(unreachable_pub, dead_code, reason = "each test file uses its part of it")]

use quincunx_fabric::Mode;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use quincunx_collective::{Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction};
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_epic::{CommLib, CommLibConfig, EdgeConfig, GroupConfig};
use quincunx_nodes::{
    Host, HostCommand, HostEvent, HostGroup, HostTimer, NodeDrop, Programs, Switch, SwitchCommand,
    SwitchEvent, SwitchTimer,
};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, Psn, QpNumber, RoceHeader};

pub const GROUP: GroupId = GroupId(1);
const PORT: PortId = PortId(0);

/// What the network does to frames, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplication: u64,
    pub reordering: u64,
}

/// An IncTree to build: a rank, or a switch with children.
#[derive(Clone, Debug)]
pub enum Shape {
    Rank,
    Switch(Vec<Shape>),
}

pub fn star(ranks: usize) -> Shape {
    Shape::Switch(vec![Shape::Rank; ranks])
}

/// EPIC's Tree-depth-branches.
pub fn tree(depth: usize, branches: usize) -> Shape {
    match depth {
        1 => Shape::Rank,
        _ => Shape::Switch(vec![tree(depth - 1, branches); branches]),
    }
}

/// What a group is run with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub mode: Mode,
    pub mtu: usize,
    pub message: u32,
    pub window: u32,
    pub initial_psn: Psn,
    pub reproducible: bool,
    pub selective: bool,
    pub run_ahead: bool,
}

impl Setup {
    pub fn tiny(mode: Mode) -> Self {
        Self {
            mode,
            mtu: 8,
            message: 2,
            window: 2,
            initial_psn: Psn::new(0xff_fffd),
            reproducible: false,
            selective: false,
            run_ahead: false,
        }
    }
}

#[derive(Clone)]
enum Node {
    Host(Host<Numbers, Programs>),
    Switch(Switch<Numbers>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    Host(HostTimer),
    Switch(SwitchTimer),
}

#[derive(Clone)]
enum Due {
    Arrival { node: usize, header: RoceHeader, payload: Numbers },
    Timer { node: usize, timer: Timer, generation: u64 },
    Slots { node: usize },
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }
}

#[derive(Default)]
struct Answers {
    frames: Vec<(RoceHeader, Numbers)>,
    set: Vec<(Timer, Duration)>,
    cancelled: Vec<Timer>,
    finished: Vec<(Outcome, Numbers, Numbers)>,
    failures: Vec<SwitchEvent>,
    drops: Vec<NodeDrop>,
}

impl Sink<Host<Numbers, Programs>> for Answers {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        self.frames.push((*frame.header, Numbers::from_view(frame.payload)));
    }
    fn set_timer(&mut self, timer: HostTimer, after: Duration) {
        self.set.push((Timer::Host(timer), after));
    }
    fn cancel_timer(&mut self, timer: HostTimer) {
        self.cancelled.push(Timer::Host(timer));
    }
    fn emit(&mut self, event: HostEvent<Numbers>) {
        let HostEvent::Finished { outcome, input, output, .. } = event else { return };
        self.finished.push((outcome, input, output));
    }
    fn drop_frame(&mut self, _: PortId, reason: NodeDrop) {
        self.drops.push(reason);
    }
}

impl Sink<Switch<Numbers>> for Answers {
    fn transmit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>) {
        self.frames.push((*frame.header, Numbers::from_view(frame.payload)));
    }
    fn set_timer(&mut self, timer: SwitchTimer, after: Duration) {
        self.set.push((Timer::Switch(timer), after));
    }
    fn cancel_timer(&mut self, timer: SwitchTimer) {
        self.cancelled.push(Timer::Switch(timer));
    }
    fn emit(&mut self, event: SwitchEvent) {
        self.failures.push(event);
    }
    fn drop_frame(&mut self, _: PortId, reason: NodeDrop) {
        self.drops.push(reason);
    }
}

/// Whether a frame is the one to lose.
pub type Victim = Box<dyn FnMut(&RoceHeader) -> bool>;

/// The network. Ranks come first among the nodes, in rank order.
pub struct Network {
    nodes: Vec<Node>,
    addresses: BTreeMap<Ipv4Addr, usize>,
    pub ranks: usize,
    queue: BTreeMap<(Instant, u64), Due>,
    timers: BTreeMap<(usize, Timer), u64>,
    now: Instant,
    order: u64,
    random: Random,
    faults: Faults,
    pub finished: Vec<Vec<(Outcome, Numbers)>>,
    pub failures: Vec<SwitchEvent>,
    pub drops: BTreeMap<NodeDrop, u64>,
    pub frames: u64,
    /// Nodes that neither send nor receive any more.
    pub dead: Vec<usize>,
    /// Frames that this says yes to are lost, whatever the faults.
    pub lose: Option<Victim>,
    /// A node whose link carries a frame in 3 us, either way.
    pub slow: Option<usize>,
    /// When the slow link has carried what is on it: from the node, to the node.
    slow_until: [Instant; 2],
}

struct Builder {
    setup: Setup,
    configs: Vec<GroupConfig>,
    leaves: Vec<(Endpoint, Endpoint)>,
}

fn host_ip(rank: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, rank as u8 + 1)
}

fn switch_ip(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 1, index as u8 + 1)
}

impl Builder {
    /// Adds a switch and everything below it; returns the ranks below.
    fn add(&mut self, children: &[Shape], parent: Option<(Endpoint, Endpoint)>) -> (usize, Vec<usize>) {
        let index = self.configs.len();
        let ip = switch_ip(index);
        self.configs.push(GroupConfig {
            group: GROUP,
            ranks: 0,
            mode: self.setup.mode,
            mtu: self.setup.mtu,
            window: self.setup.message * self.setup.window,
            message: self.setup.message,
            initial_psn: self.setup.initial_psn,
            edges: Vec::new(),
            parent: None,
            toward: Vec::new(),
            reproducible: self.setup.reproducible,
            selective: self.setup.selective,
            run_ahead: self.setup.run_ahead,
            notification_interval: Some(Duration::from_micros(50)),
            mutation: None,
            resend_timeout: Duration::from_micros(200),
            retry_count: 40,
        });
        let mut below = Vec::new();
        let mut toward = Vec::new();
        for (edge, child) in children.iter().enumerate() {
            let local = Endpoint { ip, qp: QpNumber::new(0x100 + edge as u32) };
            let (remote, rank, ranks) = match child {
                Shape::Rank => {
                    let rank = self.leaves.len();
                    let remote = Endpoint { ip: host_ip(rank), qp: QpNumber::new(0x11) };
                    self.leaves.push((remote, local));
                    (remote, Some(Rank(rank as u16)), vec![rank])
                }
                Shape::Switch(grandchildren) => {
                    let remote = Endpoint { ip: switch_ip(self.configs.len()), qp: QpNumber::new(0x90) };
                    let (_, ranks) = self.add(grandchildren, Some((remote, local)));
                    (remote, None, ranks)
                }
            };
            self.configs[index].edges.push(EdgeConfig { local, remote, port: PORT, rank });
            toward.push(ranks.clone());
            below.extend(ranks);
        }
        if let Some((local, remote)) = parent {
            let edge = self.configs[index].edges.len();
            self.configs[index].edges.push(EdgeConfig { local, remote, port: PORT, rank: None });
            self.configs[index].parent = Some(edge);
        }
        let parent_edge = self.configs[index].parent.unwrap_or(0);
        self.configs[index].toward = vec![parent_edge; 64];
        for (edge, ranks) in toward.into_iter().enumerate() {
            for rank in ranks {
                self.configs[index].toward[rank] = edge;
            }
        }
        (index, below)
    }
}

impl Network {
    pub fn new(shape: &Shape, setup: Setup, faults: Faults, seed: u64) -> Self {
        let Shape::Switch(children) = shape else { panic!("a tree has a switch at its root") };
        let mut builder = Builder { setup, configs: Vec::new(), leaves: Vec::new() };
        builder.add(children, None);
        let ranks = builder.leaves.len();
        let mut network = Self {
            nodes: Vec::new(),
            addresses: BTreeMap::new(),
            ranks,
            queue: BTreeMap::new(),
            timers: BTreeMap::new(),
            now: Instant::ZERO,
            order: 0,
            random: Random(seed),
            faults,
            finished: vec![Vec::new(); ranks],
            failures: Vec::new(),
            drops: BTreeMap::new(),
            frames: 0,
            dead: Vec::new(),
            lose: None,
            slow: None,
            slow_until: [Instant::ZERO; 2],
        };
        for (rank, &(local, remote)) in builder.leaves.iter().enumerate() {
            let config = CommLibConfig {
                ranks: ranks as u16,
                rank: Rank(rank as u16),
                mtu: setup.mtu,
                message: setup.message,
                window: setup.window,
                run_ahead: setup.run_ahead,
                synchronize_psn: setup.mode != Mode::I,
            };
            let queue_pair = QueuePairConfig {
                local,
                remote,
                mtu: setup.mtu,
                send_psn: setup.initial_psn,
                expected_psn: setup.initial_psn,
                acknowledge_every: setup.message,
                retry_timeout: Duration::from_micros(300),
                retry_count: 60,
                rnr_timer: 1,
                rnr_retry_count: quincunx_roce::INFINITE_RNR_RETRIES,
                max_outstanding_packets: setup.message * setup.window,
                remote_write: false,
                reliability: if setup.selective { Reliability::Selective } else { Reliability::GoBackN },
                rate: None,
                mutation: None,
            };
            let group = HostGroup {
                group: GROUP,
                queue_pairs: vec![(PORT, queue_pair)],
                program: Programs::CommLib(CommLib::new(config).unwrap()),
            };
            let Ok(host) = Host::new(());
            network.addresses.insert(local.ip, rank);
            network.nodes.push(Node::Host(host));
            network.host_command(rank, HostCommand::Install(Box::new(group)));
        }
        for (index, mut config) in builder.configs.into_iter().enumerate() {
            config.ranks = ranks as u16;
            config.toward.truncate(ranks);
            let Ok(switch) = Switch::new(());
            network.addresses.insert(switch_ip(index), ranks + index);
            network.nodes.push(Node::Switch(switch));
            let mut answers = Answers::default();
            let Some(Node::Switch(switch)) = network.nodes.last_mut() else { unreachable!() };
            switch
                .handle_command(Instant::ZERO, SwitchCommand::Install(Box::new(config)), &mut answers)
                .unwrap();
            network.take(ranks + index, answers);
        }
        network
    }

    pub fn switch_buffer_bytes(&self) -> Vec<usize> {
        self.nodes
            .iter()
            .filter_map(
                |node| if let Node::Switch(switch) = node { Some(switch.buffer_bytes()) } else { None },
            )
            .collect()
    }

    fn host_command(&mut self, rank: usize, command: HostCommand<Numbers, Programs>) {
        let mut answers = Answers::default();
        let Node::Host(host) = &mut self.nodes[rank] else { unreachable!() };
        host.handle_command(self.now, command, &mut answers).expect("the command makes sense");
        host.assert_invariants();
        self.take(rank, answers);
    }

    /// Starts a collective on one rank.
    pub fn start(
        &mut self,
        rank: usize,
        collective: Collective,
        reduction: Reduction,
        input: Numbers,
        output: Numbers,
    ) {
        self.host_command(rank, HostCommand::Start { group: GROUP, collective, reduction, input, output });
    }

    /// Lets a rank's node take a frame of the test's making.
    pub fn deliver(&mut self, to: Ipv4Addr, header: RoceHeader, payload: Numbers) {
        let node = self.addresses[&to];
        self.schedule(Duration::ZERO, Due::Arrival { node, header, payload });
    }

    /// Stops a rank or, after the ranks, a switch.
    pub fn kill(&mut self, node: usize) {
        self.dead.push(node);
    }

    fn schedule(&mut self, after: Duration, due: Due) {
        self.order += 1;
        self.queue.insert((self.now + after, self.order), due);
    }

    fn take(&mut self, node: usize, answers: Answers) {
        for (header, payload) in answers.frames {
            self.frames += 1;
            let copies = if self.random.percent(self.faults.duplication) { 2 } else { 1 };
            for _ in 0..copies {
                let lost = self.random.percent(self.faults.loss)
                    || self.lose.as_mut().is_some_and(|lose| lose(&header));
                let held =
                    if self.random.percent(self.faults.reordering) { self.random.next() % 100 } else { 0 };
                if !lost && let Some(&to) = self.addresses.get(&header.destination) {
                    let due = Due::Arrival { node: to, header, payload: payload.clone() };
                    let delay = self.slow_link(node, to) + Duration::from_micros(2 + held);
                    self.schedule(delay, due);
                }
            }
        }
        for timer in answers.cancelled {
            self.timers.remove(&(node, timer));
        }
        for (timer, after) in answers.set {
            self.order += 1;
            let generation = self.order;
            self.timers.insert((node, timer), generation);
            self.schedule(after, Due::Timer { node, timer, generation });
        }
        for (outcome, _, output) in answers.finished {
            self.finished[node].push((outcome, output));
        }
        self.failures.extend(answers.failures);
        for reason in answers.drops {
            *self.drops.entry(reason).or_default() += 1;
        }
        self.slots(node);
    }

    /// How long a frame from `node` to `to` takes on the slow link, behind those before it.
    fn slow_link(&mut self, node: usize, to: usize) -> Duration {
        let way = match self.slow {
            Some(slow) if slow == node => 0,
            Some(slow) if slow == to => 1,
            _ => return Duration::ZERO,
        };
        self.slow_until[way] = self.slow_until[way].max(self.now) + Duration::from_micros(3);
        self.slow_until[way].since(self.now)
    }

    fn slots(&mut self, node: usize) {
        let wants = match &self.nodes[node] {
            Node::Host(host) => host.wants_transmit(PORT),
            Node::Switch(switch) => switch.wants_transmit(PORT),
        };
        if wants && self.has_no_slot(node) {
            self.schedule(Duration::from_nanos(100), Due::Slots { node });
        }
    }

    /// Whether no slot of this node is waiting already.
    fn has_no_slot(&self, node: usize) -> bool {
        !self.queue.values().any(|due| matches!(due, Due::Slots { node: waiting } if *waiting == node))
    }

    /// Does what is due next; `false` when nothing is.
    pub fn step(&mut self) -> bool {
        let Some(((at, _), due)) = self.queue.pop_first() else { return false };
        self.now = at;
        let mut answers = Answers::default();
        let node = match due {
            Due::Arrival { node, header, payload } => {
                if self.dead.contains(&node) {
                    return true;
                }
                if std::env::var("QUINCUNX_TRACE").is_ok() {
                    eprintln!(
                        "{:>9} us node {node} {:?} -> {} psn {} {:?}",
                        at.as_picos() / 1_000_000,
                        header.source,
                        header.destination_qp.value(),
                        header.psn.value(),
                        header.operation
                    );
                }
                let frame = Frame { header: &header, payload: payload.view(0..payload.length()) };
                match &mut self.nodes[node] {
                    Node::Host(host) => host.handle_frame(at, PORT, frame, &mut answers),
                    Node::Switch(switch) => switch.handle_frame(at, PORT, frame, &mut answers),
                }
                node
            }
            Due::Timer { node, timer, generation } => {
                if self.dead.contains(&node) || self.timers.get(&(node, timer)) != Some(&generation) {
                    return true;
                }
                self.timers.remove(&(node, timer));
                match (&mut self.nodes[node], timer) {
                    (Node::Host(host), Timer::Host(timer)) => host.handle_timer(at, timer, &mut answers),
                    (Node::Switch(switch), Timer::Switch(timer)) => {
                        switch.handle_timer(at, timer, &mut answers)
                    }
                    _ => unreachable!("timers belong to their nodes"),
                }
                node
            }
            Due::Slots { node } => {
                if self.dead.contains(&node) {
                    return true;
                }
                match &mut self.nodes[node] {
                    Node::Host(host) => host.handle_transmit_slot(at, PORT, &mut answers),
                    Node::Switch(switch) => switch.handle_transmit_slot(at, PORT, &mut answers),
                }
                node
            }
        };
        match &self.nodes[node] {
            Node::Host(host) => host.assert_invariants(),
            Node::Switch(switch) => switch.assert_invariants(),
        }
        self.take(node, answers);
        true
    }

    /// Runs until nothing is due or a virtual minute has passed.
    pub fn run(&mut self) {
        while self.now < Instant::ZERO + Duration::from_millis(60_000) && self.step() {}
    }
}

pub const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
