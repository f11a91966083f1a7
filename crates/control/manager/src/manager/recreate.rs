//! A group that has lost a switch or a link, and whose ranks all live, is made anew on what is left: another tree, or what the manager falls
//! back to. EPIC 3.4 promises re-initialisation; how, it does not say.
//!
//! 1. Ranks stop, forget their queue pairs and say how far they have come; switches forget the group. What it held is free then.
//! 2. The manager takes the lowest of the ranks' words. If a rank no longer has what it would run again, the group ends.
//! 3. A group with a number of its own, which no late word or packet can be meant for, takes the place of the old one. When all its nodes
//!    have it, its ranks are told from which collective on they run.
//!
//! What named the old group means the new one from then on.

use super::Manager;
use super::action::{Action, Instruction, ManagerTimer};
use super::kept::Change;
use super::managed::{ManagedGroup, State};
use super::planned::Planned;
use crate::mutation::Mutation;
use crate::sequence::Progress;
use crate::{Fallback, GroupFailure, GroupRequest, InitGroupError, RecreatedGroup};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_design::Demand;

impl Manager {
    /// The group that a number means: the one that has taken its place, if it was made anew.
    pub fn current(&self, mut group: GroupId) -> GroupId {
        while let Some(&next) = self.became.get(&group) {
            group = next;
        }
        group
    }

    /// A group that was made anew is gone: its numbers mean nothing any more.
    pub(super) fn forget_names(&mut self, group: GroupId) {
        while let Some((&earlier, _)) = self.became.iter().find(|(_, to)| **to == group) {
            self.became.remove(&earlier);
            self.forget_names(earlier);
        }
    }

    /// A group has lost something that it cannot do without: it is made anew, once all its ranks are there, or is over.
    pub(super) fn lose_part(
        &mut self,
        group: GroupId,
        failure: GroupFailure,
        among_hosts: bool,
        out: &mut Vec<Action>,
    ) {
        let entry = &self.groups[&group];
        let can_remake = self.config.recreates
            && entry.state == State::Ready
            && !entry.switches.is_empty()
            && matches!(entry.request.demand, Demand::Vectors { .. });
        let members = &entry.request.members;
        let is_there = |name: &String| self.nodes.taken(name, group).is_some_and(|taken| !taken.leaves);
        let is_waited_for = |name: &String| entry.away.contains_key(name) && *name != failure.node;
        if can_remake && members.iter().all(is_there) {
            self.suspend(group, failure, among_hosts, out);
        } else if can_remake && members.iter().all(|name| is_there(name) || is_waited_for(name)) {
            let (nodes, entry) = (&self.nodes, self.groups.get_mut(&group).expect("it has just been found"));
            entry.lost.get_or_insert((failure, among_hosts));
            // A switch that has come back without it is not waited for.
            entry.away.retain(|name, _| nodes.get(name).is_none());
            let away = &entry.away;
            let holds = |name: &String| nodes.taken(name, group).is_some_and(|taken| !taken.leaves);
            entry.nodes.retain(|name| holds(name) || away.contains_key(name));
        } else {
            self.fail(group, failure, out);
        }
    }

    /// A member that was away is back: what the group has lost is decided on when it is the last one. Where somebody does not answer, ranks
    /// are asked what they have called, as they would have been had they been there.
    pub(super) fn decide_on_loss(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let Some(entry) = self.groups.get_mut(&group) else { return };
        let Some((failure, among_hosts)) = entry.lost.take() else { return };
        let is_away = |member: &String| entry.away.contains_key(member);
        match among_hosts && !entry.request.members.iter().any(is_away) {
            true => self.doubt(group, failure, false, out),
            false => self.lose_part(group, failure, among_hosts, out),
        }
    }

    /// Has the nodes of a group that was ready forget it, and its ranks say how far they have come.
    fn suspend(&mut self, group: GroupId, failure: GroupFailure, among_hosts: bool, out: &mut Vec<Action>) {
        let mut entry = self.groups.remove(&group).expect("the caller has looked it up");
        out.push(Action::Keep(Change::Remove(group)));
        let members = entry.request.members.clone();
        let say = |node: &str| match members.iter().any(|member| member == node) {
            true => Instruction::Suspend { group, failure: failure.clone() },
            false => Instruction::Remove(group),
        };
        self.end(group, &entry, say, out);
        let links = core::mem::take(&mut entry.links);
        entry.state = State::Suspending { failure, among_hosts, links, told: BTreeMap::new() };
        entry.nodes.clear();
        entry.away.clear();
        (entry.lease, entry.conflicts, entry.lost) = (None, 0, None);
        self.groups.insert(group, entry);
        let (timer, after) = (ManagerTimer::Install(group), self.config.remake_timeout);
        out.push(Action::SetTimer { timer, after });
    }

    /// A rank has stopped.
    pub(super) fn note_progress(&mut self, node: &str, group: GroupId, progress: Progress) {
        if let Some(State::Suspending { told, .. }) =
            self.groups.get_mut(&group).map(|entry| &mut entry.state)
        {
            told.insert(node.to_string(), progress);
        }
    }

    /// The nodes of a group that is suspended have forgotten it: it is made anew, or is over.
    pub(super) fn recreate(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let entry = &self.groups[&group];
        let State::Suspending { failure, among_hosts, links, told } = &entry.state else { return };
        let (failure, wanted) = (failure.clone(), entry.request.clone());
        // A way that failed is avoided as a whole, unless it is known by now which part of it is gone.
        let is_there = |[a, b]: &[String; 2]| self.map.link(a, b).is_some();
        let among_hosts = *among_hosts && links.iter().all(is_there);
        let planned = agree(&wanted, told, self.mutation).and_then(|first| {
            let planned = self.choose_anew(&wanted, among_hosts).map_err(|error| error.to_string())?;
            Ok((first, planned))
        });
        match planned {
            Ok((first, (planned, fallback))) => {
                let entry = self.groups.remove(&group).expect("it has just been found");
                out.push(Action::CancelTimer { timer: ManagerTimer::Install(group) });
                let mut earlier = entry.recreated.map_or_else(Vec::new, |recreated| recreated.earlier);
                earlier.push(group);
                self.install(
                    None,
                    &wanted,
                    planned,
                    fallback,
                    Some(RecreatedGroup { earlier, first, failure }),
                    out,
                );
                let group = self.current(group);
                self.groups.get_mut(&group).expect("it has just been made").released = entry.released;
            }
            Err(why) => {
                let reason = format!("{}; the group cannot be made anew: {why}", failure.reason);
                self.fail(group, GroupFailure { node: failure.node, reason }, out);
            }
        }
    }

    /// What the group runs now, and where.
    fn choose_anew(
        &self,
        wanted: &GroupRequest,
        among_hosts: bool,
    ) -> Result<(Planned, Option<Fallback>), InitGroupError> {
        let ranks = wanted.ranks()?;
        let fall_back = || {
            let design = self.catalog.find(&wanted.design, wanted.fabric())?;
            let lack = Fallback::NoTree {
                design: wanted.design.clone(),
                policy: self.config.policy.name().to_string(),
                members: Vec::new(),
                holders: Vec::new(),
            };
            self.fall_back(design, wanted, ranks, lack)
        };
        let chosen = match among_hosts {
            true => fall_back()?,
            false => match self.choose(wanted, ranks) {
                Err(InitGroupError::NoSwitch { .. }) => fall_back()?,
                chosen => chosen?,
            },
        };
        self.check_hosts(wanted, &chosen.0)?;
        Ok(chosen)
    }

    /// Tells ranks of a group that is being made anew, and that is over or ended instead: they hold nothing of it that would tell.
    pub(super) fn tell_suspended(
        &self,
        group: GroupId,
        entry: &ManagedGroup,
        say: impl Fn(GroupId) -> Instruction,
        out: &mut Vec<Action>,
    ) {
        let known_as = match (&entry.state, &entry.recreated) {
            (State::Suspending { .. }, _) => group,
            (State::Installing { .. }, Some(recreated)) => recreated.from(),
            _ => return,
        };
        for node in entry.request.members.iter().filter(|node| self.nodes.get(node).is_some()) {
            out.push(Action::Instruct { node: node.clone(), instruction: say(known_as) });
        }
    }

    /// What a node of a group that is ready is told.
    pub(super) fn readiness(&self, group: GroupId, node: &str) -> Instruction {
        let entry = &self.groups[&group];
        match &entry.recreated {
            Some(recreated) if entry.request.members.iter().any(|member| member == node) => {
                Instruction::Resume { group, from: recreated.from(), first: recreated.first }
            }
            _ => Instruction::Ready(group),
        }
    }
}

/// The collective that all ranks can run from: the first that one of them lacks.
fn agree(
    wanted: &GroupRequest,
    told: &BTreeMap<String, Progress>,
    mutation: Option<Mutation>,
) -> Result<u64, String> {
    if let Some(silent) = wanted.members.iter().find(|member| !told.contains_key(*member)) {
        return Err(format!("\"{silent}\" has not said how far it has come"));
    }
    let (slowest, progress) = told.iter().min_by_key(|(_, progress)| progress.complete).expect("members");
    let first = progress.complete + 1;
    if mutation == Some(Mutation::AgreesOnTheFastest) {
        return Ok(told.values().map(|progress| progress.complete).max().unwrap_or(0) + 1);
    }
    match told.iter().find(|(_, progress)| progress.repeats_from > first) {
        None => Ok(first),
        Some((ahead, progress)) => Err(format!(
            "\"{slowest}\" lacks collective {first}, and \"{ahead}\" has inputs from collective {} on only; keep more of them",
            progress.repeats_from
        )),
    }
}
