//! A rank's node: for each group its queue pairs and the collective program above them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use quincunx_collective::{Collective, GroupId, Payload, Rank, Reduction, Routes};
use quincunx_engine::verbs::{
    Alarm, AnyProgram, CollectiveRequest, Completion, Failure, Outcome, QpIndex, RegionId, RequestError,
    Slice, WorkId,
};
use quincunx_engine::writes::{Notice, OneSided, Target, WriteError};
use quincunx_engine::{Engine, Frame, PortId, Sink, Terms};
use quincunx_roce::{ConfigError, QueuePairTimer};
use quincunx_units::Instant;
use quincunx_wire::{QpNumber, RoceHeader};

use crate::transport::{GroupSink, NodeDrop, QueuePairNode, Transport, TransportVerbs};

mod contended;
mod contention;
mod group;
mod offloaded;

use contention::{Contended, Kind};

pub use contention::Ways;
pub use group::{HostContention, HostGroup};

/// What the application, or the control plane for it, asks of a host.
#[derive(Clone, Debug)]
pub enum HostCommand<P: Payload> {
    /// Joins a group.
    Install(Box<HostGroup<P>>),
    /// Leaves a group. A collective that runs ends with [`Failure::Flushed`].
    Remove(GroupId),
    /// Says whom the tokens of the rank's next batch are for, before the Dispatch that takes them there is started.
    Route {
        /// The group.
        group: GroupId,
        /// By token.
        routes: Routes,
    },
    /// Starts a collective; its buffers come back with [`HostEvent::Finished`].
    Start {
        /// The group.
        group: GroupId,
        /// Which collective.
        collective: Collective,
        /// How elements combine.
        reduction: Reduction,
        /// This rank's data; lengths as [`CollectiveRequest`] says.
        input: P,
        /// Where the result goes.
        output: P,
        /// What of the application's call ranks must agree on beside these.
        terms: Terms,
    },
    /// Writes to other ranks: to one, or to several at once (MultiWrite 4.3.2). The end is [`HostEvent::Written`].
    Write {
        /// The group.
        group: GroupId,
        /// Comes back with the end.
        id: WorkId,
        /// Whom to, and where there.
        targets: Vec<Target>,
        /// Which of several ways to them: 0 is the direct one, others lead over relays.
        way: usize,
        /// What.
        data: P,
    },
    /// A work request of an offloaded queue pair has ended. What has been received is in the group's [memory](crate::Offloadable::memory).
    Complete {
        /// The group.
        group: GroupId,
        /// Which of its queue pairs.
        queue_pair: QpIndex,
        /// How.
        completion: Completion,
    },
}

/// What a host tells the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostEvent<P> {
    /// A collective has ended.
    Finished {
        /// The group.
        group: GroupId,
        /// How.
        outcome: Outcome,
        /// The input as it was given.
        input: P,
        /// The result, whole only if the outcome is [`Outcome::Done`].
        output: P,
    },
    /// Every destination has what was written.
    Written {
        /// The group.
        group: GroupId,
        /// The write.
        id: WorkId,
    },
    /// Another rank has written something here.
    Delivered {
        /// The group.
        group: GroupId,
        /// Who.
        source: Rank,
        /// In which of its slots.
        slot: usize,
        /// What.
        data: P,
    },
    /// The group is over, though no collective runs: no write that has not ended will.
    Failed {
        /// The group.
        group: GroupId,
        /// The queue pair that failed.
        qp: QpIndex,
        /// How.
        failure: Failure,
    },
}

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostRejected {
    /// A queue pair's set-up makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The group is installed already.
    #[error("expected a new group, found group {0:?} installed; remove it first")]
    GroupExists(GroupId),
    /// The group is not installed.
    #[error("expected an installed group, found no group {0:?}; install it first")]
    NoSuchGroup(GroupId),
    /// A queue pair number is taken.
    #[error("expected free queue pair numbers, found {0:?} in use; give each queue pair its own")]
    QpInUse(QpNumber),
    /// The collective is refused.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The write is refused.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A host's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostTimer {
    group: GroupId,
    whose: TimerOwner,
}

impl HostTimer {
    /// The same timer of another queue pair; nothing changes if it is the program's.
    #[must_use]
    pub fn renamed(self, rename: impl FnOnce(QpIndex) -> QpIndex) -> Self {
        let whose = match self.whose {
            TimerOwner::QueuePair(queue_pair, timer) => TimerOwner::QueuePair(rename(queue_pair), timer),
            other @ (TimerOwner::Program(_) | TimerOwner::Locks) => other,
        };
        Self { whose, ..self }
    }

    /// Of which group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// Which queue pair's it is, if it is none of the program's.
    pub fn queue_pair(&self) -> Option<(QpIndex, QueuePairTimer)> {
        match self.whose {
            TimerOwner::QueuePair(queue_pair, timer) => Some((queue_pair, timer)),
            TimerOwner::Program(_) | TimerOwner::Locks => None,
        }
    }
}

/// Whose timer it is within a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum TimerOwner {
    QueuePair(QpIndex, QueuePairTimer),
    Program(Alarm),
    Locks,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct InstalledGroup<P: Payload> {
    transport: Transport<P>,
    program: Box<dyn AnyProgram<P>>,
    /// The buffers of collectives under way, oldest first.
    running: VecDeque<[RegionId; 2]>,
    /// What the owner calls it, and how many queue pairs of that group are before its own: it may be what another group falls back to.
    known_as: (GroupId, u16),
    has_failed: bool,
}

/// A rank's node.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Host<P: Payload> {
    groups: BTreeMap<GroupId, InstalledGroup<P>>,
    lookup: BTreeMap<QpNumber, (GroupId, QpIndex)>,
    /// Groups whose switches' memory is locked for each collective.
    contended: BTreeMap<GroupId, Contended<P>>,
}

impl<P: Payload> QueuePairNode for Host<P> {
    fn queue_pair_timer(group: GroupId, queue_pair: QpIndex, timer: QueuePairTimer) -> HostTimer {
        HostTimer { group, whose: TimerOwner::QueuePair(queue_pair, timer) }
    }

    fn alarm_timer(group: GroupId, alarm: Alarm) -> HostTimer {
        HostTimer { group, whose: TimerOwner::Program(alarm) }
    }
}

impl<P: Payload> Host<P> {
    /// How many collectives may be under way at once in a group that it is in.
    pub fn depth(&self, group: GroupId) -> Option<usize> {
        self.groups.get(&group).map(|group| group.program.depth())
    }

    fn install(&mut self, install: HostGroup<P>, out: &mut impl Sink<Self>) -> Result<(), HostRejected> {
        let HostGroup { group, queue_pairs, are_offloaded, mut program, contention } = install;
        if self.groups.contains_key(&group) {
            return Err(HostRejected::GroupExists(group));
        }
        if let Some(contention) = &contention {
            self.check_contention(group, contention)?;
        }
        for (index, (_, config)) in queue_pairs.iter().enumerate() {
            let number = config.local.qp;
            let twice = queue_pairs[..index].iter().any(|(_, other)| other.local.qp == number);
            if twice || self.lookup.contains_key(&number) || self.has_lock_at(number) {
                return Err(HostRejected::QpInUse(number));
            }
        }
        let mut transport = Transport::new(queue_pairs, are_offloaded)?;
        for (index, config) in transport.configs().enumerate() {
            self.lookup.insert(config.local.qp, (group, QpIndex(index as u16)));
        }
        let mut sink = GroupSink::new(group, out);
        program.initialise(&mut TransportVerbs { transport: &mut transport, sink: &mut sink });
        let before = queue_pairs_of(&transport);
        let running = VecDeque::new();
        let installed =
            InstalledGroup { transport, program, running, known_as: (group, 0), has_failed: false };
        self.groups.insert(group, installed);
        match contention {
            Some(contention) => self.contend(group, before, *contention, out),
            None => Ok(()),
        }
    }

    fn remove(&mut self, id: GroupId, out: &mut impl Sink<Self>) -> Result<(), HostRejected> {
        if let Some(contended) = self.contended.remove(&id) {
            self.part(id, contended, out);
        }
        let mut group = self.groups.remove(&id).ok_or(HostRejected::NoSuchGroup(id))?;
        self.lookup.retain(|_, (owner, _)| *owner != id);
        let mut sink = GroupSink::new(id, out);
        let outcome = Outcome::Failed { qp: QpIndex(0), failure: Failure::Flushed };
        while finish(&mut group, outcome, &mut sink) {}
        group.transport.shut_down(&mut sink);
        Ok(())
    }

    fn start(
        &mut self,
        now: Instant,
        id: GroupId,
        what: Kind,
        buffers: (P, P),
        out: &mut impl Sink<Self>,
    ) -> Result<(), HostRejected> {
        if self.contended.contains_key(&id) {
            return self.ask(now, id, what, buffers, out);
        }
        self.begin(now, id, what, buffers, out)
    }

    /// Begins a collective at once.
    fn begin(
        &mut self,
        now: Instant,
        id: GroupId,
        (collective, reduction, terms): Kind,
        (input, output): (P, P),
        out: &mut impl Sink<Self>,
    ) -> Result<(), HostRejected> {
        let group = self.groups.get_mut(&id).ok_or(HostRejected::NoSuchGroup(id))?;
        if group.running.len() >= group.program.depth() {
            return Err(RequestError::Busy.into());
        }
        let memory = &mut group.transport.memory;
        let [input, output] = [input, output].map(|buffer| {
            let length = buffer.length();
            Slice { region: memory.register(buffer), offset: 0, length }
        });
        let request = CollectiveRequest { collective, reduction, input, output, terms };
        let mut sink = GroupSink::new(id, out);
        let mut verbs = TransportVerbs { transport: &mut group.transport, sink: &mut sink };
        match group.program.start(now, request, &mut verbs) {
            Ok(outcome) => {
                group.running.push_back([input.region, output.region]);
                self.settle(now, id, outcome, &mut sink);
                Ok(())
            }
            Err(error) => {
                for slice in [input, output] {
                    group.transport.memory.release(slice.region);
                }
                Err(error.into())
            }
        }
    }

    fn write(
        &mut self,
        now: Instant,
        group_id: GroupId,
        id: WorkId,
        to: (&[Target], usize),
        data: &P,
        out: &mut impl Sink<Self>,
    ) -> Result<(), HostRejected> {
        let group = self.groups.get_mut(&group_id).ok_or(HostRejected::NoSuchGroup(group_id))?;
        let mut sink = GroupSink::new(group_id, out);
        let mut verbs = TransportVerbs { transport: &mut group.transport, sink: &mut sink };
        let writes = group.program.as_one_sided().ok_or(WriteError::NotOffered)?;
        writes.write(id, to, data.view(0..data.length()), &mut verbs)?;
        self.settle(now, group_id, None, &mut sink);
        Ok(())
    }

    /// Lets the program see what has completed, and ends the collectives that have ended with it.
    fn settle<S: Sink<Self>>(
        &mut self,
        now: Instant,
        id: GroupId,
        mut outcome: Option<Outcome>,
        sink: &mut GroupSink<'_, Self, S>,
    ) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        loop {
            match outcome.take() {
                Some(ended @ Outcome::Failed { qp, failure }) => {
                    if group.running.is_empty() {
                        let (known_as, before) = group.known_as;
                        let qp = QpIndex(qp.0 + before);
                        sink.out.emit(HostEvent::Failed { group: known_as, qp, failure });
                    }
                    group.has_failed = true;
                    // Other queue pairs may still have work on the buffers: none of them lives on.
                    group.transport.shut_down(sink);
                    self.lookup.retain(|_, (owner, _)| *owner != id);
                    while finish(group, ended, sink) {}
                    return;
                }
                Some(ended) => {
                    finish(group, ended, sink);
                    outcome = group.program.next_outcome();
                }
                None => {
                    let Some((qp, completion)) = group.transport.next_completion() else { return };
                    let mut verbs = TransportVerbs { transport: &mut group.transport, sink: &mut *sink };
                    outcome = group.program.handle_completion(now, qp, completion, &mut verbs);
                    tell(group, sink);
                }
            }
        }
    }
}

/// Passes on what the program has to say of writes. Data leaves the window at once: its slot is the writer's again.
fn tell<P: Payload, S: Sink<Host<P>>>(group: &mut InstalledGroup<P>, sink: &mut GroupSink<'_, Host<P>, S>) {
    while let Some(notice) = group.program.as_one_sided().and_then(OneSided::next_notice) {
        sink.out.emit(match notice {
            Notice::Written { id } => HostEvent::Written { group: group.known_as.0, id },
            Notice::Delivered { source, slot, data } => {
                let data = P::from_view(group.transport.memory.view(data));
                HostEvent::Delivered { group: group.known_as.0, source, slot, data }
            }
        });
    }
}

/// Gives the buffers of a group's oldest collective back, if it runs one; whether it does.
fn finish<P: Payload, S: Sink<Host<P>>>(
    group: &mut InstalledGroup<P>,
    mut outcome: Outcome,
    sink: &mut GroupSink<'_, Host<P>, S>,
) -> bool {
    let Some([input, output]) = group.running.pop_front() else { return false };
    let mut release =
        |region| group.transport.memory.release(region).expect("a running collective has its buffers");
    let (input, output) = (release(input), release(output));
    let (known_as, before) = group.known_as;
    if let Outcome::Failed { qp, .. } = &mut outcome {
        qp.0 += before;
    }
    sink.out.emit(HostEvent::Finished { group: known_as, outcome, input, output });
    true
}

fn queue_pairs_of<P: Payload>(transport: &Transport<P>) -> u16 {
    transport.configs().count() as u16
}

impl<P: Payload> Engine for Host<P> {
    type Config = ();
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = P;
    type Timer = HostTimer;
    type Command = HostCommand<P>;
    type Rejected = HostRejected;
    type Event = HostEvent<P>;
    type DropReason = NodeDrop;

    fn new((): ()) -> Result<Self, Self::ConfigError> {
        Ok(Self { groups: BTreeMap::new(), lookup: BTreeMap::new(), contended: BTreeMap::new() })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        let Some(&(id, index)) = self.lookup.get(&frame.header.destination_qp) else {
            return self.hear_of_locks(now, port, frame.header, out);
        };
        let group = self.groups.get_mut(&id).expect("the lookup table names installed groups");
        let mut sink = GroupSink::new(id, out);
        group.transport.handle_frame(now, (port, index), frame, &mut sink);
        self.settle(now, id, None, &mut sink);
        self.go_on(now, id, out);
    }

    fn handle_timer(&mut self, now: Instant, timer: HostTimer, out: &mut impl Sink<Self>) {
        if timer.whose == TimerOwner::Locks {
            return self.repeat(now, timer.group, out);
        }
        let Some(group) = self.groups.get_mut(&timer.group) else { return };
        let mut sink = GroupSink::new(timer.group, out);
        let outcome = match timer.whose {
            TimerOwner::QueuePair(queue_pair, timer) => {
                group.transport.handle_timer(now, queue_pair, timer, &mut sink);
                None
            }
            TimerOwner::Program(alarm) => {
                let mut verbs = TransportVerbs { transport: &mut group.transport, sink: &mut sink };
                group.program.handle_alarm(now, alarm, &mut verbs)
            }
            TimerOwner::Locks => None,
        };
        self.settle(now, timer.group, outcome, &mut sink);
        self.go_on(now, timer.group, out);
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: HostCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), HostRejected> {
        match command {
            HostCommand::Install(group) => self.install(*group, out),
            HostCommand::Remove(group) => self.remove(group, out),
            HostCommand::Route { group, routes } => {
                let group = self.groups.get_mut(&group).ok_or(HostRejected::NoSuchGroup(group))?;
                let dispatches = group.program.as_routed();
                let dispatches =
                    dispatches.ok_or(RequestError::NotOffered { found: Collective::Dispatch })?;
                Ok(dispatches.route(&routes)?)
            }
            HostCommand::Start { group, collective, reduction, input, output, terms } => {
                self.start(now, group, (collective, reduction, terms), (input, output), out)
            }
            HostCommand::Write { group, id, targets, way, data } => {
                self.write(now, group, id, (&targets, way), &data, out)
            }
            HostCommand::Complete { group: id, queue_pair, completion } => {
                let group = self.groups.get_mut(&id).ok_or(HostRejected::NoSuchGroup(id))?;
                group.transport.complete(queue_pair, completion);
                self.settle(now, id, None, &mut GroupSink::new(id, out));
                Ok(())
            }
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        self.groups.values().any(|group| group.transport.wants_transmit(port))
    }

    fn may_want_transmit(&self) -> bool {
        self.groups.values().any(|group| group.transport.may_want_transmit())
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        for (&id, group) in &mut self.groups {
            if group.transport.wants_transmit(port) {
                return group.transport.handle_transmit_slot(now, port, &mut GroupSink::new(id, out));
            }
        }
    }

    fn assert_invariants(&self) {
        for group in self.groups.values() {
            group.transport.assert_invariants();
            group.program.assert_invariants();
        }
    }
}
