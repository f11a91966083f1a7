//! SendAck of a Mode-III switch: what a neighbour is told of what it sent. Acknowledges, and when they are put off; requests for
//! what is missing; the notification that slows a rank down (EPIC 4.4, algorithm 3, H.4).

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_units::Instant;
use quincunx_wire::{NakCode, Operation, Syndrome};

use super::ModeIII;
use crate::forward::{ACK, acknowledge, send};
use crate::hop::Answer;
use crate::invocation::edge_bit;
use crate::mutation::Mutation;
use crate::pipe::SlotHeader;
use crate::source::Source;
use crate::timers::ACKNOWLEDGE_TIMER;

impl ModeIII {
    /// An acknowledge that waits for something to travel with leaves now.
    pub(super) fn settle_owed<P: Payload>(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        if core::mem::replace(&mut self.hops[edge].owed, false) {
            self.answer(edge, Answer::Ack, out);
        }
    }

    /// Sends what has been owed since the timer fired the last time: what it waited for does not come.
    pub(crate) fn handle_acknowledge_timer<P: Payload>(&mut self, out: &mut dyn DatapathSink<P>) {
        self.acknowledging = false;
        for edge in 0..self.hops.len() {
            if self.hops[edge].overdue {
                self.settle_owed(edge, out);
            } else if self.hops[edge].owed {
                self.hops[edge].overdue = true;
                self.watch_owed(out);
            }
        }
    }

    /// `sequence` has come from `edge` before something from `from` on: asks for what is missing between, as far as that was not known.
    pub(super) fn overtake<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        from: u64,
        sequence: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        let mut missing = self.next_incoming(edge, self.hops[edge].reached.max(from));
        while let Some(number) = missing.filter(|number| *number < sequence) {
            self.ask_for(edge, number, out);
            self.missing[edge].ask(number, now);
            missing = self.next_incoming(edge, number + 1);
        }
        let hop = &mut self.hops[edge];
        hop.reached = hop.reached.max(sequence + 1);
    }

    /// `edge` has sent everything up to `newest`: what has not arrived is asked for.
    pub(super) fn answer_question<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        newest: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        let expected = self.skip_incoming(edge, self.hops[edge].expected);
        if newest < expected {
            // An ACK that is put off comes by itself.
            if !self.hops[edge].owed {
                self.answer_duplicate(edge, newest, out);
            }
            return;
        }
        if self.table.find(expected).is_none() {
            // Its control message is missing.
            return self.answer(edge, Answer::Nak, out);
        }
        // What lies beyond the range is called for when there is room.
        let end = self.aggregation.end().max(self.replication.end()).min(newest + 1);
        let bit = edge_bit(edge);
        let mut next = expected;
        while let Some(number) = self.next_incoming(edge, next).filter(|number| *number < end) {
            let invocation = self.table.find(number).expect("what is known to be sent is in a collective");
            let route = self.incoming(invocation, bit);
            if route.is_some_and(|(flow, _)| !self.pipe(flow).has_arrived(number, bit)) {
                self.ask_for(edge, number, out);
                self.missing[edge].ask(number, now);
            }
            next = number + 1;
        }
        self.hops[edge].reached = self.hops[edge].reached.max(next);
    }

    /// The first number from `sequence` on that `edge` is known to send.
    fn next_incoming(&self, edge: usize, sequence: u64) -> Option<u64> {
        let bit = edge_bit(edge);
        (self.table.first_from(sequence)..self.table.len())
            .map(|index| self.table.get(index))
            .find(|invocation| self.incoming(invocation, bit).is_some())
            .map(|invocation| sequence.max(invocation.first))
    }

    /// `arrived` has come from `edge`. Asks once more for what was asked for long ago, for all of it at once.
    pub(super) fn ask_again<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        arrived: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        let hop = &mut self.hops[edge];
        let mut missing = core::mem::take(&mut self.missing[edge]);
        missing.arrived(arrived, now, true);
        missing.forget_before(hop.expected);
        hop.round_trip.suppose(&missing);
        missing.ask_again(now, self.config.resend_timeout, |sequence| self.ask_for(edge, sequence, out));
        self.missing[edge] = missing;
    }

    fn ask_for<P: Payload>(&self, edge: usize, sequence: u64, out: &mut dyn DatapathSink<P>) {
        acknowledge(&self.config, edge, sequence, Syndrome::Nak(NakCode::SequenceError), out);
    }

    /// The ACK that [`owe`](Self::owe) has put off, for what a rank sent before `start`: no further than the range has
    /// moved, or the rank's window would end beyond the range.
    pub(super) fn acknowledge_recycled<P: Payload>(
        &mut self,
        edge: usize,
        start: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        if self.config.edges[edge].rank.is_some() {
            acknowledge(&self.config, edge, start - 1, ACK, out);
            let hop = &mut self.hops[edge];
            hop.owed &= start < hop.expected;
            hop.overdue = false;
        }
    }

    /// Calls for what was turned away, if there is room for it now.
    pub(super) fn call_for_blocked<P: Payload>(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        if let Some((end, at)) = self.hops[edge].turned_away {
            return self.call_for_each(edge, end, at, out);
        }
        let expected = self.skip_incoming(edge, self.hops[edge].expected);
        let Some(invocation) = self.table.find(expected) else { return };
        let Some((flow, _)) = self.incoming(invocation, edge_bit(edge)) else { return };
        if self.pipe(flow).contains(expected) {
            self.hops[edge].blocked = false;
            self.hops[edge].nak_sent = true;
            self.answer(edge, Answer::Nak, out);
        }
    }

    /// The same where reliability is selective: each packet before `end` for which there is room is asked for by itself.
    fn call_for_each<P: Payload>(
        &mut self,
        edge: usize,
        end: u64,
        at: Instant,
        out: &mut dyn DatapathSink<P>,
    ) {
        let expected = self.skip_incoming(edge, self.hops[edge].expected);
        let mut next = expected.max(self.hops[edge].reached);
        while let Some(number) = self.next_incoming(edge, next).filter(|number| *number < end) {
            let invocation = self.table.find(number).expect("what is known to be sent is in a collective");
            let route = self.incoming(invocation, edge_bit(edge));
            if !route.is_some_and(|(flow, _)| self.pipe(flow).contains(number)) {
                return;
            }
            self.ask_for(edge, number, out);
            self.missing[edge].ask(number, at);
            next = number + 1;
            self.hops[edge].reached = next;
        }
        self.hops[edge].turned_away = None;
        self.hops[edge].blocked = false;
    }

    /// Puts an ACK off. In an AllReduce it travels with the result, so that the neighbour is woken once. In a Reduce or
    /// Broadcast a rank hears nothing else, so its ACK waits until the pipe's range has moved that far: then its window
    /// ends where the range ends, and it cannot run ahead of it. A timer sees to the ACK when neither comes.
    pub(super) fn owe<P: Payload>(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        self.hops[edge].owed = true;
        self.watch_owed(out);
    }

    /// Arms the acknowledge timer. It fires twice before an ACK leaves, so that one which something else settles in time
    /// is not sent twice; and well before the neighbour's time-out.
    fn watch_owed<P: Payload>(&mut self, out: &mut dyn DatapathSink<P>) {
        if !core::mem::replace(&mut self.acknowledging, true) {
            out.set_timer(ACKNOWLEDGE_TIMER, self.config.resend_timeout / 4);
        }
    }

    /// SendAck for what has been here before: the ACK was lost, or is on its way.
    pub(super) fn answer_duplicate<P: Payload>(
        &mut self,
        edge: usize,
        sequence: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        if self.config.breaks(Mutation::AnswersAsPrinted) {
            return self.answer_as_printed(edge, sequence, out);
        }
        if !self.config.breaks(Mutation::StaleInSilence) {
            self.answer(edge, Answer::Ack, out);
        }
    }

    /// SendAck as algorithm 3 has it: always with epsn - 1.
    pub(super) fn answer_as_printed<P: Payload>(
        &self,
        edge: usize,
        sequence: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        let last = self.hops[edge].expected - 1;
        let syndrome = if last == sequence { ACK } else { Syndrome::Nak(NakCode::SequenceError) };
        acknowledge(&self.config, edge, last, syndrome, out);
    }

    /// SendAck.
    pub(super) fn answer<P: Payload>(&mut self, edge: usize, answer: Answer, out: &mut dyn DatapathSink<P>) {
        if answer != Answer::Nothing {
            // Both kinds say what has arrived.
            self.hops[edge].owed = false;
            self.hops[edge].overdue = false;
        }
        match answer {
            Answer::Nothing => {}
            // Only what this neighbour sent: it may not have sent in the collectives that it skipped.
            Answer::Ack => acknowledge(&self.config, edge, self.hops[edge].expected - 1, ACK, out),
            Answer::Nak => {
                let missing = self.skip_incoming(edge, self.hops[edge].expected);
                acknowledge(&self.config, edge, missing, Syndrome::Nak(NakCode::SequenceError), out);
            }
        }
    }

    /// Rate synchronisation (4.4): a packet ahead of the range was dropped. If it `is_next`, it is called for when there is room;
    /// and a rank that runs ahead of the others is told to slow down.
    pub(super) fn turn_away<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        sequence: u64,
        is_next: bool,
        out: &mut dyn DatapathSink<P>,
    ) {
        let Some(interval) = self.config.notification_interval else { return };
        let hop = &mut self.hops[edge];
        if self.config.selective {
            let end = hop.turned_away.map_or(0, |(end, _)| end);
            hop.turned_away = Some((end.max(sequence + 1), now));
        }
        hop.blocked |= is_next || self.config.selective;
        let is_due = hop.notified.is_none_or(|last| now.since(last) >= interval);
        if self.config.edges[edge].rank.is_some() && is_due {
            hop.notified = Some(now);
            let operation = Operation::CongestionNotification;
            let notification = SlotHeader { operation, acknowledge_request: false, length: 0 };
            send(&self.config, edge, 0, notification, Source::Frame(P::empty()), out);
        }
    }
}
