//! The order in which a Mode-II switch lets collectives pass to ranks. What aggregates waits for all senders, and each of them sends
//! in order, so it comes after whatever is before it. A Broadcast waits for nobody: toward a rank, its packets are held in slots
//! until the last packet of everything has passed that the rank receives before it.

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;

use super::ModeII;
use crate::control::Pattern;
use crate::drops::DropReason;
use crate::forward::replicate;
use crate::invocation::{EdgeSet, Invocation, Route, edge_bit, edges_of};
use crate::pipe::{Aggregated, SlotHeader};
use crate::source::Source;

impl ModeII {
    /// Lets a packet of a Broadcast pass where nothing is to come before it, and holds it for the others.
    pub(super) fn broadcast<P: Payload>(
        &mut self,
        route: Route,
        invocation: &Invocation,
        sequence: u64,
        header: SlotHeader,
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        let index = self.table.index(sequence).expect("the packet's collective is known");
        // Who has acknowledged it does not need it again.
        let lacking = edges_of(route.outs).filter(|edge| self.acked[*edge] <= sequence);
        let lacking = lacking.fold(0, |set, edge| set | edge_bit(edge));
        let open = self.table.state(index).open & lacking;
        let mut held = Ok(());
        if open != lacking {
            held = self.hold(index, route, invocation, sequence, header, P::reborrow(payload), out);
            if let Err(DropReason::AheadOfRange | DropReason::Stale) = held {
                self.table.state_mut(index).again |= lacking & !open;
            }
        }
        if open != 0 {
            replicate(&self.config, open, sequence, header, Source::Frame(payload), out);
            self.note_passed(invocation, sequence, open, out);
        }
        if open == 0 { held } else { Ok(()) }
    }

    #[expect(clippy::too_many_arguments, reason = "a packet, where it comes from and where it belongs")]
    fn hold<P: Payload>(
        &mut self,
        index: usize,
        route: Route,
        invocation: &Invocation,
        sequence: u64,
        header: SlotHeader,
        payload: P::View<'_>,
        out: &mut dyn DatapathSink<P>,
    ) -> Result<(), DropReason> {
        self.check_room(sequence)?;
        let (sources, reduction) = (route.sources, invocation.message.reduction);
        let payload = Source::Frame(payload);
        match self.pipe.aggregate(sequence, sources, sources, header, payload, reduction, out.memory()) {
            Aggregated::Mismatch => return Err(DropReason::Mismatch),
            Aggregated::Duplicate => return Err(DropReason::Duplicate),
            Aggregated::Partial | Aggregated::Complete => {}
        }
        let state = self.table.state_mut(index);
        state.held = state.held.max(sequence + 1);
        Ok(())
    }

    /// Packet `sequence` has left through `outs`: if it is the last one, what waits for the collective there may pass.
    pub(super) fn note_passed<P: Payload>(
        &mut self,
        invocation: &Invocation,
        sequence: u64,
        outs: EdgeSet,
        out: &mut dyn DatapathSink<P>,
    ) {
        if sequence != invocation.last || outs & self.ends == 0 {
            return;
        }
        if let Some(index) = self.table.index(sequence) {
            self.table.state_mut(index).through |= outs & self.ends;
            self.update_gates(out);
        }
    }

    /// Ranks here that receive something in a collective.
    pub(super) fn receivers(&self, invocation: &Invocation) -> EdgeSet {
        let pattern = invocation.message.pattern;
        let route = match pattern {
            Pattern::Reduce { .. } => self.place.aggregation(pattern),
            Pattern::AllReduce | Pattern::Broadcast { .. } => self.place.replication(pattern),
        };
        route.map_or(0, |route| route.outs & self.ends)
    }

    /// Opens the gates of Broadcasts that have nothing to wait for any more, and lets pass what was held there.
    pub(super) fn update_gates<P: Payload>(&mut self, out: &mut dyn DatapathSink<P>) {
        self.clear = self.clear.max(self.table.base());
        let (mut next, mut closed) = (self.clear, 0);
        for index in self.table.first_from(self.clear)..self.table.len() {
            let invocation = *self.table.get(index);
            if invocation.first > next {
                // What comes before it is not known.
                closed = self.ends;
            }
            let receivers = self.receivers(&invocation);
            let again = self.table.state(index).again & !closed;
            if let Pattern::Broadcast { .. } = invocation.message.pattern {
                let opened = receivers & !closed & !self.table.state(index).open;
                self.table.state_mut(index).open |= opened;
                self.release(index, opened, opened & !again, out);
            }
            self.ask_again(index, again, out);
            closed |= receivers & !self.table.state(index).through;
            next = invocation.last + 1;
            if closed == 0 {
                self.clear = next;
            }
            if closed != 0 && closed == self.ends {
                break;
            }
        }
    }

    /// Sends what is held of a Broadcast through `outs` of the gates that have opened.
    fn release<P: Payload>(
        &mut self,
        index: usize,
        opened: EdgeSet,
        outs: EdgeSet,
        out: &mut dyn DatapathSink<P>,
    ) {
        let invocation = *self.table.get(index);
        let held = self.table.state(index).held;
        if opened == 0 || held == 0 {
            return;
        }
        let is_open = self.receivers(&invocation) & !self.table.state(index).open == 0;
        for sequence in invocation.first.max(self.pipe.start())..held {
            if let Some(header) = self.pipe.header(sequence) {
                replicate(&self.config, outs, sequence, header, self.pipe.payload(sequence), out);
                if is_open {
                    self.pipe.free(sequence);
                }
            }
        }
        if held == invocation.last + 1 {
            self.table.state_mut(index).through |= outs;
        }
    }
}
