//! Messages over direct links: the verbs of a Write with Immediate, in transactions of the memory fabric.
//!
//! A message goes to the other end of a link as writes, the last packet of which is a MultiWrite: it says how long the
//! message is, and has the immediate, a bitmap of those whom all of it is for (MultiWrite 4.2). Each packet is answered when it has taken
//! effect, and a message is complete when all of its packets are. There is nothing else to a transport here: links lose
//! nothing and keep their order, and credits are their back-pressure. So a message without a receive request keeps the buffer
//! that its last packet has at the port, and whoever sends more than there are buffers waits.
//!
//! A Send has an immediate and no data: it is a store of a word, which nobody answers, and complete when it has left.

use crate::MemoryDrop;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_engine::PortId;
use quincunx_engine::verbs::{
    Alarm, Completion, Failure, Memory, QpIndex, ReceiveRequest, RegionId, SendRequest, Slice, Verb, Verbs,
    WorkId,
};
use quincunx_units::{Duration, Packets};
use quincunx_wire::flit::{
    Channel, ChannelSet, Class, FlitFormat, FlitHeader, MAX_TAG, NodeId, Transaction, word_address,
};

/// The region that peers write to: what is registered first.
const WINDOW: RegionId = RegionId(0);

const WRITES: Channel = Channel::new(Class::Write, false);
const RESPONSES: Channel = Channel::new(Class::WriteResponse, false);

/// What a node with direct links is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MessagesConfig {
    /// The node.
    pub node: NodeId,
    /// Who is at the other end of each link. Links are the verbs' queue pairs, in the order of the ports.
    pub neighbours: Vec<NodeId>,
    /// How packets are cut.
    pub format: FlitFormat,
}

/// A request on its way out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Outgoing {
    /// Bytes that have not left.
    source: Slice,
    address: u64,
    /// Bytes of all of it; none for a word.
    length: Option<usize>,
    immediate: u64,
}

/// What was sent and is not complete.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Unanswered {
    id: WorkId,
    /// Packets that have not left, or are not answered.
    packets: usize,
}

/// What has come of a message: it waits for a receive request if there is none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Arrived {
    /// Where it lies; nowhere if it was a word.
    target: Option<Slice>,
    immediate: u32,
    /// The answer to its last packet.
    response: Option<FlitHeader>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Line {
    outgoing: VecDeque<Outgoing>,
    unanswered: VecDeque<Unanswered>,
    /// Packets that have left and are not answered.
    in_flight: usize,
    responses: VecDeque<FlitHeader>,
    receives: VecDeque<WorkId>,
    waiting: VecDeque<Arrived>,
}

/// A node's memory, and the messages on its links.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Messages<P> {
    config: MessagesConfig,
    memory: Memory<P>,
    lines: Vec<Line>,
    completions: VecDeque<(QpIndex, Completion)>,
    /// Buffers of ports that are to be freed.
    freed: VecDeque<(PortId, Channel)>,
    alarms: VecDeque<(Alarm, Duration)>,
}

impl<P: Payload> Messages<P> {
    /// A node without memory, before its first message.
    pub fn new(config: MessagesConfig) -> Self {
        Self {
            lines: vec![Line::default(); config.neighbours.len()],
            config,
            memory: Memory::default(),
            completions: VecDeque::new(),
            freed: VecDeque::new(),
            alarms: VecDeque::new(),
        }
    }

    /// Takes a packet that arrived by `link`. Its buffer is to be freed when [`next_freed`](Self::next_freed) names it, or at once
    /// if it is dropped.
    ///
    /// # Errors
    /// If it makes no sense; nothing has changed.
    pub fn handle_packet(
        &mut self,
        link: PortId,
        header: &FlitHeader,
        payload: P::View<'_>,
    ) -> Result<(), MemoryDrop> {
        if header.destination != self.config.node || header.source != self.neighbour(link) || header.inc {
            return Err(MemoryDrop::NoRoute);
        }
        let length = P::view_length(payload);
        let response = header.response(Transaction::WriteResponse);
        match header.transaction {
            Transaction::Write => {
                let target = self.target(header.address, length, length)?;
                self.memory.write(target, payload);
                self.line(link).responses.push_back(response);
                self.freed.push_back((link, WRITES));
            }
            Transaction::MultiWrite { destinations } => {
                let message = self.target(header.address, length, header.tag as usize)?;
                let immediate = u32::try_from(destinations).map_err(|_| MemoryDrop::NoSuchAddress)?;
                let last = Slice { offset: message.offset + message.length - length, length, ..message };
                self.memory.write(last, payload);
                let arrived = Arrived { target: Some(message), immediate, response: Some(response) };
                self.line(link).waiting.push_back(arrived);
                self.receive(link);
            }
            Transaction::Store { operand } => {
                let immediate = u32::try_from(operand).map_err(|_| MemoryDrop::NoSuchAddress)?;
                if header.address != word_address(0) {
                    return Err(MemoryDrop::NoSuchAddress);
                }
                self.line(link).waiting.push_back(Arrived { target: None, immediate, response: None });
                self.receive(link);
            }
            Transaction::WriteResponse => {
                let line = &mut self.lines[usize::from(link.0)];
                line.in_flight = line.in_flight.checked_sub(1).ok_or(MemoryDrop::UnexpectedResponse)?;
                // Words before it are complete, for they had left.
                line.unanswered.front_mut().expect("what is in flight is not complete").packets -= 1;
                self.freed.push_back((link, RESPONSES));
                self.complete(link);
            }
            _ => return Err(MemoryDrop::UnexpectedTransaction),
        }
        Ok(())
    }

    /// The place of a message of `total` bytes whose last `length` ones are for `address`.
    fn target(&self, address: u64, length: usize, total: usize) -> Result<Slice, MemoryDrop> {
        let end = usize::try_from(address).ok().and_then(|start| start.checked_add(length));
        let offset = end.and_then(|end| end.checked_sub(total)).ok_or(MemoryDrop::NoSuchAddress)?;
        let slice = Slice { region: WINDOW, offset, length: total };
        if length > total || length > self.config.format.max_payload {
            return Err(MemoryDrop::BadLength);
        }
        if self.memory.contains(slice) { Ok(slice) } else { Err(MemoryDrop::NoSuchAddress) }
    }

    /// Lets the oldest message that waits have the oldest receive request.
    fn receive(&mut self, link: PortId) {
        let line = &mut self.lines[usize::from(link.0)];
        if line.waiting.is_empty() || line.receives.is_empty() {
            return;
        }
        let (Some(arrived), Some(id)) = (line.waiting.pop_front(), line.receives.pop_front()) else { return };
        let Arrived { target, immediate, response } = arrived;
        let completion = match target {
            Some(target) => Completion::Written { id, target, immediate },
            None => Completion::Received { id, length: 0, immediate: Some(immediate) },
        };
        line.responses.extend(response);
        self.completions.push_back((QpIndex(link.0), completion));
        self.freed.push_back((link, WRITES));
    }

    /// Completes what was sent by `link`, in order, as far as it has left and is answered.
    fn complete(&mut self, link: PortId) {
        let line = &mut self.lines[usize::from(link.0)];
        while line.unanswered.front().is_some_and(|first| first.packets == 0) {
            let Some(Unanswered { id, .. }) = line.unanswered.pop_front() else { return };
            self.completions.push_back((QpIndex(link.0), Completion::Sent { id }));
        }
    }

    /// Forgets all that was to be sent, and what has come of it: the program is over. Its memory stays.
    pub fn shut_down(&mut self) {
        for line in &mut self.lines {
            line.outgoing.clear();
            line.unanswered.clear();
            line.in_flight = 0;
        }
        self.completions.clear();
        self.alarms.clear();
    }

    /// The oldest completion that the program has not seen.
    pub fn next_completion(&mut self) -> Option<(QpIndex, Completion)> {
        self.completions.pop_front()
    }

    /// A link and a channel with a buffer to free: its packet has been dealt with.
    pub fn next_freed(&mut self) -> Option<(PortId, Channel)> {
        self.freed.pop_front()
    }

    /// An alarm that the program has set.
    pub fn next_alarm(&mut self) -> Option<(Alarm, Duration)> {
        self.alarms.pop_front()
    }

    /// Channels with a packet to send by `link`.
    pub fn ready(&self, link: PortId) -> ChannelSet {
        let line = &self.lines[usize::from(link.0)];
        let mut ready = ChannelSet::NONE;
        ready.set(WRITES, !line.outgoing.is_empty());
        ready.set(RESPONSES, !line.responses.is_empty());
        ready
    }

    /// The next packet of a channel.
    ///
    /// # Panics
    /// If there is none.
    pub fn next_packet(&mut self, link: PortId, channel: Channel) -> (FlitHeader, P::View<'_>) {
        let (node, peer, max) = (self.config.node, self.neighbour(link), self.config.format.max_payload);
        let line = &mut self.lines[usize::from(link.0)];
        if channel == RESPONSES {
            let response = line.responses.pop_front().expect("a channel that is ready has a packet");
            return (response, P::empty());
        }
        let first = line.outgoing.front_mut().expect("a channel that is ready has a packet");
        let piece = Slice { length: first.source.length.min(max), ..first.source };
        let is_last = piece.length == first.source.length;
        let (transaction, tag) = match first.length {
            None => (Transaction::Store { operand: first.immediate }, 0),
            Some(length) if is_last => {
                (Transaction::MultiWrite { destinations: first.immediate }, length as u32)
            }
            Some(_) => (Transaction::Write, piece.length as u32),
        };
        let header = FlitHeader::new(node, peer, false, first.address, tag, transaction);
        first.address += piece.length as u64;
        first.source.offset += piece.length;
        first.source.length -= piece.length;
        if first.length.is_some() {
            line.in_flight += 1;
        }
        if is_last {
            line.outgoing.pop_front();
        }
        if matches!(transaction, Transaction::Store { .. }) {
            let left = line.unanswered.iter_mut().rev().nth(line.outgoing.len());
            left.expect("what leaves is not complete").packets = 0;
            self.complete(link);
        }
        (header, self.memory.view(piece))
    }

    fn neighbour(&self, link: PortId) -> NodeId {
        self.config.neighbours[usize::from(link.0)]
    }

    fn line(&mut self, link: PortId) -> &mut Line {
        &mut self.lines[usize::from(link.0)]
    }

    /// Panics if `buffered` packets of a link's port are not those that wait for a receive request here.
    pub fn assert_holds(&self, link: PortId, buffered: impl Fn(Channel) -> usize) {
        let waiting = self.lines[usize::from(link.0)].waiting.len();
        assert_eq!([WRITES, RESPONSES].map(buffered), [waiting, 0], "buffers of what waits");
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        for line in &self.lines {
            assert!(line.waiting.is_empty() || line.receives.is_empty(), "nothing waits for what is there");
            assert!(line.unanswered.len() >= line.outgoing.len(), "what has not left is not complete");
            let first = line.unanswered.front();
            assert!(first.is_none_or(|first| first.packets > 0), "what is complete is forgotten");
        }
    }
}

impl<P: Payload> Verbs<P> for Messages<P> {
    fn memory(&mut self) -> &mut Memory<P> {
        &mut self.memory
    }

    /// What cannot be sent completes as [`Failure::InvalidRequest`]: a Send with data, anything without an immediate, a Write to another
    /// region than the peer's first, or of more than 16 MiB.
    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        let SendRequest { id, verb, source, immediate } = request;
        let is_known = self.memory.contains(source) && source.length <= MAX_TAG as usize;
        let (address, length) = match verb {
            Verb::Write { remote_address, remote_key } if RegionId(remote_key) == WINDOW => {
                (remote_address, Some(source.length))
            }
            Verb::Send if source.length == 0 => (word_address(0), None),
            _ => (0, None),
        };
        let Some(immediate) = immediate.filter(|_| is_known && (length.is_some() || address > 0)) else {
            let failure = Failure::InvalidRequest;
            return self.completions.push_back((qp, Completion::Failed { id, failure }));
        };
        let packets = source.length.div_ceil(self.config.format.max_payload).max(1);
        let line = &mut self.lines[usize::from(qp.0)];
        line.unanswered.push_back(Unanswered { id, packets });
        line.outgoing.push_back(Outgoing { source, address, length, immediate: immediate.into() });
    }

    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        self.lines[usize::from(qp.0)].receives.push_back(request.id);
        self.receive(PortId(qp.0));
    }

    fn set_alarm(&mut self, alarm: Alarm, after: Duration) {
        self.alarms.push_back((alarm, after));
    }

    fn skip(&mut self, _: QpIndex, _: u32, _: u32) {
        panic!("links keep no packet numbers that could be set");
    }

    fn skip_next(&mut self, _: QpIndex, _: Packets) {
        panic!("links keep no packet numbers that could be set");
    }
}
