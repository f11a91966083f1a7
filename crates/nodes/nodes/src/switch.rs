//! A switch: it forwards what is for others, and takes part in groups. A group's frames pass through a [`Datapath`], or end at queue
//! pairs with a program above them.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::{GroupId, Payload};
use quincunx_design::{
    AnyDatapath, Copies, DatapathSink, DatapathTimer, GroupMemory, MEMORY_TAKEN, SwitchPart, Writers,
};
use quincunx_engine::verbs::{Alarm, AnyProgram, Outcome, QpIndex};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_roce::{QueuePairConfig, QueuePairTimer};
use quincunx_units::{ByteCount, Duration, Instant};
use quincunx_wire::{Endpoint, QpNumber, RoceHeader};

use crate::forwarding::{Forwarding, Way};
use crate::locks::{LockEdge, LockEdges, LockMutation, LockSwitch, Recorder};
use crate::mutation::Mutation;
use crate::transport::{GroupSink, NodeDrop, QueuePairNode, Transport, TransportVerbs};

mod command;
mod offloaded;

pub use command::{MemoryPart, SwitchCommand, SwitchEvent, SwitchGroup, SwitchLocks, SwitchRejected};

/// A switch's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SwitchTimer {
    /// Of a group's datapath.
    Datapath(GroupId, DatapathTimer),
    /// Of a queue pair that ends here.
    QueuePair(GroupId, QpIndex, QueuePairTimer),
    /// Of a group's program.
    Program(GroupId, Alarm),
}

/// Where an edge leads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Edge {
    port: PortId,
    local: Endpoint,
    remote: Endpoint,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Part<P: Payload> {
    Terminated(Transport<P>, Box<dyn AnyProgram<P>>),
    Passing(Box<dyn AnyDatapath<P>>),
}

/// What groups have parts of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SwitchMemory<P> {
    /// As far as some group's part has ever reached.
    all: P,
    /// Of parts that groups have by turns without a lock.
    writers: Writers,
    /// Broken rule.
    is_shared_by_all: bool,
}

impl<P: Payload> SwitchMemory<P> {
    /// Moves what is in a block.
    fn move_block(&mut self, from: Range<usize>, to: Range<usize>) {
        self.all.lengthen(from.end.max(to.end));
        self.all.copy_within(to.start, from.clone());
        self.writers.move_block(from, to.start);
    }
}

/// A group's part of the memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct GroupPart {
    memory: MemoryPart,
    /// Others have some of it, too, and it is not locked.
    by_turns: bool,
}

impl GroupPart {
    fn of<'a, P: Payload>(
        self,
        group: GroupId,
        SwitchMemory { all, writers, is_shared_by_all }: &'a mut SwitchMemory<P>,
    ) -> GroupMemory<'a, P> {
        let bytes = self.memory.bytes();
        if *is_shared_by_all {
            return GroupMemory::new(all, 0..bytes.len());
        }
        let memory = GroupMemory::new(all, bytes);
        if self.by_turns { memory.by_turns(group, writers) } else { memory }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct InstalledGroup<P: Payload> {
    edges: Vec<Edge>,
    part: Part<P>,
    memory: GroupPart,
    locks: Option<(Vec<LockEdge>, LockSwitch)>,
    tells_beginnings: bool,
}

/// A switch with collectives in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Switch<P: Payload> {
    groups: BTreeMap<GroupId, InstalledGroup<P>>,
    memory: SwitchMemory<P>,
    lookup: BTreeMap<QpNumber, (GroupId, u16)>,
    /// By destination, of frames for others that a group takes on their way.
    transparent_edges: BTreeMap<Endpoint, (GroupId, u16)>,
    /// The same of what comes back, by the senders on those ways.
    replies: BTreeMap<Endpoint, (GroupId, u16)>,
    /// Of edges that words about locks travel over.
    lock_edges: BTreeMap<QpNumber, (GroupId, u16)>,
    /// Who has locked what of its memory.
    recorder: Recorder,
    forwarding: Forwarding,
    /// A rule that it breaks, in the checker alone.
    mutation: Option<Mutation>,
}

impl<P: Payload> QueuePairNode for Switch<P> {
    fn queue_pair_timer(group: GroupId, index: QpIndex, timer: QueuePairTimer) -> SwitchTimer {
        SwitchTimer::QueuePair(group, index, timer)
    }

    fn alarm_timer(group: GroupId, alarm: Alarm) -> SwitchTimer {
        SwitchTimer::Program(group, alarm)
    }
}

/// The switch's sink, as one group's datapath sees it.
struct EdgeSink<'a, P, S> {
    group: GroupId,
    edges: &'a [Edge],
    memory: GroupMemory<'a, P>,
    /// What time it is, if somebody wants to hear of beginnings.
    begun_at: Option<Instant>,
    out: &'a mut S,
}

impl<P: Payload, S: Sink<Switch<P>>> DatapathSink<P> for EdgeSink<'_, P, S> {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, P>) {
        self.out.transmit(self.edges[usize::from(edge)].port, frame);
    }

    fn replicate(&mut self, payload: P::View<'_>, copies: Copies<'_>) {
        let edges = self.edges;
        self.out.replicate(payload, |send| {
            copies(&mut |edge, header| send(edges[usize::from(edge)].port, header));
        });
    }

    fn memory(&mut self) -> GroupMemory<'_, P> {
        self.memory.reborrow()
    }

    fn transmit_stored(&mut self, edge: u16, header: &RoceHeader, place: Range<usize>) -> bool {
        let stored = self.memory.stored(place);
        let is_there = stored.is_some();
        match stored {
            Some(payload) => {
                self.out.transmit(self.edges[usize::from(edge)].port, Frame { header, payload });
            }
            None => self.drop_frame(edge, MEMORY_TAKEN),
        }
        is_there
    }

    fn replicate_stored(&mut self, place: Range<usize>, copies: Copies<'_>) -> bool {
        let edges = self.edges;
        let stored = self.memory.stored(place);
        let is_there = stored.is_some();
        match stored {
            Some(payload) => self.out.replicate(payload, |send| {
                copies(&mut |edge, header| send(edges[usize::from(edge)].port, header));
            }),
            None => copies(&mut |edge, _| self.drop_frame(edge, MEMORY_TAKEN)),
        }
        is_there
    }

    fn set_timer(&mut self, timer: DatapathTimer, after: Duration) {
        self.out.set_timer(SwitchTimer::Datapath(self.group, timer), after);
    }

    fn cancel_timer(&mut self, timer: DatapathTimer) {
        self.out.cancel_timer(SwitchTimer::Datapath(self.group, timer));
    }

    fn unreachable(&mut self, edge: u16) {
        self.out.emit(SwitchEvent::Unreachable { group: self.group, edge });
    }

    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        self.out.drop_frame(self.edges[usize::from(edge)].port, NodeDrop::Datapath(reason));
    }

    fn begun(&mut self, edge: u16, number: u64) {
        if let Some(at) = self.begun_at {
            self.out.emit(SwitchEvent::Begun { group: self.group, edge, number, at });
        }
    }
}

impl<P: Payload> Switch<P> {
    /// The same with a broken rule, for the checker alone.
    #[must_use]
    pub fn breaking(self, mutation: Mutation) -> Self {
        let recorder = match mutation {
            Mutation::IgnoresLocks => Recorder::for_checker(Some(LockMutation::GrantsTwice)),
            _ => self.recorder,
        };
        let is_shared_by_all = mutation == Mutation::IgnoresLocks;
        let memory = SwitchMemory { is_shared_by_all, ..self.memory };
        Self { mutation: Some(mutation), recorder, memory, ..self }
    }

    /// The group and the edge that a frame is for.
    fn find(&self, port: PortId, number: QpNumber) -> Option<(GroupId, u16)> {
        let found = self.lookup.get(&number).copied();
        if self.mutation == Some(Mutation::FindsGroupsByPort) {
            let edge = |group: &InstalledGroup<P>| group.edges.iter().position(|edge| edge.port == port);
            let first = self.groups.iter().find_map(|(&id, group)| Some((id, edge(group)? as u16)));
            return found.and(first);
        }
        found
    }

    /// Bytes of payload and degree buffers in use (EPIC F.3).
    pub fn buffer_bytes(&self) -> usize {
        let of = |group: &InstalledGroup<P>| match &group.part {
            Part::Terminated(_, program) => program.buffer_bytes(),
            Part::Passing(datapath) => datapath.buffer_bytes(),
        };
        self.groups.values().map(of).sum()
    }

    /// Who has locked what of its memory, and how often groups were granted and refused it.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Takes a word about locks, which is for an edge of a group.
    fn hear_of_locks(
        &mut self,
        now: Instant,
        port: PortId,
        (id, index): (GroupId, u16),
        header: &RoceHeader,
        out: &mut impl Sink<Self>,
    ) {
        let group = self.groups.get_mut(&id).and_then(|group| group.locks.as_mut());
        let (edges, locks) = group.expect("the lookup table names installed groups");
        let mut said = Vec::new();
        self.recorder.advance(now);
        match edges[usize::from(index)].hear(id, port, header) {
            Ok((word, number)) => {
                if !locks.hear(index, word, number, &mut self.recorder, &mut said) {
                    out.drop_frame(port, NodeDrop::NoNews);
                }
            }
            Err(reason) => out.drop_frame(port, reason),
        }
        for (edge, word, number) in said {
            edges[usize::from(edge)].say(id, (word, number), out);
        }
    }

    fn install(
        &mut self,
        install: SwitchGroup<P>,
        now: Instant,
        out: &mut impl Sink<Self>,
    ) -> Result<(), SwitchRejected> {
        let SwitchGroup { group: id, edges: configs, are_offloaded, part, memory, locks, tells_beginnings } =
            install;
        if self.groups.contains_key(&id) {
            return Err(SwitchRejected::GroupExists(id));
        }
        if are_offloaded && !matches!(part, SwitchPart::Program(_)) {
            return Err(SwitchRejected::PassesThrough(id));
        }
        let is_transparent = matches!(part, SwitchPart::Passing(_));
        for (index, (_, config)) in configs.iter().enumerate() {
            let local = config.local;
            let is_same =
                |other: Endpoint| if is_transparent { other == local } else { other.qp == local.qp };
            let twice = configs[..index].iter().any(|(_, other)| is_same(other.local));
            let taken = if is_transparent {
                self.transparent_edges.contains_key(&local)
            } else {
                self.lookup.contains_key(&local.qp)
            };
            if twice || taken {
                return Err(SwitchRejected::QpInUse(local.qp));
            }
        }
        for (index, edge) in locks.iter().flat_map(|locks| &locks.edges).enumerate() {
            let number = edge.local.qp;
            let twice =
                locks.iter().flat_map(|locks| &locks.edges[..index]).any(|other| other.local.qp == number);
            if twice || self.lookup.contains_key(&number) || self.lock_edges.contains_key(&number) {
                return Err(SwitchRejected::QpInUse(number));
            }
        }
        if let SwitchPart::Datapath(datapath) | SwitchPart::Passing(datapath) = &part {
            let needed = ByteCount::new(datapath.buffer_bytes() as u64);
            if needed > memory.length {
                return Err(SwitchRejected::TooLittleMemory { needed, given: memory.length });
            }
        }
        let edge = |&(port, config): &(PortId, QueuePairConfig)| Edge {
            port,
            local: config.local,
            remote: config.remote,
        };
        let edges: Vec<Edge> = configs.iter().map(edge).collect();
        let part = match part {
            SwitchPart::Program(mut program) => {
                let mut transport = Transport::new(configs, are_offloaded)?;
                let mut sink = GroupSink::new(id, out);
                program.initialise(&mut TransportVerbs { transport: &mut transport, sink: &mut sink });
                Part::Terminated(transport, program)
            }
            SwitchPart::Datapath(datapath) | SwitchPart::Passing(datapath) => Part::Passing(datapath),
            SwitchPart::Unit(_) => return Err(SwitchRejected::OfMemoryFabric(id)),
        };
        for (edge, index) in edges.iter().zip(0..) {
            if is_transparent {
                self.transparent_edges.insert(edge.local, (id, index));
                self.replies.insert(edge.remote, (id, index));
            } else {
                self.lookup.insert(edge.local.qp, (id, index));
            }
        }
        self.memory.all.lengthen(memory.bytes().end);
        let mut memory = GroupPart { memory, by_turns: false };
        for (&other, group) in &mut self.groups {
            if locks.is_none() && group.memory.memory.overlaps(memory.memory) {
                memory.by_turns = true;
                // What it has stored until now is there.
                if !core::mem::replace(&mut group.memory.by_turns, true) {
                    self.memory.writers.write(group.memory.memory.bytes(), other);
                }
            }
        }
        let locks = locks.map(|SwitchLocks { edges, has_parent }| {
            for (edge, index) in edges.iter().zip(0..) {
                self.lock_edges.insert(edge.local.qp, (id, index));
            }
            let children = edges.len() as u16 - u16::from(has_parent);
            let parent = has_parent.then_some(children);
            (
                edges,
                LockSwitch::new(id, LockEdges { parent, children: (0..children).collect() }, memory.memory),
            )
        });
        self.groups.insert(id, InstalledGroup { edges, part, memory, locks, tells_beginnings });
        self.settle(now, id, None, &mut GroupSink::new(id, out));
        Ok(())
    }

    fn move_memory(&mut self, from: MemoryPart, to: ByteCount) -> Result<(), SwitchRejected> {
        let target = MemoryPart { offset: to, ..from };
        let in_the_way = |(_, group): &(&GroupId, &InstalledGroup<P>)| {
            let part = group.memory.memory;
            part.overlaps(target) && !part.is_in(from)
        };
        if let Some((&owner, _)) = self.groups.iter().find(in_the_way) {
            return Err(SwitchRejected::MemoryInUse { to, owner });
        }
        self.memory.move_block(from.bytes(), target.bytes());
        for (&id, group) in &mut self.groups {
            let part = &mut group.memory.memory;
            if part.is_in(from) {
                part.offset = to + (part.offset - from.offset);
                if let Some((_, locks)) = &mut group.locks {
                    locks.move_to(part.offset);
                    self.recorder.move_to(id, part.offset);
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, id: GroupId, out: &mut impl Sink<Self>) -> Result<(), SwitchRejected> {
        if self.mutation == Some(Mutation::StaysWhenRemoved) {
            return Ok(());
        }
        let group = self.groups.remove(&id).ok_or(SwitchRejected::NoSuchGroup(id))?;
        self.lookup.retain(|_, (owner, _)| *owner != id);
        self.lock_edges.retain(|_, (owner, _)| *owner != id);
        self.recorder.forget(id);
        self.memory.writers.remove(id);
        self.transparent_edges.retain(|_, (owner, _)| *owner != id);
        self.replies.retain(|_, (owner, _)| *owner != id);
        match group.part {
            Part::Terminated(mut transport, _) => transport.shut_down(&mut GroupSink::new(id, out)),
            Part::Passing(datapath) => {
                for timer in datapath.timers() {
                    out.cancel_timer(SwitchTimer::Datapath(id, timer));
                }
            }
        }
        Ok(())
    }

    /// Lets a program see what has completed. Its failure, or what it has been told of one, is the group's.
    fn settle<S: Sink<Self>>(
        &mut self,
        now: Instant,
        id: GroupId,
        mut outcome: Option<Outcome>,
        sink: &mut GroupSink<'_, Self, S>,
    ) {
        let Some(InstalledGroup { part: Part::Terminated(transport, program), .. }) =
            self.groups.get_mut(&id)
        else {
            return;
        };
        loop {
            if let Some(Outcome::Failed { qp, .. }) = outcome {
                transport.shut_down(sink);
                sink.out.emit(SwitchEvent::Unreachable { group: id, edge: qp.0 });
            }
            let Some((qp, completion)) = transport.next_completion() else { return };
            let mut verbs = TransportVerbs { transport: &mut *transport, sink: &mut *sink };
            outcome = program.handle_completion(now, qp, completion, &mut verbs);
        }
    }
}

impl<P: Payload> Engine for Switch<P> {
    type Config = ();
    type ConfigError = core::convert::Infallible;
    type Header = RoceHeader;
    type Payload = P;
    type Timer = SwitchTimer;
    type Command = SwitchCommand<P>;
    type Rejected = SwitchRejected;
    type Event = SwitchEvent;
    type DropReason = NodeDrop;

    fn new((): ()) -> Result<Self, Self::ConfigError> {
        let (groups, lookup, forwarding) = (BTreeMap::new(), BTreeMap::new(), Forwarding::default());
        let (transparent_edges, replies) = (BTreeMap::new(), BTreeMap::new());
        let (lock_edges, recorder) = (BTreeMap::new(), Recorder::default());
        Ok(Self {
            groups,
            memory: SwitchMemory { all: P::zeroed(0), writers: Writers::default(), is_shared_by_all: false },
            lookup,
            transparent_edges,
            replies,
            lock_edges,
            recorder,
            forwarding,
            mutation: None,
        })
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut impl Sink<Self>,
    ) {
        let header = frame.header;
        let destination = Endpoint { ip: header.destination, qp: header.destination_qp };
        // What passes goes on by address alone: it must at least come from where its sender is.
        match self.forwarding.pinned(port, header) {
            None if self.forwarding.is_foreign(port, header) => {
                return out.drop_frame(port, NodeDrop::ForeignPort);
            }
            Some(Way::On(to)) => return out.transmit(to, frame),
            Some(_) => return out.drop_frame(port, NodeDrop::ForeignPort),
            None => {}
        }
        let (id, index) = if let Some(&edge) = self.transparent_edges.get(&destination) {
            edge
        } else if let Some(&(id, index)) = self.replies.get(&destination)
            && let Some(InstalledGroup { edges, part: Part::Passing(datapath), memory, .. }) =
                self.groups.get_mut(&id)
            && edges[usize::from(index)].local.ip == header.source
        {
            let memory = memory.of(id, &mut self.memory);
            let mut sink = EdgeSink { group: id, edges, memory, begun_at: None, out };
            return datapath.handle_reply(now, index, frame, &mut sink);
        } else if let Way::On(to) = self.forwarding.routed(header) {
            return out.transmit(to, frame);
        } else if let Some(own) = self.find(port, header.destination_qp) {
            own
        } else if let Some(&edge) = self.lock_edges.get(&header.destination_qp) {
            return self.hear_of_locks(now, port, edge, header, out);
        } else {
            return out.drop_frame(port, NodeDrop::ForeignQueuePair);
        };
        let InstalledGroup { edges, part, memory, tells_beginnings, .. } =
            self.groups.get_mut(&id).expect("the lookup table names installed groups");
        match part {
            Part::Passing(datapath) => {
                let edge = &edges[usize::from(index)];
                if edge.remote.ip != frame.header.source || edge.local.ip != frame.header.destination {
                    return out.drop_frame(port, NodeDrop::ForeignSource);
                }
                if edge.port != port {
                    return out.drop_frame(port, NodeDrop::ForeignPort);
                }
                let begun_at = tells_beginnings.then_some(now);
                let memory = memory.of(id, &mut self.memory);
                let mut sink = EdgeSink { group: id, edges, memory, begun_at, out };
                datapath.handle_frame(now, index, frame, &mut sink);
            }
            Part::Terminated(transport, _) => {
                let mut sink = GroupSink::new(id, out);
                transport.handle_frame(now, (port, QpIndex(index)), frame, &mut sink);
                self.settle(now, id, None, &mut sink);
            }
        }
    }

    fn handle_timer(&mut self, now: Instant, timer: SwitchTimer, out: &mut impl Sink<Self>) {
        let (SwitchTimer::Datapath(id, _) | SwitchTimer::QueuePair(id, ..) | SwitchTimer::Program(id, _)) =
            timer;
        let Some(InstalledGroup { edges, part, memory, .. }) = self.groups.get_mut(&id) else { return };
        match (part, timer) {
            (Part::Passing(datapath), SwitchTimer::Datapath(_, timer)) => {
                let memory = memory.of(id, &mut self.memory);
                let mut sink = EdgeSink { group: id, edges, memory, begun_at: None, out };
                datapath.handle_timer(now, timer, &mut sink);
            }
            (Part::Terminated(transport, _), SwitchTimer::QueuePair(_, index, timer)) => {
                let mut sink = GroupSink::new(id, out);
                transport.handle_timer(now, index, timer, &mut sink);
                self.settle(now, id, None, &mut sink);
            }
            (Part::Terminated(transport, program), SwitchTimer::Program(_, alarm)) => {
                let mut sink = GroupSink::new(id, out);
                let mut verbs = TransportVerbs { transport, sink: &mut sink };
                let outcome = program.handle_alarm(now, alarm, &mut verbs);
                self.settle(now, id, outcome, &mut sink);
            }
            // A timer of a group that was here before is as harmless as one that was cancelled.
            _ => {}
        }
    }

    fn handle_command(
        &mut self,
        now: Instant,
        command: SwitchCommand<P>,
        out: &mut impl Sink<Self>,
    ) -> Result<(), SwitchRejected> {
        match command {
            SwitchCommand::Install(group) => self.install(*group, now, out),
            SwitchCommand::Route { destination, ports } => {
                self.forwarding.route(destination, ports);
                Ok(())
            }
            SwitchCommand::Pin { destination, from, to } => {
                self.forwarding.pin(destination, [from, to]);
                Ok(())
            }
            SwitchCommand::HashSeed(seed) => {
                self.forwarding.seed(seed);
                Ok(())
            }
            SwitchCommand::MoveMemory { from, to } => self.move_memory(from, to),
            SwitchCommand::Remove(id) => self.remove(id, out),
            SwitchCommand::Complete { group, queue_pair, completion } => {
                self.complete(now, group, (queue_pair, completion), out)
            }
        }
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        self.groups.values().any(|group| match &group.part {
            Part::Terminated(transport, _) => transport.wants_transmit(port),
            Part::Passing(datapath) => {
                datapath.may_want_transmit() && wanting(&group.edges, &**datapath, port).is_some()
            }
        })
    }

    fn may_want_transmit(&self) -> bool {
        self.groups.values().any(|group| match &group.part {
            Part::Terminated(transport, _) => transport.may_want_transmit(),
            Part::Passing(datapath) => datapath.may_want_transmit(),
        })
    }

    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>) {
        for (&id, InstalledGroup { edges, part, memory, .. }) in &mut self.groups {
            match part {
                Part::Terminated(transport, _) => {
                    if transport.wants_transmit(port) {
                        return transport.handle_transmit_slot(now, port, &mut GroupSink::new(id, out));
                    }
                }
                Part::Passing(datapath) => {
                    if let Some(edge) = wanting(edges, &**datapath, port) {
                        let memory = memory.of(id, &mut self.memory);
                        let mut sink = EdgeSink { group: id, edges, memory, begun_at: None, out };
                        return datapath.handle_transmit_slot(now, edge, &mut sink);
                    }
                }
            }
        }
    }

    fn assert_invariants(&self) {
        self.recorder.assert_invariants();
        let of_queue_pairs = self.lookup.values().chain(self.lock_edges.values());
        let of_addresses = self.transparent_edges.values().chain(self.replies.values());
        for (id, index) in of_queue_pairs.chain(of_addresses) {
            let edges = self.groups.get(id).map_or(0, |group| group.edges.len());
            assert!(usize::from(*index) < edges, "what is looked up is an edge of a group that is here");
        }
        let is_here = |group: GroupId| self.groups.contains_key(&group);
        assert!(self.memory.writers.groups().all(is_here), "what is stored is a group's that is here");
        for group in self.groups.values() {
            let end = group.memory.memory.bytes().end;
            assert!(end <= self.memory.all.length(), "a group's part is in the memory");
            if let Some((_, locks)) = &group.locks {
                locks.assert_invariants(&self.recorder);
            }
            match &group.part {
                Part::Terminated(transport, program) => {
                    transport.assert_invariants();
                    program.assert_invariants();
                }
                Part::Passing(datapath) => datapath.assert_invariants(),
            }
        }
    }
}

/// The first edge of a port that wants a slot.
fn wanting<P: Payload>(edges: &[Edge], datapath: &dyn AnyDatapath<P>, port: PortId) -> Option<u16> {
    let found =
        |(edge, index): (&Edge, u16)| (edge.port == port && datapath.wants_transmit(index)).then_some(index);
    edges.iter().zip(0..).find_map(found)
}
