//! How a rank drives the collectives of its groups, those too that it has to run again.

use quincunx_collective::{Collective, GroupId, Numbers, Payload, Reduction};
use quincunx_control::{GroupFailure, Report};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_nodes::{HostCommand, HostEvent, HostRejected};

use super::Rank;
use crate::calls::{NewCall, length_of};
use crate::delivered::Delivered;
use crate::joined::{Finished, JoinedGroup};
use crate::life::{Asked, CompletedCollective, Own, Recreation};
use crate::ports::RankPorts;
use crate::process::RuntimeError;

impl<P: RankPorts> Rank<P> {
    /// Groups that were made anew since the last call.
    pub fn take_recreations(&mut self) -> Vec<Recreation> {
        std::mem::take(&mut self.recreations)
    }

    /// A group as it stands: what it runs may change when it is made anew.
    pub fn group(&self, group: GroupId) -> Option<&JoinedGroup> {
        self.groups.get(&group)
    }

    /// The group that has this number at the manager, as the application knows it.
    pub(crate) fn known_as(&self, wire: GroupId) -> GroupId {
        self.wires.get(&wire).copied().unwrap_or(wire)
    }

    /// The application's next collective: it begins when what others lack has been run again.
    pub(crate) fn begin_own(
        &mut self,
        group: GroupId,
        (collective, reduction): (Collective, Reduction),
        buffers: [Numbers; 2],
    ) -> Result<(), RuntimeError> {
        let life = self.lives.get_mut(&group).ok_or(HostRejected::NoSuchGroup(group))?;
        if !life.own.is_empty() {
            return Err(HostRejected::from(quincunx_engine::verbs::RequestError::Busy).into());
        }
        life.asked = Asked::Whole;
        life.done.clear();
        let called = self.ports.now();
        let call = NewCall {
            collective,
            reduction: (reduction.op.into(), reduction.data_type),
            bytes: length_of(collective, buffers.each_ref()),
            site: None,
            called,
        };
        life.own.push_back(Own { collective, reduction, terms: Terms::WHOLE, buffers: Some(buffers) });
        let begun = self.drive(group);
        if let Some(life) = self.lives.get_mut(&group) {
            match &begun {
                Ok(()) => life.calls.add(call, called),
                Err(_) => life.own.clear(),
            }
        }
        begun
    }

    /// The result of the application's collective, once it is there.
    pub(crate) fn take_done(&mut self, group: GroupId) -> Option<Finished> {
        self.lives.get_mut(&group)?.done.pop_front()
    }

    /// The next thing that the node has to say.
    pub(crate) fn next_event(&mut self) -> Option<HostEvent<Numbers>> {
        self.unheard.pop_front().or_else(|| self.ports.next_event())
    }

    /// Whether a group was made anew, or is to be.
    pub(crate) fn was_made_anew(&self) -> bool {
        !self.wires.is_empty() || self.lives.values().any(|life| life.stopped.is_some())
    }

    /// Starts what is to run next, if nothing runs: what others lack, then what the application waits for.
    fn drive(&mut self, group: GroupId) -> Result<(), RuntimeError> {
        let Some(life) = self.lives.get_mut(&group) else { return Ok(()) };
        let is_running = life.repeats || life.running().is_some();
        if is_running || life.stopped.is_some() || life.suspicion.is_some() {
            return Ok(());
        }
        let group = life.wire;
        let command = if let Some((_, completed)) = life.sequence.next_repeat() {
            let CompletedCollective { collective, reduction, terms, input, output } = completed.clone();
            let output = Numbers::zeroed(output);
            life.repeats = true;
            HostCommand::Start { group, collective, reduction, input, output, terms }
        } else {
            let Some(own) = life.own.front_mut() else { return Ok(()) };
            let Some([input, output]) = own.buffers.take() else { return Ok(()) };
            let Own { collective, reduction, terms, .. } = *own;
            HostCommand::Start { group, collective, reduction, input, output, terms }
        };
        Ok(self.ports.command(command)?)
    }

    /// Takes what the node has to say of collectives; the rest waits for its owner.
    pub(crate) fn drain(&mut self) {
        while let Some(event) = self.ports.next_event() {
            match event {
                // Whoever asks for the group is told.
                HostEvent::Finished { .. } | HostEvent::Failed { .. } => _ = self.settle(event),
                HostEvent::Written { .. } | HostEvent::Delivered { .. } => self.unheard.push_back(event),
            }
        }
    }

    /// Takes an event; what has become of a group that has failed by it.
    pub(crate) fn settle(&mut self, event: HostEvent<Numbers>) -> Result<(), (GroupId, RuntimeError)> {
        let (wire, qp, failure) = match event {
            HostEvent::Finished { group: wire, outcome, input, output } => {
                let group = self.known_as(wire);
                let (ways, now) = (self.ways(group), self.ports.now());
                let Some(life) = self.lives.get_mut(&group).filter(|life| life.wire == wire) else {
                    // A group that was removed under its collective: who waits for it still has not heard why.
                    return match outcome {
                        Outcome::Done => Ok(()),
                        Outcome::Failed { failure, .. } => {
                            Err((group, RuntimeError::PeerFailed { peer: "the peer".into(), failure }))
                        }
                    };
                };
                // While one is run again nothing else is.
                match (std::mem::take(&mut life.repeats), outcome) {
                    (false, Outcome::Done) => life.complete(Finished { input, output }, ways, now),
                    (true, Outcome::Done) => {
                        life.calls.end_one();
                        life.sequence.repeated();
                    }
                    (false, Outcome::Failed { .. }) => {
                        if let Some(own) = life.running() {
                            own.buffers = Some([input, output]);
                        }
                    }
                    (true, Outcome::Failed { .. }) => {}
                }
                match outcome {
                    Outcome::Done => return self.drive(group).map_err(|error| (group, error)),
                    Outcome::Failed { failure: Failure::Corrupted, .. } => {
                        let own = self.lives.get(&group).and_then(|life| life.own.front());
                        let collective = own.map_or(Collective::Barrier, |own| own.collective);
                        self.corrupted(group, collective);
                        return Ok(());
                    }
                    Outcome::Failed { qp, failure } => (wire, qp, failure),
                }
            }
            HostEvent::Written { group, id } => {
                self.written.insert((group, id), self.ports.now());
                return Ok(());
            }
            HostEvent::Delivered { group, source, slot, data } => {
                self.delivered.entry(group).or_default().push_back(Delivered { source, slot, data });
                return Ok(());
            }
            HostEvent::Failed { group, qp, failure } => (group, qp, failure),
        };
        self.doubt(wire, usize::from(qp.0), failure);
        Ok(())
    }

    /// A queue pair has failed: that is the end of the group, unless the manager may make it anew, or its ranks do not agree.
    fn doubt(&mut self, wire: GroupId, index: usize, failure: Failure) {
        let group = self.known_as(wire);
        // What is suspended is flushed.
        if self.lives.get(&group).is_some_and(|life| life.stopped.is_none()) {
            self.peer_failed(group, index, failure);
        }
    }

    /// The manager wants to make a group anew: what runs on it stops, its buffers stay, and the manager hears how far it has come.
    pub(crate) fn suspend(&mut self, wire: GroupId, failure: GroupFailure) {
        // What has come to its end by now has.
        self.drain();
        let now = self.ports.now();
        let group = self.known_as(wire);
        if self.failed.contains_key(&group) {
            // Its application has been told that it is over: nothing of it goes on here.
            self.forget(wire);
        }
        if let Some(life) = self.lives.get_mut(&group).filter(|life| life.wire == wire) {
            let since = life.suspicion.take().map_or(now, |suspicion| suspicion.since);
            life.stopped = Some((since, failure));
        }
        // A group that the application has given up is not installed: nothing to remove.
        let _ = self.ports.command(HostCommand::Remove(wire));
        self.drain();
        let report = match self.lives.get_mut(&group).filter(|life| life.wire == wire) {
            Some(life) => Report::Suspended(life.sequence.suspend()),
            None => Report::Removed,
        };
        self.ports.report(wire, report);
    }

    /// A group has been made anew, and this rank has installed it: what ran goes on, after what others lack.
    pub(crate) fn resume(&mut self, wire: GroupId, from: GroupId, first: u64) -> Result<(), RuntimeError> {
        let group = self.known_as(from);
        let is_new = self.lives.get(&group).is_some_and(|life| life.wire == from);
        let Some(joined) = self.groups.get(&wire).filter(|_| is_new && group != wire).cloned() else {
            return Ok(());
        };
        self.groups.remove(&wire);
        self.lives.remove(&wire);
        self.expected.retain(|expected| *expected != wire);
        let life = self.lives.get_mut(&group).expect("it has just been found");
        if !life.sequence.can_resume(first) {
            let reason = format!("expected to go on with a collective that can be run, found {first}");
            self.ports.report(wire, Report::DataPlaneFailed { reason });
            return Ok(());
        }
        life.wire = wire;
        life.sequence.resume(first);
        if let Some((since, failure)) = life.stopped.take() {
            let repeats = life.sequence.next_repeat().is_some();
            let after = self.ports.now().saturating_duration_since(since);
            let design = joined.design.clone();
            self.recreations.push(Recreation { group, design, first, repeats, failure, after });
        }
        // Among hosts nothing is made anew: the next loss is the end.
        life.may_go_on = joined.runs_in_switches();
        self.groups.insert(group, JoinedGroup { id: group, ..joined });
        self.wires.retain(|_, known| *known != group);
        self.wires.insert(wire, group);
        if self.released.contains(&group) {
            self.ports.report(wire, Report::Released);
        }
        self.drive(group)
    }
}
