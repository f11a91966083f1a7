//! Collectives of several groups at once: they are begun, and their ends come with the steps that the owner makes.

use quincunx_collective::{Collective, GroupId, Numbers, Reduction};
use quincunx_control::Report;
use quincunx_driver_net::Waker;
use quincunx_engine::Terms;
use quincunx_engine::verbs::{Failure, Outcome, WorkId};
use quincunx_nodes::{HostCommand, HostEvent};
use quincunx_units::Duration;

use super::Rank;
use crate::delivered::Delivered;
use crate::joined::{Finished, JoinedGroup};
use crate::process::RuntimeError;
use std::collections::VecDeque;

/// What has come to an end in a step.
#[derive(Debug)]
pub enum Ended {
    /// The oldest collective of a group.
    Collective {
        /// The group.
        group: GroupId,
        /// Its buffers.
        buffers: Finished,
    },
    /// A write, and its slots are free.
    Write {
        /// The group.
        group: GroupId,
        /// As [`Rank::begin_write`] has named it.
        id: WorkId,
    },
    /// A group, and with it all that was under way there.
    Group {
        /// The group.
        group: GroupId,
        /// Why.
        error: RuntimeError,
    },
}

impl Rank {
    /// Begins a collective, or the part of one that `terms` say. Lengths are as [`quincunx_engine::verbs::CollectiveRequest`] says; a group's collectives end in the order
    /// in which they were begun.
    ///
    /// # Errors
    /// If the group has failed, or the collective makes no sense, or the group's design runs no more of them at once.
    pub fn begin(
        &mut self,
        group: GroupId,
        collective: Collective,
        reduction: Reduction,
        terms: Terms,
        buffers: Finished,
    ) -> Result<(), RuntimeError> {
        self.check(group)?;
        let wire = self.lead(group);
        let Finished { input, output } = buffers;
        let start = HostCommand::Start { group: wire, collective, reduction, input, output, terms };
        self.node.command(start)?;
        self.begun.entry(group).or_default().push_back(collective);
        Ok(())
    }

    /// The oldest piece that others have written here and nobody has taken.
    pub fn take_delivered(&mut self, group: GroupId) -> Option<Delivered> {
        self.delivered.get_mut(&group).and_then(VecDeque::pop_front)
    }

    /// Answers peers, waiting at most `wait` if there is nothing to do, and tells what has ended.
    ///
    /// # Errors
    /// If the socket or the manager goes: then all is over.
    pub fn step(&mut self, wait: Duration) -> Result<Vec<Ended>, RuntimeError> {
        self.node.turn(if self.unheard.is_empty() { wait } else { Duration::ZERO })?;
        let mut ended = Vec::new();
        while let Some(event) = self.next_event() {
            self.hear(event, &mut ended);
        }
        Ok(ended)
    }

    /// Takes what the manager has said meanwhile: groups to install, groups that are over. It tells which of them.
    ///
    /// # Errors
    /// If the manager goes.
    pub fn look(&mut self) -> Result<Vec<Ended>, RuntimeError> {
        let is_over = |rank: &Self, group: &GroupId| {
            !rank.groups.contains_key(group) || rank.failed.contains_key(group)
        };
        let mut before: Vec<GroupId> = self.groups.keys().copied().collect();
        before.retain(|group| !is_over(self, group));
        self.take_instructions()?;
        let over = |group: &GroupId| is_over(self, group);
        let over: Vec<GroupId> = before.into_iter().filter(over).collect();
        Ok(over.into_iter().map(|group| Ended::Group { group, error: self.end_of(group) }).collect())
    }

    /// Gives a group up, as after a time-out: what is under way there ends without a word.
    pub fn abandon(&mut self, group: GroupId) {
        let wire = self.lives.get(&group).map_or(group, |life| life.wire);
        self.forget(wire);
    }

    /// Says that this rank is done with a group: it begins nothing there any more. Peers get their answers until all of the group's ranks are
    /// done, and the manager ends it. Whether the group is here still, or came at all, does not matter.
    pub fn release(&mut self, group: GroupId) {
        let wire = self.lives.get(&group).map_or(group, |life| life.wire);
        if self.groups.contains_key(&group) {
            if !self.released.insert(group) {
                return;
            }
            self.delivered.remove(&group);
        } else {
            // Nobody asks any more why it is over.
            self.failed.remove(&group);
        }
        self.attachment.report(wire, Report::Released);
    }

    /// The groups that this rank is in, as far as it has heard of the manager.
    pub fn groups(&self) -> impl Iterator<Item = &JoinedGroup> {
        self.groups.values()
    }

    /// Ends waits of [`step`](Self::step) from another thread.
    pub fn waker(&self) -> Waker {
        self.node.waker()
    }

    fn hear(&mut self, event: HostEvent<Numbers>, ended: &mut Vec<Ended>) {
        if self.leads(&event) {
            if let Err((group, error)) = self.settle(event) {
                ended.push(Ended::Group { group, error });
            }
            return;
        }
        match event {
            HostEvent::Finished { group, outcome: Outcome::Done, input, output } => {
                let group = self.known_as(group);
                self.begun.get_mut(&group).and_then(VecDeque::pop_front);
                if let Some(life) = self.lives.get_mut(&group) {
                    life.calls.end_one();
                }
                ended.push(Ended::Collective { group, buffers: Finished { input, output } });
            }
            HostEvent::Written { group, id } => {
                self.written.remove(&(group, id));
                ended.push(Ended::Write { group, id });
            }
            // What nobody can take any more is not kept.
            HostEvent::Delivered { group, .. }
                if self.released.contains(&group) || !self.groups.contains_key(&group) => {}
            HostEvent::Delivered { group, source, slot, data } => {
                self.delivered.entry(group).or_default().push_back(Delivered { source, slot, data });
            }
            HostEvent::Finished {
                group,
                outcome: Outcome::Failed { failure: Failure::Corrupted, .. },
                ..
            } => {
                let group = self.known_as(group);
                let of = self.begun.get_mut(&group).and_then(VecDeque::pop_front);
                if let Some(collective) = of.filter(|_| !self.failed.contains_key(&group)) {
                    self.corrupted(group, collective);
                }
            }
            HostEvent::Finished { group, outcome: Outcome::Failed { qp, failure }, .. }
            | HostEvent::Failed { group, qp, failure } => {
                let group = self.known_as(group);
                // A group that was removed has said so already.
                if self.groups.contains_key(&group) && !self.failed.contains_key(&group) {
                    self.peer_failed(group, usize::from(qp.0), failure);
                }
            }
        }
    }

    /// Why a group is over.
    fn end_of(&self, group: GroupId) -> RuntimeError {
        match self.check(group) {
            Err(error) => error,
            Ok(()) => RuntimeError::GroupFailed {
                group: group.0,
                node: "a member".into(),
                reason: "the group was ended".into(),
            },
        }
    }

    /// The groups that are ready and that nobody has joined, oldest first.
    ///
    /// # Errors
    /// If one that was coming has failed.
    pub fn take_ready(&mut self) -> Result<Vec<JoinedGroup>, RuntimeError> {
        if let Some(lost) = self.lost.take() {
            self.check(lost)?;
        }
        let ready = std::mem::take(&mut self.ready);
        self.expected.retain(|expected| !ready.contains(expected));
        Ok(ready.iter().filter_map(|id| self.groups.get(id).cloned()).collect())
    }
}
