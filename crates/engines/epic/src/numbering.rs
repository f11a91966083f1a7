//! Numbers of ranks whose queue pairs are standard ones. Such a queue pair takes its PSNs when it is brought up and counts on, in each
//! direction what it sends or receives; nobody can have it skip what others exchange (EPIC 4.3, 4.4: group PSN synchronisation). So the
//! rank's first hop counts for it, in each direction of the edge, and translates: inside, and between switches, a group has one
//! numbering, and a rank's PSNs are places in it.
//!
//! What a rank sends next is in the first collective that the switch does not know, or that the rank is a source of: a rank sends no
//! control message before its switch knows what comes before (`comm_lib.rs`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::Payload;
use quincunx_design::{Copies, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::Frame;
use quincunx_units::Duration;
use quincunx_wire::{Operation, Psn, RoceHeader, Syndrome};

use crate::config::GroupConfig;
use crate::control::{ControlMessage, Pattern};
use crate::invocation::{EdgeSet, TreePlace, edge_bit, edges_of};

/// Far enough from all that is known to be of no collective, and near enough to be the number that its PSN stands for.
const NOWHERE: u64 = 1 << 22;

/// Packets that a rank has sent, and that it has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Counts {
    sent: u64,
    received: u64,
}

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// From the rank.
    Sent,
    /// To the rank.
    Received,
}

impl Counts {
    fn of(self, way: Way) -> u64 {
        match way {
            Way::Sent => self.sent,
            Way::Received => self.received,
        }
    }
}

/// A collective, and what has been counted before it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Stretch {
    first: u64,
    last: u64,
    sources: EdgeSet,
    outs: EdgeSet,
    /// By edge.
    before: Vec<Counts>,
}

impl Stretch {
    /// Packets that pass over the edge `bit`.
    fn packets(&self, bit: EdgeSet, way: Way) -> u64 {
        let set = match way {
            Way::Sent => self.sources,
            Way::Received => self.outs,
        };
        if set & bit != 0 { self.last + 1 - self.first } else { 0 }
    }

    /// What has been counted when it is over.
    fn after(&self) -> Vec<Counts> {
        let count = |(edge, before): (usize, &Counts)| Counts {
            sent: before.sent + self.packets(edge_bit(edge), Way::Sent),
            received: before.received + self.packets(edge_bit(edge), Way::Received),
        };
        self.before.iter().enumerate().map(count).collect()
    }
}

/// Where a PSN of a rank's is in the group's numbering.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Position {
    /// At this number.
    Known(u64),
    /// Before all that is kept.
    Before,
    /// The next one, behind all that is known.
    Next,
    /// After that.
    Beyond,
}

/// The numbers of all ranks at a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Numbering {
    place: TreePlace,
    ranks: u16,
    /// Edges to ranks.
    edges: EdgeSet,
    /// The collectives that follow each other without a hole, oldest first.
    known: VecDeque<Stretch>,
    /// Those behind a hole: first and last number, and what they do; no more than this many, for peers tell of them.
    ahead: BTreeMap<u64, (u64, Pattern)>,
    most_ahead: usize,
    /// Behind the known ones: where the next collective begins, and what has been counted.
    next: u64,
    counts: Vec<Counts>,
}

impl Numbering {
    /// Before the first packet; none where no rank needs it.
    pub(crate) fn new(config: &GroupConfig, first: u64) -> Option<Self> {
        let is_rank = |(edge, config): (usize, &crate::config::EdgeConfig)| {
            if config.rank.is_some() { edge_bit(edge) } else { 0 }
        };
        let edges = config.edges.iter().enumerate().map(is_rank).fold(0, |set, bit| set | bit);
        (config.standard_verbs && edges != 0).then(|| Self {
            place: TreePlace::new(config),
            ranks: config.ranks,
            edges,
            known: VecDeque::new(),
            ahead: BTreeMap::new(),
            most_ahead: usize::from(config.ranks) + 2 * config.window.as_usize(),
            next: first,
            counts: alloc::vec![Counts { sent: first, received: first }; config.edges.len()],
        })
    }

    fn translates(&self, edge: usize) -> bool {
        self.edges & edge_bit(edge) != 0
    }

    /// A frame's header as the switch is to see it. Of a control message this takes notes.
    pub(crate) fn incoming(&mut self, edge: usize, header: &RoceHeader) -> RoceHeader {
        let mut header = *header;
        if !self.translates(edge) {
            if let Operation::SendOnlyImmediate(immediate) = header.operation {
                self.note(header.psn.to_count_near(self.next), immediate);
            }
            return header;
        }
        let sequence = match header.operation {
            Operation::Send(_) | Operation::SendOnlyImmediate(_) => {
                match (self.position(edge, Way::Sent, header.psn), header.operation) {
                    (Position::Known(sequence), _) => sequence,
                    (Position::Before, _) => self.base() - 1,
                    (Position::Next, Operation::SendOnlyImmediate(immediate)) => {
                        let next = self.next;
                        if self.is_source(edge, immediate) {
                            self.note(next, immediate);
                        }
                        next
                    }
                    (Position::Next | Position::Beyond, _) => self.next + NOWHERE,
                }
            }
            Operation::Acknowledge(_) => match self.position(edge, Way::Received, header.psn) {
                Position::Known(sequence) => sequence,
                Position::Before => self.base() - 1,
                Position::Next | Position::Beyond => self.next + NOWHERE,
            },
            _ => return header,
        };
        header.psn = Psn::from_count(sequence);
        header
    }

    /// A header as the rank on `edge` is to see it; none if it numbers nothing that the rank could know.
    fn outgoing(&self, edge: usize, mut header: RoceHeader) -> Option<RoceHeader> {
        if !self.translates(edge) {
            return Some(header);
        }
        let sequence = header.psn.to_count_near(self.next);
        let count = match header.operation {
            Operation::Send(_) | Operation::SendOnlyImmediate(_) => {
                let stretch = self.stretch(sequence)?;
                let offset = sequence - stretch.first;
                (offset < stretch.packets(edge_bit(edge), Way::Received))
                    .then(|| stretch.before[edge].received + offset)?
            }
            // The newest packet of the rank's that is not behind it.
            Operation::Acknowledge(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => self.sent_before(edge, sequence + 1) - 1,
                Syndrome::Nak(_) | Syndrome::ReceiverNotReady(_) => self.sent_before(edge, sequence),
            },
            _ => return Some(header),
        };
        header.psn = Psn::from_count(count);
        Some(header)
    }

    /// Where all that is kept begins.
    fn base(&self) -> u64 {
        self.known.front().map_or(self.next, |stretch| stretch.first)
    }

    fn stretch(&self, sequence: u64) -> Option<&Stretch> {
        let index = self.known.partition_point(|stretch| stretch.first <= sequence).checked_sub(1)?;
        self.known.get(index).filter(|stretch| sequence <= stretch.last)
    }

    /// How many packets the rank has sent with numbers before `sequence`, and before the first one.
    fn sent_before(&self, edge: usize, sequence: u64) -> u64 {
        if sequence >= self.next {
            return self.counts[edge].sent;
        }
        match self.stretch(sequence) {
            Some(stretch) => {
                let packets = stretch.packets(edge_bit(edge), Way::Sent);
                stretch.before[edge].sent + packets.min(sequence - stretch.first)
            }
            None => self.known.front().map_or(self.counts[edge], |stretch| stretch.before[edge]).sent,
        }
    }

    fn position(&self, edge: usize, way: Way, psn: Psn) -> Position {
        let end = self.counts[edge].of(way);
        let count = psn.to_count_near(end);
        if count >= end {
            return if count == end { Position::Next } else { Position::Beyond };
        }
        let begun = self.known.partition_point(|stretch| stretch.before[edge].of(way) <= count);
        match begun.checked_sub(1).map(|index| &self.known[index]) {
            Some(stretch) => Position::Known(stretch.first + count - stretch.before[edge].of(way)),
            None => Position::Before,
        }
    }

    /// Whether a control message of this rank's makes sense.
    fn is_source(&self, edge: usize, immediate: u32) -> bool {
        ControlMessage::decode(immediate).is_some_and(|message| {
            self.flow(message.pattern).is_some_and(|(sources, _)| sources & edge_bit(edge) != 0)
        })
    }

    /// Over which edges packets of a pattern come, and over which they go, this node's parts in both directions together.
    fn flow(&self, pattern: Pattern) -> Option<(EdgeSet, EdgeSet)> {
        if let Pattern::Reduce { root } | Pattern::Broadcast { root } = pattern
            && root.0 >= self.ranks
        {
            return None;
        }
        let routes = [self.place.aggregation(pattern), self.place.replication(pattern)];
        let (mut sources, mut outs) = (0, 0);
        for route in routes.into_iter().flatten() {
            sources |= route.sources;
            outs |= route.outs;
        }
        Some((sources, outs))
    }

    /// Notes the collective that a control message with the number `first` announces.
    fn note(&mut self, first: u64, immediate: u32) {
        let Some(message) = ControlMessage::decode(immediate) else { return };
        let last = first + u64::from(message.data_packets);
        if first < self.next || self.flow(message.pattern).is_none() {
            return;
        }
        let overlaps = self.ahead.range(..=last).next_back().is_some_and(|(_, (end, _))| *end >= first);
        if !overlaps && (self.ahead.len() < self.most_ahead || first == self.next) {
            self.ahead.insert(first, (last, message.pattern));
        }
        while let Some((last, pattern)) = self.ahead.remove(&self.next) {
            let Some((sources, outs)) = self.flow(pattern) else { return };
            let before = self.counts.clone();
            let stretch = Stretch { first: self.next, last, sources, outs, before };
            self.next = last + 1;
            self.counts = stretch.after();
            self.known.push_back(stretch);
        }
    }

    /// Forgets collectives that end before `base`, which the switch has forgotten.
    pub(crate) fn forget(&mut self, base: u64) {
        while self.known.len() > 1 && self.known.front().is_some_and(|stretch| stretch.last < base) {
            self.known.pop_front();
        }
    }

    pub(crate) fn assert_invariants(&self) {
        let mut next = self.base();
        let edges: Vec<usize> = edges_of(self.edges).collect();
        for (stretch, after) in self.known.iter().zip(self.known.iter().skip(1)) {
            assert!(stretch.first == next && stretch.last >= stretch.first, "collectives follow each other");
            next = stretch.last + 1;
            for &edge in &edges {
                let (before, after) = (stretch.before[edge], after.before[edge]);
                assert!(before.sent <= after.sent && before.received <= after.received, "counts only grow");
            }
        }
        assert!(self.ahead.keys().all(|first| *first > self.next), "what is ahead is behind a hole");
    }
}

/// A sink behind which ranks see their own numbers.
pub(crate) struct Translated<'a, P: Payload> {
    pub(crate) numbering: &'a Numbering,
    pub(crate) out: &'a mut dyn DatapathSink<P>,
}

impl<P: Payload> DatapathSink<P> for Translated<'_, P> {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, P>) {
        if let Some(header) = self.numbering.outgoing(usize::from(edge), *frame.header) {
            self.out.transmit(edge, Frame { header: &header, payload: P::reborrow(frame.payload) });
        }
    }

    fn replicate(&mut self, payload: P::View<'_>, copies: Copies<'_>) {
        let numbering = self.numbering;
        self.out.replicate(payload, &mut |send| {
            copies(&mut |edge, header| {
                if let Some(header) = numbering.outgoing(usize::from(edge), *header) {
                    send(edge, &header);
                }
            });
        });
    }

    fn memory(&mut self) -> GroupMemory<'_, P> {
        self.out.memory()
    }

    fn transmit_stored(&mut self, edge: u16, header: &RoceHeader, place: Range<usize>) -> bool {
        match self.numbering.outgoing(usize::from(edge), *header) {
            Some(header) => self.out.transmit_stored(edge, &header, place),
            None => true,
        }
    }

    fn replicate_stored(&mut self, place: Range<usize>, copies: Copies<'_>) -> bool {
        let numbering = self.numbering;
        self.out.replicate_stored(place, &mut |send| {
            copies(&mut |edge, header| {
                if let Some(header) = numbering.outgoing(usize::from(edge), *header) {
                    send(edge, &header);
                }
            })
        })
    }

    fn set_timer(&mut self, timer: DatapathTimer, after: Duration) {
        self.out.set_timer(timer, after);
    }

    fn cancel_timer(&mut self, timer: DatapathTimer) {
        self.out.cancel_timer(timer);
    }

    fn unreachable(&mut self, edge: u16) {
        self.out.unreachable(edge);
    }

    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        self.out.drop_frame(edge, reason);
    }

    fn begun(&mut self, edge: u16, number: u64) {
        self.out.begun(edge, number);
    }
}
