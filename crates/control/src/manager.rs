//! The IncManager: a state machine that attachments, requests, reports and time-outs drive.
//!
//! The call loop: call a method, then carry out the [`Action`]s that it appended, in order. Instructions to one node
//! must reach it in order; then what is removed here is free at once, for what comes after it comes later there too.

mod nodes;

use crate::{
    AttachError, Fallback, GroupFailure, GroupRequest, GroupState, GroupSummary, Holding, InitGroupError,
    NodeDescription, ReportError, Role, UnknownGroup,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use nodes::{Nodes, Taken};
use quincunx_collective::{GroupId, Rank};
use quincunx_design::{
    AnyDesign, Catalog, FabricKind, GroupContext, Member, Naming, Placement, Plan, Refusal, Settings,
};
use quincunx_fabric::TreeNodeId;
use quincunx_units::Duration;
use quincunx_wire::Psn;

/// What the operator sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ManagerConfig {
    /// How long the nodes of a group have to install it.
    pub install_timeout: Duration,
    /// What a group runs whose design needs switches that have no room for it, by name; nothing: it is refused.
    pub fallback: Option<&'static str>,
}

/// Installing takes a round trip; two seconds of silence are a fault.
impl Default for ManagerConfig {
    fn default() -> Self {
        Self { install_timeout: Duration::from_secs(2), fallback: None }
    }
}

/// Names a call of [`Manager::init_group`] to the one who made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// What the driver is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send an instruction to an attached node.
    Instruct {
        /// The node's name.
        node: String,
        /// What it is to do.
        instruction: Instruction,
    },
    /// Answer an [`Manager::init_group`].
    Answer {
        /// Which.
        request: RequestId,
        /// The group, or why there is none.
        answer: Result<GroupSummary, InitGroupError>,
    },
    /// Call [`Manager::handle_install_timeout`] for the group after this time.
    SetInstallTimer {
        /// The group.
        group: GroupId,
        /// The time from now.
        after: Duration,
    },
    /// Forget that timer.
    CancelInstallTimer {
        /// The group.
        group: GroupId,
    },
}

/// What a node is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// Install this, then report. A switch takes frames at once; a rank sends nothing yet.
    Install(Box<GroupContext>),
    /// All nodes have installed the group: ranks may send.
    Ready(GroupId),
    /// Forget the group.
    Remove(GroupId),
    /// The group is over: stop what runs on it with this error, and forget it.
    Failed {
        /// The group.
        group: GroupId,
        /// Why.
        failure: GroupFailure,
    },
}

/// What a node tells of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Report {
    /// Its context is installed.
    Installed,
    /// It cannot install its context.
    Refused {
        /// One line.
        reason: String,
    },
    /// Its data plane failed: a peer does not answer.
    DataPlaneFailed {
        /// One line; names the peer.
        reason: String,
    },
}

/// Failed groups that are kept for operators to look at; the oldest go first.
const KEPT_FAILURES: usize = 64;

/// The manager of all nodes and groups.
#[derive(Clone, Debug)]
pub struct Manager {
    catalog: Catalog,
    config: ManagerConfig,
    nodes: Nodes,
    groups: BTreeMap<GroupId, ManagedGroup>,
    next_group: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct ManagedGroup {
    members: Vec<String>,
    design: String,
    fallback: Option<Fallback>,
    state: State,
    /// By node name. Emptied when the group fails.
    taken: BTreeMap<String, Taken>,
    /// From the root down.
    switches: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    Installing { request: RequestId, waiting: BTreeSet<String> },
    Ready,
    Failed(GroupFailure),
}

/// What a group runs, and where.
struct Planned {
    design: &'static dyn AnyDesign,
    settings: Settings,
    plan: Plan,
    /// The switches by tree node.
    names: BTreeMap<TreeNodeId, String>,
}

impl Manager {
    /// A manager of groups of these designs that knows nobody yet.
    pub fn new(catalog: Catalog, config: ManagerConfig) -> Self {
        Self { catalog, config, nodes: Nodes::default(), groups: BTreeMap::new(), next_group: 1 }
    }

    /// A node has come. Instructions to it may follow from now on.
    pub fn attach(&mut self, description: NodeDescription) -> Result<(), AttachError> {
        self.nodes.attach(description)
    }

    /// A node is gone, for the reason given: its groups fail. Nothing happens if it was not attached.
    pub fn detach(&mut self, name: &str, reason: &str, out: &mut Vec<Action>) {
        if self.nodes.get(name).is_none() {
            return;
        }
        let failure = GroupFailure { node: name.to_string(), reason: reason.to_string() };
        for group in self.groups_of(name) {
            self.fail(group, failure.clone(), Some(name), out);
        }
        self.nodes.detach(name);
        self.assert_invariants();
    }

    /// Makes a group. The answer comes as an action: at once if the request is refused, else when all have installed
    /// it or one has failed to.
    pub fn init_group(&mut self, request: RequestId, wanted: &GroupRequest, out: &mut Vec<Action>) {
        if let Err(error) = self.try_init_group(request, wanted, out) {
            out.push(Action::Answer { request, answer: Err(error) });
        }
        self.assert_invariants();
    }

    /// Ends a group and frees what it holds. Of a failed group it removes the record.
    pub fn destroy_group(&mut self, group: GroupId, out: &mut Vec<Action>) -> Result<(), UnknownGroup> {
        let removed = self.groups.remove(&group).ok_or(UnknownGroup { group })?;
        for node in removed.taken.keys() {
            self.nodes.release(node, group);
            out.push(Action::Instruct { node: node.clone(), instruction: Instruction::Remove(group) });
        }
        if let State::Installing { request, .. } = removed.state {
            out.push(Action::CancelInstallTimer { group });
            out.push(Action::Answer { request, answer: Err(InitGroupError::Destroyed) });
        }
        self.assert_invariants();
        Ok(())
    }

    /// The caller of [`init_group`](Self::init_group) has gone away before the answer: nobody would ever destroy its
    /// group. Nothing happens if the answer is out.
    pub fn abandon(&mut self, request: RequestId, out: &mut Vec<Action>) {
        let waits = |group: &ManagedGroup| matches!(group.state, State::Installing { request: r, .. } if r == request);
        let group = self.groups.iter().find(|(_, group)| waits(group)).map(|(&id, _)| id);
        if let Some(group) = group {
            self.destroy_group(group, out).expect("it has just been found");
        }
    }

    /// A node tells of a group. What it tells of a group that is gone or has failed comes too late, and is ignored.
    pub fn handle_report(
        &mut self,
        node: &str,
        group: GroupId,
        report: Report,
        out: &mut Vec<Action>,
    ) -> Result<(), ReportError> {
        if self.nodes.get(node).is_none() {
            return Err(ReportError::NotAttached { name: node.to_string() });
        }
        let Some(entry) = self.groups.get_mut(&group) else { return Ok(()) };
        if matches!(entry.state, State::Failed(_)) {
            return Ok(());
        }
        if !entry.taken.contains_key(node) {
            return Err(ReportError::NotInGroup { name: node.to_string(), group });
        }
        match report {
            Report::Installed => {
                if let State::Installing { waiting, .. } = &mut entry.state {
                    waiting.remove(node);
                    if waiting.is_empty() {
                        self.make_ready(group, out);
                    }
                }
            }
            Report::Refused { reason } | Report::DataPlaneFailed { reason } => {
                self.fail(group, GroupFailure { node: node.to_string(), reason }, None, out);
            }
        }
        self.assert_invariants();
        Ok(())
    }

    /// The install timer of a group has expired. Harmless if the group is installed or gone.
    pub fn handle_install_timeout(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let Some(State::Installing { waiting, .. }) = self.groups.get(&group).map(|group| &group.state)
        else {
            return;
        };
        let mut late = waiting.iter();
        let node = late.next().expect("a group without a late node is ready").clone();
        let others = match late.count() {
            0 => String::new(),
            count => format!(" (nor did {count} others)"),
        };
        let reason = format!("did not install the group within {}{others}", self.config.install_timeout);
        self.fail(group, GroupFailure { node, reason }, None, out);
        self.assert_invariants();
    }

    /// All attached nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeDescription> {
        self.nodes.iter()
    }

    /// What the groups hold of a node, in the order of their numbers.
    pub fn holdings(&self, node: &str) -> Vec<(GroupId, Holding)> {
        let holding =
            |(&id, group): (&GroupId, &ManagedGroup)| Some((id, group.taken.get(node)?.holding(node)));
        self.groups.iter().filter_map(holding).collect()
    }

    /// All groups, by number; of those that failed, the last ones.
    pub fn groups(&self) -> impl Iterator<Item = GroupSummary> {
        self.groups.iter().map(|(&id, group)| group.summary(id))
    }

    fn try_init_group(
        &mut self,
        request: RequestId,
        wanted: &GroupRequest,
        out: &mut Vec<Action>,
    ) -> Result<(), InitGroupError> {
        let ranks = wanted.ranks()?;
        for name in &wanted.members {
            match self.nodes.get(name) {
                None => return Err(InitGroupError::MissingMember { name: name.clone() }),
                Some(node) if node.role != Role::Host => {
                    return Err(InitGroupError::NotAHost { name: name.clone(), role: node.role });
                }
                Some(_) => {}
            }
        }
        let placement = wanted.placement(ranks)?;
        let asked = self.plan(wanted, &placement)?;
        let (planned, fallback) = match self.admit(&asked) {
            Ok(()) => (asked, None),
            Err(lack) => (self.fall_back(&asked, wanted.fabric(), &placement, &lack)?, Some(lack)),
        };
        self.check_encapsulation(wanted.members.iter().chain(planned.names.values()))?;
        let Planned { design, settings, plan, names } = planned;
        let degrees = plan.degrees();
        for (rank, name) in (0..).map(Rank).zip(&wanted.members) {
            let needed = degrees.get(&Member::Rank(rank)).copied().unwrap_or_default();
            let free = self.nodes.free_endpoints(name);
            if free < needed {
                return Err(InitGroupError::HostEndpoints { name: name.clone(), needed, free });
            }
        }
        // Nothing can be refused from here on.
        let group = GroupId(self.next_group);
        self.next_group += 1;
        let naming = Naming {
            group,
            design: design.name().to_string(),
            version: design.version(),
            settings,
            fabric: wanted.fabric(),
            domains: placement.domains,
            initial_psn: initial_psn(group),
        };
        let (members, nodes) = (&wanted.members, &mut self.nodes);
        let name_of = |member| match member {
            Member::Rank(rank) => members[rank.index()].clone(),
            Member::Switch(node) => names[&node].clone(),
        };
        let contexts = plan.contexts(
            &naming,
            |node| names[&node].clone(),
            |member| nodes.take_endpoint(&name_of(member), group),
        );
        let (mut instructions, mut switches) = (Vec::new(), Vec::new());
        for (member, context) in contexts {
            let name = name_of(member);
            if let Member::Switch(_) = member {
                nodes.take_memory(&name, group, context.memory);
                switches.push(name.clone());
            }
            instructions.push((name, Instruction::Install(Box::new(context))));
        }
        let waiting = instructions.iter().map(|(node, _)| node.clone()).collect();
        let taken = instructions.iter().map(|(node, _)| (node.clone(), nodes.taken(node, group))).collect();
        let entry = ManagedGroup {
            members: wanted.members.clone(),
            design: naming.design,
            fallback,
            state: State::Installing { request, waiting },
            taken,
            switches,
        };
        self.groups.insert(group, entry);
        out.push(Action::SetInstallTimer { group, after: self.config.install_timeout });
        let instruct = |(node, instruction)| Action::Instruct { node, instruction };
        out.extend(instructions.into_iter().map(instruct));
        Ok(())
    }

    /// Whether frames of all these nodes, which are attached, travel alike.
    fn check_encapsulation<'a>(
        &self,
        mut names: impl Iterator<Item = &'a String>,
    ) -> Result<(), InitGroupError> {
        let of = |name: &String| self.nodes.get(name).expect("an attached node").encapsulation;
        let Some(first) = names.next() else { return Ok(()) };
        match names.find(|name| of(name) != of(first)) {
            None => Ok(()),
            Some(other) => Err(InitGroupError::MixedEncapsulation {
                name: first.clone(),
                encapsulation: of(first),
                other: other.clone(),
                other_encapsulation: of(other),
            }),
        }
    }

    /// What was asked for, on switches that can run it.
    fn plan(&self, wanted: &GroupRequest, placement: &Placement) -> Result<Planned, InitGroupError> {
        let design = self.catalog.find(&wanted.design, wanted.fabric())?;
        if design.version() != wanted.version {
            let expected = format!("version {} of the parameters of {}", design.version(), design.name());
            let found = format!("version {}", wanted.version);
            return Err(Refusal::new(expected, found, "run the same version at both ends").into());
        }
        let plan = design.plan(&wanted.settings, placement)?;
        let names = self.place(design.name(), &plan, placement)?;
        Ok(Planned { design, settings: wanted.settings.clone(), plan, names })
    }

    /// The trivial policy: the tree asked for, filled from the root down in the order of the switches' addresses.
    fn place(
        &self,
        design: &str,
        plan: &Plan,
        placement: &Placement,
    ) -> Result<BTreeMap<TreeNodeId, String>, InitGroupError> {
        let Some(tree) = placement.tree.as_ref().filter(|_| !plan.switches.is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let able = |node: &&NodeDescription| node.role == Role::Switch && node.designs.contains(design);
        let mut switches: Vec<_> = self.nodes.iter().filter(able).collect();
        switches.sort_by_key(|node| node.address);
        let order = tree.switches();
        let (needed, found) = (order.len(), switches.len());
        if found < needed {
            return Err(InitGroupError::TooFewSwitches { needed, design: design.to_string(), found });
        }
        Ok(order.into_iter().zip(switches).map(|(node, switch)| (node, switch.name.clone())).collect())
    }

    /// Whether the switches have room for the group.
    fn admit(&self, planned: &Planned) -> Result<(), Fallback> {
        let degrees = planned.plan.degrees();
        for switch in &planned.plan.switches {
            let name = &planned.names[&switch.node];
            let (needed, free) = (switch.memory, self.nodes.free_memory(name));
            if free < needed {
                return Err(Fallback::SwitchMemory { switch: name.clone(), needed, free });
            }
            let needed = degrees.get(&Member::Switch(switch.node)).copied().unwrap_or_default();
            let free = self.nodes.free_endpoints(name);
            if free < needed {
                return Err(Fallback::SwitchEndpoints { switch: name.clone(), needed, free });
            }
        }
        Ok(())
    }

    /// The design to fall back to, with those parameters of the one that was asked for that it has.
    fn fall_back(
        &self,
        asked: &Planned,
        fabric: FabricKind,
        placement: &Placement,
        lack: &Fallback,
    ) -> Result<Planned, InitGroupError> {
        let name = self.config.fallback.ok_or_else(|| InitGroupError::NoRoom(lack.clone()))?;
        let design = self.catalog.find(name, fabric)?;
        // Nodes speak one framing.
        if design.framing() != asked.design.framing() {
            return Err(InitGroupError::NoRoom(lack.clone()));
        }
        let mut settings = design.defaults();
        for (key, value) in asked.settings.flat() {
            if settings.has(&key) {
                design.set(&mut settings, &key, &value)?;
            }
        }
        let plan = design.plan(&settings, placement)?;
        if !plan.switches.is_empty() {
            return Err(InitGroupError::NoRoom(lack.clone()));
        }
        Ok(Planned { design, settings, plan, names: BTreeMap::new() })
    }

    fn make_ready(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let entry = self.groups.get_mut(&group).expect("the caller has looked it up");
        let State::Installing { request, .. } = core::mem::replace(&mut entry.state, State::Ready) else {
            unreachable!("only a group that installs becomes ready");
        };
        out.push(Action::CancelInstallTimer { group });
        for node in entry.taken.keys() {
            out.push(Action::Instruct { node: node.clone(), instruction: Instruction::Ready(group) });
        }
        out.push(Action::Answer { request, answer: Ok(entry.summary(group)) });
    }

    /// Ends a group that has not yet failed: all its nodes are told, but for the one that is gone.
    fn fail(&mut self, group: GroupId, failure: GroupFailure, gone: Option<&str>, out: &mut Vec<Action>) {
        let entry = self.groups.get_mut(&group).expect("the caller has looked it up");
        let taken = core::mem::take(&mut entry.taken);
        let state = core::mem::replace(&mut entry.state, State::Failed(failure.clone()));
        for node in taken.keys() {
            self.nodes.release(node, group);
            if Some(node.as_str()) != gone {
                let instruction = Instruction::Failed { group, failure: failure.clone() };
                out.push(Action::Instruct { node: node.clone(), instruction });
            }
        }
        if let State::Installing { request, .. } = state {
            out.push(Action::CancelInstallTimer { group });
            out.push(Action::Answer { request, answer: Err(InitGroupError::Failed(failure)) });
        }
        let mut failed = self.groups.iter().filter(|(_, group)| matches!(group.state, State::Failed(_)));
        if let (Some((&oldest, _)), true) = (failed.next(), failed.count() >= KEPT_FAILURES) {
            self.groups.remove(&oldest);
        }
    }

    fn groups_of(&self, node: &str) -> Vec<GroupId> {
        self.groups.iter().filter(|(_, group)| group.taken.contains_key(node)).map(|(&id, _)| id).collect()
    }

    /// Panics if nodes and groups disagree about who holds what.
    pub fn assert_invariants(&self) {
        self.nodes.assert_invariants();
        for (&id, group) in &self.groups {
            assert!(id.0 < self.next_group, "group {id} has a number that is still to come");
            for (node, taken) in &group.taken {
                assert_eq!(*taken, self.nodes.taken(node, id), "group {id} and node {node} disagree");
            }
            match &group.state {
                State::Installing { waiting, .. } => {
                    assert!(!waiting.is_empty(), "group {id} waits for nobody");
                    assert!(
                        waiting.iter().all(|node| group.taken.contains_key(node)),
                        "group {id} waits for a stranger"
                    );
                }
                State::Ready => assert!(!group.taken.is_empty(), "group {id} is ready on no node"),
                State::Failed(_) => {
                    assert!(group.taken.is_empty(), "group {id} has failed and holds something")
                }
            }
        }
        for (node, id) in self.nodes.holders() {
            let group = self.groups.get(&id);
            assert!(group.is_some_and(|group| group.taken.contains_key(node)), "{node} is held by nobody");
        }
    }
}

impl ManagedGroup {
    fn summary(&self, group: GroupId) -> GroupSummary {
        let switch = |name: &String| match self.taken.get(name) {
            Some(taken) => taken.holding(name),
            None => Taken::default().holding(name),
        };
        GroupSummary {
            group,
            design: self.design.clone(),
            fallback: self.fallback.clone(),
            state: match &self.state {
                State::Installing { .. } => GroupState::Installing,
                State::Ready => GroupState::Ready,
                State::Failed(failure) => GroupState::Failed(failure.clone()),
            },
            members: self.members.clone(),
            switches: self.switches.iter().map(switch).collect(),
        }
    }
}

/// Far apart from group to group (multiplicative hashing by the golden ratio), so that a stray packet of an earlier
/// group falls into no window of a later one, and so that PSNs wrap in daily use and not once in a blue moon.
fn initial_psn(group: GroupId) -> Psn {
    Psn::new(group.0.wrapping_mul(0x9e37_79b1) >> 8)
}
