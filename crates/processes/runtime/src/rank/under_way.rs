//! Collectives of several groups at once: they are begun, and their ends come with the steps that the owner makes.

use quincunx_collective::{Collective, GroupId, Numbers, Reduction, Routes};
use quincunx_control::Report;
use quincunx_engine::Terms;
use quincunx_engine::verbs::WorkId;
use quincunx_nodes::{HostCommand, HostEvent, HostRejected};
use quincunx_units::Duration;

use super::Rank;
use crate::delivered::Delivered;
use crate::joined::{Finished, JoinedGroup};
use crate::life::{Asked, Own};
use crate::ports::RankPorts;
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

impl<P: RankPorts> Rank<P> {
    /// Begins a collective, or the part of one that `terms` say. Lengths are as [`quincunx_engine::verbs::CollectiveRequest`] says; a group's collectives end in the order
    /// in which they were begun. With each result comes a buffer to use again, for the input may be needed by others: not always of its length.
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
        let life = self.lives.get_mut(&group).ok_or(HostRejected::NoSuchGroup(group))?;
        life.asked = Asked::Parts;
        let Finished { input, output } = buffers;
        if !life.takes_more() {
            let buffers = Some([input, output]);
            life.own.push_back(Own { collective, reduction, terms, buffers });
            return Ok(());
        }
        let wire = life.wire;
        self.ports.command(HostCommand::Start {
            group: wire,
            collective,
            reduction,
            input,
            output,
            terms,
        })?;
        life.own.push_back(Own { collective, reduction, terms, buffers: None });
        Ok(())
    }

    /// Says whom the tokens of this rank's next batch are for, before the Dispatch that takes them there is begun.
    ///
    /// # Errors
    /// If the group has failed, its design dispatches nothing, or the routes make no sense; nothing has changed then.
    pub fn route(&mut self, group: GroupId, routes: Routes) -> Result<(), RuntimeError> {
        self.check(group)?;
        let life = self.lives.get(&group).ok_or(HostRejected::NoSuchGroup(group))?;
        Ok(self.ports.command(HostCommand::Route { group: life.wire, routes })?)
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
        self.ports.turn(if self.unheard.is_empty() { wait } else { Duration::ZERO })?;
        let (mut ended, mut over) = (Vec::new(), Vec::new());
        while let Some(event) = self.next_event() {
            match self.hear(event) {
                Some(write @ Ended::Write { .. }) => ended.push(write),
                other => over.extend(other),
            }
        }
        ended.extend(self.take_ends());
        ended.extend(over);
        Ok(ended)
    }

    /// What has ended of collectives that were begun here.
    fn take_ends(&mut self) -> impl Iterator<Item = Ended> {
        let parts = self.lives.iter_mut().filter(|(_, life)| life.asked == Asked::Parts);
        parts.flat_map(|(group, life)| {
            life.done.drain(..).map(|buffers| Ended::Collective { group: *group, buffers })
        })
    }

    /// Takes what the manager has said meanwhile: groups to install, groups that are over. It tells which of them, and what has ended before.
    ///
    /// # Errors
    /// If the manager goes.
    pub fn look(&mut self) -> Result<Vec<Ended>, RuntimeError> {
        let is_over = |rank: &Self, group: &GroupId| {
            // A generation that goes on under the number that the application knows has not ended.
            let is_gone = !rank.groups.contains_key(group) && !rank.wires.contains_key(group);
            is_gone || rank.failed.contains_key(group)
        };
        let mut before: Vec<GroupId> = self.groups.keys().copied().collect();
        before.retain(|group| !is_over(self, group));
        self.take_instructions()?;
        let over = |group: &GroupId| is_over(self, group);
        let over: Vec<GroupId> = before.into_iter().filter(over).collect();
        let mut ended: Vec<Ended> = self.take_ends().collect();
        ended.extend(over.into_iter().map(|group| Ended::Group { group, error: self.end_of(group) }));
        Ok(ended)
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
        self.ports.report(wire, Report::Released);
    }

    /// The groups that this rank is in, as far as it has heard of the manager.
    pub fn groups(&self) -> impl Iterator<Item = &JoinedGroup> {
        self.groups.values()
    }

    fn hear(&mut self, event: HostEvent<Numbers>) -> Option<Ended> {
        match event {
            HostEvent::Finished { group: wire, .. } | HostEvent::Failed { group: wire, .. } => {
                let life = self.lives.get(&self.known_as(wire));
                // A group that was removed has said so already.
                life.filter(|life| life.wire == wire)?;
                let (group, error) = self.settle(event).err()?;
                Some(Ended::Group { group, error })
            }
            HostEvent::Written { group, id } => {
                self.written.remove(&(group, id));
                Some(Ended::Write { group, id })
            }
            HostEvent::Delivered { group, source, slot, data } => {
                // What nobody can take any more is not kept.
                if self.groups.contains_key(&group) && !self.released.contains(&group) {
                    let of_group = self.delivered.entry(group).or_default();
                    of_group.push_back(Delivered { source, slot, data });
                }
                None
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
