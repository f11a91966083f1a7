//! A manager with switches `s0`, `s1`, ... and hosts `r0`, `r1`, ... attached: all in one network, or joined as a tree.

use quincunx_collective::GroupId;
use quincunx_control::{
    Action, AttachError, GroupRequest, GroupState, GroupSummary, InitGroupError, Instruction, LinkReport,
    Manager, ManagerConfig, ManagerTimer, NodeDescription, Report, RequestId, Role, UnknownGroup,
};
use quincunx_design::{FabricKind, Value};
use quincunx_designs::{CATALOG, FALLBACK};
use quincunx_fabric::{IncTree, MeshShape, TreeNodeId, TreeRole};
use quincunx_units::ByteCount;
use std::net::IpAddr;

pub(crate) struct Site {
    pub(crate) manager: Manager,
    requests: u64,
}

pub(crate) fn host(number: u8) -> NodeDescription {
    NodeDescription::host(format!("r{number}"), IpAddr::from([127, 0, 1, number]), 16)
}

pub(crate) fn switch(number: u8) -> NodeDescription {
    NodeDescription {
        role: Role::Switch,
        designs: ["epic-1", "epic-2", "epic-3"].map(String::from).into(),
        memory: ByteCount::new(1 << 20),
        ..NodeDescription::host(format!("s{number}"), IpAddr::from([127, 0, 2, number]), 16)
    }
}

/// The nodes of a tree of this shape, switches level by level from the root: each switch reports its links.
pub(crate) fn tree(shape: &str) -> Vec<NodeDescription> {
    let tree = IncTree::from_shape(&shape.parse().unwrap());
    let count = tree.switches().len() as u16;
    let name = |node: TreeNodeId| match tree.node(node).role() {
        TreeRole::Rank(rank) => format!("r{}", rank.0),
        TreeRole::Switch => format!("s{}", node.0),
    };
    let mut nodes: Vec<_> = (0..count)
        .map(|number| switch(number as u8))
        .chain((0..tree.ranks()).map(|rank| host(rank as u8)))
        .collect();
    for edge in tree.edges() {
        let link =
            LinkReport { interface: None, neighbour: name(edge.child.node), parallel_links: 1, rate: None };
        nodes[usize::from(edge.parent.node.0)].links.push(link.clone());
        if tree.node(edge.child.node).role() == TreeRole::Switch {
            let back = LinkReport { interface: None, neighbour: name(edge.parent.node), ..link };
            nodes[usize::from(edge.child.node.0)].links.push(back);
        }
    }
    nodes
}

/// The instructions among actions.
pub(crate) fn told(actions: &[Action]) -> Vec<(String, Instruction)> {
    let told = |action: &Action| match action {
        Action::Instruct { node, instruction } => Some((node.clone(), instruction.clone())),
        _ => None,
    };
    actions.iter().filter_map(told).collect()
}

/// Falls back to the ring.
pub(crate) fn config() -> ManagerConfig {
    ManagerConfig { fallback: Some(FALLBACK), ..ManagerConfig::default() }
}

/// A group of the first hosts, with an MTU of 1 KiB, messages of two packets and a window of four.
pub(crate) fn request(ranks: u16, design: &str) -> GroupRequest {
    wanted(ranks, design, None)
}

/// The same on a mesh, of all its hosts.
pub(crate) fn on_mesh(ranks: u16, design: &str, mesh: &str) -> GroupRequest {
    wanted(ranks, design, Some(mesh.parse().unwrap()))
}

fn wanted(ranks: u16, design: &str, mesh: Option<MeshShape>) -> GroupRequest {
    let members = (0..ranks).map(|rank| format!("r{rank}")).collect();
    let fabric = if mesh.is_some() { FabricKind::Mesh } else { FabricKind::Tree };
    let found = CATALOG.find(design, fabric).or_else(|_| CATALOG.named(design)).unwrap();
    let mut wanted = GroupRequest { mesh, ..GroupRequest::new(members, found, ByteCount::new(1 << 20)) };
    for (key, value) in [("group.mtu", 1024), ("group.message", 2), ("group.window", 4)] {
        set(&mut wanted, key, value);
    }
    wanted
}

/// Sets a parameter of the design that is asked for.
pub(crate) fn set(wanted: &mut GroupRequest, key: &str, value: impl Into<Value>) {
    let design =
        CATALOG.find(&wanted.design, wanted.fabric()).or_else(|_| CATALOG.named(&wanted.design)).unwrap();
    design.set(&mut wanted.settings, key, &value.into()).unwrap();
}

impl Site {
    pub(crate) fn new(switches: u8, hosts: u8) -> Self {
        Self::with(config(), switches, hosts)
    }

    pub(crate) fn with(config: ManagerConfig, switches: u8, hosts: u8) -> Self {
        Self::of(config, (0..switches).map(switch).chain((0..hosts).map(host)))
    }

    /// With a tree of switches.
    pub(crate) fn tree(shape: &str) -> Self {
        Self::of(config(), tree(shape))
    }

    pub(crate) fn of(config: ManagerConfig, nodes: impl IntoIterator<Item = NodeDescription>) -> Self {
        let mut site = Self { manager: Manager::new(CATALOG, config), requests: 0 };
        nodes.into_iter().for_each(|node| site.attach(node));
        site
    }

    pub(crate) fn attach(&mut self, node: NodeDescription) {
        self.try_attach(node).unwrap();
    }

    pub(crate) fn try_attach(&mut self, node: NodeDescription) -> Result<(), AttachError> {
        let mut actions = Vec::new();
        self.manager.attach(node, &[], &mut actions)?;
        assert_eq!(actions, []);
        Ok(())
    }

    pub(crate) fn last_request(&self) -> RequestId {
        RequestId(self.requests)
    }

    /// Who is told to install what; or why nobody is.
    pub(crate) fn begin(
        &mut self,
        wanted: &GroupRequest,
    ) -> Result<Vec<(String, Instruction)>, InitGroupError> {
        let actions = self.ask(wanted);
        if let Some(Action::Answer { answer, .. }) = actions.last() {
            return Err(answer.clone().unwrap_err());
        }
        Ok(told(&actions))
    }

    /// Asks for a group; what follows from that.
    pub(crate) fn ask(&mut self, wanted: &GroupRequest) -> Vec<Action> {
        self.requests += 1;
        let mut actions = Vec::new();
        self.manager.init_group(RequestId(self.requests), wanted, &mut actions);
        actions
    }

    pub(crate) fn begin_id(&mut self, wanted: &GroupRequest) -> GroupId {
        self.begin(wanted).unwrap();
        self.manager.groups().map(|group| group.group).max().unwrap()
    }

    /// Makes a group that all nodes install.
    pub(crate) fn init(&mut self, wanted: &GroupRequest) -> GroupId {
        let told = self.begin(wanted).unwrap();
        let group = self.manager.groups().map(|group| group.group).max().unwrap();
        for (node, _) in told {
            self.report(&node, group, Report::Installed);
        }
        assert_eq!(self.state(group), GroupState::Ready);
        group
    }

    pub(crate) fn report(&mut self, node: &str, group: GroupId, report: Report) -> Vec<Action> {
        let mut actions = Vec::new();
        self.manager.handle_report(node, group, report, &mut actions).unwrap();
        actions
    }

    /// A node says that its data plane failed, and ranks that are asked have called nothing; what follows from that.
    pub(crate) fn break_group(&mut self, node: &str, group: GroupId, reason: &str) -> Vec<Action> {
        let mut actions = self.report(node, group, Report::DataPlaneFailed { reason: reason.to_string() });
        for (node, instruction) in told(&actions.clone()) {
            if instruction == Instruction::TellCalls(group) {
                actions = self.report(&node, group, Report::called_nothing());
            }
        }
        actions
    }

    /// All nodes that have been told that a group is over say that they have forgotten it; what follows from that.
    pub(crate) fn forget(&mut self, actions: &[Action]) -> Vec<Action> {
        let mut out = Vec::new();
        for (node, instruction) in told(actions) {
            if let Instruction::Remove(group) | Instruction::Failed { group, .. } = instruction {
                self.manager.handle_report(&node, group, Report::Removed, &mut out).unwrap();
            }
        }
        out
    }

    pub(crate) fn expire(&mut self, timer: ManagerTimer) -> Vec<Action> {
        let mut actions = Vec::new();
        self.manager.handle_timer(timer, &mut actions);
        actions
    }

    pub(crate) fn detach(&mut self, node: &str) -> Vec<Action> {
        let mut actions = Vec::new();
        self.manager.detach(node, "test", &mut actions);
        actions
    }

    /// Ends a group; nobody has yet forgotten it.
    pub(crate) fn destroy(&mut self, group: GroupId) -> Result<Vec<Action>, UnknownGroup> {
        self.requests += 1;
        let mut actions = Vec::new();
        self.manager.destroy_group(RequestId(self.requests), group, &mut actions)?;
        Ok(actions)
    }

    /// Ends a group, and all its nodes forget it.
    pub(crate) fn remove(&mut self, group: GroupId) {
        let actions = self.destroy(group).unwrap();
        self.forget(&actions);
    }

    pub(crate) fn summary(&self, group: GroupId) -> GroupSummary {
        self.manager.groups().find(|summary| summary.group == group).unwrap()
    }

    pub(crate) fn state(&self, group: GroupId) -> GroupState {
        self.summary(group).state
    }
}
