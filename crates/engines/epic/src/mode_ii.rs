//! Mode-II, connection translated (EPIC 4.3, algorithm 1): the switch keeps no reliability of its own. Packets pass with
//! other addresses and the same PSN; hosts retransmit end to end; the switch makes every step repeatable.
//!
//! Slots hold what is aggregated. A sender that has sent `n` is done with everything up to `n - MW`, and receivers take packets in
//! order. So once packet `progress - 1` is aggregated (AllReduce), or received by its root (Reduce), nothing before `progress - MW`
//! will be asked for again; and of what is asked for no more than twice the window is aggregated, whatever Broadcasts lie between.
//!
//! Collectives overlap, which needs two things of the switch. Acknowledges are cumulative, so a sender is told no more than that
//! all of its packets in a row have arrived, over the ends of collectives (`sender_acks.rs`). And a receiver takes packets in order, while a
//! Broadcast waits for nobody: its packets are held in slots until what ranks receive before it has passed (`gates.rs`).

mod gates;
mod rewound;
mod sender_acks;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::{DatapathSink, Refusal};
use quincunx_engine::Frame;
use quincunx_wire::{Aeth, NakCode, Operation, RoceHeader, Syndrome};

use crate::config::{EdgeConfig, GroupConfig};
use crate::control::{ControlMessage, Pattern};
use crate::drops::DropReason;
use crate::forward::{acknowledge, replicate};
use crate::invocation::{Admitted, EdgeSet, Invocation, InvocationTable, TreePlace, edge_bit, edges_of};
use crate::mutation::Mutation;
use crate::pipe::{Aggregated, Pipe, SlotHeader};
use crate::source::Source;

/// A group on a Mode-II switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ModeII {
    config: GroupConfig,
    place: TreePlace,
    table: InvocationTable<CollectiveProgress>,
    pipe: Pipe,
    /// One more than the newest packet of which it is known that it, and what aggregates before it, is aggregated by all senders
    /// (AllReduce; some of them may be missing) or received by its root (Reduce).
    progress: u64,
    /// The same, and over Broadcasts behind it.
    cursor: u64,
    /// ackPsn + 1 for each edge: everything before it has arrived at all ranks behind the edge.
    acked: Vec<u64>,
    /// What each edge, as a sender, has been told of.
    sender_acks: Vec<SenderAck>,
    /// Edges that lead to ranks and to switches in other modes, which are peers like ranks.
    ends: EdgeSet,
    /// Everything before this number has passed to the ranks here that receive it, its last packet at least.
    clear: u64,
}

/// How far a collective has come on its way through the switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct CollectiveProgress {
    /// Before this number it is aggregated (AllReduce; some before it may be missing) or acknowledged (Reduce, Broadcast).
    reached: u64,
    /// Ranks that its last packet has been sent to.
    through: EdgeSet,
    /// Broadcast: edges that its packets need not wait for.
    open: EdgeSet,
    /// Broadcast: no packet from this number on is held.
    held: u64,
    /// Ranks that have dropped it after it had passed, and are to have it again when it is their turn.
    again: EdgeSet,
}

/// What a sender has been told: everything before `position` that it sends has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SenderAck {
    position: u64,
    /// The newest of its packets before it.
    covered: Option<u64>,
    /// It has been asked to go back to this packet, which has not come since.
    asked: Option<u64>,
    /// It has asked what has arrived when this packet, which it was not told of, had passed.
    questioned: Option<u64>,
}

impl ModeII {
    pub(crate) fn new(config: GroupConfig, first: u64) -> Self {
        let window = u64::from(config.window);
        let regions = if config.reproducible { config.edges.len() } else { 1 };
        // A rank posts receive requests for up to two windows of packets, each a collective at most, beyond the oldest that it is not
        // done with. What others do without it are Broadcasts, and each of them waits for its acknowledge of its own.
        let packets = usize::try_from(2 * window).unwrap_or(usize::MAX);
        let capacity = packets.saturating_mul(usize::from(config.ranks)).saturating_add(2);
        let slots = if config.breaks(Mutation::WindowShort) { window + 1 } else { 2 * window };
        let is_end = |(edge, config): (usize, &EdgeConfig)| config.is_end().then(|| edge_bit(edge));
        Self {
            place: TreePlace::new(&config),
            table: InvocationTable::new(first, capacity, config.ranks).breaking(config.mutation),
            pipe: Pipe::new(first - window, slots, config.mtu, (0, regions), config.mutation),
            progress: first,
            cursor: first,
            acked: vec![first; config.edges.len()],
            sender_acks: vec![
                SenderAck { position: first, covered: None, asked: None, questioned: None };
                config.edges.len()
            ],
            ends: config.edges.iter().enumerate().filter_map(is_end).fold(0, |set, bit| set | bit),
            clear: first,
            config,
        }
    }

    /// Everything before this number has been forgotten.
    pub(crate) fn base(&self) -> u64 {
        self.table.base()
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.pipe.buffer_bytes()
    }

    /// The group as `rtl/inc_engine` is told of it.
    pub(crate) fn told_to_hardware(&self) -> Result<String, Refusal> {
        let GroupConfig { ranks, mtu, window, initial_psn, parent, reproducible, .. } = &self.config;
        let cannot = |found, change| {
            Err(Refusal::new("a group that the hardware can be in", found, format!("set {change}")))
        };
        if self.config.selective {
            return cannot("selective repeat", "group.selective=false");
        }
        if self.config.standard_verbs {
            return cannot("ranks with standard queue pairs", "group.standard_verbs=false");
        }
        // It takes all that acknowledge for ranks, which drop what comes early.
        if self.config.edges.iter().any(|edge| edge.is_end() && edge.mode.is_some()) {
            return cannot("a switch in another mode beside it", "group.modes=II");
        }
        let parent = parent.map_or("-".to_string(), |edge| edge.to_string());
        let toward: Vec<String> = self.config.toward.iter().map(usize::to_string).collect();
        Ok(format!(
            "group {ranks} {} {parent} {} {mtu} {} {} {} {}",
            self.config.edges.len(),
            u64::from(*window),
            initial_psn.value(),
            u8::from(*reproducible),
            self.ends,
            toward.join(","),
        ))
    }

    pub(crate) fn handle_frame<P: Payload>(
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

    fn handle_data<P: Payload>(
        &mut self,
        edge: usize,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let sequence = self.config.count(frame.header.psn, self.table.next());
        let length = P::view_length(frame.payload);
        if length == 0 && self.config.selective && frame.header.operation == Operation::QUESTION {
            self.answer_question(edge, sequence, out);
            return Ok(());
        }
        let bit = edge_bit(edge);
        self.sender_acks[edge].asked.take_if(|asked| sequence <= *asked);
        let (place, ends) = (&self.place, self.ends);
        let Admitted { invocation, is_new } = self.table.admit(
            sequence,
            frame.header.operation,
            length,
            self.config.mtu,
            (None, self.table.next() + 2 * u64::from(self.config.window)),
            |message| flows_from(place, message, bit),
            |invocation| CollectiveProgress {
                reached: invocation.first,
                through: 0,
                open: place.replication(invocation.message.pattern).map_or(0, |route| route.outs & !ends),
                held: 0,
                again: 0,
            },
        )?;
        if is_new {
            self.take_in(&invocation, out);
        }
        if sequence == invocation.first {
            out.begun(edge as u16, sequence);
        }
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
                self.tell_again(edge, done - 1, out);
                return Err(DropReason::Duplicate);
            }
            return self.broadcast(route, &invocation, sequence, header, frame.payload, out);
        }
        replicate(&self.config, route.outs, sequence, header, Source::Frame(frame.payload), out);
        self.note_passed(&invocation, sequence, route.outs, out);
        Ok(())
    }

    /// A collective has become known. If later ones were known before, what waited for it may go on.
    fn take_in<P: Payload>(&mut self, invocation: &Invocation, out: &mut dyn DatapathSink<P>) {
        if invocation.last + 1 < self.table.next() {
            for edge in 0..self.config.edges.len() {
                self.tell(edge, out);
            }
            self.move_on();
        }
        self.update_gates(out);
    }

    #[expect(clippy::too_many_arguments, reason = "a packet, where it comes from and where it belongs")]
    fn handle_up<P: Payload>(
        &mut self,
        edge: usize,
        sources: EdgeSet,
        invocation: &Invocation,
        sequence: u64,
        header: SlotHeader,
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let reduction = invocation.message.reduction;
        let index = self.table.index(sequence).expect("the packet's collective is known");
        if let Pattern::Reduce { .. } = invocation.message.pattern
            && sequence < self.table.state(index).reached
            && !self.config.breaks(Mutation::ReduceRecycledByCompletion)
        {
            if self.config.breaks(Mutation::AckOnlyIfNews) {
                return Err(DropReason::Duplicate);
            }
            // The receiver has it: whoever asks missed the ACK.
            self.tell_again(edge, self.table.state(index).reached - 1, out);
            return Err(DropReason::Duplicate);
        }
        let bit = edge_bit(edge);
        if invocation.message.pattern == Pattern::AllReduce
            && self.ends & bit != 0
            && self.acked[edge] > invocation.last + 1
        {
            // The rank has its results, and acknowledges later packets only: whoever asks missed the ACK.
            self.tell_again(edge, invocation.last, out);
            return Err(DropReason::Duplicate);
        }
        self.check_room(sequence)?;
        let outcome = self.pipe.aggregate(
            sequence,
            bit,
            sources,
            header,
            Source::Frame(payload),
            reduction,
            out.memory(),
        );
        let complete = match outcome {
            Aggregated::Mismatch => return Err(DropReason::Mismatch),
            Aggregated::Partial => false,
            Aggregated::Complete => true,
            Aggregated::Duplicate => self.pipe.is_complete(sequence, sources),
        };
        if !complete {
            return Ok(());
        }
        let outs = match invocation.message.pattern {
            // The root of the tree turns the aggregate round; a duplicate is answered toward the one who asks, among other traffic: what it
            // overtook would be taken for lost.
            Pattern::AllReduce if self.place.is_root() && outcome == Aggregated::Duplicate => bit,
            Pattern::AllReduce if self.place.is_root() => sources,
            _ => self.place.aggregation(invocation.message.pattern).map_or(0, |route| route.outs),
        };
        let held = self.pipe.header(sequence).expect("a complete slot holds something");
        let payload = match outcome {
            Aggregated::Duplicate => self.once_more(sequence),
            _ => self.pipe.payload(sequence),
        };
        replicate(&self.config, outs, sequence, held, payload, out);
        let by_completion = invocation.message.pattern == Pattern::AllReduce
            || self.config.breaks(Mutation::ReduceRecycledByCompletion);
        if outcome == Aggregated::Complete {
            self.note_passed(invocation, sequence, outs, out);
            if by_completion {
                self.raise(index, sequence + 1);
                self.move_on();
            }
        }
        Ok(())
    }

    /// Everything of a collective before `reached` is aggregated or acknowledged; whether that is news.
    fn raise(&mut self, index: usize, reached: u64) -> bool {
        let state = self.table.state_mut(index);
        let is_news = reached > state.reached;
        state.reached = state.reached.max(reached);
        is_news
    }

    /// RecycleBuffer: moves the range on, over the ends of collectives.
    fn move_on(&mut self) {
        self.cursor = self.cursor.max(self.table.base());
        while let Some(index) = self.table.index(self.cursor) {
            let (Invocation { last, message, .. }, reached) =
                (*self.table.get(index), self.table.state(index).reached);
            if let Pattern::Broadcast { .. } = message.pattern {
                self.cursor = last + 1;
                continue;
            }
            if reached > self.cursor {
                (self.cursor, self.progress) = (reached, reached);
            }
            if self.cursor <= last {
                break;
            }
        }
        let window = u64::from(self.config.window);
        let behind = match self.config.breaks(Mutation::WindowInMessages) {
            true => 2 * window - window / u64::from(self.config.message),
            false => window,
        };
        self.pipe.recycle_to(self.progress - behind);
    }

    /// Whether there is a slot for packet `sequence`, and one would be left for each before it that may need one.
    fn check_room(&self, sequence: u64) -> Result<(), DropReason> {
        if self.pipe.contains(sequence) {
            return if self.pipe.has_slot(sequence) { Ok(()) } else { Err(DropReason::AheadOfRange) };
        }
        let start = self.pipe.start();
        if sequence < start {
            return Err(DropReason::Stale);
        }
        let (mut needed, mut next) = (0, start.max(self.table.base()));
        for index in self.table.first_from(next)..self.table.len() {
            let invocation = *self.table.get(index);
            if invocation.first > sequence {
                break;
            }
            // What is not known yet may need as many.
            needed += invocation.first.saturating_sub(next);
            let takes_slots = match invocation.message.pattern {
                Pattern::Broadcast { .. } => self.receivers(&invocation) & !self.table.state(index).open != 0,
                Pattern::AllReduce | Pattern::Reduce { .. } => true,
            };
            if takes_slots {
                needed += invocation.last.min(sequence) + 1 - invocation.first.max(next);
            }
            next = invocation.last + 1;
        }
        needed += (sequence + 1).saturating_sub(next);
        let has_room = needed <= 2 * u64::from(self.config.window) && self.pipe.has_slot(sequence);
        if has_room { Ok(()) } else { Err(DropReason::AheadOfRange) }
    }

    fn handle_acknowledge<P: Payload>(
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
        let asks_for_one =
            self.config.selective && !positive && aeth.syndrome == Syndrome::Nak(NakCode::SequenceError);
        if !asks_for_one {
            self.advance_acked(edge, arrived, out);
        }
        if !positive {
            self.rewind(edge, sequence, out);
        }
        let bit = edge_bit(edge);
        if invocation.message.pattern != Pattern::AllReduce && self.ends & bit != 0 {
            // It acknowledges the results before it, too.
            self.tell(edge, out);
        }
        match invocation.message.pattern {
            Pattern::AllReduce => {
                // Reflected by the first hop: the result's arrival acknowledges the contribution (figure 7d).
                if !self.config.edges[edge].is_end() {
                    return Err(DropReason::WrongDirection);
                }
                match aeth.syndrome {
                    Syndrome::Ack(_) => self.tell_again(edge, sequence, out),
                    _ if asks_for_one && self.answer_request(edge, sequence, &invocation, out) => {}
                    _ => self.pass_on(edge, sequence, aeth.syndrome, false, out),
                }
            }
            Pattern::Reduce { root } => {
                if self.place.toward(root) != bit {
                    return Err(DropReason::WrongDirection);
                }
                if !positive {
                    let sources =
                        self.place.aggregation(invocation.message.pattern).map_or(0, |route| route.sources);
                    for source in edges_of(sources) {
                        self.pass_on(source, sequence, aeth.syndrome, false, out);
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
                    // A NAK also acknowledges what is before it, to the sender on behalf of all: so it must not ask for anything
                    // later than what the slowest receiver misses. One that is still in an earlier collective misses all of
                    // this one; what the sender has sent before is another matter, and `pass_on` sees to it.
                    let slowest = edges_of(route.outs).map(|edge| self.acked[edge]).min().unwrap_or(sequence);
                    let as_it_is = self.config.breaks(Mutation::NakForwarded);
                    let missing =
                        if as_it_is { sequence } else { sequence.min(slowest.max(invocation.first)) };
                    for source in edges_of(route.sources) {
                        if as_it_is {
                            acknowledge(&self.config, source, missing, aeth.syndrome, out);
                        } else {
                            self.pass_on(source, missing, aeth.syndrome, true, out);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// ReceiveAck for Broadcast and Reduce: raises ackPsn of `edge`, and passes on what that means to the senders of every
    /// collective that it touches. (A receiver that has moved on acknowledges with a PSN of a later collective.)
    fn advance_acked<P: Payload>(&mut self, edge: usize, arrived: u64, out: &mut dyn DatapathSink<P>) {
        let before = self.acked[edge];
        if arrived <= before {
            return;
        }
        self.acked[edge] = arrived;
        let bit = edge_bit(edge);
        let (mut senders, mut has_all) = (0, false);
        for index in self.table.first_from(before)..self.table.len() {
            let invocation = *self.table.get(index);
            if invocation.first >= arrived {
                break;
            }
            if invocation.last < arrived && self.receivers(&invocation) & bit != 0 {
                // It has all of it, whatever it has asked for.
                let state = self.table.state_mut(index);
                has_all |= state.through & bit == 0;
                state.through |= bit;
                state.open |= bit;
                state.again &= !bit;
            }
            let (sources, reached) = match invocation.message.pattern {
                Pattern::AllReduce => continue,
                Pattern::Reduce { root } if self.place.toward(root) == bit => {
                    let route = self.place.aggregation(invocation.message.pattern);
                    (route.map_or(0, |route| route.sources), arrived.min(invocation.last + 1))
                }
                Pattern::Reduce { .. } => continue,
                Pattern::Broadcast { .. } => {
                    let route =
                        self.place.replication(invocation.message.pattern).expect("a broadcast replicates");
                    if route.outs & bit == 0 {
                        continue;
                    }
                    (route.sources, self.acked_by_all(route.outs, &invocation))
                }
            };
            let is_news = self.raise(index, reached);
            let by_completion = self.config.breaks(Mutation::ReduceRecycledByCompletion);
            if is_news || by_completion {
                senders |= sources;
            }
        }
        self.move_on();
        for sender in edges_of(senders) {
            self.tell(sender, out);
        }
        if has_all {
            self.update_gates(out);
        }
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
        for ack in &self.sender_acks {
            assert!(ack.position <= self.table.next(), "no sender is told of what no collective holds");
            assert!(ack.covered.is_none_or(|covered| covered < ack.position));
            assert!(
                ack.asked.is_none_or(|asked| asked <= self.table.next()),
                "nobody asks for what is not known"
            );
        }
        assert!(self.clear <= self.table.next(), "nothing has passed that no collective holds");
    }
}

/// Whether packets of `message` may come from the edge `bit`.
pub(crate) fn flows_from(place: &TreePlace, message: &ControlMessage, bit: EdgeSet) -> bool {
    let sources = |route: Option<crate::invocation::Route>| route.map_or(0, |route| route.sources);
    (sources(place.aggregation(message.pattern)) | sources(place.replication(message.pattern))) & bit != 0
}
