//! A group of any design: nodes that are set up as the design plans it, on a tree, a ring or a mesh. No design is named here: what is
//! particular to one its [`Model`] says.

use quincunx_cluster::{Cluster, GroupSpec, Ports, Wiring, address};
use quincunx_collective::{Collective, Payload, Provenance, Rank, Reduction};
use quincunx_design::{
    AnyDesign, Assignment, Demand, FabricKind, Model, Refusal, Settings, Transport, Value,
};
use quincunx_driver_check::{End, NodeId, Renaming};
use quincunx_engine::PortId;
use quincunx_engine::verbs::UNLIMITED_RETRIES;
use quincunx_fabric::{IncTree, TreeNodeId};
use quincunx_nodes::{Mutation, Node, NodeCommand, SwitchCommand};
use quincunx_scenario::{Driver, Fabric, Part, Scenario, ScenarioError};
use quincunx_units::ByteCount;
use quincunx_wire::{QpNumber, RoceHeader};

use crate::connections::Connections;
use crate::connections::GROUP;
use crate::disagreement::Disagreement;
use crate::installed::installed_node;
use crate::memory::PACKET;
use crate::network::{FIRST_PSN, MOST_GROUPS, MTU, Network, OwnWrites, Protocol, SUM, Task, group_id};
use crate::tasks::{Tasks, TasksSetup};
use crate::writes::{SLOTS, WritesSetup};

/// Exploration, as a driver of scenarios. No time passes and nothing is lost by chance: how much may happen to frames is said apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Explorer;

impl Driver for Explorer {
    fn name(&self) -> &'static str {
        "explorations"
    }

    /// A packet of one counter, messages of one packet, two of them in flight, no end of retries. On a memory fabric two waves of two
    /// packets, no time for arithmetic, and the smallest blocks.
    fn base(&self, fabric: &Fabric, _: &[Assignment]) -> Vec<Assignment> {
        if let Fabric::Memory(_) = fabric {
            let base: [(&str, Value); 6] = [
                ("isa.waves", 2.into()),
                ("isa.wave", ByteCount::new(2 * PACKET as u64).to_string().into()),
                ("isa.compute_latency", "0ns".into()),
                ("isa.quantized_latency", "0ns".into()),
                ("quantization.bits", 4.into()),
                ("quantization.block", 32.into()),
            ];
            return base.map(|(key, value)| (key.to_owned(), value)).into();
        }
        let packet = Value::from(ByteCount::new(MTU as u64).to_string());
        let base = [
            ("group.mtu", packet.clone()),
            ("group.message", 1.into()),
            ("group.window", 2.into()),
            ("group.acknowledge_every", 1.into()),
            ("group.retry_timeout", "100us".into()),
            ("group.retry_count", UNLIMITED_RETRIES.into()),
            ("hosts.chunk", packet),
        ];
        base.map(|(key, value)| (key.to_owned(), value)).into()
    }

    fn base_of(&self, design: &dyn AnyDesign, _: &Fabric) -> Vec<Assignment> {
        let value = |text: &str| text.parse().unwrap_or_else(|_| Value::from(text));
        let smallest = design.about().model.smallest.iter();
        smallest.map(|&(key, text)| (key.to_owned(), value(text))).collect()
    }

    fn honours(&self, _: Part) -> bool {
        false
    }
}

/// How far apart the numbers of two groups' queue pairs begin: more than a node has in a group.
const GROUP_QPS: u32 = 0x1000;

/// What to explore.
#[derive(Clone, Debug)]
pub struct GroupSetup {
    /// The design.
    pub design: &'static dyn AnyDesign,
    /// The fabric, and parameters of the design; read for [`Explorer`].
    pub scenario: Scenario,
    /// What the ranks do, one after the other.
    pub collectives: Vec<Collective>,
    /// Whether ranks write to others in place of that, where the design offers it.
    pub writes: bool,
    /// Packets of data in each, from each rank; or messages that each writes to all others.
    pub packets: u32,
    /// Ranks that run them, where others may only relay: the first so many, in whole domains. All if it is not said.
    pub senders: Option<u16>,
    /// How many groups of all ranks there are, which do that side by side.
    pub groups: u8,
    /// How many collectives a rank has under way at most; more than one where the design's programs take them.
    pub in_flight: u8,
    /// Whether each rank begins when it likes. All begin at once otherwise.
    pub late: bool,
    /// A rule to break, by its name in the design; or one of switches, where there are several groups or senders give up.
    pub mutation: Option<String>,
    /// What the last rank asks for that the others do not.
    pub disagreement: Option<Disagreement>,
}

impl GroupSetup {
    /// The values of the design's parameters.
    pub(crate) fn settings(&self) -> Result<Settings, Refusal> {
        let design = self.design;
        let refusal = |error: ScenarioError| Refusal::from(error.to_string());
        self.scenario.refuse_unused(&[design]).map_err(refusal)?;
        self.scenario.settings(design).map_err(refusal)
    }

    /// Refuses what is not explored.
    fn check(&self) -> Result<(), Refusal> {
        let Self { design, scenario, .. } = self;
        let ranks = scenario.ranks();
        if ranks > Provenance::RANKS {
            return Err(Refusal::new(
                format!("a tree of at most {} ranks", Provenance::RANKS),
                ranks,
                "choose a smaller one",
            ));
        }
        // What is offered between servers runs on a mesh as well, which has the same ways and no switch.
        let runs = |collective: &Collective, fabric: FabricKind| match scenario.kind() {
            FabricKind::Mesh if collective.is_routed() => fabric == FabricKind::Servers,
            kind => fabric == kind,
        };
        let fabrics = design.about().offers.iter();
        let all =
            fabrics.flat_map(|&(fabric, offered)| offered.iter().map(move |offered| (fabric, *offered)));
        let offered: Vec<Collective> =
            all.filter(|(fabric, offered)| runs(offered, *fabric)).map(|(_, offered)| offered).collect();
        if self.writes && (!design.about().writes || !self.collectives.is_empty() || self.groups > 1) {
            let remedy = "explore writes alone";
            return Err(Refusal::new("one group that does nothing but write", design.name(), remedy));
        }
        if self.is_routed() && !self.collectives.iter().all(|collective| collective.is_routed()) {
            return Err(Refusal::new("tokens in all collectives or in none", "both", "explore them apart"));
        }
        for collective in &self.collectives {
            if !offered.iter().any(|other| other.name() == collective.name()) {
                return Err(Refusal::new(
                    format!("{} of {}", names(offered.iter().map(|other| other.name())), design.name()),
                    collective,
                    "name one of them",
                ));
            }
            if scenario.fabric.domains() > 1 && collective.root().is_some() {
                return Err(Refusal::new(
                    "a network of one domain where there is a root",
                    scenario.place(),
                    "choose a mesh such as mesh-1x4",
                ));
            }
            if let Some(root) = collective.root()
                && root.0 >= ranks
            {
                return Err(Refusal::new(format!("a root below {ranks}"), root, "name a rank with --root"));
            }
        }
        if !(1..=MOST_GROUPS).contains(&self.groups.into()) {
            return Err(Refusal::new(format!("1 to {MOST_GROUPS} groups"), self.groups, "explore fewer"));
        }
        let mut mutations = (design.about().model.mutations)(scenario.kind());
        let Transport { channels, retry_count, .. } = design.transport(&self.settings()?)?;
        if channels > 1 {
            let remedy = "leave it out: each channel is explored as a group without channels is, and shares nothing with others";
            return Err(Refusal::new("`group.channels` of 1 to explore", channels, remedy));
        }
        let matters = |mutation: &Mutation| match mutation {
            Mutation::FindsGroupsByPort | Mutation::IgnoresLocks => self.groups > 1,
            Mutation::StaysWhenRemoved => retry_count != UNLIMITED_RETRIES,
        };
        mutations.extend(Mutation::all().filter(matters).map(Mutation::name));
        match &self.mutation {
            Some(found) if mutations.is_empty() => Err(Refusal::new(
                format!("no rule of {} to break", design.name()),
                found,
                "none of its rules can be broken; leave it out",
            )),
            Some(found) if !mutations.contains(&found.as_str()) => Err(Refusal::new(
                format!("one of {}", mutations.join(", ")),
                format!("\"{found}\""),
                "name one of them",
            )),
            _ => Ok(()),
        }
    }

    /// The rule of nodes that is broken, or else that of the design.
    fn broken(&self) -> (Option<Mutation>, Option<&str>) {
        let of_nodes = self.mutation.as_deref().and_then(|name| name.parse().ok());
        (of_nodes, self.mutation.as_deref().filter(|_| of_nodes.is_none()))
    }

    /// Whether tokens are dispatched.
    fn is_routed(&self) -> bool {
        self.collectives.iter().any(|collective| collective.is_routed())
    }

    /// What the ranks of each group do.
    fn tasks(&self, settings: &Settings, wiring: &Wiring) -> Result<Vec<TasksSetup>, Refusal> {
        let ranks = self.scenario.ranks();
        // Tokens go to all ranks, whoever has any; and messages.
        let members = if self.is_routed() || self.writes { 1 } else { ranks / wiring.domains() };
        let senders = self.senders.unwrap_or(ranks);
        if senders == 0 || senders > ranks || !senders.is_multiple_of(members) {
            return Err(Refusal::new(
                format!("senders in whole domains of {members}, up to {ranks}"),
                senders,
                "choose another number",
            ));
        }
        let packet = self.design.transport(settings)?.mtu;
        let setup = TasksSetup {
            collectives: self.collectives.clone(),
            ranks,
            members,
            senders,
            packets: self.packets as usize,
            packet: packet.as_usize(),
            others: 0,
        };
        let (elements, groups) = (setup.elements(), usize::from(self.groups));
        if elements * groups > Provenance::NUMBERS {
            return Err(Refusal::new(
                format!("at most {} elements of each rank, which can be told apart", Provenance::NUMBERS),
                elements * groups,
                "explore fewer packets",
            ));
        }
        Ok((0..groups).map(|group| TasksSetup { others: group * elements, ..setup.clone() }).collect())
    }

    /// What ranks write.
    fn own_writes(&self, wiring: &Wiring) -> WritesSetup {
        let ranks = self.scenario.ranks();
        let (members, senders) = (ranks / wiring.domains(), self.senders.unwrap_or(ranks));
        WritesSetup { ranks, members, senders, messages: self.packets as usize }
    }

    /// The tasks of a group, and who asks for something else.
    fn tasks_of(&self, setup: TasksSetup) -> Result<Tasks, Refusal> {
        let Some(disagreement) = self.disagreement else { return Ok(Tasks::new(setup)) };
        if self.groups > 1 || self.is_routed() || self.senders.is_some_and(|senders| senders < setup.ranks) {
            let remedy = "explore disagreements without --groups and --senders";
            return Err(Refusal::new("one group whose ranks all take part", "another", remedy));
        }
        let offered = self.design.collectives(self.scenario.kind());
        let other = Tasks::new(disagreement.tasks(&setup, offered)?);
        Ok(Tasks::new(setup).with_dissenter(self.dissenter(), other))
    }

    /// Who asks for something else, where ranks disagree.
    fn dissenter(&self) -> Rank {
        Rank(self.scenario.ranks() - 1)
    }
}

/// Has ranks compare their results.
const VERIFY: &str = "group.verify";

/// Names in a list.
fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "no collective".to_owned() } else { names.join(", ") }
}

/// What a design says of its group. Nodes are numbered as in the wiring.
#[derive(Clone, Debug)]
pub struct Designed {
    model: Model,
    /// Senders give up.
    gives_up: bool,
    /// No frame may carry what no right result has in it.
    adds_once: bool,
    wiring: Wiring,
    collectives: Vec<Collective>,
    in_flight: u8,
    /// By group.
    tasks: Vec<Tasks>,
    /// What ranks write, if that is what they do.
    writes: Option<WritesSetup>,
    begins_late: bool,
    /// Who asks for something else than the others.
    dissent: Option<(Rank, Disagreement)>,
}

impl Network {
    /// The network of a set-up, with the group installed.
    ///
    /// # Errors
    /// If the group is too large, the design refuses it, or it is not explored.
    pub fn of_group(setup: &GroupSetup) -> Result<Self, Refusal> {
        setup.check()?;
        let settings = setup.settings()?;
        let wiring = Wiring::of(&setup.scenario.fabric).expect("designs above queue pairs run among hosts");
        let gives_up = setup.design.transport(&settings)?.retry_count != UNLIMITED_RETRIES;
        // Where results are verified what is wrong may travel, as long as it is an error in the end.
        let verifies = settings.value(VERIFY).and_then(Value::as_bool).unwrap_or_default();
        let adds_once = !setup.is_routed() && !verifies && setup.disagreement.is_none();
        let tasks = setup.tasks(&settings, &wiring)?.into_iter().map(|tasks| setup.tasks_of(tasks));
        let tasks: Vec<Tasks> = tasks.collect::<Result<_, _>>()?;
        let writes = setup.writes.then(|| setup.own_writes(&wiring));
        let demand = if setup.writes {
            let slots = setup.packets * SLOTS as u32;
            Demand::Writes { slots, length: setup.design.transport(&settings)?.mtu }
        } else if setup.is_routed() {
            Demand::Tokens { most: setup.packets, length: setup.design.transport(&settings)?.mtu }
        } else {
            let longest = tasks.iter().map(Tasks::longest).max().unwrap_or_default();
            Demand::Vectors { longest: ByteCount::new(longest as u64) }
        };
        let spec = GroupSpec {
            group: GROUP,
            initial_psn: FIRST_PSN,
            ..GroupSpec::new(setup.design, settings, demand)
        };
        // Their packets have the same numbers: only queue pairs tell groups apart.
        let spec = |group: usize| {
            let first_qp = QpNumber::new(spec.first_qp.value() + group as u32 * GROUP_QPS);
            GroupSpec { group: group_id(group), first_qp, ..spec.clone() }
        };
        let clusters = (0..tasks.len()).map(|group| Cluster::new(wiring.clone(), address, &spec(group)));
        let clusters: Vec<Cluster> = clusters.collect::<Result<_, _>>()?;
        let installed = |of_nodes: Option<Mutation>, of_design: Option<&str>| {
            let each = |node| {
                let commands = clusters.iter().map(|cluster| cluster.commands(node, Ports::Links, of_design));
                let mut commands: Vec<Vec<_>> = commands.collect::<Result<_, Refusal>>()?;
                give_memory(commands.iter_mut().flatten());
                let made = installed_node(clusters[0].kind(node), commands.into_iter().flatten());
                let made = made.map_err(|error| Refusal::from(error.to_string()))?;
                Ok(match of_nodes {
                    Some(mutation) => made.breaking(mutation),
                    None => made,
                })
            };
            (0..wiring.nodes().len()).map(each).collect::<Result<Vec<_>, Refusal>>()
        };
        let plain = setup.mutation.as_ref().map(|_| installed(None, None)).transpose()?;
        let (of_nodes, of_design) = setup.broken();
        let set_up = installed(of_nodes, of_design)?;
        let depth_of = |node: &Node<Provenance>| match node {
            Node::Host(host) => host.depth(GROUP),
            Node::Switch(_) => None,
        };
        if let Some(depth) = set_up.iter().filter_map(depth_of).min()
            && usize::from(setup.in_flight) > depth
        {
            return Err(Refusal::new(
                format!("as many collectives under way at once as the group may have, {depth}"),
                setup.in_flight,
                "set --in-flight lower, or a wider window",
            ));
        }
        let ends = |cluster: &Cluster, node| {
            let context = cluster.context(node);
            let connections = context.map(|context| context.connections.iter()).unwrap_or_default();
            connections.map(|connection| (connection.local, connection.remote)).collect()
        };
        let nodes = || 0..wiring.nodes().len();
        let connections = Connections::new(nodes().map(|node| ends(&clusters[0], node)));
        let connections = clusters.iter().enumerate().skip(1).fold(connections, |all, (group, cluster)| {
            all.and(group_id(group), nodes().map(|node| ends(cluster, node)))
        });
        let end =
            |end: quincunx_cluster::WiringEnd| End { node: NodeId(end.node as u16), port: PortId(end.port) };
        let links = wiring.links().iter().map(|link| link.ends.map(end)).collect();
        let model = setup.design.about().model;
        let (collectives, in_flight, begins_late) = (setup.collectives.clone(), setup.in_flight, setup.late);
        let dissent = setup.disagreement.map(|disagreement| (setup.dissenter(), disagreement));
        let designed = Designed {
            model,
            gives_up,
            adds_once,
            wiring,
            collectives,
            in_flight,
            tasks,
            writes,
            begins_late,
            dissent,
        };
        Ok(Self::on(links, set_up, connections, designed).beside(plain))
    }
}

/// Gives each group of a switch its part of the memory, as the manager would: one behind the other.
fn give_memory<'a, P: Payload>(commands: impl Iterator<Item = &'a mut NodeCommand<P>>) {
    let mut free = ByteCount::new(0);
    for command in commands {
        if let NodeCommand::Switch(SwitchCommand::Install(group)) = command {
            group.memory.offset = free;
            free += group.memory.length;
        }
    }
}

impl Designed {
    fn rank(&self, node: NodeId) -> Option<Rank> {
        self.wiring.rank_at(node.index())
    }

    /// Ranks that are not like the others.
    fn roots(&self) -> Vec<Rank> {
        let all = || (0..self.wiring.ranks()).map(Rank).collect();
        let roots = self.collectives.iter().flat_map(|collective| match collective {
            Collective::Reduce { root } | Collective::Broadcast { root } => vec![*root],
            Collective::AllReduce | Collective::Barrier => Vec::new(),
            // A part for each rank, in the order of the ranks.
            _ => all(),
        });
        roots.chain(self.dissent.map(|(rank, _)| rank)).collect()
    }
}

/// The subtree below a node, itself first, in an order that is the same for all subtrees of one shape.
fn below(tree: &IncTree, node: TreeNodeId) -> Vec<TreeNodeId> {
    let mut nodes = vec![node];
    for child in children(tree, node) {
        nodes.extend(below(tree, child));
    }
    nodes
}

fn children(tree: &IncTree, node: TreeNodeId) -> impl Iterator<Item = TreeNodeId> {
    let edges = 0..tree.node(node).child_edges().len() as u16;
    edges.map(move |index| tree.across(node, index).node)
}

/// Exchanges of neighbouring equal subtrees in which nobody is a root.
fn exchanges(tree: &IncTree, roots: &[Rank]) -> Vec<Vec<NodeId>> {
    let mut renamings = Vec::new();
    let is_free = |nodes: &Vec<TreeNodeId>| !roots.iter().any(|root| nodes.contains(&tree.leaf(*root)));
    for switch in tree.switches() {
        let subtrees: Vec<_> =
            children(tree, switch).map(|child| below(tree, child)).filter(is_free).collect();
        for pair in subtrees.windows(2) {
            let mut nodes: Vec<NodeId> = (0..tree.nodes().count() as u16).map(NodeId).collect();
            for (a, b) in pair[0].iter().zip(&pair[1]) {
                nodes.swap(usize::from(a.0), usize::from(b.0));
            }
            renamings.push(nodes);
        }
    }
    renamings
}

impl Protocol for Designed {
    fn name(&self, node: NodeId) -> String {
        match self.rank(node) {
            Some(rank) => format!("rank {rank}"),
            None => self.wiring.nodes()[node.index()].name.replace('-', " "),
        }
    }

    fn groups(&self) -> usize {
        self.tasks.len()
    }

    fn in_flight(&self) -> u8 {
        self.in_flight
    }

    fn tasks(&self, node: NodeId) -> usize {
        self.tasks_of(0, node)
    }

    fn task(&self, node: NodeId, number: usize) -> Task {
        self.task_of(0, node, number)
    }

    fn tasks_of(&self, group: usize, node: NodeId) -> usize {
        self.rank(node).map_or(0, |rank| self.tasks[group].of(rank).len())
    }

    fn task_of(&self, group: usize, node: NodeId, number: usize) -> Task {
        self.tasks[group].of(self.rank(node).expect("only ranks run anything"))[number].clone()
    }

    fn begins_late(&self) -> bool {
        self.begins_late
    }

    fn writes(&self, node: NodeId) -> OwnWrites {
        match (&self.writes, self.rank(node)) {
            (Some(writes), Some(rank)) => writes.of(rank),
            _ => OwnWrites::default(),
        }
    }

    fn adds_once(&self) -> bool {
        self.adds_once
    }

    fn gives_up(&self) -> bool {
        self.gives_up
    }

    fn reduction(&self, node: NodeId) -> Reduction {
        match self.dissent {
            Some((rank, disagreement)) if self.rank(node) == Some(rank) => disagreement.reduction(),
            _ => SUM,
        }
    }

    fn dissenter(&self) -> Option<Rank> {
        self.dissent.map(|(rank, _)| rank)
    }

    fn answers_overtake(&self) -> bool {
        self.model.answers_overtake
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        match self.wiring.tree_of_switches() {
            Some(tree) if self.model.is_symmetric => exchanges(tree, &self.roots()),
            _ => Vec::new(),
        }
    }

    fn rename_contents(
        &self,
        renaming: &Renaming,
        header: &RoceHeader,
        payload: &Provenance,
    ) -> (RoceHeader, Provenance) {
        let rename = |rank: Rank| {
            let node = renaming.node(NodeId(self.wiring.host(rank) as u16));
            self.rank(node).expect("ranks are renamed to ranks")
        };
        (*header, self.tasks[0].renamed(payload, rename))
    }

    fn request(&self, header: &RoceHeader) -> String {
        (self.model.request)(header).to_owned()
    }

    fn datapath_timer(&self, kind: u8) -> &'static str {
        (self.model.timer)(kind)
    }
}
