//! Sending and Retransmission of a Mode-III switch: what is complete leaves in order on each edge, what may be lost leaves again
//! in transmit slots (EPIC 4.4, algorithm 3).

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_engine::verbs::UNLIMITED_RETRIES;
use quincunx_units::Instant;
use quincunx_wire::Operation;

use super::{FLOWS, Flow, ModeIII};
use crate::forward::{expedite, replicate, send};
use crate::hop::Answer;
use crate::invocation::{EdgeSet, edge_bit, edges_of};
use crate::mode::Mode;
use crate::mutation::Mutation;
use crate::pipe::SlotHeader;
use crate::source::Source;
use crate::timers::resend_timer;

impl ModeIII {
    /// The time-out of `edge`: sends again from the oldest packet that the neighbour may miss; where reliability is selective, asks what
    /// has arrived.
    pub(crate) fn handle_resend_timer<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        out: &mut dyn DatapathSink<P>,
    ) {
        let retry_count = self.config.retry_count;
        let Some(hop) = self.hops.get_mut(edge) else { return };
        if !hop.armed {
            return;
        }
        hop.armed = false;
        let paused = core::mem::replace(&mut hop.paused, false);
        let is_long = !paused && hop.expired(now, &self.config);
        if is_long && retry_count != UNLIMITED_RETRIES {
            hop.silent += 1;
            if hop.silent > retry_count {
                self.fail(edge, out);
                return;
            }
        }
        if self.config.edges[edge].mode == Some(Mode::II) && !self.config.breaks(Mutation::TimesOutUnheard) {
            // Such a switch sends no result again by itself: whose acknowledge it has missed, it waits for, and this one for it.
            self.answer(edge, Answer::Ack, out);
        }
        if self.config.selective && !paused {
            self.missing[edge].question();
            self.ask(edge, out);
            return self.rearm(edge, out);
        }
        self.hops[edge].go_back();
        self.rearm(edge, out);
        self.send_ready(now, edge_bit(edge), out);
    }

    /// Asks `edge` what has arrived, by the number of the newest packet.
    fn ask<P: Payload>(&self, edge: usize, out: &mut dyn DatapathSink<P>) {
        let hop = &self.hops[edge];
        let question = SlotHeader { operation: Operation::QUESTION, acknowledge_request: true, length: 0 };
        send(&self.config, edge, hop.sent - 1, question, Source::Frame(P::empty()), out);
    }

    /// Whether an edge has gone back, and may want slots for it.
    pub(crate) fn is_resending(&self) -> bool {
        self.hops.iter().any(|hop| hop.resending)
    }

    /// Whether an edge that has gone back has something to send again.
    pub(crate) fn wants_transmit(&self, edge: usize) -> bool {
        let hop = &self.hops[edge];
        hop.resending && !hop.paused && !hop.failed && self.sendable(edge).is_some()
    }

    /// Retransmission: one packet of an edge that went back.
    pub(crate) fn handle_transmit_slot<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        out: &mut dyn DatapathSink<P>,
    ) {
        if !self.wants_transmit(edge) {
            return;
        }
        if let Some((sequence, flow)) = self.sendable(edge) {
            if self.hops[edge].owed {
                // A slot is one frame: the acknowledge takes this one, the packet the next.
                return self.settle_owed(edge, out);
            }
            self.send_together(now, edge_bit(edge), sequence, flow, out);
            self.hops[edge].resending = self.sendable(edge).is_some();
        }
    }

    /// Sends what has become complete out of `outs`, in order on each edge. Edges that stand at the same number, which
    /// is nearly always all, share the packet.
    pub(super) fn send_ready<P: Payload>(
        &mut self,
        now: Instant,
        outs: EdgeSet,
        out: &mut dyn DatapathSink<P>,
    ) {
        let mut fresh = 0;
        for edge in edges_of(outs) {
            // What is new follows what is sent again, in transmit slots.
            let hop = &mut self.hops[edge];
            if hop.resending && self.sendable(edge).is_none() {
                self.hops[edge].resending = false;
            }
            if !self.hops[edge].resending {
                fresh |= edge_bit(edge);
            }
        }
        loop {
            let mut next = None;
            let mut together = 0;
            // Edges mostly stand at one number: what was found for one of them holds for the others.
            let (mut from, mut alike, mut found) = (0, 0, None);
            for edge in edges_of(fresh) {
                let hop = &self.hops[edge];
                if hop.paused || hop.failed {
                    fresh &= !edge_bit(edge);
                    continue;
                }
                if hop.cursor != from || alike & edge_bit(edge) == 0 {
                    from = hop.cursor;
                    (alike, found) = self.complete_from(edge, from);
                }
                match found {
                    None => fresh &= !edge_bit(edge),
                    Some(found) if next.is_none_or(|next| next == found) => {
                        next = Some(found);
                        together |= edge_bit(edge);
                    }
                    Some(_) => {}
                }
            }
            let Some((sequence, flow)) = next else { return };
            self.send_together(now, together, sequence, flow, out);
        }
    }

    fn send_together<P: Payload>(
        &mut self,
        now: Instant,
        together: EdgeSet,
        sequence: u64,
        flow: Flow,
        out: &mut dyn DatapathSink<P>,
    ) {
        for edge in edges_of(together) {
            self.settle_owed(edge, out);
        }
        let pipe = self.pipe(flow);
        let header = pipe.header(sequence).expect("a complete slot holds something");
        let is_again = edges_of(together).any(|edge| sequence < self.hops[edge].sent);
        let next_slot = is_again && self.config.breaks(Mutation::ResendsNextSlot);
        let payload = if next_slot { pipe.next_payload(sequence) } else { pipe.payload(sequence) };
        if !replicate(&self.config, together, sequence, header, payload, out) {
            return edges_of(together).for_each(|edge| self.fail(edge, out));
        }
        for edge in edges_of(together) {
            let hop = &mut self.hops[edge];
            if self.config.selective && header.acknowledge_request && sequence >= hop.sent {
                hop.round_trip.sent(sequence, now);
            }
            hop.cursor = sequence + 1;
            hop.sent = hop.sent.max(hop.cursor);
            let was_due = hop.is_answer_due();
            if header.acknowledge_request {
                hop.asked = hop.asked.max(hop.cursor);
            }
            if !hop.armed || hop.is_answer_due() && !was_due {
                self.rearm(edge, out);
            }
        }
    }

    /// The neighbour asks for one packet.
    pub(super) fn handle_request<P: Payload>(
        &mut self,
        now: Instant,
        edge: usize,
        sequence: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        if self.send_again(edge, sequence, out) {
            self.hops[edge].round_trip.asked_for(sequence, now);
            // It is there, and what it asks for takes a round trip from now.
            self.rearm(edge, out);
        }
    }

    /// Sends one packet again that `edge` has been sent and has not acknowledged: `sequence`, or the first after it that
    /// goes there. Whether there is one.
    fn send_again<P: Payload>(&mut self, edge: usize, sequence: u64, out: &mut dyn DatapathSink<P>) -> bool {
        let hop = &self.hops[edge];
        if !(hop.acked..hop.cursor).contains(&sequence) || hop.paused || hop.failed {
            return false;
        }
        let Some((sequence, flow)) = self.complete_from(edge, sequence).1 else { return false };
        let pipe = self.pipe(flow);
        let header = pipe.header(sequence).expect("a complete slot holds something");
        let header = SlotHeader { acknowledge_request: true, ..header };
        if !expedite(&self.config, edge, sequence, header, pipe.payload(sequence), out) {
            self.fail(edge, out);
            return false;
        }
        self.hops[edge].asked = self.hops[edge].asked.max(sequence + 1);
        true
    }

    /// The packet that `edge` sends next, if it is complete: its number, its pipe.
    fn sendable(&self, edge: usize) -> Option<(u64, Flow)> {
        let hop = &self.hops[edge];
        if hop.paused || hop.failed { None } else { self.complete_from(edge, hop.cursor).1 }
    }

    /// The first packet from `sequence` on that goes to `edge`, if it is complete: its number, its pipe. And edges of which the same is so, that one
    /// among them.
    fn complete_from(&self, edge: usize, sequence: u64) -> (EdgeSet, Option<(u64, Flow)>) {
        let bit = edge_bit(edge);
        let mut alike = EdgeSet::MAX;
        let mut sequence = sequence.max(self.table.base());
        loop {
            let Some(invocation) = self.table.find(sequence) else { return (alike, None) };
            let carried = FLOWS.into_iter().find_map(|flow| {
                self.route(flow, invocation).filter(|route| route.outs & bit != 0).map(|route| (flow, route))
            });
            match carried {
                None => {
                    alike = bit;
                    sequence = invocation.last + 1;
                }
                Some((flow, route)) => {
                    let pipe = self.pipe(flow);
                    let ready = pipe.contains(sequence) && pipe.is_complete(sequence, route.sources);
                    // The two flows of a collective leave by different edges.
                    return (alike & route.outs, ready.then_some((sequence, flow)));
                }
            }
        }
    }

    pub(super) fn rearm<P: Payload>(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        let timer = resend_timer(edge);
        let hop = &mut self.hops[edge];
        if hop.paused {
            return;
        }
        if hop.acked < hop.sent {
            hop.armed = true;
            out.set_timer(timer, hop.timeout(&self.config));
        } else if core::mem::replace(&mut hop.armed, false) {
            out.cancel_timer(timer);
        }
    }

    pub(super) fn fail<P: Payload>(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        let timer = resend_timer(edge);
        let hop = &mut self.hops[edge];
        hop.failed = true;
        hop.resending = false;
        if core::mem::replace(&mut hop.armed, false) {
            out.cancel_timer(timer);
        }
        if !self.config.breaks(Mutation::SwitchFailsInSilence) {
            out.unreachable(edge as u16);
        }
    }
}
