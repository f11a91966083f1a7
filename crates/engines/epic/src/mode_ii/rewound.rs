//! Receivers that several senders must tell the same again. A rank that misses a packet, or was not ready for it, asks the one who
//! sends it, and drops what comes behind it in silence: also what others have sent it in later collectives. They do not know, and
//! would each wait for a time-out. The first hop has seen the request, so it lets no later collective pass to the rank until the one
//! that it waits for has passed again, and then asks, on the rank's behalf, for what had passed before.

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_wire::{NakCode, Syndrome};

use super::ModeII;
use crate::control::Pattern;
use crate::invocation::{EdgeSet, edge_bit, edges_of};
use crate::mode::Mode;
use crate::mutation::Mutation;

impl ModeII {
    /// A rank asks for packet `sequence`, or is not ready for it: what has passed to it from there on it has dropped. Who keeps what
    /// comes early has not: a rank whose reliability is selective, a switch in Mode-III. Such a switch need not be passed the rest again, and
    /// if its acknowledge is lost, too, nothing would tell that it has all.
    pub(super) fn rewind<P: Payload>(&mut self, edge: usize, sequence: u64, out: &mut dyn DatapathSink<P>) {
        let bit = edge_bit(edge);
        let is_stale = sequence < self.acked[edge];
        let Some(asked) = self.table.index(sequence) else { return };
        let is_mode_iii = self.config.edges[edge].mode == Some(Mode::III);
        let keeps = self.config.selective || is_mode_iii && !self.config.breaks(Mutation::RewindsWhatIsKept);
        if keeps || self.ends & bit == 0 || is_stale {
            return;
        }
        for index in asked..self.table.len() {
            let invocation = *self.table.get(index);
            if self.receivers(&invocation) & bit == 0 {
                continue;
            }
            let state = self.table.state_mut(index);
            let had_passed = state.through & bit;
            state.through &= !bit;
            if index > asked {
                // Of what had passed in part the rest is held back, and the rank will ask for it by itself.
                state.again |= had_passed;
                if let Pattern::Broadcast { .. } = invocation.message.pattern {
                    state.open &= !bit;
                }
            }
        }
        let asked = *self.table.get(asked);
        self.clear = self.clear.min(asked.first);
        if self.receivers(&asked) & bit == 0 {
            // Nothing of it will pass to a rank that has not begun it yet: what comes behind it has nothing to wait for.
            self.update_gates(out);
        }
    }

    /// Asks on behalf of `ranks` for a collective that they have dropped, from its first packet on.
    pub(super) fn ask_again<P: Payload>(
        &mut self,
        index: usize,
        ranks: EdgeSet,
        out: &mut dyn DatapathSink<P>,
    ) {
        self.table.state_mut(index).again &= !ranks;
        let invocation = *self.table.get(index);
        let pattern = invocation.message.pattern;
        let senders = match pattern {
            _ if ranks == 0 => 0,
            // Their own packets bring the results again.
            Pattern::AllReduce => ranks,
            Pattern::Reduce { .. } => self.place.aggregation(pattern).map_or(0, |route| route.sources),
            Pattern::Broadcast { .. } => self.place.replication(pattern).map_or(0, |route| route.sources),
        };
        let for_many = matches!(pattern, Pattern::Broadcast { .. });
        for sender in edges_of(senders) {
            self.pass_on(sender, invocation.first, Syndrome::Nak(NakCode::SequenceError), for_many, out);
        }
    }
}
