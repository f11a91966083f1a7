//! How nodes and groups come, get lost and end: leases, time-outs, and what is given back when.

use super::action::{Action, HeldGroup, Instruction, ManagerTimer};
use super::kept::Change;
use super::managed::{Ending, ManagedGroup, State};
use super::nodes::Taken;
use super::{Manager, Trial};
use crate::map::Map;
use crate::memory::Region;
use crate::mutation::Mutation;
use crate::{AttachError, Fallback, GroupFailure, InitGroupError, NodeDescription, UnknownGroup};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_units::Duration;

/// Failed groups that are kept for operators to look at; the oldest go first.
const KEPT_FAILURES: usize = 64;

impl Manager {
    /// A node has come, with groups that it has from an earlier life of the manager or of its connection. Instructions to it may follow
    /// from now on.
    ///
    /// # Errors
    /// If its name or address is taken; nothing has changed.
    pub fn attach(
        &mut self,
        description: NodeDescription,
        held: &[HeldGroup],
        out: &mut Vec<Action>,
    ) -> Result<(), AttachError> {
        let name = description.name.clone();
        self.nodes.attach(description)?;
        self.rebuild_map();
        for HeldGroup { group, region, endpoints, is_released } in held {
            if region.is_none() && endpoints.is_empty() && self.goes_on(*group, &name, held) {
                continue;
            }
            let known = self.groups.get_mut(group).and_then(|entry| entry.away.remove(&name));
            let is_same = known.as_ref().is_some_and(|taken| {
                // Whether it has been moved as the manager wanted it, the node knows.
                let length = |region: Option<Region>| region.map_or(0, |region| region.length.bytes());
                length(taken.region) == length(*region) && taken.endpoints == *endpoints
            });
            let (region, endpoints) = (*region, endpoints.clone());
            let taken = Taken { endpoints, region, leaves: !is_same };
            // What a node says that it holds and cannot hold, it does not: it forgets the group all the same.
            let taken = match self.nodes.restore(&name, *group, taken.clone()) {
                Ok(()) => taken,
                Err(_) => {
                    let taken = Taken { region: None, leaves: true, ..taken };
                    self.nodes.restore(&name, *group, taken.clone()).expect("it takes no memory");
                    taken
                }
            };
            if taken.leaves {
                self.wait_for_end(*group, &name, out);
                let instruction = match self.groups.get(&self.current(*group)).map(|entry| &entry.state) {
                    Some(State::Failed(failure)) => {
                        Instruction::Failed { group: *group, failure: failure.clone() }
                    }
                    _ => Instruction::Remove(*group),
                };
                out.push(Action::Instruct { node: name.clone(), instruction });
                if known.is_some() {
                    self.lose(*group, &name, "it came back with other buffers", out);
                }
            } else if self.groups.get(group).is_some_and(|entry| entry.away.is_empty()) {
                out.push(Action::CancelTimer { timer: ManagerTimer::Return(*group) });
                // It may have been lost before it heard that.
                let instruction = self.readiness(*group, &name);
                out.push(Action::Instruct { node: name.clone(), instruction });
            } else {
                let instruction = self.readiness(*group, &name);
                out.push(Action::Instruct { node: name.clone(), instruction });
            }
            if *is_released {
                // A manager of before may have heard it, and this one has not. Of a group that it is not in it says nothing.
                let _ = self.release(&name, *group, out);
            }
            self.decide_on_loss(*group, out);
        }
        let lacks = |entry: &ManagedGroup| entry.away.contains_key(&name);
        let lost: Vec<_> = self.groups.iter().filter(|(_, entry)| lacks(entry)).map(|(&id, _)| id).collect();
        for group in lost {
            self.lose(group, &name, "it came back without the group", out);
        }
        self.check();
        Ok(())
    }

    /// Whether a group that a node waits for is made anew, and the node has what takes its place: it hears of that by its number.
    fn goes_on(&self, group: GroupId, name: &str, held: &[HeldGroup]) -> bool {
        let current = self.current(group);
        let lives = |entry: &ManagedGroup| !entry.is_over() && entry.away.contains_key(name);
        let is_held = held.iter().any(|held| held.group == current);
        current != group && is_held && self.groups.get(&current).is_some_and(lives)
    }

    /// A node's description has changed: links that are up. Groups whose trees led over one that is not there any more are made anew, or
    /// fail.
    ///
    /// # Errors
    /// If there is no such node.
    pub fn update_links(
        &mut self,
        name: &str,
        links: Vec<crate::LinkReport>,
        out: &mut Vec<Action>,
    ) -> Result<(), crate::ReportError> {
        let said: BTreeSet<String> = links.iter().map(|link| link.neighbour.clone()).collect();
        let is_down = |link: &&crate::LinkReport| link.parallel_links == 0;
        let down: BTreeSet<String> =
            links.iter().filter(is_down).map(|link| link.neighbour.clone()).collect();
        if !self.nodes.set_links(name, links) {
            return Err(crate::ReportError::NotAttached { name: name.to_string() });
        }
        let before = core::mem::take(&mut self.map);
        self.rebuild_map();
        let broken = |entry: &ManagedGroup| {
            let is_own = |[a, b]: &&[String; 2]| a == name || b == name;
            // A cable that is not heard for a while is no matter of what this node says.
            let is_said =
                |[a, b]: &[String; 2]| said.contains(a) || said.contains(b) || before.link(a, b).is_some();
            // A neighbour that is waited for has no links, whatever is said of them.
            let is_waited_for = |[a, b]: &[String; 2]| {
                let far = if a == name { b } else { a };
                self.nodes.get(far).is_none() && !down.contains(far)
            };
            let lacks = |ends: &&[String; 2]| {
                self.map.link(&ends[0], &ends[1]).is_none() && is_said(ends) && !is_waited_for(ends)
            };
            entry.links.iter().filter(is_own).find(lacks).cloned()
        };
        let living = self.groups.iter().filter(|(_, entry)| !entry.is_over());
        let cut: Vec<_> = living.filter_map(|(&group, entry)| Some((group, broken(entry)?))).collect();
        for (group, [a, b]) in cut {
            self.lose(group, name, &format!("its link between {a} and {b} is down"), out);
        }
        self.check();
        Ok(())
    }

    pub(super) fn rebuild_map(&mut self) {
        self.map = Map::with_cables(self.nodes.iter(), &self.cables.located(self.nodes.iter()));
        for (&group, entry) in self.groups.iter().filter(|(_, entry)| !entry.is_over()) {
            let links: Vec<_> = entry.links.iter().filter_map(|[a, b]| self.map.link(a, b)).collect();
            self.map.plant(group, &links);
        }
    }

    /// A node is gone for good, for the reason given: its groups fail. Nothing happens if it was not attached.
    pub fn detach(&mut self, name: &str, reason: &str, out: &mut Vec<Action>) {
        self.part(name, reason, Duration::ZERO, out);
    }

    /// The connection to a node is gone: its groups fail, unless it comes back with them in time.
    pub fn disconnect(&mut self, name: &str, reason: &str, out: &mut Vec<Action>) {
        self.part(name, reason, self.config.return_timeout, out);
    }

    /// What a node speaks by way of is gone, and not the node: it has as long to come back as to a manager that has started again.
    pub fn lose_sight(&mut self, name: &str, reason: &str, out: &mut Vec<Action>) {
        self.part(name, reason, self.config.restart_timeout, out);
    }

    /// A node that is waited for will not come back: its groups fail.
    pub fn give_up_node(&mut self, name: &str, reason: &str, out: &mut Vec<Action>) {
        let waits = |entry: &ManagedGroup| entry.away.contains_key(name);
        let groups: Vec<_> =
            self.groups.iter().filter(|(_, entry)| waits(entry)).map(|(&id, _)| id).collect();
        for group in groups {
            self.lose(group, name, reason, out);
        }
        self.check();
    }

    fn part(&mut self, name: &str, reason: &str, patience: Duration, out: &mut Vec<Action>) {
        if self.nodes.get(name).is_none() {
            return;
        }
        let of = |group: &ManagedGroup| group.nodes.contains(name);
        let groups: Vec<_> = self.groups.iter().filter(|(_, group)| of(group)).map(|(&id, _)| id).collect();
        for group in &groups {
            let taken = self.nodes.taken(name, *group).expect("it holds something for its groups").clone();
            let entry = self.groups.get_mut(group).expect("it has just been found");
            entry.away.insert(name.to_string(), taken);
        }
        self.nodes.detach(name);
        self.rebuild_map();
        for group in groups {
            if patience > Duration::ZERO && self.groups[&group].state == State::Ready {
                out.push(Action::SetTimer { timer: ManagerTimer::Return(group), after: patience });
            } else {
                self.lose(group, name, reason, out);
            }
        }
        let waits = |entry: &ManagedGroup| {
            matches!(entry.state, State::Suspending { .. }) && entry.request.members.iter().any(|m| m == name)
        };
        let suspended: Vec<_> =
            self.groups.iter().filter(|(_, entry)| waits(entry)).map(|(&id, _)| id).collect();
        for group in suspended {
            self.fail(group, GroupFailure { node: name.to_string(), reason: reason.to_string() }, out);
        }
        // What it had left to forget is gone with it.
        let waits = |ending: &Ending| ending.waiting.contains(name);
        let endings: Vec<_> =
            self.endings.iter().filter(|(_, ending)| waits(ending)).map(|(&id, _)| id).collect();
        for group in endings {
            self.forgotten(name, group, out);
        }
        self.check();
    }

    /// A group is made anew or fails, because a node or a link that it has is lost.
    pub(super) fn lose(&mut self, group: GroupId, node: &str, reason: &str, out: &mut Vec<Action>) {
        if self.groups.get(&group).is_some_and(|entry| !entry.is_over()) {
            let failure = GroupFailure { node: node.to_string(), reason: reason.to_string() };
            self.lose_part(group, failure, false, out);
        }
    }

    /// The owner's word that he still needs the group: its lease begins anew.
    ///
    /// # Errors
    /// If there is no such group that lives.
    pub fn renew(&mut self, group: GroupId, out: &mut Vec<Action>) -> Result<(), UnknownGroup> {
        let group = self.current(group);
        let entry = self.groups.get_mut(&group).filter(|entry| !entry.is_over());
        let entry = entry.ok_or(UnknownGroup { group })?;
        if let (Some(after), State::Ready) = (entry.request.lease, &entry.state) {
            entry.lease = Some(self.now + after);
            out.push(Action::SetTimer { timer: ManagerTimer::Lease(group), after });
        }
        Ok(())
    }

    /// A timer has expired. One that was cancelled meanwhile is harmless.
    pub fn handle_timer(&mut self, timer: ManagerTimer, out: &mut Vec<Action>) {
        match timer {
            ManagerTimer::Install(group) => self.install_timeout(group, out),
            ManagerTimer::Cables => self.forget_cables(),
            ManagerTimer::End(group) => {
                if let Some(ending) = self.endings.get_mut(&group) {
                    let silent: Vec<_> = ending.waiting.iter().cloned().collect();
                    for request in core::mem::take(&mut ending.requests) {
                        out.push(Action::Destroyed { request, silent: silent.clone() });
                    }
                    // Once more, as long as they are there. Ranks of a group that is to be made anew do not forget it.
                    let entry = self.groups.get(&group);
                    let suspended = entry.and_then(|entry| match &entry.state {
                        State::Suspending { failure, .. } => Some((&entry.request.members, failure)),
                        _ => None,
                    });
                    for node in silent {
                        let instruction = match suspended {
                            Some((members, failure)) if members.contains(&node) => {
                                Instruction::Suspend { group, failure: failure.clone() }
                            }
                            _ => Instruction::Remove(group),
                        };
                        out.push(Action::Instruct { node, instruction });
                    }
                    out.push(Action::SetTimer { timer, after: self.config.install_timeout });
                }
            }
            ManagerTimer::Lease(group) => {
                let Some(until) = self.groups.get(&group).and_then(|entry| entry.lease) else { return };
                if until > self.now {
                    let after = until.since(self.now);
                    return out.push(Action::SetTimer { timer, after });
                }
                if self.mutation == Some(Mutation::ExpiresInSilence) {
                    let entry = self.groups.remove(&group).expect("it has just been found");
                    self.end_inquiry(group, out);
                    self.map.fell(group);
                    for node in &entry.nodes {
                        self.forgotten(node, group, out);
                    }
                    return;
                }
                let reason = "its lease is over: nobody has renewed it".to_string();
                let owner = self.groups[&group].request.members.first().cloned().unwrap_or_default();
                self.fail(group, GroupFailure { node: owner, reason }, out);
            }
            ManagerTimer::Delay(request) => {
                let Some(place) = self.delayed.iter().position(|(delayed, _)| *delayed == request) else {
                    return;
                };
                let (_, wanted) = self.delayed.remove(place);
                // What is not free by now is not waited for.
                let trial = self.try_init_group(request, &wanted, false, out);
                if let Err(Trial::Refused(error)) = trial {
                    out.push(Action::Answer { request, answer: Err(error) });
                }
            }
            ManagerTimer::Return(group) => {
                // Without a member it is over; without a switch it may be made anew.
                let away = self.groups.get(&group).and_then(|entry| {
                    let is_away = |node: &&String| entry.away.contains_key(*node);
                    entry.request.members.iter().find(is_away).or(entry.away.keys().next()).cloned()
                });
                if let Some(node) = away {
                    let reason = "it was lost, and did not come back in time".to_string();
                    self.lose(group, &node, &reason, out);
                }
            }
            ManagerTimer::Inquiry(group) => self.inquiry_timeout(group, out),
        }
        self.check();
    }

    fn install_timeout(&mut self, group: GroupId, out: &mut Vec<Action>) {
        if let Some(State::Suspending { failure, .. }) = self.groups.get(&group).map(|entry| &entry.state) {
            let silent = self.endings.get(&group).and_then(|ending| ending.waiting.first().cloned());
            let (node, cause) = (silent.unwrap_or_else(|| failure.node.clone()), failure.clone());
            let after = self.config.remake_timeout;
            let reason =
                format!("did not stop within {after}, when the group was to be made anew because of {cause}");
            return self.fail(group, GroupFailure { node, reason }, out);
        }
        let Some(entry) = self.groups.get(&group) else { return };
        let State::Installing { waiting, .. } = &entry.state else { return };
        let mut late = waiting.iter();
        let node = late.next().expect("a group without a late node is ready").clone();
        let others = match late.count() {
            0 => String::new(),
            count => format!(" (nor did {count} others)"),
        };
        let reason =
            format!("did not install the group within {}{others}", self.patience(entry.recreated.is_some()));
        self.fail(group, GroupFailure { node, reason }, out);
    }

    pub(super) fn make_ready(&mut self, group: GroupId, out: &mut Vec<Action>) {
        let entry = self.groups.get_mut(&group).expect("the caller has looked it up");
        let State::Installing { requests, .. } = core::mem::replace(&mut entry.state, State::Ready) else {
            unreachable!("only a group that installs becomes ready");
        };
        out.push(Action::CancelTimer { timer: ManagerTimer::Install(group) });
        let record = self.record(group);
        out.push(Action::Keep(Change::Put(alloc::boxed::Box::new(record))));
        let entry = &self.groups[&group];
        for node in &entry.nodes {
            out.push(Action::Instruct { node: node.clone(), instruction: self.readiness(group, node) });
        }
        self.renew(group, out).expect("it has just become ready");
        for request in requests {
            let answer = Ok(self.summary(group, &self.groups[&group]));
            out.push(Action::Answer { request, answer });
        }
    }

    /// Ends a group that has not yet failed: all its nodes are told, but for those that are gone.
    pub(super) fn fail(&mut self, group: GroupId, failure: GroupFailure, out: &mut Vec<Action>) {
        let mut entry = self.groups.remove(&group).expect("the caller has looked it up");
        if entry.state == State::Ready {
            out.push(Action::Keep(Change::Remove(group)));
        }
        self.end(group, &entry, |_| Instruction::Failed { group, failure: failure.clone() }, out);
        self.tell_suspended(
            group,
            &entry,
            |group| Instruction::Failed { group, failure: failure.clone() },
            out,
        );
        let state = core::mem::replace(&mut entry.state, State::Failed(failure.clone()));
        entry.nodes.clear();
        entry.away.clear();
        (entry.lease, entry.lost) = (None, None);
        self.groups.insert(group, entry);
        if let State::Installing { requests, .. } = state {
            let failed =
                |request| Action::Answer { request, answer: Err(InitGroupError::Failed(failure.clone())) };
            out.extend(requests.into_iter().map(failed));
        }
        let mut failed = self.groups.iter().filter(|(_, group)| group.is_over());
        if let (Some((&oldest, _)), true) = (failed.next(), failed.count() >= KEPT_FAILURES) {
            self.groups.remove(&oldest);
            self.forget_names(oldest);
        }
    }

    /// Has the nodes of a group that is over forget it.
    pub(super) fn end(
        &mut self,
        group: GroupId,
        entry: &ManagedGroup,
        say: impl Fn(&str) -> Instruction,
        out: &mut Vec<Action>,
    ) {
        let timers = [
            (ManagerTimer::Install(group), entry.installs() || entry.is_suspended()),
            (ManagerTimer::Lease(group), entry.lease.is_some()),
            (ManagerTimer::Return(group), !entry.away.is_empty()),
        ];
        for (timer, _) in timers.into_iter().filter(|(_, is_set)| *is_set) {
            out.push(Action::CancelTimer { timer });
        }
        self.end_inquiry(group, out);
        self.map.fell(group);
        for node in &entry.nodes {
            if self.nodes.leave(node, group) {
                self.wait_for_end(group, node, out);
                out.push(Action::Instruct { node: node.clone(), instruction: say(node) });
            }
            if self.mutation == Some(Mutation::FreesAtOnce) {
                self.forgotten(node, group, out);
            }
        }
    }

    fn wait_for_end(&mut self, group: GroupId, node: &str, out: &mut Vec<Action>) {
        let ending = self.endings.entry(group).or_insert_with(|| {
            let (timer, after) = (ManagerTimer::End(group), self.config.install_timeout);
            out.push(Action::SetTimer { timer, after });
            Ending { waiting: BTreeSet::new(), requests: Vec::new() }
        });
        ending.waiting.insert(node.to_string());
    }

    /// A node has forgotten a group that is over, or is gone itself: what the group held there is free.
    pub(super) fn forgotten(&mut self, node: &str, group: GroupId, out: &mut Vec<Action>) {
        self.nodes.release(node, group);
        let Some(ending) = self.endings.get_mut(&group) else { return };
        ending.waiting.remove(node);
        if ending.waiting.is_empty() {
            let ending = self.endings.remove(&group).expect("it has just been found");
            out.push(Action::CancelTimer { timer: ManagerTimer::End(group) });
            for request in ending.requests {
                out.push(Action::Destroyed { request, silent: Vec::new() });
            }
            if self.groups.contains_key(&group) {
                self.recreate(group, out);
            }
        }
        for (request, wanted) in core::mem::take(&mut self.delayed) {
            match self.try_init_group(request, &wanted, true, out) {
                Ok(()) => out.push(Action::CancelTimer { timer: ManagerTimer::Delay(request) }),
                Err(Trial::Delayed) => self.delayed.push((request, wanted)),
                Err(Trial::Refused(error)) => {
                    out.push(Action::CancelTimer { timer: ManagerTimer::Delay(request) });
                    out.push(Action::Answer { request, answer: Err(error) });
                }
            }
        }
    }

    /// A rank is done with a group. When all are, it is over. Of one that is over already it comes too late, and is ignored.
    pub(super) fn release(
        &mut self,
        node: &str,
        group: GroupId,
        out: &mut Vec<Action>,
    ) -> Result<(), crate::ReportError> {
        let group = self.current(group);
        if group.0 >= self.next_group {
            return Err(crate::ReportError::UnknownGroup { group });
        }
        let Some(entry) = self.groups.get_mut(&group) else { return Ok(()) };
        if !entry.request.members.iter().any(|member| member == node) {
            return Err(crate::ReportError::NotInGroup { name: node.to_string(), group });
        }
        if entry.is_over() {
            return Ok(());
        }
        entry.released.insert(node.to_string());
        let are_done = entry.released.len() == entry.request.members.len();
        if are_done || self.mutation == Some(Mutation::EndsAtFirstRelease) {
            self.take_down(group, out);
            out.push(Action::GivenBack { group });
        }
        Ok(())
    }

    /// Whether groups that are over still hold something of what is lacking, or groups that some of their ranks are done with.
    pub(super) fn will_change(&self, lack: &Fallback) -> bool {
        let (switch, holders) = match lack {
            Fallback::SwitchMemory { switch, holders, .. }
            | Fallback::SwitchEndpoints { switch, holders, .. } => (Some(switch), holders),
            // Links are free as soon as a group is over.
            Fallback::PortTaken { holders, .. }
            | Fallback::NoTree { holders, .. }
            | Fallback::GroupQuota { holders, .. }
            | Fallback::MemoryQuota { holders, .. } => (None, holders),
            Fallback::FanIn { .. } | Fallback::Draining { .. } | Fallback::OtherVersion { .. } => {
                return false;
            }
        };
        let leaves = |ending: &Ending| switch.is_some_and(|switch| ending.waiting.contains(switch));
        let goes = |group| self.groups.get(&group).is_some_and(|entry| !entry.released.is_empty());
        self.endings.values().any(leaves) || holders.iter().any(|holder| goes(holder.group))
    }

    /// Timers that may be set: for a driver that starts the manager again.
    pub(crate) fn timers(&self) -> Vec<ManagerTimer> {
        let groups = self.groups.keys().flat_map(|&group| {
            [ManagerTimer::Install(group), ManagerTimer::Lease(group), ManagerTimer::Return(group)]
        });
        let endings = self.endings.keys().map(|&group| ManagerTimer::End(group));
        let delayed = self.delayed.iter().map(|&(request, _)| ManagerTimer::Delay(request));
        let inquiries = self.inquiries.keys().map(|&group| ManagerTimer::Inquiry(group));
        groups.chain(endings).chain(delayed).chain(inquiries).collect()
    }

    /// For tests and drivers: nobody holds anything.
    pub fn is_idle(&self) -> bool {
        self.endings.is_empty() && self.delayed.is_empty() && self.groups.values().all(ManagedGroup::is_over)
    }
}
