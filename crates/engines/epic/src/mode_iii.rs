//! Mode-III, connection augmented (EPIC 4.4, algorithms 2 and 3): reliability hop by hop and packet by packet, with two
//! pipes. The aggregation pipe takes what flows from several edges to one (AllReduce upward, Reduce), the replication
//! pipe what flows from one to several (AllReduce downward, Broadcast). At the tree's root the aggregate of an
//! AllReduce is handed to the replication pipe like a packet from a parent, when that pipe has room (H.4).
//!
//! A pipe's range moves with the slowest of its outgoing edges, over the end of one collective into the next one; a
//! collective that does not use the pipe is skipped. Group PSN synchronisation follows from that: each direction of
//! each edge skips the collectives that it does not carry. Where a collective is not known yet though a later one is, what the
//! later one brings is kept, and neither acknowledged, asked for nor passed on until it is.

mod answers;
mod sending;

use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_engine::{Frame, Missing};
use quincunx_units::Instant;
use quincunx_wire::aeth::receiver_not_ready_delay;
use quincunx_wire::{NakCode, Operation, RoceHeader, Syndrome};

use crate::config::GroupConfig;
use crate::control::Pattern;
use crate::drops::DropReason;
use crate::forward::{ACK, acknowledge};
use crate::hop::{Answer, Hop};
use crate::invocation::{
    Admitted, EdgeSet, Invocation, InvocationTable, LOCAL, Route, TreePlace, edge_bit, edges_of,
};
use crate::mode::Mode;
use crate::mode_ii::flows_from;
use crate::mutation::Mutation;
use crate::pipe::{Aggregated, Pipe, SlotHeader};
use crate::source::Source;
use crate::timers::resend_timer;

/// Which of the two pipes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Flow {
    Aggregation,
    Replication,
}

const FLOWS: [Flow; 2] = [Flow::Aggregation, Flow::Replication];

/// A group on a Mode-III switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ModeIII {
    config: GroupConfig,
    place: TreePlace,
    table: InvocationTable,
    aggregation: Pipe,
    replication: Pipe,
    hops: Vec<Hop>,
    /// For each edge, packets that have not arrived though later ones have; none unless reliability is selective.
    missing: Vec<Missing>,
    /// At the tree's root: the next number to hand from the aggregation to the replication pipe.
    local: u64,
    /// The acknowledge timer is armed.
    acknowledging: bool,
}

impl ModeIII {
    pub(crate) fn new(config: GroupConfig, first: u64) -> Self {
        let window = u64::from(config.window);
        let doubled = config.breaks(Mutation::ModeIIRecycling) || config.breaks(Mutation::Figure6);
        let slots = if doubled { 2 * window } else { window };
        let regions = if config.reproducible { config.edges.len() } else { 1 };
        // Each unfinished collective holds at least a rank or a slot.
        let capacity = usize::from(config.ranks) + 2 * config.window.as_usize() + 1;
        let aggregation = Pipe::new(first, slots, config.mtu, (0, regions), config.mutation);
        let behind = aggregation.payload_bytes();
        Self {
            place: TreePlace::new(&config),
            table: InvocationTable::new(first, capacity, config.ranks).breaking(config.mutation),
            aggregation,
            replication: Pipe::new(first, window, config.mtu, (behind, 1), config.mutation),
            hops: alloc::vec![Hop::new(first); config.edges.len()],
            missing: alloc::vec![Missing::default(); config.edges.len()],
            local: first,
            acknowledging: false,
            config,
        }
    }

    /// Everything before this number has been forgotten.
    pub(crate) fn base(&self) -> u64 {
        self.table.base()
    }

    pub(crate) fn buffer_bytes(&self) -> usize {
        self.aggregation.buffer_bytes() + self.replication.buffer_bytes()
    }

    pub(crate) fn handle_frame<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        if self.hops[edge].failed {
            return Err(DropReason::Unreachable);
        }
        self.hops[edge].silent = 0;
        match frame.header.operation {
            Operation::Send(_) | Operation::SendOnlyImmediate(_) => self.handle_data(now, edge, frame, out),
            Operation::Acknowledge(aeth) => {
                self.handle_acknowledge(now, edge, frame.header, aeth.syndrome, out)
            }
            _ => Err(DropReason::UnexpectedOperation),
        }
    }

    fn handle_data<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let sequence = self.config.count(frame.header.psn, self.table.next());
        let length = P::view_length(frame.payload);
        if length == 0 && self.config.selective && frame.header.operation == Operation::QUESTION {
            self.answer_question(now, edge, sequence, out);
            return Ok(());
        }
        let bit = edge_bit(edge);
        let needed = self.aggregation.start().min(self.replication.start());
        let place = &self.place;
        let horizon = self.aggregation.end().max(self.replication.end());
        let admitted = self.table.admit(
            sequence,
            frame.header.operation,
            length,
            self.config.mtu,
            (Some(needed), horizon),
            |message| flows_from(place, message, bit),
            |_| (),
        );
        let Admitted { invocation, is_new } = match admitted {
            Ok(admitted) => admitted,
            Err(DropReason::NoCollective) if sequence >= self.table.base() => {
                // Its control message is still missing: refused until it is here (3.3.2).
                let answer = self.hops[edge].out_of_order();
                self.answer(edge, answer, out);
                return Err(DropReason::NoCollective);
            }
            Err(DropReason::NoCollective) => {
                self.answer_duplicate(edge, sequence, out);
                return Err(DropReason::Duplicate);
            }
            Err(reason) => return Err(reason),
        };
        if sequence == invocation.first {
            out.begun(edge as u16, sequence);
        }
        let taken = self.handle_admitted(now, edge, &invocation, sequence, frame, out);
        if is_new && invocation.last + 1 < self.table.next() {
            self.fill(now, out);
        }
        taken
    }

    /// Takes in a packet of a collective that is known.
    fn handle_admitted<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        invocation: &Invocation,
        sequence: u64,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let (bit, length) = (edge_bit(edge), P::view_length(frame.payload));
        let (flow, route) = self.incoming(invocation, bit).ok_or(DropReason::WrongDirection)?;
        let expected = self.skip_incoming(edge, self.hops[edge].expected);
        if sequence < expected || sequence < self.pipe(flow).start() {
            self.answer_duplicate(edge, sequence, out);
            return Err(DropReason::Duplicate);
        }
        if self.config.breaks(Mutation::AckBeforeAggregate) {
            acknowledge(&self.config, edge, sequence, ACK, out);
        }
        if sequence >= self.pipe(flow).end() {
            let is_next = sequence == expected || self.table.find(expected).is_none();
            self.turn_away(now, edge, sequence, is_next, out);
            return Err(DropReason::AheadOfRange);
        }
        let header = SlotHeader::of(frame.header, length);
        let reduction = invocation.message.reduction;
        let payload = Source::Frame(frame.payload);
        let pipe = self.pipe_mut(flow);
        let outcome = pipe.aggregate(sequence, bit, route.sources, header, payload, reduction, out.memory());
        if outcome == Aggregated::Mismatch {
            return Err(DropReason::Mismatch);
        }
        let answer = if sequence == expected {
            let reached = self.advance_expected(edge, expected);
            self.hops[edge].in_order(frame.header.acknowledge_request, reached - expected)
        } else if self.table.find(expected).is_none() {
            // Whether the neighbour sent anything between is not known yet.
            self.hops[edge].is_ahead |= frame.header.acknowledge_request;
            if self.config.selective {
                self.overtake(now, edge, invocation.first, sequence, out);
            }
            Answer::Nothing
        } else if self.config.selective {
            self.overtake(now, edge, expected, sequence, out);
            Answer::Nothing
        } else {
            self.hops[edge].out_of_order()
        };
        let is_once_more = outcome == Aggregated::Duplicate && self.config.edges[edge].mode == Some(Mode::II);
        if is_once_more && !self.config.breaks(Mutation::NewestUnheard) {
            // The newest result, which such a switch sends again to whoever has asked it.
            self.missing[edge].come_again(now, true);
        }
        if !self.missing[edge].is_empty() {
            self.ask_again(now, edge, sequence, out);
        }
        let may_wait = !self.answers_at_once() && answer == Answer::Ack && sequence >= expected;
        let result_follows = invocation.message.pattern == Pattern::AllReduce && flow == Flow::Aggregation;
        let can_outrun =
            invocation.message.pattern != Pattern::AllReduce && self.config.edges[edge].rank.is_some();
        if self.config.breaks(Mutation::AnswersAsPrinted) {
            self.answer_as_printed(edge, sequence, out);
        } else if may_wait && (result_follows || can_outrun) {
            self.owe(edge, out);
        } else {
            self.answer(edge, answer, out);
        }
        if invocation.message.pattern == Pattern::AllReduce && flow == Flow::Replication {
            // A result tells that the contribution to it has arrived, as an ACK would.
            let arrived = self.answered(edge);
            self.handle_arrived(now, edge, arrived, out);
        }
        match outcome {
            Aggregated::Complete if route.outs == LOCAL => self.hand_over(now, out),
            Aggregated::Complete => self.send_ready(now, route.outs, out),
            _ => {}
        }
        if outcome == Aggregated::Complete && flow == Flow::Aggregation {
            let window = u64::from(self.config.window);
            if self.config.breaks(Mutation::ModeIIRecycling) {
                self.aggregation.recycle_to(sequence + 1 - window);
            }
            if self.config.breaks(Mutation::Figure6) {
                self.aggregation.erase(sequence + window, out.memory());
            }
        }
        Ok(())
    }

    fn handle_acknowledge<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        header: &RoceHeader,
        syndrome: Syndrome,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let sequence = self.config.count(header.psn, self.table.next());
        if sequence > self.table.next() {
            return Err(DropReason::BadAcknowledge);
        }
        match syndrome {
            Syndrome::Ack(_) => self.handle_arrived(now, edge, sequence + 1, out),
            Syndrome::Nak(NakCode::SequenceError) if self.config.breaks(Mutation::NakAsAck) => {
                self.handle_arrived(now, edge, sequence + 1, out);
            }
            Syndrome::Nak(NakCode::SequenceError) if self.config.selective => {
                self.handle_request(now, edge, sequence, out);
            }
            Syndrome::Nak(NakCode::SequenceError) => {
                self.handle_arrived(now, edge, sequence, out);
                self.hops[edge].go_back();
            }
            Syndrome::ReceiverNotReady(code) => {
                self.handle_arrived(now, edge, sequence, out);
                let hop = &mut self.hops[edge];
                hop.paused = true;
                hop.armed = true;
                out.set_timer(resend_timer(edge), receiver_not_ready_delay(code));
            }
            Syndrome::Nak(_) => self.fail(edge, out),
        }
        Ok(())
    }

    /// Whether ranks' acknowledges wait for nothing.
    fn answers_at_once(&self) -> bool {
        self.config.run_ahead || self.config.breaks(Mutation::Figure6)
    }

    /// A collective has become known of which later ones were known before: what waited for it goes on.
    fn fill<P: Payload>(&mut self, now: Instant, out: &mut dyn DatapathSink<P>) {
        for edge in 0..self.hops.len() {
            let before = self.hops[edge].expected;
            let expected = self.skip_incoming(edge, before);
            let reached = self.advance_expected(edge, expected);
            if reached == expected {
                // Numbers that it does not send do not arrive.
                self.hops[edge].expected = before;
                continue;
            }
            self.hops[edge].in_order(false, 0);
            // Ranks' acknowledges wait for the range, or for results.
            let may_wait = !self.answers_at_once() && self.config.edges[edge].rank.is_some();
            let is_ahead = core::mem::replace(&mut self.hops[edge].is_ahead, false);
            if is_ahead && !self.config.breaks(Mutation::AnswersAsPrinted) {
                self.owe(edge, out);
            }
            if self.hops[edge].owed && !may_wait {
                self.answer(edge, Answer::Ack, out);
            }
        }
        self.move_on(Flow::Aggregation, out);
        self.move_on(Flow::Replication, out);
        self.hand_over(now, out);
        let all = (0..self.hops.len()).fold(0, |set, edge| set | edge_bit(edge));
        self.send_ready(now, all, out);
    }

    /// Before which number everything that was sent to `edge` has been answered by results: contributions to an AllReduce are; what
    /// flows in one direction only is not, and waits for its ACK.
    fn answered(&self, edge: usize) -> u64 {
        let (bit, expected) = (edge_bit(edge), self.hops[edge].expected);
        let mut answered = self.hops[edge].acked.max(self.table.base());
        while answered < expected
            && let Some(invocation) = self.table.find(answered)
        {
            let carries = |flow| self.route(flow, invocation).is_some_and(|route| route.outs & bit != 0);
            if invocation.message.pattern != Pattern::AllReduce && FLOWS.into_iter().any(carries) {
                break;
            }
            answered = expected.min(invocation.last + 1);
        }
        answered
    }

    /// ReceiveAck: everything before `arrived` is behind `edge`. Moves both pipes on as far as that allows.
    fn handle_arrived<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        arrived: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        if !self.hops[edge].receive_ack(now, arrived) {
            return;
        }
        self.rearm(edge, out);
        self.move_on(Flow::Aggregation, out);
        if self.move_on(Flow::Replication, out) {
            self.hand_over(now, out);
        }
    }

    /// H.4: at the tree's root, aggregates become packets of the replication pipe, as far as its range reaches.
    fn hand_over<P: Payload>(&mut self, now: Instant, out: &mut dyn DatapathSink<P>) {
        if !self.place.is_root() {
            return;
        }
        loop {
            self.local = self.local.max(self.aggregation.start());
            let Some(invocation) = self.table.find(self.local) else { break };
            if invocation.message.pattern != Pattern::AllReduce {
                self.local = invocation.last + 1;
                continue;
            }
            let (first, reduction) = (self.local, invocation.message.reduction);
            let sources = self.place.aggregation(Pattern::AllReduce).map_or(0, |route| route.sources);
            let ready = self.aggregation.contains(first)
                && self.aggregation.is_complete(first, sources)
                && (self.replication.contains(first) || self.config.breaks(Mutation::RootCopiesAggregate));
            if !ready {
                break;
            }
            let header = self.aggregation.header(first).expect("a complete slot holds something");
            let sum = self.aggregation.payload::<P>(first);
            self.replication.aggregate(first, LOCAL, LOCAL, header, sum, reduction, out.memory());
            self.local = first + 1;
            let outs = self.place.replication(Pattern::AllReduce).map_or(0, |route| route.outs);
            self.send_ready(now, outs, out);
        }
        self.move_on(Flow::Aggregation, out);
    }

    /// Moves the start of a pipe's range to the oldest number that an outgoing edge may still miss, and frees what lies
    /// before it. Whether it moved. Calls for packets that were turned away.
    fn move_on<P: Payload>(&mut self, flow: Flow, out: &mut dyn DatapathSink<P>) -> bool {
        let before = self.pipe(flow).start();
        loop {
            let start = self.pipe(flow).start();
            let Some(invocation) = self.table.find(start) else { break };
            let mut asking = 0;
            let next = match self.route(flow, invocation) {
                None => invocation.last + 1,
                Some(route) => {
                    let local = if route.outs & LOCAL != 0 { self.local } else { u64::MAX };
                    let slowest =
                        edges_of(route.outs).map(|edge| self.hops[edge].acked).min().unwrap_or(u64::MAX);
                    if invocation.message.pattern != Pattern::AllReduce {
                        asking = route.sources;
                    }
                    local.min(slowest).min(invocation.last + 1)
                }
            };
            if next <= start {
                break;
            }
            let pipe = self.pipe(flow);
            let asks = |number| pipe.header(number).is_some_and(|header| header.acknowledge_request);
            if asking != 0 && !(start..next).any(asks) {
                asking = 0;
            }
            self.pipe_mut(flow).recycle_to(next);
            for edge in edges_of(asking) {
                self.acknowledge_recycled(edge, next, out);
            }
        }
        if self.pipe(flow).start() == before {
            return false;
        }
        for edge in 0..self.hops.len() {
            if self.hops[edge].blocked {
                self.call_for_blocked(edge, out);
            }
        }
        true
    }

    /// ePSN moves over everything that has arrived, and over collectives in which `edge` sends nothing if something behind them
    /// has arrived; returns where it stands.
    fn advance_expected(&mut self, edge: usize, expected: u64) -> u64 {
        let bit = edge_bit(edge);
        let (mut next, mut reached) = (expected, expected);
        while let Some(invocation) = self.table.find(next) {
            let Some((flow, _)) = self.incoming(invocation, bit) else {
                next = invocation.last + 1;
                continue;
            };
            let pipe = self.pipe(flow);
            // What the range has left behind has arrived from everywhere.
            let has_arrived = next < pipe.start() || pipe.contains(next) && pipe.has_arrived(next, bit);
            if !has_arrived || self.is_beyond_array(next) {
                break;
            }
            next += 1;
            reached = next;
        }
        self.hops[edge].expected = reached;
        reached
    }

    /// Broken rule: whether an array that is not used again has no place for this number.
    fn is_beyond_array(&self, number: u64) -> bool {
        let first = (1 << 24) + u64::from(self.config.initial_psn.value());
        self.config.breaks(Mutation::ExpectedBeyondArray) && number - first >= u64::from(self.config.window)
    }

    /// `sequence`, or the next number that `edge` sends if `sequence` lies in collectives in which it sends nothing.
    fn skip_incoming(&self, edge: usize, sequence: u64) -> u64 {
        let bit = edge_bit(edge);
        let mut sequence = sequence.max(self.table.base());
        while let Some(invocation) = self.table.find(sequence) {
            if self.incoming(invocation, bit).is_some() {
                break;
            }
            sequence = invocation.last + 1;
        }
        sequence
    }

    /// The flow that packets of `invocation` from the edge `bit` belong to.
    fn incoming(&self, invocation: &Invocation, bit: EdgeSet) -> Option<(Flow, Route)> {
        FLOWS.into_iter().find_map(|flow| {
            self.route(flow, invocation).filter(|route| route.sources & bit != 0).map(|route| (flow, route))
        })
    }

    fn route(&self, flow: Flow, invocation: &Invocation) -> Option<Route> {
        match flow {
            Flow::Aggregation => self.place.aggregation(invocation.message.pattern),
            Flow::Replication => self.place.replication(invocation.message.pattern),
        }
    }

    fn pipe(&self, flow: Flow) -> &Pipe {
        match flow {
            Flow::Aggregation => &self.aggregation,
            Flow::Replication => &self.replication,
        }
    }

    fn pipe_mut(&mut self, flow: Flow) -> &mut Pipe {
        match flow {
            Flow::Aggregation => &mut self.aggregation,
            Flow::Replication => &mut self.replication,
        }
    }

    pub(crate) fn assert_invariants(&self) {
        self.table.assert_invariants();
        for hop in &self.hops {
            hop.assert_invariants();
        }
        for flow in FLOWS {
            let pipe = self.pipe(flow);
            assert!(pipe.start() <= self.table.next(), "no range begins beyond the known collectives");
            assert!(
                pipe.start() >= self.table.base() || self.table.len() == 0,
                "a collective in use is known"
            );
            // psnStart = min(lastAcked) + 1 over the outgoing endpoints (4.4).
            if let Some(invocation) = self.table.find(pipe.start())
                && let Some(route) = self.route(flow, invocation)
            {
                for edge in edges_of(route.outs) {
                    assert!(self.hops[edge].acked >= pipe.start() || pipe.start() == invocation.first);
                }
            }
        }
    }
}
