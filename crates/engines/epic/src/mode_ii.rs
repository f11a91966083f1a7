//! Mode-II, connection translated (EPIC 4.3, algorithm 1): the switch keeps no reliability of its own. Packets pass with
//! other addresses and the same PSN; hosts retransmit end to end; the switch makes every step repeatable.
//!
//! Slots are numbered over aggregating collectives only. The valid range holds twice the window: a sender that has sent
//! `n` has seen everything up to `n - MW` acknowledged, so once all senders are known to be at `progress`, nothing up
//! to `progress - MW` will be asked for again, and nobody can be beyond `progress + MW`.

use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_engine::Frame;
use quincunx_wire::{Aeth, NakCode, Operation, RoceHeader, Syndrome};

use crate::config::GroupConfig;
use crate::control::{ControlMessage, Pattern};
use crate::forward::{ACK, acknowledge, expedite, replicate};
use crate::inc_engine::DropReason;
use crate::invocation::{EdgeSet, Invocation, InvocationTable, TreePlace, edge_bit, edges_of};
use crate::mutation::Mutation;
use crate::pipe::{Aggregated, Pipe, SlotHeader};

/// A group on a Mode-II switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ModeII<P> {
    config: GroupConfig,
    place: TreePlace,
    table: InvocationTable,
    pipe: Pipe<P>,
    /// Slots before this number are known to be done with by their receivers, or aggregated by all senders.
    progress: u64,
    /// ackPsn + 1 for each edge: everything before it has arrived at all ranks behind the edge.
    acked: Vec<u64>,
}

impl<P: Payload> ModeII<P> {
    pub(crate) fn new(config: GroupConfig, first: u64) -> Self {
        let window = u64::from(config.window);
        let regions = if config.reproducible { config.edges.len() } else { 1 };
        // A rank is in one collective, and every unfinished one holds a rank: no more than `ranks` are unfinished.
        let capacity = usize::from(config.ranks) + 1;
        let slots = if config.breaks(Mutation::WindowShort) { window + 1 } else { 2 * window };
        Self {
            place: TreePlace::new(&config),
            table: InvocationTable::new(first, capacity, config.ranks),
            pipe: Pipe::new(first - window, slots, config.mtu, regions, config.mutation),
            progress: first,
            acked: vec![first; config.edges.len()],
            config,
        }
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.pipe.buffer_bytes()
    }

    pub(crate) fn handle_frame(
        &mut self,
        edge: usize,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        match frame.header.operation {
            Operation::Send(_) | Operation::SendOnlyImmediate(_) => self.handle_data(edge, frame, out),
            Operation::Acknowledge(aeth) => self.handle_acknowledge(edge, frame.header, aeth, out),
            _ => Err(DropReason::UnexpectedOperation),
        }
    }

    fn handle_data(
        &mut self,
        edge: usize,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let sequence = self.config.count(frame.header.psn, self.table.next());
        let length = P::view_length(frame.payload);
        let bit = edge_bit(edge);
        let place = &self.place;
        let invocation =
            self.table.admit(sequence, frame.header.operation, length, self.config.mtu, None, |message| {
                flows_from(place, message, bit)
            })?;
        let pattern = invocation.message.pattern;
        let header = SlotHeader::of(frame.header, length);
        if let Some(route) = self.place.aggregation(pattern).filter(|route| route.sources & bit != 0) {
            return self.handle_up(edge, route.sources, &invocation, sequence, header, frame.payload, out);
        }
        let route = self.place.replication(pattern).filter(|route| route.sources & bit != 0);
        let route = route.ok_or(DropReason::WrongDirection)?;
        if let Pattern::Broadcast { .. } = pattern {
            let done = self.acked_by_all(route.outs, &invocation);
            if sequence < done && !self.config.breaks(Mutation::AckOnlyIfNews) {
                // All have it: whoever asks missed the ACK, which is repeated here instead of asking everybody again.
                acknowledge(&self.config, edge, done - 1, ACK, out);
                return Err(DropReason::Duplicate);
            }
        }
        replicate(&self.config, route.outs, sequence, header, frame.payload, out);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a packet, where it comes from and where it belongs")]
    fn handle_up(
        &mut self,
        edge: usize,
        sources: EdgeSet,
        invocation: &Invocation,
        sequence: u64,
        header: SlotHeader,
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let number = invocation.slot_of(sequence);
        let reduction = invocation.message.reduction;
        if let Pattern::Reduce { .. } = invocation.message.pattern
            && number < self.progress
            && !self.config.breaks(Mutation::ReduceRecycledByCompletion)
        {
            if self.config.breaks(Mutation::AckOnlyIfNews) {
                return Err(DropReason::Duplicate);
            }
            // The receiver has it: whoever asks missed the ACK.
            let done = invocation.last.min(invocation.first + (self.progress - 1 - invocation.slot_first));
            acknowledge(&self.config, edge, done, ACK, out);
            return Err(DropReason::Duplicate);
        }
        if !self.pipe.contains(number) {
            let stale = number < self.pipe.start();
            return Err(if stale { DropReason::Stale } else { DropReason::AheadOfRange });
        }
        let bit = edge_bit(edge);
        let outcome = self.pipe.aggregate(number, bit, sources, header, payload, reduction);
        let complete = match outcome {
            Aggregated::Mismatch => return Err(DropReason::Mismatch),
            Aggregated::Partial => false,
            Aggregated::Complete => true,
            Aggregated::Duplicate => self.pipe.is_complete(number, sources),
        };
        if !complete {
            return Ok(());
        }
        let outs = match invocation.message.pattern {
            // The root of the tree turns the aggregate round; a duplicate is answered toward the one who asks.
            Pattern::AllReduce if self.place.is_root() && outcome == Aggregated::Duplicate => bit,
            Pattern::AllReduce if self.place.is_root() => sources,
            _ => self.place.aggregation(invocation.message.pattern).map_or(0, |route| route.outs),
        };
        let held = self.pipe.header(number).expect("a complete slot holds something");
        let next_slot = outcome == Aggregated::Duplicate && self.config.breaks(Mutation::AnswersNextSlot);
        let view = if next_slot { self.pipe.next_view(number) } else { self.pipe.view(number) };
        if self.config.selective && outs == bit {
            expedite(&self.config, edge, sequence, held, view, out);
        } else {
            replicate(&self.config, outs, sequence, held, view, out);
        }
        let by_completion = invocation.message.pattern == Pattern::AllReduce
            || self.config.breaks(Mutation::ReduceRecycledByCompletion);
        if outcome == Aggregated::Complete && by_completion {
            self.advance(number + 1);
        }
        Ok(())
    }

    /// RecycleBuffer: everything before `progress` is known to be aggregated (AllReduce) or received (Reduce).
    fn advance(&mut self, progress: u64) {
        self.progress = self.progress.max(progress);
        let window = u64::from(self.config.window);
        let behind = match self.config.breaks(Mutation::WindowInMessages) {
            true => 2 * window - window / u64::from(self.config.message),
            false => window,
        };
        self.pipe.recycle_to(self.progress - behind);
    }

    fn handle_acknowledge(
        &mut self,
        edge: usize,
        header: &RoceHeader,
        aeth: Aeth,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let sequence = self.config.count(header.psn, self.table.next());
        let positive = match aeth.syndrome {
            Syndrome::Ack(_) => true,
            Syndrome::Nak(NakCode::SequenceError) if self.config.breaks(Mutation::NakAsAck) => true,
            Syndrome::Nak(NakCode::SequenceError) | Syndrome::ReceiverNotReady(_) => false,
            // The receiver is broken: its sender must know, whatever the PSN.
            Syndrome::Nak(_) => false,
        };
        let arrived = if positive { sequence + 1 } else { sequence };
        let invocation = *self.table.find(sequence).ok_or(DropReason::BadAcknowledge)?;
        // A selective NAK asks for one packet, and says nothing of those before it.
        let asks_for_one = self.config.selective && aeth.syndrome == Syndrome::Nak(NakCode::SequenceError);
        if !asks_for_one {
            self.advance_acked(edge, arrived, out);
        }
        let bit = edge_bit(edge);
        match invocation.message.pattern {
            Pattern::AllReduce => {
                // Reflected by the first hop: the result's arrival acknowledges the contribution (figure 7d).
                if self.config.edges[edge].rank.is_none() {
                    return Err(DropReason::WrongDirection);
                }
                acknowledge(&self.config, edge, sequence, aeth.syndrome, out);
            }
            Pattern::Reduce { root } => {
                if self.place.toward(root) != bit {
                    return Err(DropReason::WrongDirection);
                }
                if !positive {
                    let sources =
                        self.place.aggregation(invocation.message.pattern).map_or(0, |route| route.sources);
                    for source in edges_of(sources) {
                        acknowledge(&self.config, source, sequence, aeth.syndrome, out);
                    }
                }
            }
            Pattern::Broadcast { .. } => {
                let route = self.place.replication(invocation.message.pattern);
                let Some(route) = route.filter(|route| route.outs & bit != 0) else {
                    return Err(DropReason::WrongDirection);
                };
                if asks_for_one {
                    for source in edges_of(route.sources) {
                        acknowledge(&self.config, source, sequence, aeth.syndrome, out);
                    }
                } else if !positive {
                    // A NAK also acknowledges what is before it, to the sender on behalf of all: so it must not ask for
                    // anything later than what the slowest receiver misses. One that is still in an earlier collective
                    // cannot be spoken for at all: then the sender's time-out has to do.
                    let slowest = edges_of(route.outs).map(|edge| self.acked[edge]).min().unwrap_or(sequence);
                    let as_it_is = self.config.breaks(Mutation::NakForwarded);
                    if slowest < invocation.first && !as_it_is {
                        return Ok(());
                    }
                    let missing = if as_it_is { sequence } else { sequence.min(slowest) };
                    for source in edges_of(route.sources) {
                        acknowledge(&self.config, source, missing, aeth.syndrome, out);
                    }
                }
            }
        }
        Ok(())
    }

    /// ReceiveAck for Broadcast and Reduce: raises ackPsn of `edge`, and passes on what that means to the senders of every
    /// collective that it touches. (A receiver that has moved on acknowledges with a PSN of a later collective.)
    fn advance_acked(&mut self, edge: usize, arrived: u64, out: &mut dyn DatapathSink<P>) {
        let before = self.acked[edge];
        if arrived <= before {
            return;
        }
        let bit = edge_bit(edge);
        for index in 0..self.table.len() {
            let invocation = *self.table.get(index);
            if invocation.last < before || invocation.first >= arrived {
                continue;
            }
            let reached = arrived.min(invocation.last + 1);
            let (sources, acked) = match invocation.message.pattern {
                Pattern::AllReduce => continue,
                Pattern::Reduce { root } if self.place.toward(root) == bit => {
                    self.advance(invocation.slot_of(reached - 1) + 1);
                    (
                        self.place.aggregation(invocation.message.pattern).map_or(0, |route| route.sources),
                        reached,
                    )
                }
                Pattern::Reduce { .. } => continue,
                Pattern::Broadcast { .. } => {
                    let route =
                        self.place.replication(invocation.message.pattern).expect("a broadcast replicates");
                    if route.outs & bit == 0 {
                        continue;
                    }
                    let old = self.acked_by_all(route.outs, &invocation);
                    self.acked[edge] = arrived;
                    let new = self.acked_by_all(route.outs, &invocation);
                    self.acked[edge] = before;
                    if new == old {
                        continue;
                    }
                    (route.sources, new)
                }
            };
            for source in edges_of(sources) {
                acknowledge(&self.config, source, acked - 1, ACK, out);
            }
        }
        self.acked[edge] = arrived;
    }

    /// nodeAckPsn + 1: what every edge of `outs` has acknowledged of `invocation`.
    fn acked_by_all(&self, outs: EdgeSet, invocation: &Invocation) -> u64 {
        let slowest = edges_of(outs).map(|edge| self.acked[edge]).min().unwrap_or(u64::MAX);
        slowest.clamp(invocation.first, invocation.last + 1)
    }

    pub(crate) fn assert_invariants(&self) {
        self.table.assert_invariants();
        let window = u64::from(self.config.window);
        if !self.config.breaks(Mutation::WindowShort) {
            assert_eq!(self.pipe.end() - self.pipe.start(), 2 * window, "the range is twice the window");
        }
        if !self.config.breaks(Mutation::WindowInMessages) {
            assert_eq!(self.pipe.start() + window, self.progress, "the range lies around the progress");
        }
        for &acked in &self.acked {
            assert!(acked <= self.table.next(), "nobody acknowledges what no collective holds");
        }
    }
}

/// Whether packets of `message` may come from the edge `bit`.
pub(crate) fn flows_from(place: &TreePlace, message: &ControlMessage, bit: EdgeSet) -> bool {
    let sources = |route: Option<crate::invocation::Route>| route.map_or(0, |route| route.sources);
    (sources(place.aggregation(message.pattern)) | sources(place.replication(message.pattern))) & bit != 0
}
