//! The queue pairs of one group on one node, with the memory they share: the [`Verbs`] that programs are written for.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;
use quincunx_collective::{GroupId, Payload};
use quincunx_engine::verbs::{
    Alarm, Completion, Failure, Memory, QpIndex, ReceiveRequest, SendRequest, Verbs, WorkId,
};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_roce::{ConfigError, PostError, QueuePairConfig, QueuePairSink, QueuePairTimer};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Operation, Position, RoceHeader};

use crate::offload::{Executor, PostedWork};

/// Why a node dropped a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeDrop {
    /// No group here has this queue pair.
    ForeignQueuePair,
    /// It names another sender than the one that the edge that it is for leads to.
    ForeignSource,
    /// It came in by another port than the one behind which its sender is: whoever sent it, it was not that one.
    ForeignPort,
    /// A word about locks that says nothing, or nothing new: it was late, or double.
    NoNews,
    /// A queue pair dropped it.
    QueuePair(quincunx_roce::DropReason),
    /// What runs in the switch dropped it, for the reason that it gives.
    Datapath(&'static str),
}

/// A node that embeds queue pairs: how their timers are called there.
pub(crate) trait QueuePairNode: Engine<Header = RoceHeader, DropReason = NodeDrop> {
    fn queue_pair_timer(group: GroupId, index: QpIndex, timer: QueuePairTimer) -> Self::Timer;

    /// An alarm of the group's program.
    fn alarm_timer(group: GroupId, alarm: Alarm) -> Self::Timer;
}

/// A node's sink, as one group's queue pairs see it.
pub(crate) struct GroupSink<'a, N, S> {
    pub(crate) group: GroupId,
    pub(crate) out: &'a mut S,
    node: PhantomData<N>,
}

impl<'a, N: QueuePairNode, S: Sink<N>> GroupSink<'a, N, S> {
    pub(crate) fn new(group: GroupId, out: &'a mut S) -> Self {
        Self { group, out, node: PhantomData }
    }
}

/// Whether a frame is the last of a message.
fn ends_message(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Send(Position::Last | Position::Only)
            | Operation::SendLastImmediate(_)
            | Operation::SendOnlyImmediate(_)
            | Operation::WriteLast
            | Operation::WriteLastImmediate(_)
            | Operation::WriteOnly(_)
            | Operation::WriteOnlyImmediate(..)
            | Operation::DatagramSendOnlyImmediate(..)
    )
}

/// A node's sink, as one queue pair sees it.
struct LineSink<'a, 'b, N, S> {
    sink: &'a mut GroupSink<'b, N, S>,
    index: QpIndex,
    port: PortId,
    completions: &'a mut VecDeque<(QpIndex, Completion)>,
    /// The last frame was the last of its message.
    ended: bool,
}

impl<P: Payload, N: QueuePairNode<Payload = P>, S: Sink<N>> QueuePairSink<P> for LineSink<'_, '_, N, S> {
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, P>) {
        self.ended = ends_message(&frame.header.operation);
        self.sink.out.transmit(self.port, frame);
    }

    fn set_timer(&mut self, timer: QueuePairTimer, after: Duration) {
        self.sink.out.set_timer(N::queue_pair_timer(self.sink.group, self.index, timer), after);
    }

    fn cancel_timer(&mut self, timer: QueuePairTimer) {
        self.sink.out.cancel_timer(N::queue_pair_timer(self.sink.group, self.index, timer));
    }

    fn complete(&mut self, completion: Completion) {
        self.completions.push_back((self.index, completion));
    }

    fn drop_frame(&mut self, reason: quincunx_roce::DropReason) {
        self.sink.out.drop_frame(self.port, NodeDrop::QueuePair(reason));
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Line<P> {
    queue_pair: Executor<P>,
    port: PortId,
}

/// The queue pairs of a group and their memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Transport<P> {
    pub(crate) memory: Memory<P>,
    lines: Vec<Line<P>>,
    /// The lines that want to send, a bit each: a node with hundreds need not ask them all for each frame.
    wanting: Vec<u64>,
    completions: VecDeque<(QpIndex, Completion)>,
    /// Those that the program has ever set.
    alarms: Vec<Alarm>,
    /// By port: the line that is asked first for its next frame, so that each gets its turn, whatever other ports send. It goes on
    /// with the end of a message, so that a short one, such as one that tells of free slots, does not wait for all the data of another
    /// line.
    turns: Vec<usize>,
}

impl<P: Payload> Transport<P> {
    /// Of queue pairs that this node executes, or somebody else.
    pub(crate) fn new(
        queue_pairs: Vec<(PortId, QueuePairConfig)>,
        are_offloaded: bool,
    ) -> Result<Self, ConfigError> {
        let lines = queue_pairs
            .into_iter()
            .map(|(port, config)| Ok(Line { queue_pair: Executor::new(config, are_offloaded)?, port }))
            .collect::<Result<Vec<_>, ConfigError>>()?;
        let wanting = vec![0; lines.len().div_ceil(64)];
        let ports = lines.iter().map(|line| usize::from(line.port.0) + 1).max().unwrap_or(0);
        let mut turns = vec![0; ports];
        for (index, line) in lines.iter().enumerate().rev() {
            turns[usize::from(line.port.0)] = index;
        }
        Ok(Self {
            memory: Memory::default(),
            lines,
            wanting,
            completions: VecDeque::new(),
            alarms: Vec::new(),
            turns,
        })
    }

    /// Notes whether a line wants to send, after anything that may have changed it.
    fn note(&mut self, index: usize) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.lines[index].queue_pair.wants_transmit() {
            self.wanting[word] |= bit;
        } else {
            self.wanting[word] &= !bit;
        }
    }

    /// The first line at or after `from` that wants to send through `port`.
    fn first_wanting(&self, from: usize, port: PortId) -> Option<usize> {
        let mut word = from / 64;
        let mut left = self.wanting.get(word)? & u64::MAX << (from % 64);
        loop {
            while left != 0 {
                let index = word * 64 + left.trailing_zeros() as usize;
                if self.lines[index].port == port {
                    return Some(index);
                }
                left &= left - 1;
            }
            word += 1;
            left = *self.wanting.get(word)?;
        }
    }

    /// The configurations of the queue pairs, in order.
    pub(crate) fn configs(&self) -> impl Iterator<Item = &QueuePairConfig> {
        self.lines.iter().map(|line| line.queue_pair.config())
    }

    /// Takes a frame that came in by `port` for a queue pair: only what comes by the port of its peer is that one's.
    pub(crate) fn handle_frame<N: QueuePairNode<Payload = P>, S: Sink<N>>(
        &mut self,
        now: Instant,
        (port, index): (PortId, QpIndex),
        frame: Frame<'_, RoceHeader, P>,
        sink: &mut GroupSink<'_, N, S>,
    ) {
        let Some(line) = self.lines.get_mut(usize::from(index.0)) else { return };
        if line.port != port {
            return sink.out.drop_frame(port, NodeDrop::ForeignPort);
        }
        let completions = &mut self.completions;
        let mut out = LineSink { sink, index, port: line.port, completions, ended: false };
        line.queue_pair.handle_frame(now, frame, &mut self.memory, &mut out);
        self.note(index.0.into());
    }

    pub(crate) fn handle_timer<N: QueuePairNode<Payload = P>, S: Sink<N>>(
        &mut self,
        now: Instant,
        index: QpIndex,
        timer: QueuePairTimer,
        sink: &mut GroupSink<'_, N, S>,
    ) {
        let Some(line) = self.lines.get_mut(usize::from(index.0)) else { return };
        let completions = &mut self.completions;
        let mut out = LineSink { sink, index, port: line.port, completions, ended: false };
        line.queue_pair.handle_timer(now, timer, &mut out);
        self.note(index.0.into());
    }

    pub(crate) fn wants_transmit(&self, port: PortId) -> bool {
        self.first_wanting(0, port).is_some()
    }

    /// Whether there is a port that wants a slot.
    pub(crate) fn may_want_transmit(&self) -> bool {
        self.wanting.iter().any(|&lines| lines != 0)
    }

    pub(crate) fn handle_transmit_slot<N: QueuePairNode<Payload = P>, S: Sink<N>>(
        &mut self,
        now: Instant,
        port: PortId,
        sink: &mut GroupSink<'_, N, S>,
    ) {
        let Some(&turn) = self.turns.get(usize::from(port.0)) else { return };
        let next = self.first_wanting(turn, port).or_else(|| self.first_wanting(0, port));
        let Some(index) = next else { return };
        let (line, completions) = (&mut self.lines[index], &mut self.completions);
        let mut out = LineSink { sink, index: QpIndex(index as u16), port, completions, ended: false };
        line.queue_pair.transmit(now, &self.memory, &mut out);
        let is_over = out.ended || !line.queue_pair.wants_transmit();
        let turn = if is_over { self.after(index) } else { index };
        self.turns[usize::from(port.0)] = turn;
        self.note(index);
    }

    /// A line is posted to: its port, if it has nothing to send, begins with that one. So ranks that post to all others, each beginning with
    /// its neighbour, do not all send to the first.
    fn begin_with(&mut self, index: usize) {
        let Some(port) = self.lines.get(index).map(|line| line.port) else { return };
        if self.first_wanting(0, port).is_none() {
            self.turns[usize::from(port.0)] = index;
        }
    }

    /// The next line of the same port; the same one if there is no other.
    fn after(&self, index: usize) -> usize {
        let is_there = |other: &usize| self.lines[*other].port == self.lines[index].port;
        (index + 1..self.lines.len()).chain(0..index).find(is_there).unwrap_or(index)
    }

    /// The oldest work request that is for somebody else and that nobody has taken, of the first queue pair that has any.
    pub(crate) fn take_work(&mut self, group: GroupId) -> Option<PostedWork> {
        self.lines.iter_mut().enumerate().find_map(|(index, line)| {
            let work = line.queue_pair.take()?;
            Some(PostedWork { group, queue_pair: QpIndex(index as u16), work })
        })
    }

    /// Takes the end of a work request that somebody else has executed.
    pub(crate) fn complete(&mut self, queue_pair: QpIndex, completion: Completion) {
        self.completions.push_back((queue_pair, completion));
    }

    /// The oldest completion that the program has not seen.
    pub(crate) fn next_completion(&mut self) -> Option<(QpIndex, Completion)> {
        self.completions.pop_front()
    }

    /// Disarms all timers and forgets all queue pairs: the group is over. What is registered stays.
    pub(crate) fn shut_down<N: QueuePairNode<Payload = P>, S: Sink<N>>(
        &mut self,
        sink: &mut GroupSink<'_, N, S>,
    ) {
        for index in 0..self.lines.len() {
            for timer in QueuePairTimer::ALL {
                sink.out.cancel_timer(N::queue_pair_timer(sink.group, QpIndex(index as u16), timer));
            }
        }
        for alarm in self.alarms.drain(..) {
            sink.out.cancel_timer(N::alarm_timer(sink.group, alarm));
        }
        self.lines.clear();
        self.wanting.clear();
        self.completions.clear();
    }

    pub(crate) fn assert_invariants(&self) {
        for (index, line) in self.lines.iter().enumerate() {
            line.queue_pair.assert_invariants();
            let noted = self.wanting[index / 64] & 1 << (index % 64) != 0;
            assert_eq!(noted, line.queue_pair.wants_transmit(), "what line {index} wants is noted");
        }
    }
}

/// A group's queue pairs while a program acts on them.
pub(crate) struct TransportVerbs<'a, 'b, P, N, S> {
    pub(crate) transport: &'a mut Transport<P>,
    pub(crate) sink: &'a mut GroupSink<'b, N, S>,
}

impl<P: Payload, N: QueuePairNode<Payload = P>, S: Sink<N>> TransportVerbs<'_, '_, P, N, S> {
    fn note(&mut self, qp: QpIndex) {
        if usize::from(qp.0) < self.transport.lines.len() {
            self.transport.note(qp.0.into());
        }
    }

    /// Has a queue pair skip numbers. If it cannot, it has failed or is inside a message: either way the group is lost.
    fn skip_by(
        &mut self,
        qp: QpIndex,
        skip: impl FnOnce(&mut Executor<P>, &mut LineSink<'_, '_, N, S>) -> Result<(), PostError>,
    ) {
        let Some(line) = self.transport.lines.get_mut(usize::from(qp.0)) else { return };
        let completions = &mut self.transport.completions;
        let mut out =
            LineSink { sink: &mut *self.sink, index: qp, port: line.port, completions, ended: false };
        if skip(&mut line.queue_pair, &mut out).is_err() {
            let failed = Completion::Failed { id: WorkId(0), failure: Failure::Flushed };
            completions.push_back((qp, failed));
        }
        self.note(qp);
    }

    /// A request that the queue pair does not take ends like one that it took before it failed.
    fn refuse(&mut self, qp: QpIndex, id: WorkId, refused: bool) {
        if refused {
            self.transport.completions.push_back((qp, Completion::Failed { id, failure: Failure::Flushed }));
        }
    }
}

impl<P: Payload, N: QueuePairNode<Payload = P>, S: Sink<N>> Verbs<P> for TransportVerbs<'_, '_, P, N, S> {
    fn memory(&mut self) -> &mut Memory<P> {
        &mut self.transport.memory
    }

    fn post_send(&mut self, qp: QpIndex, request: SendRequest) {
        self.transport.begin_with(qp.0.into());
        let Transport { lines, memory, .. } = &mut *self.transport;
        let line = lines.get_mut(usize::from(qp.0));
        let refused = line.is_none_or(|line| line.queue_pair.post_send(request, memory).is_err());
        self.refuse(qp, request.id, refused);
        self.note(qp);
    }

    fn post_receive(&mut self, qp: QpIndex, request: ReceiveRequest) {
        let Transport { lines, memory, .. } = &mut *self.transport;
        let line = lines.get_mut(usize::from(qp.0));
        let refused = line.is_none_or(|line| line.queue_pair.post_receive(request, memory).is_err());
        self.refuse(qp, request.id, refused);
        self.note(qp);
    }

    fn set_alarm(&mut self, alarm: Alarm, after: Duration) {
        let timer = N::alarm_timer(self.sink.group, alarm);
        if !self.transport.alarms.contains(&alarm) {
            self.transport.alarms.push(alarm);
        }
        self.sink.out.set_timer(timer, after);
    }

    fn skip(&mut self, qp: QpIndex, sends: u32, receives: u32) {
        self.skip_by(qp, |queue_pair, out| queue_pair.skip(sends, receives, out));
    }

    fn skip_next(&mut self, qp: QpIndex, packets: Packets) {
        self.skip_by(qp, |queue_pair, out| queue_pair.skip_next(packets, out));
    }
}
