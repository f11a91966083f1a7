//! Mode-I, connection terminated (EPIC 4.2, J.1): the switch is a peer of its neighbours' queue pairs, which make every
//! message arrive once and in order; what remains is to add up messages and to pass them on, whole.
//!
//! Messages are numbered like packets are in the other modes: control message and data messages of one collective after
//! the other, the same at every node. A message that its pipe has no room for stays in its receive buffer, and no
//! receive request takes its place: the sender's queue pair sees a receiver that is not ready.

use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::verbs::{
    Completion, Failure, Memory, Outcome, Program, QpIndex, ReceiveRequest, RegionId, SendRequest, Slice,
    Verb, Verbs, WorkId,
};
use quincunx_units::{Instant, Packets};

use crate::config::{ConfigError, GroupConfig};
use crate::control::{ControlMessage, Pattern};
use crate::invocation::{EdgeSet, Invocation, InvocationTable, LOCAL, Route, TreePlace, edge_bit, edges_of};
use crate::mutation::Mutation;
use crate::pipe::DEGREE_BYTES;

/// Why a group on a Mode-I switch has failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Broken {
    /// The edge whose queue pair failed, or whose messages disagree with the others'.
    edge: usize,
    failure: Failure,
}

/// One of the two pipes, in units of messages. Payloads are in the node's memory, where queue pairs send from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct MessagePipe {
    start: u64,
    slots: Vec<Slot>,
    region: RegionId,
    /// Bytes of a slot.
    size: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    arrived: EdgeSet,
    length: usize,
    immediate: Option<u32>,
}

/// A message that waits in its receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    length: usize,
    immediate: Option<u32>,
}

/// One neighbour.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Peer {
    /// Its receive buffers: a ring of as many messages as the window, in one region.
    region: RegionId,
    /// Messages that have arrived from it and are not added up yet, oldest first.
    waiting: alloc::collections::VecDeque<Waiting>,
    /// Receive requests ever posted; the ring index of the next one.
    posted: u64,
    /// Messages ever taken out of the ring.
    taken: u64,
    /// Number of the next message from it.
    expected: u64,
    /// Number of the next message to it.
    next: u64,
    /// Everything before this number has been acknowledged by it.
    acked: u64,
    /// Numbers of the messages under way to it, oldest first.
    under_way: alloc::collections::VecDeque<u64>,
}

/// Aggregation and replication of messages for one group on a Mode-I switch; queue pair `i` leads over edge `i`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ModeI {
    config: GroupConfig,
    place: TreePlace,
    /// The collectives, each with its packets over an edge: numbers that a neighbour in another mode skips.
    table: InvocationTable<u32>,
    aggregation: MessagePipe,
    replication: MessagePipe,
    peers: Vec<Peer>,
    local: u64,
    broken: bool,
    /// Broken rule: it has added up wrong.
    has_erred: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Aggregation,
    Replication,
}

const FLOWS: [Flow; 2] = [Flow::Aggregation, Flow::Replication];

impl MessagePipe {
    fn new(messages: u64, size: usize) -> Self {
        Self { start: 0, slots: alloc::vec![Slot::default(); messages as usize], region: RegionId(0), size }
    }

    fn register<P: Payload>(&mut self, memory: &mut Memory<P>) {
        self.region = memory.register(P::zeroed(self.slots.len() * self.size));
    }

    fn contains(&self, number: u64) -> bool {
        (self.start..self.start + self.slots.len() as u64).contains(&number)
    }

    fn index(&self, number: u64) -> usize {
        (number % self.slots.len() as u64) as usize
    }

    fn slot(&mut self, number: u64) -> &mut Slot {
        let index = self.index(number);
        &mut self.slots[index]
    }

    fn slice(&self, number: u64, length: usize) -> Slice {
        Slice { region: self.region, offset: self.index(number) * self.size, length }
    }

    fn is_complete(&self, number: u64, sources: EdgeSet) -> bool {
        self.contains(number) && self.slots[self.index(number)].arrived & sources == sources
    }

    fn recycle_to(&mut self, start: u64, clears: bool) {
        while self.start < start {
            if clears {
                *self.slot(self.start) = Slot::default();
            }
            self.start += 1;
        }
    }
}

impl ModeI {
    /// A group before its node has joined it.
    ///
    /// # Errors
    /// If the context makes no sense.
    pub fn new(config: GroupConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        let messages = u64::from(config.window.in_messages_of(config.message)).max(1);
        let size = config.message.as_usize() * config.mtu;
        let peers = (0..config.edges.len())
            .map(|_| Peer {
                region: RegionId(0),
                waiting: alloc::collections::VecDeque::with_capacity(messages as usize),
                posted: 0,
                taken: 0,
                expected: 0,
                next: 0,
                acked: 0,
                under_way: alloc::collections::VecDeque::with_capacity(messages as usize),
            })
            .collect();
        Ok(Self {
            place: TreePlace::new(&config),
            table: InvocationTable::new(
                0,
                usize::from(config.ranks) + 2 * messages as usize + 1,
                config.ranks,
            ),
            aggregation: MessagePipe::new(messages, size),
            replication: MessagePipe::new(messages, size),
            peers,
            local: 0,
            broken: false,
            has_erred: false,
            config,
        })
    }

    /// Bytes of the payload and degree buffers (EPIC F.3): a receive buffer for each edge, where the paper keeps one less,
    /// and the two pipes with their degrees.
    pub fn buffer_bytes(&self) -> usize {
        let messages = self.aggregation.slots.len();
        messages * self.aggregation.size * (self.peers.len() + 2) + 2 * messages * DEGREE_BYTES
    }

    fn take<P: Payload>(
        &mut self,
        edge: usize,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), Broken> {
        match completion {
            Completion::Sent { .. } => {
                let peer = &mut self.peers[edge];
                let number = peer.under_way.pop_front().expect("only sent messages complete");
                peer.acked = number + 1;
            }
            Completion::Received { length, immediate, .. } => {
                self.peers[edge].waiting.push_back(Waiting { length, immediate });
            }
            // Peers may not write to this memory.
            Completion::Written { .. } => return self.fail(edge, Failure::InvalidRequest),
            Completion::Failed { failure, .. } => return self.fail(edge, failure),
        }
        self.work(verbs)
    }

    /// Does whatever can be done. Each round takes in, hands over or sends at least one message, so it ends.
    fn work<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) -> Result<(), Broken> {
        loop {
            let mut worked = false;
            self.move_on(Flow::Replication);
            worked |= self.hand_over(verbs);
            self.move_on(Flow::Aggregation);
            for edge in 0..self.peers.len() {
                self.skip_incoming(edge, verbs);
                worked |= self.take_in(edge, verbs)?;
                worked |= self.send_ready(edge, verbs);
            }
            if !worked {
                return Ok(());
            }
        }
    }

    /// AggregateData: adds the oldest waiting message of `edge` to its slot, if the pipe has room.
    fn take_in<P: Payload>(&mut self, edge: usize, verbs: &mut dyn Verbs<P>) -> Result<bool, Broken> {
        let bit = edge_bit(edge);
        let Some(&Waiting { length, immediate }) = self.peers[edge].waiting.front() else { return Ok(false) };
        let mut number = self.peers[edge].expected.max(self.table.base());
        let (invocation, flow, route) = loop {
            match self.table.find(number).copied() {
                Some(invocation) => match self.flow(&invocation, |route| route.sources & bit != 0) {
                    Some((flow, route)) => break (invocation, flow, route),
                    None => number = invocation.last + 1,
                },
                None if !self.announce(bit, immediate) => {
                    return self.fail(edge, Failure::InvalidRequest).map(|()| false);
                }
                None if self.table.next() <= number => return Ok(false), // No room for another collective yet.
                None => {}
            }
        };
        let is_whole = length.is_multiple_of(invocation.message.grain());
        if immediate.is_some() != (number == invocation.first) || !is_whole {
            return self.fail(edge, Failure::InvalidRequest).map(|()| false);
        }
        let peer = &mut self.peers[edge];
        peer.expected = number;
        let source = Slice {
            region: peer.region,
            offset: (peer.taken % self.aggregation.slots.len() as u64) as usize * self.aggregation.size,
            length,
        };
        let pipe = match flow {
            Flow::Aggregation => &mut self.aggregation,
            Flow::Replication => &mut self.replication,
        };
        if !pipe.contains(number) {
            return Ok(false);
        }
        let target = pipe.slice(number, length);
        let slot = pipe.slot(number);
        let first = slot.arrived == 0;
        let ignores = self.config.breaks(Mutation::AddsWhateverComes);
        if !first && (slot.length != length || slot.immediate != immediate && !ignores) {
            return self.fail(edge, Failure::Disagreement).map(|()| false);
        }
        // Always in the order of the edges, which costs no buffer here: "Mode-I forces reproducibility" (F.3).
        let before = route.sources & (bit - 1);
        if slot.arrived & before != before {
            return Ok(false);
        }
        let immediate = if first { immediate } else { slot.immediate };
        *slot = Slot { arrived: slot.arrived | bit, length, immediate };
        if first {
            verbs.memory().copy(target, source);
        } else {
            verbs.memory().reduce(target, source, invocation.message.reduction);
            let errs = self.config.breaks(Mutation::ChangesAnElement) && length > 0;
            if errs && !core::mem::replace(&mut self.has_erred, true) {
                verbs.memory().reduce(target, source, invocation.message.reduction);
            }
        }
        let peer = &mut self.peers[edge];
        peer.expected = number + 1;
        peer.taken += 1;
        peer.waiting.pop_front();
        self.post_receives(edge, verbs);
        Ok(true)
    }

    /// Takes in the collective that a control message from `bit` announces. `false`: it makes no sense.
    fn announce(&mut self, bit: EdgeSet, immediate: Option<u32>) -> bool {
        let Some(message) = immediate.and_then(ControlMessage::decode) else { return false };
        if let Pattern::Reduce { root } | Pattern::Broadcast { root } = message.pattern
            && root.0 >= self.config.ranks
        {
            return false;
        }
        if !crate::mode_ii::flows_from(&self.place, &message, bit) {
            return false;
        }
        let needed = self.aggregation.start.min(self.replication.start);
        if self.table.is_full() && self.table.get(0).last >= needed {
            return true;
        }
        // Numbers are messages here: the table counts a control message and as many data messages.
        let messages =
            Packets::new(message.data_packets.into()).in_messages_of(self.config.message).get() as u16;
        let packets = u32::from(message.data_packets) + 1;
        self.table.register(ControlMessage { data_packets: messages, ..message }, |_| packets);
        true
    }

    /// Whether the neighbour counts what does not come over the edge, too.
    fn skips_over(&self, edge: usize) -> bool {
        self.config.edges[edge].skips() && !self.config.breaks(Mutation::CountsMessagesAlone)
    }

    /// Expects nothing of collectives that do not come over `edge`, where the neighbour counts packets of all (4.3, group PSN
    /// synchronisation).
    fn skip_incoming<P: Payload>(&mut self, edge: usize, verbs: &mut dyn Verbs<P>) {
        let bit = edge_bit(edge);
        while self.skips_over(edge) && self.peers[edge].waiting.is_empty() {
            let number = self.peers[edge].expected;
            let Some(index) = self.table.index(number) else { return };
            let invocation = *self.table.get(index);
            if self.flow(&invocation, |route| route.sources & bit != 0).is_some() {
                return;
            }
            verbs.skip_next(QpIndex(edge as u16), Packets::new(*self.table.state(index)));
            self.peers[edge].expected = invocation.last + 1;
        }
    }

    /// ReplicateData: sends what has become complete over `edge`, in order.
    fn send_ready<P: Payload>(&mut self, edge: usize, verbs: &mut dyn Verbs<P>) -> bool {
        let bit = edge_bit(edge);
        let mut sent = false;
        loop {
            let mut number = self.peers[edge].next.max(self.table.base());
            let (flow, route) = loop {
                let Some(index) = self.table.index(number) else { return sent };
                let invocation = *self.table.get(index);
                if let Some(found) = self.flow(&invocation, |route| route.outs & bit != 0) {
                    break found;
                }
                number = invocation.last + 1;
                if self.skips_over(edge) {
                    verbs.skip(QpIndex(edge as u16), *self.table.state(index), 0);
                    self.peers[edge].next = number;
                }
            };
            let pipe = self.pipe(flow);
            if !pipe.is_complete(number, route.sources) {
                return sent;
            }
            let Slot { length, immediate, .. } = pipe.slots[pipe.index(number)];
            let source = pipe.slice(number, length);
            let request = SendRequest { id: WorkId(number), verb: Verb::Send, source, immediate };
            let peer = &mut self.peers[edge];
            peer.next = number + 1;
            peer.under_way.push_back(number);
            verbs.post_send(QpIndex(edge as u16), request);
            sent = true;
        }
    }

    /// At the tree's root, aggregates of an AllReduce become messages of the replication pipe.
    fn hand_over<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) -> bool {
        if !self.place.is_root() {
            return false;
        }
        let mut worked = false;
        while let Some(invocation) = self.table.find(self.local.max(self.table.base())) {
            self.local = self.local.max(self.table.base());
            if invocation.message.pattern != Pattern::AllReduce {
                self.local = invocation.last + 1;
                continue;
            }
            let number = self.local;
            let sources = self.place.aggregation(Pattern::AllReduce).map_or(0, |route| route.sources);
            if !self.aggregation.is_complete(number, sources) || !self.replication.contains(number) {
                break;
            }
            let held = *self.aggregation.slot(number);
            let target = self.replication.slice(number, held.length);
            verbs.memory().copy(target, self.aggregation.slice(number, held.length));
            *self.replication.slot(number) = Slot { arrived: LOCAL, ..held };
            self.local = number + 1;
            worked = true;
        }
        worked
    }

    /// Frees the slots that all outgoing edges have acknowledged.
    fn move_on(&mut self, flow: Flow) {
        loop {
            let start = self.pipe(flow).start;
            let Some(invocation) = self.table.find(start) else { return };
            let next = match self.route(flow, invocation) {
                None => invocation.last + 1,
                Some(route) => {
                    let local = if route.outs & LOCAL != 0 { self.local } else { u64::MAX };
                    let acked = edges_of(route.outs).map(|edge| self.peers[edge].acked);
                    let slowest = match self.config.breaks(Mutation::FreedByFastest) {
                        true => acked.max(),
                        false => acked.min(),
                    };
                    local.min(slowest.unwrap_or(u64::MAX)).min(invocation.last + 1)
                }
            };
            if next <= start {
                return;
            }
            let clears = !self.config.breaks(Mutation::NeverCleared);
            match flow {
                Flow::Aggregation => self.aggregation.recycle_to(next, clears),
                Flow::Replication => self.replication.recycle_to(next, clears),
            }
        }
    }

    fn post_receives<P: Payload>(&mut self, edge: usize, verbs: &mut dyn Verbs<P>) {
        let (ring, size) = (self.aggregation.slots.len() as u64, self.aggregation.size);
        let most = ring + u64::from(self.config.breaks(Mutation::ReceiveTooMany));
        let peer = &mut self.peers[edge];
        while peer.posted < peer.taken + most {
            let sink =
                Slice { region: peer.region, offset: (peer.posted % ring) as usize * size, length: size };
            verbs.post_receive(QpIndex(edge as u16), ReceiveRequest { id: WorkId(peer.posted), sink });
            peer.posted += 1;
        }
    }

    fn fail(&mut self, edge: usize, failure: Failure) -> Result<(), Broken> {
        self.broken = true;
        Err(Broken { edge, failure })
    }

    fn flow(&self, invocation: &Invocation, carries: impl Fn(&Route) -> bool) -> Option<(Flow, Route)> {
        FLOWS
            .into_iter()
            .find_map(|flow| self.route(flow, invocation).filter(&carries).map(|route| (flow, route)))
    }

    fn route(&self, flow: Flow, invocation: &Invocation) -> Option<Route> {
        match flow {
            Flow::Aggregation => self.place.aggregation(invocation.message.pattern),
            Flow::Replication => self.place.replication(invocation.message.pattern),
        }
    }

    fn pipe(&self, flow: Flow) -> &MessagePipe {
        match flow {
            Flow::Aggregation => &self.aggregation,
            Flow::Replication => &self.replication,
        }
    }
}

impl<P: Payload> Program<P> for ModeI {
    /// Registers the buffers, and posts the receive requests.
    fn initialise(&mut self, verbs: &mut dyn Verbs<P>) {
        let (messages, size) = (self.aggregation.slots.len(), self.aggregation.size);
        let memory = verbs.memory();
        for peer in &mut self.peers {
            peer.region = memory.register(P::zeroed(messages * size));
        }
        self.aggregation.register(memory);
        self.replication.register(memory);
        for edge in 0..self.peers.len() {
            self.post_receives(edge, verbs);
        }
    }

    fn handle_completion(
        &mut self,
        _: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Outcome> {
        if self.broken {
            return None;
        }
        let Broken { edge, failure } = self.take(usize::from(qp.0), completion, verbs).err()?;
        if self.config.breaks(Mutation::SwitchFailsInSilence) {
            return None;
        }
        Some(Outcome::Failed { qp: QpIndex(edge as u16), failure })
    }

    fn buffer_bytes(&self) -> usize {
        Self::buffer_bytes(self)
    }

    fn assert_invariants(&self) {
        self.table.assert_invariants();
        for peer in &self.peers {
            assert!(peer.acked <= peer.next, "nothing completes before it is sent");
            assert!(
                peer.taken + peer.waiting.len() as u64 <= peer.posted,
                "messages arrive in posted buffers"
            );
        }
        for flow in FLOWS {
            assert!(
                self.pipe(flow).start <= self.table.next(),
                "no range begins beyond the known collectives"
            );
        }
    }
}
