//! The IncAgent (EPIC 3.2): a node's side of the control plane. It installs and deletes a group's tables and context as one, never has two
//! groups in one part of memory, and says what it has when it attaches again.
//!
//! Words of the manager may come late, twice and in any order: what a group's number says is for good. A group that is gone, or that is
//! older than one that the node has been told of, is not installed any more.

use crate::memory::{MovedBlock, Region};
use crate::mutation::Mutation;
use crate::{HeldGroup, Instruction, NodeDescription, Report, Role};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::GroupContext;
use quincunx_units::ByteCount;
use quincunx_wire::Gid;

/// What the node is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentAction {
    /// Put this into tables and contexts; then say so by [`Agent::installed`].
    Install(Box<GroupContext>),
    /// All nodes have the group: what waits for it may begin.
    Begin(GroupId),
    /// Stop what runs on the group, take it out of tables and contexts, keep the buffers of its collectives, and report how far it has come.
    Suspend {
        /// The group.
        group: GroupId,
        /// What it is lost by.
        failure: crate::GroupFailure,
    },
    /// Tell what the rank has called last.
    TellCalls(GroupId),
    /// Tell all that it has called, with times.
    TellTimes(GroupId),
    /// Find out about the paths to others.
    ProbePaths(Box<crate::ProbePaths>),
    /// Tell what was found out in a run.
    TellPaths(u64),
    /// Go on with a group that was made anew.
    Resume {
        /// The new one, which all nodes have.
        group: GroupId,
        /// The one that was suspended.
        from: GroupId,
        /// The collective to go on with.
        first: u64,
    },
    /// Move a block of the memory, and the pointers of the groups that have it.
    MoveMemory(MovedBlock),
    /// Take the group out of tables and contexts, and tell who waits for it why, if it has failed. It is done when this is carried out.
    Remove {
        /// The group.
        group: GroupId,
        /// Why, if it has failed.
        failure: Option<crate::GroupFailure>,
    },
    /// Tell the manager.
    Report {
        /// Of which group.
        group: GroupId,
        /// What.
        report: Report,
    },
}

/// A node's agent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Agent {
    role: Role,
    addresses: Vec<Gid>,
    memory: ByteCount,
    held: BTreeMap<GroupId, HeldGroup>,
    /// Groups that a manager wants to make anew: the node holds nothing of them, and waits for what becomes of them.
    suspended: BTreeSet<GroupId>,
    /// What the node has found wrong with a group.
    found: BTreeMap<GroupId, Report>,
    /// The node has been told of this group, and of no newer one: what is not held of it and of older ones never will be.
    newest: GroupId,
    pub(crate) mutation: Option<Mutation>,
}

impl Agent {
    /// The agent of a node that has no groups.
    pub fn new(description: &NodeDescription) -> Self {
        Self {
            role: description.role,
            addresses: description.addresses().map(Gid::of).collect(),
            memory: description.memory,
            held: BTreeMap::new(),
            suspended: BTreeSet::new(),
            found: BTreeMap::new(),
            newest: GroupId(0),
            mutation: None,
        }
    }

    /// The same with a broken rule, for the checker and the simulated cluster alone.
    #[must_use]
    pub fn breaking(self, mutation: Option<Mutation>) -> Self {
        Self { mutation, ..self }
    }

    /// What is to be said when the node attaches: what it has, and of what it waits for to be made anew that it has nothing. For the manager
    /// may have ended meanwhile, and the next one knows nothing of what was not ready then: who waits is to hear that from it.
    pub fn attaches_with(&self) -> Vec<HeldGroup> {
        let nothing = |&group: &GroupId| HeldGroup {
            group,
            region: None,
            endpoints: BTreeSet::new(),
            is_released: false,
        };
        self.suspended.iter().map(nothing).chain(self.held()).collect()
    }

    /// The node tells the manager something. That it has found a group broken it tells again, until the group is over; that nobody knows which
    /// results were wrong goes before all else.
    pub fn tells(&mut self, group: GroupId, report: &Report) {
        let is_worst = matches!(report, Report::Corrupted { .. });
        if (is_worst || matches!(report, Report::DataPlaneFailed { .. })) && self.held.contains_key(&group) {
            let found = self.found.entry(group).or_insert_with(|| report.clone());
            if is_worst {
                found.clone_from(report);
            }
        }
    }

    /// What is to be said once the node is attached again: the manager that heard of it may have ended before it kept that, and other nodes of
    /// the group wait for what the next one decides.
    pub fn tells_again(&self) -> impl Iterator<Item = (GroupId, &Report)> {
        self.found.iter().map(|(&group, report)| (group, report))
    }

    /// What the node has.
    pub fn held(&self) -> Vec<HeldGroup> {
        self.held.values().cloned().collect()
    }

    /// The manager says something.
    pub fn handle(&mut self, instruction: Instruction, out: &mut Vec<AgentAction>) {
        match instruction {
            Instruction::Install(context) => self.install(context, out),
            Instruction::Ready(group) => {
                if self.held.contains_key(&group) {
                    out.push(AgentAction::Begin(group));
                }
            }
            Instruction::Resume { group, from, first } => {
                if self.held.contains_key(&group) {
                    self.suspended.remove(&from);
                    out.push(AgentAction::Resume { group, from, first });
                }
            }
            // What is not held any more is not suspended: it is over here.
            Instruction::Suspend { group, failure } => {
                if self.held.remove(&group).is_some() {
                    self.found.remove(&group);
                    self.suspended.insert(group);
                    out.push(AgentAction::Suspend { group, failure });
                }
            }
            // Of a group that it does not have a rank has called nothing: nobody waits for its answer.
            Instruction::TellCalls(group) => match self.held.contains_key(&group) {
                true => out.push(AgentAction::TellCalls(group)),
                false => {
                    let report = Report::called_nothing();
                    out.push(AgentAction::Report { group, report });
                }
            },
            Instruction::TellTimes(group) => out.push(AgentAction::TellTimes(group)),
            Instruction::ProbePaths(probe) => out.push(AgentAction::ProbePaths(probe)),
            Instruction::TellPaths(run) => out.push(AgentAction::TellPaths(run)),
            Instruction::MoveMemory(block) => self.move_memory(block, out),
            Instruction::Remove(group) => self.remove(group, None, out),
            Instruction::Failed { group, failure } => self.remove(group, Some(failure), out),
        }
    }

    /// Moves a block that groups have, unless others are where it is to be.
    fn move_memory(&mut self, block: MovedBlock, out: &mut Vec<AgentAction>) {
        let MovedBlock { from, to } = block;
        let moved = Region { offset: to, ..from };
        let others = |region: &Region| *region != from && region.length.bytes() > 0;
        let mut regions = self.held.values().filter_map(|held| held.region).filter(others);
        if moved.offset + moved.length > self.memory || regions.any(|region| region.overlaps(&moved)) {
            return;
        }
        let mut is_held = false;
        for region in self.held.values_mut().filter_map(|held| held.region.as_mut()) {
            if *region == from {
                (*region, is_held) = (moved, true);
            }
        }
        if is_held {
            out.push(AgentAction::MoveMemory(block));
        }
    }

    fn install(&mut self, context: Box<GroupContext>, out: &mut Vec<AgentAction>) {
        let group = context.group;
        if self.held.contains_key(&group) {
            // A copy of what was said before: so is the answer.
            return out.push(AgentAction::Report { group, report: Report::Installed });
        }
        let region = (self.role == Role::Switch)
            .then_some(Region { offset: context.memory_offset, length: context.memory });
        if let Err(reason) = self.check(group, region) {
            return out.push(AgentAction::Report { group, report: Report::Refused { reason } });
        }
        // Others' queue pairs pass through a switch whose frames are added up on their way.
        let locals = context.all_connections().map(|connection| connection.local);
        let own = locals.filter(|local| self.addresses.contains(&local.ip)).map(|local| local.qp);
        self.newest = self.newest.max(group);
        self.held.insert(group, HeldGroup { group, region, endpoints: own.collect(), is_released: false });
        out.push(AgentAction::Install(context));
    }

    /// Whether a group may be installed.
    fn check(&self, group: GroupId, region: Option<Region>) -> Result<(), alloc::string::String> {
        if group <= self.newest && self.mutation != Some(Mutation::InstallsLate) {
            return Err(format!(
                "expected a group newer than {}, found {group}, which is over or comes too late",
                self.newest
            ));
        }
        let Some(region) = region else { return Ok(()) };
        if region.offset + region.length > self.memory {
            return Err(format!(
                "expected buffers within {}, found {} at {}",
                self.memory, region.length, region.offset
            ));
        }
        // Groups that have a block by turns have the same one.
        let clashes =
            |held: &&HeldGroup| held.region.is_some_and(|other| other != region && other.overlaps(&region));
        match self.held.values().find(clashes) {
            Some(other) => Err(format!("expected free buffers, found group {} in them", other.group)),
            None => Ok(()),
        }
    }

    /// The node's rank is done with a group: the manager is told now, and by [`held`](Self::held) when the node attaches again.
    pub fn release(&mut self, group: GroupId, out: &mut Vec<AgentAction>) {
        if let Some(held) = self.held.get_mut(&group) {
            held.is_released = self.mutation != Some(Mutation::TellsReleaseOnce);
        }
        out.push(AgentAction::Report { group, report: Report::Released });
    }

    /// What became of [`AgentAction::Install`].
    pub fn installed(
        &mut self,
        group: GroupId,
        result: Result<(), alloc::string::String>,
        out: &mut Vec<AgentAction>,
    ) {
        let report = match result {
            Ok(()) => Report::Installed,
            Err(reason) => {
                self.held.remove(&group);
                self.found.remove(&group);
                Report::Refused { reason }
            }
        };
        out.push(AgentAction::Report { group, report });
    }

    fn remove(&mut self, group: GroupId, failure: Option<crate::GroupFailure>, out: &mut Vec<AgentAction>) {
        self.newest = self.newest.max(group);
        self.suspended.remove(&group);
        self.found.remove(&group);
        if self.mutation != Some(Mutation::ConfirmsWithoutForgetting) {
            self.held.remove(&group);
        }
        // Also of one that was refused here, or is over already: whoever waits for it is told, and the manager waits for the word.
        out.push(AgentAction::Remove { group, failure });
        out.push(AgentAction::Report { group, report: Report::Removed });
    }

    /// Panics if two groups have a part of the memory in common, and not the same one by turns, or something is wrong with a group that is not there.
    pub fn assert_invariants(&self) {
        assert!(
            self.found.keys().all(|group| self.held.contains_key(group)),
            "found in a group that it has not"
        );
        for (group, held) in &self.held {
            assert_eq!(*group, held.group);
            assert!(*group <= self.newest, "group {group} is newer than all that the node was told of");
            for other in self.held.values().filter(|other| other.group > *group) {
                if let (Some(a), Some(b)) = (held.region, other.region) {
                    assert!(a == b || !a.overlaps(&b), "groups {group} and {} overlap", other.group);
                }
            }
        }
    }
}
