//! A group whose switches' memory is locked for each collective (EPIC 6.2): it asks, and runs in the tree or among the hosts as all its
//! ranks do. Tree and hosts' way are two groups of queue pairs, both installed with the group; its owner sees one.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::{GroupId, Payload};
use quincunx_design::Contention;
use quincunx_engine::verbs::{CollectiveRequest, Failure, Memory, Outcome, QpIndex, RequestError, Slice};
use quincunx_engine::{PortId, Sink};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{QpNumber, RoceHeader};

use super::contention::{Contended, Kind, Waiting, Ways};
use super::group::HostContention;
use super::{Host, HostEvent, HostRejected, HostTimer, TimerOwner};
use crate::locks::{LockRank, LockStep};
use crate::transport::NodeDrop;

impl<P: Payload> Host<P> {
    /// By which ways the collectives of a group have run, if its switches' memory is locked for each.
    pub fn ways(&self, group: GroupId) -> Option<Ways> {
        self.contended.get(&group).map(|contended| contended.ways)
    }

    pub(super) fn has_lock_at(&self, number: QpNumber) -> bool {
        self.contended.values().any(|contended| contended.edge.local.qp == number)
    }

    /// Whether a group may be installed with this.
    pub(super) fn check_contention(
        &self,
        group: GroupId,
        with: &HostContention<P>,
    ) -> Result<(), HostRejected> {
        let fallback = with.fallback.group;
        if fallback == group || self.groups.contains_key(&fallback) {
            return Err(HostRejected::GroupExists(fallback));
        }
        let number = with.edge.local.qp;
        match self.lookup.contains_key(&number) || self.has_lock_at(number) {
            true => Err(HostRejected::QpInUse(number)),
            false => Ok(()),
        }
    }

    /// Installs what the group falls back to, and its locks. `before` queue pairs are the tree's.
    pub(super) fn contend(
        &mut self,
        group: GroupId,
        before: u16,
        with: HostContention<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), HostRejected> {
        let HostContention { fallback, edge, again, patience, rank, ranks } = with;
        let hosts = fallback.group;
        if let Err(rejected) = self.install(fallback, out) {
            self.remove(group, out).expect("it has just been installed");
            return Err(rejected);
        }
        let installed = self.groups.get_mut(&hosts).expect("it has just been installed");
        installed.known_as = (group, before);
        let contended = Contended {
            fallback: hosts,
            edge,
            again,
            pause: patience / u64::from(Contention::TRIES),
            rank,
            ranks,
            locks: LockRank::new(if patience == Duration::ZERO { 0 } else { Contention::TRIES }, None),
            waiting: VecDeque::new(),
            running: None,
            ways: Ways::default(),
        };
        self.contended.insert(group, contended);
        Ok(())
    }

    /// The group is removed: what it falls back to goes with it, and what waits is given back.
    pub(super) fn part(&mut self, group: GroupId, contended: Contended<P>, out: &mut impl Sink<Self>) {
        out.cancel_timer(HostTimer { group, whose: TimerOwner::Locks });
        let _ = self.remove(contended.fallback, out);
        flush(group, contended.waiting, out);
    }

    /// A collective is asked for.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        id: GroupId,
        what: Kind,
        buffers: (P, P),
        out: &mut impl Sink<Self>,
    ) -> Result<(), HostRejected> {
        let contended = self.contended.get_mut(&id).expect("the caller has looked it up");
        let [tree, hosts] = [id, contended.fallback].map(|way| &self.groups[&way]);
        if tree.has_failed || hosts.has_failed {
            return Err(RequestError::GroupFailed.into());
        }
        let under_way = contended.waiting.len() + usize::from(contended.running.is_some());
        if under_way >= tree.program.depth() {
            return Err(RequestError::Busy.into());
        }
        // What makes no sense is refused now: later there is nobody to tell.
        let buffers = contended.check(what, buffers)?;
        contended.waiting.push_back(Waiting { what, buffers });
        self.go_on(now, id, out);
        Ok(())
    }

    /// A frame for no queue pair here: for the end of an edge.
    pub(super) fn hear_of_locks(
        &mut self,
        now: Instant,
        port: PortId,
        header: &RoceHeader,
        out: &mut impl Sink<Self>,
    ) {
        let is_its = |contended: &Contended<P>| contended.edge.local.qp == header.destination_qp;
        let Some((&id, contended)) = self.contended.iter_mut().find(|(_, contended)| is_its(contended))
        else {
            return out.drop_frame(port, NodeDrop::ForeignQueuePair);
        };
        let mut steps = Vec::new();
        match contended.edge.hear(id, port, header) {
            Ok((word, number)) if contended.locks.hear(word, number, &mut steps) => {
                self.perform(now, id, steps, out);
                self.go_on(now, id, out);
            }
            Ok(_) => out.drop_frame(port, NodeDrop::NoNews),
            Err(reason) => out.drop_frame(port, reason),
        }
    }

    /// Nobody has answered for a while, or a pause is over.
    pub(super) fn repeat(&mut self, now: Instant, id: GroupId, out: &mut impl Sink<Self>) {
        let Some(contended) = self.contended.get_mut(&id) else { return };
        let mut steps = Vec::new();
        contended.locks.again(&mut steps);
        self.perform(now, id, steps, out);
    }

    /// After a step of a group, or of the one that it falls back to: whether its collective has ended, and what comes next.
    pub(super) fn go_on(&mut self, now: Instant, id: GroupId, out: &mut impl Sink<Self>) {
        if self.contended.is_empty() {
            return;
        }
        let Some((owner, _)) = self.groups.get(&id).map(|group| group.known_as) else { return };
        loop {
            let Some(contended) = self.contended.get_mut(&owner) else { return };
            if [owner, contended.fallback].iter().any(|way| self.groups[way].has_failed) {
                out.cancel_timer(HostTimer { group: owner, whose: TimerOwner::Locks });
                return flush(owner, core::mem::take(&mut contended.waiting), out);
            }
            let mut steps = Vec::new();
            match contended.running {
                Some(way) if !self.groups[&way].running.is_empty() => return,
                Some(_) => {
                    contended.running = None;
                    contended.locks.end(&mut steps);
                }
                None if !contended.waiting.is_empty() && contended.locks.may_ask() => {
                    contended.locks.ask(&mut steps);
                }
                None => return,
            }
            self.perform(now, owner, steps, out);
        }
    }

    fn perform(&mut self, now: Instant, id: GroupId, steps: Vec<LockStep>, out: &mut impl Sink<Self>) {
        for step in steps {
            let Some(contended) = self.contended.get_mut(&id) else { return };
            let timer = HostTimer { group: id, whose: TimerOwner::Locks };
            match step {
                LockStep::Say(word, number) => contended.edge.say(id, (word, number), out),
                LockStep::SetTimer => out.set_timer(timer, contended.again),
                LockStep::Pause => out.set_timer(timer, contended.pause),
                LockStep::CancelTimer => out.cancel_timer(timer),
                LockStep::Run { granted } => {
                    let Waiting { what, buffers } =
                        contended.waiting.pop_front().expect("what is asked for waits");
                    let (way, count) = match granted {
                        true => (id, &mut contended.ways.tree),
                        false => (contended.fallback, &mut contended.ways.hosts),
                    };
                    *count += 1;
                    contended.running = Some(way);
                    let [input, output] = [P::zeroed(0), P::zeroed(0)];
                    if self.begin(now, way, what, buffers, out).is_err() {
                        // The designs differ in what they offer: this one does not, at any rank.
                        let failure = Failure::InvalidRequest;
                        let outcome = Outcome::Failed { qp: QpIndex(0), failure };
                        out.emit(HostEvent::Finished { group: id, outcome, input, output });
                    }
                }
            }
        }
    }
}

impl<P: Payload> Contended<P> {
    /// Refuses what no program would take; the buffers back.
    fn check(
        &self,
        (collective, reduction, terms): Kind,
        (input, output): (P, P),
    ) -> Result<(P, P), RequestError> {
        let mut memory = Memory::default();
        let [input, output] = [input, output].map(|buffer| {
            let length = buffer.length();
            Slice { region: memory.register(buffer), offset: 0, length }
        });
        let request = CollectiveRequest { collective, reduction, input, output, terms };
        request.check(self.rank, self.ranks, &memory)?;
        let [input, output] = [input, output].map(|slice| memory.release(slice.region));
        Ok((input.expect("it has just been registered"), output.expect("so has this")))
    }
}

/// Gives back the buffers of what will not run.
fn flush<P: Payload>(group: GroupId, waiting: VecDeque<Waiting<P>>, out: &mut impl Sink<Host<P>>) {
    for Waiting { buffers: (input, output), .. } in waiting {
        let outcome = Outcome::Failed { qp: QpIndex(0), failure: Failure::Flushed };
        out.emit(HostEvent::Finished { group, outcome, input, output });
    }
}
