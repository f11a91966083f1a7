//! A network of nodes in virtual time: frames take a while, some are lost, held back or doubled, all by seed. It is the
//! smallest driver there is, for tests of protocols alone. `QUINCUNX_TRACE=1` prints every frame that arrives.
#![allow(unreachable_pub, dead_code, reason = "each test file uses its part of it")]

pub mod kernel;

use std::collections::BTreeMap;

use quincunx_collective::{
    Collective, DataType, GroupId, Numbers, Payload, Rank, ReduceOp, Reduction, SplitMix64,
};
use quincunx_design::{
    AnyDesign, FabricKind, GroupContext, Member, Naming, Placement, Settings, Transport, Value,
};
use quincunx_engine::verbs::{Outcome, QpIndex};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_epic::{EPIC_1, EPIC_2, EPIC_3, Epic, EpicParams, GroupParams, Mode};
use quincunx_fabric::{IncTree, TreeNodeId, TreeRole};
use quincunx_nodes::{
    Host, HostCommand, HostEvent, HostGroup, HostTimer, NodeDrop, Offloadable as _, Switch, SwitchCommand,
    SwitchEvent, SwitchGroup, SwitchTimer, host_group, switch_groups,
};
use quincunx_units::{ByteCount, Duration, Instant, Messages, Packets};
use quincunx_wire::{Endpoint, Gid, Psn, QpNumber, RoceHeader};

use kernel::{KernelQueuePair, KernelTimer};

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

impl Shape {
    fn tree(&self) -> IncTree {
        let mut nodes = Vec::new();
        self.add(None, &mut 0, &mut nodes);
        IncTree::new(&nodes).expect("a tree")
    }

    fn add(
        &self,
        parent: Option<TreeNodeId>,
        ranks: &mut u16,
        nodes: &mut Vec<(TreeRole, Option<TreeNodeId>)>,
    ) {
        let id = TreeNodeId(nodes.len() as u16);
        match self {
            Self::Rank => {
                nodes.push((TreeRole::Rank(Rank(*ranks)), parent));
                *ranks += 1;
            }
            Self::Switch(children) => {
                nodes.push((TreeRole::Switch, parent));
                children.iter().for_each(|child| child.add(Some(id), ranks, nodes));
            }
        }
    }
}

/// What a group is run with.
#[derive(Clone, Copy, Debug)]
pub struct NetworkSetup {
    pub mode: Mode,
    pub mtu: u64,
    pub message: u32,
    pub window: u32,
    pub initial_psn: Psn,
    pub reproducible: bool,
    pub selective: bool,
    pub run_ahead: bool,
    /// A Mode-II switch answers ranks that ask for a result.
    pub resend_results: bool,
    pub overlap: bool,
    /// Short vectors travel in their control message.
    pub eager: bool,
    /// Time-out of ranks.
    pub retry_timeout: Duration,
    /// Ranks' queue pairs are the kernel's.
    pub kernels: bool,
    pub channels: u16,
}

impl NetworkSetup {
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
            resend_results: true,
            overlap: true,
            eager: true,
            retry_timeout: Duration::from_micros(300),
            kernels: false,
            channels: 1,
        }
    }

    fn design(&self) -> Epic {
        match self.mode {
            Mode::I => EPIC_1,
            Mode::II => EPIC_2,
            Mode::III => EPIC_3,
        }
    }

    /// The parameters, with the time-out of ranks.
    fn settings(&self) -> Settings {
        let transport = Transport {
            mtu: ByteCount::new(self.mtu),
            message: Packets::new(self.message),
            window: Messages::new(self.window),
            retry_timeout: self.retry_timeout,
            retry_count: 60,
            selective: self.selective,
            channels: self.channels,
            ..Transport::default()
        };
        let (reproducible, run_ahead) = (self.reproducible, self.run_ahead && self.mode == Mode::III);
        Settings::of(&EpicParams {
            group: GroupParams {
                transport,
                reproducible,
                run_ahead,
                resend_results: self.resend_results || self.mode != Mode::II,
                overlap: self.overlap,
                eager: self.eager,
                standard_verbs: self.kernels,
                ..Default::default()
            },
        })
    }

    /// What each member of a group on `tree` is told, by its plan.
    fn contexts(&self, tree: IncTree) -> Vec<(Member, GroupContext)> {
        let (design, settings) = (self.design(), self.settings());
        let placement = Placement::new(tree.ranks(), Some(tree), ByteCount::new(1 << 20));
        let plan = design.plan(&settings, &placement).expect("a plan");
        let order: Vec<TreeNodeId> = plan.switches.iter().map(|switch| switch.node).collect();
        let naming = Naming {
            group: GROUP,
            design: AnyDesign::name(&design).to_string(),
            version: AnyDesign::about(&design).version,
            settings,
            fabric: FabricKind::Tree,
            domains: 1,
            initial_psn: self.initial_psn,
        };
        let mut next = 0x10;
        let endpoint = |member| {
            next += 1;
            let ip = match member {
                Member::Rank(rank) => host_ip(rank.index()),
                Member::Switch(node) => switch_ip(order.iter().position(|other| *other == node).unwrap()),
            };
            Endpoint { ip, qp: QpNumber::new(next) }
        };
        let mut contexts = plan.contexts(&naming, |node| format!("switch {}", node.0), endpoint);
        for (member, context) in &mut contexts {
            if let Member::Switch(_) = member {
                // Switches are quicker to send again than ranks, and give up before them.
                for (key, value) in
                    [("group.retry_timeout", Value::from("200us")), ("group.retry_count", Value::from(40))]
                {
                    design.set(&mut context.settings, key, &value).expect("a key of the design");
                }
            }
        }
        contexts
    }
}

#[derive(Clone)]
enum TestNode {
    Host(Host<Numbers>),
    /// A host and its queue pair.
    Kernel(Host<Numbers>, KernelQueuePair),
    Switch(Switch<Numbers>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Timer {
    Host(HostTimer),
    Switch(SwitchTimer),
    Kernel(KernelTimer),
}

#[derive(Clone)]
enum Due {
    Arrival { node: usize, header: RoceHeader, payload: Numbers },
    Timer { node: usize, timer: Timer, generation: u64 },
    Slots { node: usize },
}

fn percent(random: &mut SplitMix64, chance: u64) -> bool {
    random.draw() % 100 < chance
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

impl Sink<Host<Numbers>> for Answers {
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
    nodes: Vec<TestNode>,
    addresses: BTreeMap<Gid, usize>,
    pub ranks: usize,
    queue: BTreeMap<(Instant, u64), Due>,
    timers: BTreeMap<(usize, Timer), u64>,
    pub now: Instant,
    order: u64,
    random: SplitMix64,
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

/// Gives a kernel's queue pair the work that its host has posted.
fn hand_over(host: &mut Host<Numbers>, queue_pair: &mut KernelQueuePair) {
    while let Some(posted) = host.take_work() {
        let memory = host.memory(GROUP).expect("the group is installed");
        queue_pair.post(posted.work, memory);
    }
}

fn host_ip(rank: usize) -> Gid {
    Gid::from([10, 0, 0, rank as u8 + 1])
}

fn switch_ip(index: usize) -> Gid {
    Gid::from([10, 0, 1, index as u8 + 1])
}

/// What each node of a group is told, for tests that have no network.
pub fn groups(shape: &Shape, setup: NetworkSetup) -> (Vec<HostGroup<Numbers>>, Vec<SwitchGroup<Numbers>>) {
    let (mut hosts, mut switches) = (Vec::new(), Vec::new());
    for (member, context) in setup.contexts(shape.tree()) {
        match member {
            Member::Rank(_) => hosts.push(host_group(&setup.design(), &context, None, |_| PORT).unwrap()),
            Member::Switch(_) => {
                switches.extend(switch_groups(&setup.design(), &context, None, |_| PORT).unwrap());
            }
        }
    }
    (hosts, switches)
}

impl Network {
    pub fn new(shape: &Shape, setup: NetworkSetup, faults: Faults, seed: u64) -> Self {
        let tree = shape.tree();
        let ranks = usize::from(tree.ranks());
        let mut contexts = setup.contexts(tree);
        // Switches come first in a plan, ranks first among the nodes.
        let switches = contexts.len() - ranks;
        contexts.rotate_left(switches);
        let mut network = Self {
            nodes: Vec::new(),
            addresses: BTreeMap::new(),
            ranks,
            queue: BTreeMap::new(),
            timers: BTreeMap::new(),
            now: Instant::ZERO,
            order: 0,
            random: SplitMix64::new(seed),
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
        let design = setup.design();
        for (index, (member, context)) in contexts.iter().enumerate() {
            match member {
                Member::Rank(rank) => {
                    let mut group = host_group(&design, context, None, |_| PORT).unwrap();
                    let Ok(host) = Host::new(());
                    network.addresses.insert(host_ip(rank.index()), index);
                    group.are_offloaded = setup.kernels;
                    network.nodes.push(match setup.kernels {
                        true => TestNode::Kernel(host, KernelQueuePair::new(group.queue_pairs[0].1)),
                        false => TestNode::Host(host),
                    });
                    network.host_command(index, HostCommand::Install(Box::new(group)));
                }
                Member::Switch(_) => {
                    let Ok(mut switch) = Switch::new(());
                    let mut answers = Answers::default();
                    for channel in switch_groups(&design, context, None, |_| PORT).unwrap() {
                        let install = SwitchCommand::Install(Box::new(channel));
                        switch.handle_command(Instant::ZERO, install, &mut answers).unwrap();
                    }
                    network.addresses.insert(switch_ip(index - ranks), index);
                    network.nodes.push(TestNode::Switch(switch));
                    network.take(index, answers);
                }
            }
        }
        network
    }

    pub fn switch_buffer_bytes(&self) -> Vec<usize> {
        self.nodes
            .iter()
            .filter_map(
                |node| if let TestNode::Switch(switch) = node { Some(switch.buffer_bytes()) } else { None },
            )
            .collect()
    }

    fn host_command(&mut self, rank: usize, command: HostCommand<Numbers>) {
        let mut answers = Answers::default();
        let (TestNode::Host(host) | TestNode::Kernel(host, _)) = &mut self.nodes[rank] else {
            unreachable!()
        };
        host.handle_command(self.now, command, &mut answers).expect("the command makes sense");
        host.assert_invariants();
        if let TestNode::Kernel(host, queue_pair) = &mut self.nodes[rank] {
            hand_over(host, queue_pair);
        }
        self.take(rank, answers);
    }

    /// Tells a host what its kernel's queue pair has ended.
    fn take_ended(&mut self, rank: usize) {
        while let TestNode::Kernel(host, queue_pair) = &mut self.nodes[rank]
            && let Some((completion, received)) = queue_pair.take_ended()
        {
            if let (Some((sink, bytes)), Some(memory)) = (received, host.memory(GROUP)) {
                memory.write(sink, &bytes);
            }
            let queue_pair = QpIndex(0);
            self.host_command(rank, HostCommand::Complete { group: GROUP, queue_pair, completion });
        }
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
        self.host_command(
            rank,
            HostCommand::Start { group: GROUP, collective, reduction, input, output, terms: Terms::WHOLE },
        );
    }

    /// Lets a rank's node take a frame of the test's making.
    pub fn deliver(&mut self, to: Gid, header: RoceHeader, payload: Numbers) {
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
            let copies = if percent(&mut self.random, self.faults.duplication) { 2 } else { 1 };
            for _ in 0..copies {
                let lost = percent(&mut self.random, self.faults.loss)
                    || self.lose.as_mut().is_some_and(|lose| lose(&header));
                let held = if percent(&mut self.random, self.faults.reordering) {
                    self.random.draw() % 100
                } else {
                    0
                };
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
        let (wants, nanoseconds) = match &self.nodes[node] {
            TestNode::Host(host) => (host.wants_transmit(PORT), 100),
            // Answers come between its packets.
            TestNode::Kernel(_, queue_pair) => (queue_pair.wants_transmit(), 1000),
            TestNode::Switch(switch) => (switch.wants_transmit(PORT), 100),
        };
        if wants && self.has_no_slot(node) {
            self.schedule(Duration::from_nanos(nanoseconds), Due::Slots { node });
        }
    }

    /// Whether no slot of this node is waiting already.
    fn has_no_slot(&self, node: usize) -> bool {
        !self.queue.values().any(|due| matches!(due, Due::Slots { node: waiting } if *waiting == node))
    }

    /// Does what is due within `time`.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.queue.first_key_value().is_some_and(|((at, _), _)| *at <= until) {
            self.step();
        }
        self.now = until;
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
                    TestNode::Host(host) => host.handle_frame(at, PORT, frame, &mut answers),
                    TestNode::Kernel(_, queue_pair) => {
                        queue_pair.handle_frame(&header, &payload, &mut answers)
                    }
                    TestNode::Switch(switch) => switch.handle_frame(at, PORT, frame, &mut answers),
                }
                node
            }
            Due::Timer { node, timer, generation } => {
                if self.dead.contains(&node) || self.timers.get(&(node, timer)) != Some(&generation) {
                    return true;
                }
                self.timers.remove(&(node, timer));
                match (&mut self.nodes[node], timer) {
                    (TestNode::Host(host), Timer::Host(timer)) => host.handle_timer(at, timer, &mut answers),
                    (TestNode::Kernel(_, queue_pair), Timer::Kernel(timer)) => {
                        queue_pair.handle_timer(timer, &mut answers)
                    }
                    (TestNode::Switch(switch), Timer::Switch(timer)) => {
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
                    TestNode::Host(host) => host.handle_transmit_slot(at, PORT, &mut answers),
                    TestNode::Kernel(_, queue_pair) => queue_pair.transmit(&mut answers),
                    TestNode::Switch(switch) => switch.handle_transmit_slot(at, PORT, &mut answers),
                }
                node
            }
        };
        match &self.nodes[node] {
            TestNode::Host(host) | TestNode::Kernel(host, _) => host.assert_invariants(),
            TestNode::Switch(switch) => switch.assert_invariants(),
        }
        self.take(node, answers);
        self.take_ended(node);
        true
    }

    /// Runs until nothing is due or a virtual minute has passed.
    pub fn run(&mut self) {
        while self.now < Instant::ZERO + Duration::from_millis(60_000) && self.step() {}
    }
}

pub const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
