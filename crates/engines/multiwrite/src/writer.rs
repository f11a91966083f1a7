//! Sends, relays and receives: the rule of MultiWrite at one node.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Rank};
use quincunx_engine::verbs::{
    Alarm, QpIndex, ReceiveRequest, RegionId, RequestError, SendRequest, Slice, Verb, Verbs, WorkId,
};
pub use quincunx_engine::writes::{Target, WriteError};
use quincunx_units::Duration;
use quincunx_wire::multiwrite::{BitmapView, Destinations, IMMEDIATE_RANKS};

use crate::window::{KEY, Landed, Window};
use crate::{Mutation, Table};

/// Fires when the relay has worked on the next message long enough.
pub const RELAY: Alarm = Alarm(0);

/// In groups whose bitmaps are in the payload, the immediate says whether there is one.
const BITMAP_IN_PAYLOAD: u32 = 0;
const NO_BITMAP: u32 = 1;

/// What a relay's processor takes for a message; nothing by default. Real relays take what they take: this is for simulations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RelayCost {
    /// To take a message in and to read whom it is for.
    pub message: Duration,
    /// To send one copy of it.
    pub copy: Duration,
}

/// What a node is set up with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WriterConfig {
    /// Ranks and next hops.
    pub table: Table,
    /// The window, the same at every node.
    pub window: Window,
    /// Receive requests that wait on each queue pair: messages that may arrive before the node gets to run.
    pub receives: usize,
    /// What relaying takes.
    pub cost: RelayCost,
}

/// `MultiWrite(S, M, B_S)`: `S` is the node that is asked.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// M: destinations with their buffers.
    pub targets: &'a [Target],
    /// B_S: the data, which must not change until the completions.
    pub source: Slice,
    /// Which of several ways to each destination; relays take their usual one.
    pub way: usize,
}

/// Something has arrived for this node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Delivery {
    /// Who wrote it.
    pub source: Rank,
    /// In which of its slots.
    pub slot: usize,
    /// The data, in the window: it stays there until the source writes to the slot again.
    pub data: Slice,
}

/// A peer has broken the protocol: its write is not in a slot of the window, names a rank that is not in the table, or would go back to
/// where it came from. The group cannot continue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected a write for ranks of the table, found another from rank {peer}; the peers' tables disagree"
)]
pub struct ProtocolViolation {
    /// The neighbour that sent it.
    pub peer: Rank,
}

/// Something to be passed on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Passing {
    from: QpIndex,
    destinations: Destinations,
    source: Rank,
    slot: usize,
    length: usize,
}

/// One node's part in all writes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Writer {
    config: WriterConfig,
    /// What the relay has not got to, oldest first; the alarm is set while there is any.
    passing: VecDeque<Passing>,
    mutation: Option<Mutation>,
}

/// Names of work requests: who asked, and the copy that is given back after it.
pub(crate) mod work {
    use super::{RegionId, WorkId};

    const RELAYED: u64 = 1 << 62;
    const COPIED: u64 = 1 << 61;

    pub(crate) fn id(is_relayed: bool, copy: Option<RegionId>) -> WorkId {
        let whose = if is_relayed { RELAYED } else { 0 };
        WorkId(whose | copy.map_or(0, |copy| COPIED | u64::from(copy.0)))
    }

    pub(crate) fn is_relayed(id: WorkId) -> bool {
        id.0 & RELAYED != 0
    }

    pub(crate) fn copy(id: WorkId) -> Option<RegionId> {
        (id.0 & COPIED != 0).then_some(RegionId(id.0 as u32))
    }
}

impl Writer {
    /// A node before it has memory.
    pub fn new(config: WriterConfig) -> Self {
        Self { config, passing: VecDeque::new(), mutation: None }
    }

    /// Breaks a rule from here on, so that the checker can show that it would notice.
    pub fn break_rule(&mut self, mutation: Mutation) {
        self.mutation = Some(mutation);
    }

    pub(crate) fn breaks(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Ranks and next hops.
    pub fn table(&self) -> &Table {
        &self.config.table
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.config.window
    }

    /// Registers the window and posts receive requests: from here on peers may write, and the node relays.
    ///
    /// # Panics
    /// If the host has registered memory before.
    pub fn initialise<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) {
        let key = verbs.memory().register(P::zeroed(self.config.window.length()));
        assert_eq!(key, KEY, "the window comes first");
        for qp in self.config.table.queue_pairs() {
            (0..self.config.receives).for_each(|_| self.receive(qp, verbs));
        }
    }

    /// Posts a receive request in place of one that was consumed.
    pub(crate) fn receive<P: Payload>(&self, qp: QpIndex, verbs: &mut dyn Verbs<P>) {
        let sink = Slice { region: KEY, offset: 0, length: 0 };
        verbs.post_receive(qp, ReceiveRequest { id: WorkId(0), sink });
    }

    /// Sends `write` on its way; how many messages that takes, each of which completes.
    ///
    /// # Errors
    /// If the write is refused. Nothing is sent then.
    pub fn write<P: Payload>(
        &mut self,
        write: &Write<'_>,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<usize, WriteError> {
        let by_slot = self.check(write, verbs)?;
        let (window, me) = (self.config.window, self.config.table.rank());
        let mut messages = 0;
        for (slot, destinations) in by_slot {
            for (qp, part) in self.config.table.parts(destinations, write.way) {
                self.post(qp, part, window.offset(me, slot), write.source, false, verbs);
                messages += 1;
            }
        }
        Ok(messages)
    }

    /// The destinations of a write by slot.
    fn check<P: Payload>(
        &self,
        write: &Write<'_>,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Vec<(usize, Destinations)>, WriteError> {
        let (table, window) = (&self.config.table, self.config.window);
        let ranks = table.ranks();
        let mut by_slot: Vec<(usize, Destinations)> = Vec::new();
        for &Target { rank, slot } in write.targets {
            let refusal = if rank.0 >= ranks {
                Some(WriteError::UnknownRank { ranks, found: rank.0 })
            } else if rank == table.rank() {
                Some(WriteError::SelfAddressed { rank: rank.0 })
            } else if slot >= window.slots() {
                Some(WriteError::NoSlot { slots: window.slots(), found: slot })
            } else if table.next_hop(rank.0, write.way).is_none() {
                Some(WriteError::NoRoute { rank: rank.0 })
            } else {
                None
            };
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
            match by_slot.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, known)) if known.contains(rank.0) => {
                    return Err(WriteError::Twice { rank: rank.0, slot });
                }
                Some((_, known)) => known.insert(rank.0),
                None => by_slot.push((slot, Destinations::one(rank.0))),
            }
        }
        if by_slot.is_empty() {
            return Err(WriteError::NoDestination);
        }
        let found = write.source.length;
        if found > window.data || !verbs.memory().contains(write.source) {
            return Err(WriteError::Source { limit: window.data, found });
        }
        if !self.has_contents::<P>() {
            return Err(WriteError::NoContents { ranks });
        }
        Ok(by_slot)
    }

    /// Whether memory holds what it has to: bitmaps, in groups that need them in the payload.
    fn has_contents<P: Payload>(&self) -> bool {
        self.config.window.bitmap() == 0 || P::contents(P::empty()).is_some()
    }

    /// The same, for those who ask before they begin.
    pub(crate) fn check_contents<P: Payload>(&self) -> Result<(), RequestError> {
        let (most, found) = (IMMEDIATE_RANKS, self.config.table.ranks());
        self.has_contents::<P>().then_some(()).ok_or(RequestError::NoContents { most, found })
    }

    /// Sends one part to its next hop: as an ordinary write to a neighbour that it is for, as a MultiWrite otherwise (4.3.3).
    fn post<P: Payload>(
        &self,
        qp: QpIndex,
        part: Destinations,
        offset: usize,
        data: Slice,
        is_relayed: bool,
        verbs: &mut dyn Verbs<P>,
    ) {
        let (table, bitmap) = (&self.config.table, self.config.window.bitmap());
        let is_ordinary = part == Destinations::one(table.neighbour(qp).0);
        let (source, offset, immediate, copy) = if bitmap == 0 {
            let immediate = part.to_immediate().expect("small groups have small ranks");
            (data, offset, immediate, None)
        } else if is_ordinary {
            (data, offset + bitmap, NO_BITMAP, None)
        } else {
            // Each part has another bitmap before the same data, so each is a copy.
            let mut copy = P::zeroed(bitmap + data.length);
            let mut head = alloc::vec![0; bitmap];
            part.emit(table.ranks(), &mut head);
            copy.inscribe(0, &head);
            copy.write(bitmap, verbs.memory().view(data));
            let length = copy.length();
            let region = verbs.memory().register(copy);
            (Slice { region, offset: 0, length }, offset, BITMAP_IN_PAYLOAD, Some(region))
        };
        let verb = Verb::Write { remote_address: offset as u64, remote_key: KEY.0 };
        let id = work::id(is_relayed, copy);
        verbs.post_send(qp, SendRequest { id, verb, source, immediate: Some(immediate) });
    }

    /// Takes the end of a message that was sent; whether this node's own write asked for it, and not a relayed one.
    pub fn handle_sent<P: Payload>(&mut self, id: WorkId, verbs: &mut dyn Verbs<P>) -> bool {
        if let Some(copy) = work::copy(id) {
            verbs.memory().release(copy).expect("a copy is kept until it is sent");
        }
        !work::is_relayed(id)
    }

    /// Takes what a peer has written: what is for this node is the answer, what is for others is passed on.
    ///
    /// # Errors
    /// If the peer has broken the protocol; nothing is passed on then.
    pub fn handle_written<P: Payload>(
        &mut self,
        from: QpIndex,
        target: Slice,
        immediate: u32,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<Option<Delivery>, ProtocolViolation> {
        let (table, window) = (&self.config.table, self.config.window);
        let violation = ProtocolViolation { peer: table.neighbour(from) };
        let has_bitmap = window.bitmap() > 0 && immediate == BITMAP_IN_PAYLOAD;
        let landed = window.landed(target, has_bitmap).ok_or(violation)?;
        let mut destinations = self.destinations(&landed, immediate, verbs).ok_or(violation)?;
        let me = table.rank();
        if destinations.check(table.ranks()).is_err() || destinations.is_empty() || landed.source == me {
            return Err(violation);
        }
        let Landed { source, slot, data, .. } = landed;
        let is_mine = destinations.remove(me.0);
        if destinations.is_empty() || self.breaks(Mutation::ReceivesAhead) {
            self.receive(from, verbs);
        }
        if !destinations.is_empty() {
            // Its receive request is posted again when it has been passed on: a relay that is behind makes its peers wait.
            let length = data.length;
            if is_mine && self.breaks(Mutation::BitmapNotNarrowed) {
                destinations.insert(me.0);
            }
            self.passing.push_back(Passing { from, destinations, source, slot, length });
            if self.config.cost == RelayCost::default() {
                self.relay(verbs)?;
            } else if self.passing.len() == 1 {
                self.work_on_next(verbs);
            }
        }
        Ok(is_mine.then_some(Delivery { source, slot, data }))
    }

    fn destinations<P: Payload>(
        &self,
        landed: &Landed,
        immediate: u32,
        verbs: &mut dyn Verbs<P>,
    ) -> Option<Destinations> {
        let (table, window) = (&self.config.table, self.config.window);
        if window.bitmap() == 0 {
            return Some(Destinations::from_immediate(immediate));
        }
        if !landed.has_bitmap {
            return (immediate == NO_BITMAP).then(|| Destinations::one(table.rank().0));
        }
        let head =
            Slice { region: KEY, offset: window.offset(landed.source, landed.slot), length: window.bitmap() };
        let bytes = P::contents(verbs.memory().view(head))?;
        let (view, _) = BitmapView::split(bytes, table.ranks()).ok()?;
        Some(Destinations::parse(&view))
    }

    /// Passes the oldest message on that waits for it: each part of its destinations with a bitmap of its own. To be called when
    /// [`RELAY`] fires.
    ///
    /// # Errors
    /// If the peer that sent the message has broken the protocol.
    pub fn relay<P: Payload>(&mut self, verbs: &mut dyn Verbs<P>) -> Result<(), ProtocolViolation> {
        let Some(Passing { from, destinations, source, slot, length }) = self.passing.pop_front() else {
            return Ok(());
        };
        let mut ahead = destinations;
        ahead.remove(self.config.table.rank().0);
        let parts = self.config.table.parts(ahead, 0);
        let reached: usize = parts.iter().map(|(_, part)| part.len()).sum();
        // What nobody leads to, and what would go back, goes nowhere: tables contradict each other.
        if reached < ahead.len() || parts.iter().any(|(qp, _)| *qp == from) {
            return Err(ProtocolViolation { peer: self.config.table.neighbour(from) });
        }
        let window = self.config.window;
        let data = window.data(source, slot, 0..length);
        for (qp, part) in parts {
            let part = if self.breaks(Mutation::BitmapNotNarrowed) { destinations } else { part };
            self.post(qp, part, window.offset(source, slot), data, true, verbs);
        }
        if !self.breaks(Mutation::ReceivesAhead) {
            self.receive(from, verbs);
        }
        if !self.passing.is_empty() {
            self.work_on_next(verbs);
        }
        Ok(())
    }

    /// Panics if the state breaks a rule that must always hold.
    pub fn assert_invariants(&self) {
        let limit = self.config.receives * self.config.table.queue_pairs().count();
        assert!(self.passing.len() <= limit, "what waits to be passed on holds a receive request each");
    }

    /// Sets the alarm for when the relay has done the oldest message.
    fn work_on_next<P: Payload>(&self, verbs: &mut dyn Verbs<P>) {
        if let Some(next) = self.passing.front() {
            let copies = self.config.table.parts(next.destinations, 0).len() as u64;
            let RelayCost { message, copy } = self.config.cost;
            verbs.set_alarm(RELAY, message + copy * copies);
        }
    }
}
