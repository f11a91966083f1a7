//! Sending and Retransmission of a Mode-III switch: what is complete leaves in order on each edge, what may be lost leaves again
//! in transmit slots (EPIC 4.4, algorithm 3).

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_engine::verbs::UNLIMITED_RETRIES;

use super::{FLOWS, Flow, ModeIII};
use crate::forward::{expedite, replicate};
use crate::invocation::{EdgeSet, edge_bit, edges_of};
use crate::mutation::Mutation;
use crate::timers::resend_timer;

impl<P: Payload> ModeIII<P> {
    /// The time-out of `edge`: sends again from the oldest packet that the neighbour may miss.
    pub(crate) fn handle_resend_timer(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        let retry_count = self.config.retry_count;
        let Some(hop) = self.hops.get_mut(edge) else { return };
        if !hop.armed {
            return;
        }
        hop.armed = false;
        let paused = core::mem::replace(&mut hop.paused, false);
        if !paused && retry_count != UNLIMITED_RETRIES {
            hop.silent += 1;
            if hop.silent > retry_count {
                self.fail(edge, out);
                return;
            }
        }
        if self.config.selective && !paused {
            let acked = hop.acked;
            self.rearm(edge, out);
            return self.send_again(edge, acked, out);
        }
        hop.go_back();
        self.rearm(edge, out);
        self.send_ready(edge_bit(edge), out);
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
    pub(crate) fn handle_transmit_slot(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        if !self.wants_transmit(edge) {
            return;
        }
        if let Some((sequence, flow)) = self.sendable(edge) {
            if self.hops[edge].owed {
                // A slot is one frame: the acknowledge takes this one, the packet the next.
                return self.settle_owed(edge, out);
            }
            self.send_together(edge_bit(edge), sequence, flow, out);
            self.hops[edge].resending = self.sendable(edge).is_some();
        }
    }

    /// Sends what has become complete out of `outs`, in order on each edge. Edges that stand at the same number, which
    /// is nearly always all, share the packet.
    pub(super) fn send_ready(&mut self, outs: EdgeSet, out: &mut dyn DatapathSink<P>) {
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
            self.send_together(together, sequence, flow, out);
        }
    }

    fn send_together(&mut self, together: EdgeSet, sequence: u64, flow: Flow, out: &mut dyn DatapathSink<P>) {
        for edge in edges_of(together) {
            self.settle_owed(edge, out);
        }
        let pipe = self.pipe(flow);
        let header = pipe.header(sequence).expect("a complete slot holds something");
        let is_again = edges_of(together).any(|edge| sequence < self.hops[edge].sent);
        let next_slot = is_again && self.config.breaks(Mutation::ResendsNextSlot);
        let view = if next_slot { pipe.next_view(sequence) } else { pipe.view(sequence) };
        replicate(&self.config, together, sequence, header, view, out);
        for edge in edges_of(together) {
            let hop = &mut self.hops[edge];
            hop.cursor = sequence + 1;
            hop.sent = hop.sent.max(hop.cursor);
            if !hop.armed {
                self.rearm(edge, out);
            }
        }
    }

    /// Sends one packet again that `edge` has been sent and has not acknowledged: `sequence`, or the first after it that
    /// goes there.
    pub(super) fn send_again(&self, edge: usize, sequence: u64, out: &mut dyn DatapathSink<P>) {
        let hop = &self.hops[edge];
        if !(hop.acked..hop.cursor).contains(&sequence) || hop.paused || hop.failed {
            return;
        }
        if let (_, Some((sequence, flow))) = self.complete_from(edge, sequence) {
            let pipe = self.pipe(flow);
            let header = pipe.header(sequence).expect("a complete slot holds something");
            expedite(&self.config, edge, sequence, header, pipe.view(sequence), out);
        }
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

    pub(super) fn rearm(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        let timer = resend_timer(edge);
        let hop = &mut self.hops[edge];
        if hop.paused {
            return;
        }
        if hop.acked < hop.sent {
            hop.armed = true;
            out.set_timer(timer, self.config.resend_timeout);
        } else if core::mem::replace(&mut hop.armed, false) {
            out.cancel_timer(timer);
        }
    }

    pub(super) fn fail(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
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
