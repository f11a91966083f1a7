//! The IncManager (EPIC 3.2, 3.3, 6.1): a state machine that attachments, requests, reports and time-outs drive.
//!
//! The call loop: say what time it is, call a method, then carry out the [`Action`]s that it appended, in order. What is to be kept
//! ([`Action::Keep`]) is kept before anything after it is done: then a manager that starts again from what was kept
//! ([`Manager::restore`]) hands nothing out twice.
//!
//! What a group holds of a node is free when the node has said that it has forgotten the group, and not before.

mod action;
mod cabling;
mod contend;
mod contending;
mod cores;
mod inquiry;
mod kept;
mod last_calls;
mod life;
mod managed;
mod nodes;
mod place;
mod planned;
mod record;
mod recreate;

pub use action::{Action, HeldGroup, Instruction, ManagerTimer, PathTarget, ProbePaths, Report, RequestId};
pub use cabling::{LinkEnd, LinkRow, LinkState};
pub use kept::{Change, GroupRecord};

use crate::cables::Cables;
use crate::map::Map;
use crate::mutation::Mutation;
use crate::policy::{self, Policy, Sharing};
use crate::{
    Allowances, Fallback, GroupFailure, GroupRequest, GroupState, GroupSummary, Holding, InitGroupError,
    NodeDescription, RecreatedGroup, ReportError, Role, UnknownGroup,
};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use contending::name_of;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;
use cores::Channels;
use last_calls::Inquiry;
use managed::{Ending, ManagedGroup, State};
use nodes::Nodes;
use planned::Planned;
use quincunx_collective::{GroupId, Rank};
use quincunx_design::{Catalog, Member, Naming, Refusal};
use quincunx_units::{Duration, Instant};
use quincunx_wire::Psn;

/// What the operator sets.
#[derive(Clone, Copy, Debug)]
pub struct ManagerConfig {
    /// How long the nodes of a group have to install it, and to forget it.
    pub install_timeout: Duration,
    /// How long nodes of a group that is made anew have to stop, and to install it again: as long as a process may be stopped, or a network
    /// away.
    pub remake_timeout: Duration,
    /// How long a node that was lost may take to come back, with all that it had.
    pub return_timeout: Duration,
    /// How long nodes may take to come back to a manager that has started again, or by way of an agent that has.
    pub restart_timeout: Duration,
    /// What a group runs whose design needs switches that have no room for it, by name; nothing: it is refused.
    pub fallback: Option<&'static str>,
    /// Which tree a group gets.
    pub policy: &'static dyn Policy,
    /// How long groups that lock their switches' memory ask for it, before they run a collective among their hosts.
    pub patience: Duration,
    /// Whether a group that loses a switch or a link is made anew on what is left; otherwise it fails.
    pub recreates: bool,
}

/// Installing takes a round trip, and many processes on few processors some seconds; more of silence is a fault. A node that is lost is gone.
impl Default for ManagerConfig {
    fn default() -> Self {
        Self {
            install_timeout: Duration::from_secs(5),
            remake_timeout: Duration::from_secs(2),
            return_timeout: Duration::ZERO,
            restart_timeout: Duration::from_secs(5),
            fallback: None,
            policy: policy::ALL[1],
            patience: Duration::ZERO,
            recreates: false,
        }
    }
}

impl ManagerConfig {
    /// Refuses patience with a policy whose groups lock nothing.
    ///
    /// # Errors
    /// What to do instead.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.patience == Duration::ZERO || self.policy.sharing() == Sharing::Locks {
            return Ok(());
        }
        let expected =
            format!("no patience with the policy {}, whose groups lock nothing", self.policy.name());
        Err(Refusal::new(expected, self.patience, "leave it out, or take the policy contention"))
    }
}

/// Group numbers that are kept as given away at once.
const NUMBERS: u32 = 64;

/// The manager of all nodes and groups.
#[derive(Clone, Debug)]
pub struct Manager {
    catalog: Catalog,
    config: ManagerConfig,
    allowances: Allowances,
    now: Instant,
    nodes: Nodes,
    cables: Cables,
    map: Map,
    groups: BTreeMap<GroupId, ManagedGroup>,
    next_group: u32,
    /// Numbers below this are kept as given away.
    kept_numbers: u32,
    /// Groups whose nodes have not all forgotten them.
    endings: BTreeMap<GroupId, Ending>,
    /// Requests that lack what groups that are over still hold, in the order in which they came.
    delayed: Vec<(RequestId, GroupRequest)>,
    /// What the ranks of a group have called, where that was asked.
    inquiries: BTreeMap<GroupId, Inquiry>,
    /// Groups that were made anew, by the numbers that they had.
    became: BTreeMap<GroupId, GroupId>,
    mutation: Option<Mutation>,
}

impl Manager {
    /// A manager of groups of these designs that knows nobody yet.
    pub fn new(catalog: Catalog, config: ManagerConfig) -> Self {
        Self {
            catalog,
            config,
            allowances: Allowances::default(),
            now: Instant::ZERO,
            nodes: Nodes::default(),
            cables: Cables::default(),
            map: Map::default(),
            groups: BTreeMap::new(),
            next_group: 1,
            kept_numbers: 1,
            endings: BTreeMap::new(),
            delayed: Vec::new(),
            inquiries: BTreeMap::new(),
            became: BTreeMap::new(),
            mutation: None,
        }
    }

    /// The same with a broken rule, for the checker and the simulated cluster alone.
    #[must_use]
    pub fn breaking(self, mutation: Option<Mutation>) -> Self {
        Self { mutation, ..self }
    }

    /// This manager, started again from what was kept.
    pub(crate) fn again(&self, numbers: u32, records: Vec<GroupRecord>, out: &mut Vec<Action>) -> Self {
        let again = Self::restore(self.catalog, self.config, numbers, records, out);
        Self { now: self.now, mutation: self.mutation, allowances: self.allowances.clone(), ..again }
    }

    /// What owners of groups may hold of switches from now on; what they hold stays.
    pub fn allow(&mut self, allowances: Allowances) {
        self.allowances = allowances;
    }

    /// It is `now`, or later: to be said before every other call.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Makes a group. The answer comes as an action: at once if the request is refused, else when all have installed
    /// it or one has failed to. What groups that are over still hold is waited for, for a while.
    pub fn init_group(&mut self, request: RequestId, wanted: &GroupRequest, out: &mut Vec<Action>) {
        match self.try_init_group(request, wanted, true, out) {
            Ok(()) => {}
            Err(Trial::Delayed) => {
                let after = self.config.install_timeout;
                out.push(Action::SetTimer { timer: ManagerTimer::Delay(request), after });
                self.delayed.push((request, wanted.clone()));
            }
            Err(Trial::Refused(error)) => out.push(Action::Answer { request, answer: Err(error) }),
        }
        self.check();
    }

    /// Ends a group; the answer comes when its nodes have forgotten it. Of a failed group it removes the record.
    ///
    /// # Errors
    /// If there is no such group.
    pub fn destroy_group(
        &mut self,
        request: RequestId,
        group: GroupId,
        out: &mut Vec<Action>,
    ) -> Result<(), UnknownGroup> {
        let group = self.current(group);
        if !self.groups.contains_key(&group) {
            return Err(UnknownGroup { group });
        }
        self.take_down(group, out);
        match self.endings.get_mut(&group) {
            Some(ending) => {
                ending.requests.push(request);
                let (timer, after) = (ManagerTimer::End(group), self.config.install_timeout);
                out.push(Action::SetTimer { timer, after });
            }
            None => out.push(Action::Destroyed { request, silent: Vec::new() }),
        }
        self.check();
        Ok(())
    }

    /// Ends a group that nobody needs any more.
    fn take_down(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let removed = self.groups.remove(&group).expect("the caller has looked it up");
        self.forget_names(group);
        if removed.state == State::Ready {
            out.push(Action::Keep(Change::Remove(group)));
        }
        self.end(group, &removed, |_| Instruction::Remove(group), out);
        self.tell_suspended(group, &removed, Instruction::Remove, out);
        if let State::Installing { requests, .. } = removed.state {
            let gone = |request| Action::Answer { request, answer: Err(InitGroupError::Destroyed) };
            out.extend(requests.into_iter().map(gone));
        }
    }

    /// A caller has gone away before the answer: of [`init_group`](Self::init_group) nobody would ever destroy its
    /// group, unless somebody has asked for it again. Nothing happens if the answer is out.
    pub fn abandon(&mut self, request: RequestId, out: &mut Vec<Action>) {
        self.delayed.retain(|(delayed, _)| *delayed != request);
        self.endings.values_mut().for_each(|ending| ending.requests.retain(|waiting| *waiting != request));
        let left = |group: &mut ManagedGroup| {
            let State::Installing { requests, .. } = &mut group.state else { return false };
            let before = requests.len();
            requests.retain(|waiting| *waiting != request);
            requests.len() < before && requests.is_empty() && group.recreated.is_none()
        };
        let group = self.groups.iter_mut().find_map(|(&id, group)| left(group).then_some(id));
        if let Some(group) = group {
            let removed = self.groups.remove(&group).expect("it has just been found");
            self.end(group, &removed, |_| Instruction::Remove(group), out);
        }
        self.check();
    }

    /// A node tells of a group. What it tells of a group that is gone or has failed comes too late, and is ignored.
    ///
    /// # Errors
    /// If the node is not attached, or the group does not have it, or a rank is done with a group that never was.
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
        if report == Report::Released {
            let released = self.release(node, group, out);
            self.check();
            return released;
        }
        let leaves = self.nodes.taken(node, group).is_some_and(|taken| taken.leaves);
        if leaves {
            // A refusal, too, says that nothing is there; the instruction that ends the group is still under way then.
            if let Report::Suspended(progress) = report {
                self.note_progress(node, group, progress);
                self.forgotten(node, group, out);
            } else if report == Report::Removed {
                self.forgotten(node, group, out);
            }
            self.check();
            return Ok(());
        }
        let runs = |entry: &&mut ManagedGroup| !entry.is_over() && !entry.is_suspended();
        let Some(entry) = self.groups.get_mut(&group).filter(runs) else { return Ok(()) };
        if !entry.nodes.contains(node) {
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
            Report::Refused { reason } => {
                self.fail(group, GroupFailure { node: node.to_string(), reason }, out);
            }
            Report::Corrupted { reason } => {
                self.doubt(group, GroupFailure { node: node.to_string(), reason }, true, out);
            }
            Report::DataPlaneFailed { reason } => {
                self.doubt(group, GroupFailure { node: node.to_string(), reason }, false, out);
            }
            Report::Called { calls, is_stalled, standing: _ } => {
                self.hear_calls(node, group, (calls, is_stalled), out)
            }
            Report::Locked(counts) => {
                if let Some(uses) = &mut entry.uses {
                    let measured = crate::shared::Measured::next(uses.get(node), counts, self.now);
                    uses.insert(node.to_string(), measured);
                }
            }
            Report::Removed | Report::Suspended(_) => {
                let reason = "it has forgotten the group, unasked".to_string();
                self.fail(group, GroupFailure { node: node.to_string(), reason }, out);
            }
            Report::Released => unreachable!("it is heard above"),
        }
        self.check();
        Ok(())
    }

    /// All attached nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeDescription> {
        self.nodes.iter()
    }

    /// Whether new groups pass a node by.
    pub fn is_draining(&self, node: &str) -> bool {
        self.nodes.get(node).is_some() && self.nodes.drains(node)
    }

    /// New groups pass a switch by from now on, or do not any more: that it can be stopped when its last group is over.
    ///
    /// # Errors
    /// If it is not attached.
    pub fn drain(&mut self, node: &str, drains: bool) -> Result<(), ReportError> {
        if self.nodes.set_draining(node, drains) {
            return Ok(());
        }
        Err(ReportError::NotAttached { name: node.to_string() })
    }

    /// Who is joined with whom, and whose trees lead over which links.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// What the groups hold of a node, in the order of their numbers; groups that are over, too, until the node has forgotten them.
    pub fn holdings(&self, node: &str) -> Vec<(GroupId, Holding)> {
        self.nodes.all_taken(node).map(|(group, taken)| (group, taken.holding(node))).collect()
    }

    /// The group.
    pub fn group(&self, group: GroupId) -> Option<GroupSummary> {
        let group = self.current(group);
        self.groups.get(&group).map(|entry| self.summary(group, entry))
    }

    /// All groups, by number; of those that failed, the last ones.
    pub fn groups(&self) -> impl Iterator<Item = GroupSummary> {
        self.groups.iter().map(|(&id, group)| self.summary(id, group))
    }

    fn try_init_group(
        &mut self,
        request: RequestId,
        wanted: &GroupRequest,
        may_wait: bool,
        out: &mut Vec<Action>,
    ) -> Result<(), Trial> {
        if let Some(group) = self.made_for(wanted) {
            return self.answer_again(request, group, wanted, out);
        }
        let ranks = wanted.ranks()?;
        for name in &wanted.members {
            match self.nodes.get(name) {
                None => return Err(InitGroupError::MissingMember { name: name.clone() }.into()),
                Some(node) if node.role != Role::Host => {
                    return Err(InitGroupError::NotAHost { name: name.clone(), role: node.role }.into());
                }
                Some(_) => {}
            }
        }
        let (planned, fallback) = match self.choose(wanted, ranks) {
            Ok((_, Some(lack))) | Err(InitGroupError::NoRoom(lack))
                if may_wait && self.will_change(&lack) =>
            {
                return Err(Trial::Delayed);
            }
            chosen => chosen?,
        };
        self.check_hosts(wanted, &planned)?;
        // Nothing can be refused from here on.
        self.install(Some(request), wanted, planned, fallback, None, out);
        Ok(())
    }

    /// The group that a request has been given that was asked before, with the same key.
    pub fn made_for(&self, wanted: &GroupRequest) -> Option<GroupId> {
        let key = wanted.key?;
        let is_it =
            |entry: &ManagedGroup| entry.request.key == Some(key) && entry.request.owner == wanted.owner;
        self.groups.iter().find(|(_, entry)| is_it(entry)).map(|(&group, _)| group)
    }

    fn answer_again(
        &mut self,
        request: RequestId,
        group: GroupId,
        wanted: &GroupRequest,
        out: &mut Vec<Action>,
    ) -> Result<(), Trial> {
        let entry = self.groups.get_mut(&group).expect("it has just been found");
        if entry.request != *wanted {
            let expected = alloc::format!("what was asked for as group {group} with this key");
            return Err(
                Refusal::new(expected, "another request", "give each request a key of its own").into()
            );
        }
        let answer = match &mut entry.state {
            State::Installing { requests, .. } => {
                requests.push(request);
                return Ok(());
            }
            State::Ready | State::Suspending { .. } => Ok(self.summary(group, &self.groups[&group])),
            State::Failed(failure) => Err(InitGroupError::Failed(failure.clone())),
        };
        out.push(Action::Answer { request, answer });
        Ok(())
    }

    /// Whether the hosts can be in a group that is planned.
    fn check_hosts(&self, wanted: &GroupRequest, planned: &Planned) -> Result<(), InitGroupError> {
        self.check_encapsulation(wanted.members.iter().chain(planned.names.values()))?;
        let degrees = planned.degrees();
        for (rank, name) in (0..).map(Rank).zip(&wanted.members) {
            let needed = degrees.get(&Member::Rank(rank)).copied().unwrap_or_default();
            let free = self.nodes.free_endpoints(name);
            if free < needed {
                return Err(InitGroupError::HostEndpoints { name: name.clone(), needed, free });
            }
        }
        Ok(())
    }

    /// Gives the group what it needs, and has its nodes install it.
    fn install(
        &mut self,
        request: Option<RequestId>,
        wanted: &GroupRequest,
        planned: Planned,
        fallback: Option<Fallback>,
        recreated: Option<RecreatedGroup>,
        out: &mut Vec<Action>,
    ) {
        let sharers = self.sharers(&planned, wanted);
        let Planned { design, settings, plan, names, links, conflicts, contending } = planned;
        // Switches tell a group's channels apart by the numbers that follow its own.
        let count = plan.channels;
        // What it falls back to has a number of its own, before the group's: that is the newest of which nodes are told.
        let among_hosts = GroupId(self.next_group);
        let group = GroupId(self.next_group + u32::from(contending.is_some()));
        self.next_group = group.0 + u32::from(count);
        if self.next_group > self.kept_numbers && self.mutation != Some(Mutation::NeverKeepsNumbers) {
            self.kept_numbers = self.next_group + NUMBERS;
            out.push(Action::Keep(Change::Numbers(self.kept_numbers)));
        }
        let naming = Naming {
            group,
            design: design.name().to_string(),
            version: design.about().version,
            settings,
            fabric: wanted.fabric(),
            domains: wanted.mesh.map_or(1, |mesh| mesh.domains()),
            initial_psn: initial_psn(group),
        };
        let mut regions = BTreeMap::new();
        for part in &plan.switches {
            let name = &names[&part.node];
            let duty = |holders: &_| sharers.get(&(name.clone(), BTreeSet::clone(holders))).copied();
            let may_move = self.may_move_memory(name);
            let taken =
                self.nodes.take_memory(name, group, part.memory, (contending.is_some(), may_move), duty);
            let (region, moved) = taken.expect("the caller has asked whether there is room");
            out.extend(moved.into_iter().map(|block| Action::Instruct {
                node: name.clone(),
                instruction: Instruction::MoveMemory(block),
            }));
            regions.insert(name.clone(), region);
        }
        let (members, nodes) = (&wanted.members, &mut self.nodes);
        let name_of = |member| name_of(member, members, &names);
        let mut channels = Channels::new(plan.degrees(), count);
        // Groups that lock the same memory meet on the first core: who has it is said there.
        let contends = contending.is_some();
        let contexts = plan.contexts(
            &naming,
            |node| names[&node].clone(),
            |member| match contends {
                false => channels.next(nodes, member, &name_of(member), group),
                true => nodes.take_endpoint(&name_of(member), group, 0),
            },
        );
        let mut contentions = contending.map_or_else(BTreeMap::new, |contending| {
            let naming = Naming {
                group: among_hosts,
                design: contending.design.name().to_string(),
                version: contending.design.about().version,
                settings: contending.settings.clone(),
                initial_psn: initial_psn(among_hosts),
                ..naming.clone()
            };
            let endpoint = |member| nodes.take_endpoint(&name_of(member), group, 0);
            contending.contexts(&naming, &|node| names[&node].clone(), endpoint)
        });
        let (mut instructions, mut switches) = (Vec::new(), Vec::new());
        for (member, mut context) in contexts {
            let name = name_of(member);
            context.contention = contentions.remove(&member);
            if let Member::Switch(_) = member {
                // The whole block: in units, or as long as those need who have it by turns.
                (context.memory_offset, context.memory) = (regions[&name].offset, regions[&name].length);
                switches.push(name.clone());
            }
            // A node without connections has nothing to give back otherwise.
            self.nodes.hold(&name, group);
            instructions.push((name, Instruction::Install(Box::new(context))));
        }
        self.map.plant(group, &links);
        let nodes: BTreeSet<String> = instructions.iter().map(|(node, _)| node.clone()).collect();
        let entry = ManagedGroup {
            request: wanted.clone(),
            design: naming.design,
            fallback,
            state: State::Installing { requests: request.into_iter().collect(), waiting: nodes.clone() },
            nodes,
            released: BTreeSet::new(),
            away: BTreeMap::new(),
            lost: None,
            switches,
            links: links.iter().map(|&link| self.map.ends(link).map(str::to_string)).collect(),
            conflicts,
            lease: None,
            recreated,
            uses: contends.then(BTreeMap::new),
        };
        if let Some(request) = request {
            out.push(Action::Begin { request, group });
        }
        if let Some(recreated) = &entry.recreated {
            let from = recreated.from();
            self.became.insert(from, group);
            out.push(Action::Recreate { from, group });
        }
        self.groups.insert(group, entry);
        let (timer, after) =
            (ManagerTimer::Install(group), self.patience(self.groups[&group].recreated.is_some()));
        out.push(Action::SetTimer { timer, after });
        let instruct = |(node, instruction)| Action::Instruct { node, instruction };
        out.extend(instructions.into_iter().map(instruct));
    }

    /// How long nodes have to install a group, or one that is made anew.
    fn patience(&self, is_anew: bool) -> Duration {
        if is_anew { self.config.remake_timeout } else { self.config.install_timeout }
    }

    /// Blocks at switches that the group may have a place in, by their holders, and for how much of the time these use them, in per cent.
    fn sharers(
        &self,
        planned: &Planned,
        wanted: &GroupRequest,
    ) -> BTreeMap<(String, BTreeSet<GroupId>), u32> {
        let names = planned.plan.switches.iter().map(|part| &planned.names[&part.node]);
        let of = |name: &String| {
            let holders = self.nodes.memory(name).regions().map(|(_, holders)| holders.clone());
            holders.map(|holders| (name.clone(), holders)).collect::<Vec<_>>()
        };
        let contends = planned.contending.is_some();
        let may = |(_, holders): &(String, _)| self.may_share(contends, wanted, holders);
        let with_duty = |(name, holders): (String, BTreeSet<GroupId>)| {
            let duty = self.duty(&name, &holders).unwrap_or(0);
            ((name, holders), duty)
        };
        names.flat_map(of).filter(may).map(with_duty).collect()
    }

    /// Whether frames of all these nodes, which are attached, travel alike, and between addresses of one family.
    fn check_encapsulation<'a>(
        &self,
        mut names: impl Iterator<Item = &'a String> + Clone,
    ) -> Result<(), InitGroupError> {
        let of = |name: &String| self.nodes.get(name).expect("an attached node").encapsulation;
        let addresses = |name: &String| self.nodes.get(name).expect("an attached node").addresses();
        let Some(first) = names.next() else { return Ok(()) };
        let address = addresses(first).next().expect("every node has one");
        let differs = |other: &IpAddr| other.is_ipv4() != address.is_ipv4();
        let mut others = core::iter::once(first).chain(names.clone());
        if let Some((other, other_address)) =
            others.find_map(|name| Some((name, addresses(name).find(differs)?)))
        {
            let (name, other) = (first.clone(), other.clone());
            return Err(InitGroupError::MixedFamilies { name, address, other, other_address });
        }
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

    fn summary(&self, group: GroupId, entry: &ManagedGroup) -> GroupSummary {
        let switch = |name: &String| {
            let taken = self.nodes.taken(name, group).filter(|taken| !taken.leaves);
            taken.or(entry.away.get(name)).cloned().unwrap_or_default().holding(name)
        };
        GroupSummary {
            group,
            owner: entry.request.owner.clone(),
            design: entry.design.clone(),
            fallback: entry.fallback.clone(),
            state: match &entry.state {
                State::Installing { .. } => GroupState::Installing,
                State::Ready => GroupState::Ready,
                State::Suspending { failure, .. } => GroupState::Suspended(failure.clone()),
                State::Failed(failure) => GroupState::Failed(failure.clone()),
            },
            members: entry.request.members.clone(),
            switches: entry.switches.iter().map(switch).collect(),
            conflicts: entry.conflicts,
            lease: entry.lease_left(self.now),
            recreated: entry.recreated.clone(),
            shared: self.shared(group, entry),
        }
    }

    /// In builds that check themselves, after every step.
    fn check(&self) {
        if cfg!(debug_assertions) {
            self.assert_invariants();
        }
    }

    /// Panics if nodes and groups disagree about who holds what.
    pub fn assert_invariants(&self) {
        self.nodes.assert_invariants();
        for (&id, group) in &self.groups {
            assert!(id.0 < self.next_group, "group {id} has a number that is still to come");
            match &group.state {
                State::Installing { waiting, .. } => {
                    assert!(!waiting.is_empty(), "group {id} waits for nobody");
                    assert!(waiting.is_subset(&group.nodes), "group {id} waits for a stranger");
                    assert!(group.away.is_empty(), "group {id} installs on nodes that are lost");
                }
                State::Ready => assert!(!group.nodes.is_empty(), "group {id} is ready on no node"),
                State::Suspending { .. } => {
                    assert!(group.nodes.is_empty(), "group {id} is suspended and has nodes");
                    assert!(self.endings.contains_key(&id), "group {id} is suspended and waits for nobody");
                }
                State::Failed(_) => {
                    assert!(group.nodes.is_empty(), "group {id} has failed and has nodes");
                    assert!(group.lease.is_none(), "group {id} has failed and has a lease");
                }
            }
            for node in &group.nodes {
                let here = self.nodes.taken(node, id).is_some_and(|taken| !taken.leaves);
                let away = group.away.contains_key(node);
                assert!(here != away, "group {id} and node {node} disagree");
                assert!(
                    !away || self.nodes.get(node).is_none(),
                    "group {id} waits for {node}, which is there"
                );
            }
            let is_member = |node: &String| group.request.members.contains(node);
            assert!(group.released.iter().all(is_member), "a stranger is done with group {id}");
            let are_done = group.released.len() == group.request.members.len();
            assert!(!are_done || group.is_over(), "all ranks are done with group {id}, and it lives");
            let known = |node: &String| group.nodes.contains(node);
            assert!(group.away.keys().all(known), "group {id} waits for a stranger to come back");
            let waits = group.state == State::Ready && group.away.keys().any(is_member);
            assert!(group.lost.is_none() || waits, "group {id} has lost something, and nobody decides on it");
        }
        for (node, id) in self.nodes.holders() {
            let group = self.groups.get(&id);
            assert!(group.is_some_and(|group| group.nodes.contains(node)), "{node} is held by nobody");
        }
        for (node, id) in self.nodes.leavers() {
            let ending = self.endings.get(&id);
            assert!(ending.is_some_and(|ending| ending.waiting.contains(node)), "{node} gives back unasked");
        }
        for (id, ending) in &self.endings {
            assert!(!ending.waiting.is_empty(), "the end of group {id} waits for nobody");
            for node in &ending.waiting {
                let taken = self.nodes.taken(node, *id);
                assert!(
                    taken.is_some_and(|taken| taken.leaves),
                    "the end of group {id} waits for {node} in vain"
                );
            }
        }
        self.assert_inquiries();
        for link in self.map.links() {
            for group in self.map.trees(link) {
                let lives = self.groups.get(group).is_some_and(|entry| !entry.is_over());
                assert!(lives, "{group:?} is over and has a link");
            }
        }
    }
}

/// What it knows; what it was set up with stays as it was.
impl PartialEq for Manager {
    fn eq(&self, other: &Self) -> bool {
        self.state() == other.state()
    }
}

impl Eq for Manager {}

impl Hash for Manager {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.state().hash(state);
    }
}

type ManagerState<'a> = (
    (Instant, (&'a Nodes, &'a Cables), &'a BTreeMap<GroupId, ManagedGroup>, [u32; 2]),
    (&'a BTreeMap<GroupId, Ending>, &'a [(RequestId, GroupRequest)], &'a BTreeMap<GroupId, GroupId>),
    &'a BTreeMap<GroupId, Inquiry>,
);

impl Manager {
    /// The map follows from the rest.
    fn state(&self) -> ManagerState<'_> {
        let numbers = [self.next_group, self.kept_numbers];
        let parts = (&self.endings, &self.delayed[..], &self.became);
        ((self.now, (&self.nodes, &self.cables), &self.groups, numbers), parts, &self.inquiries)
    }
}

/// Why there is no group yet.
enum Trial {
    /// There will be room.
    Delayed,
    /// There will be none.
    Refused(InitGroupError),
}

impl<E: Into<InitGroupError>> From<E> for Trial {
    fn from(error: E) -> Self {
        Self::Refused(error.into())
    }
}

/// Far apart from group to group (multiplicative hashing by the golden ratio), so that a stray packet of an earlier
/// group falls into no window of a later one, and so that PSNs wrap in daily use and not once in a blue moon.
pub fn initial_psn(group: GroupId) -> Psn {
    Psn::new(group.0.wrapping_mul(0x9e37_79b1) >> 8)
}
