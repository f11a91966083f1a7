//! What a Mode-II switch tells senders: acknowledges are cumulative, and a sender may have packets of several collectives under
//! way, whose receivers differ (EPIC 4.3, nodeAckPsn). So it is told of its packets in a row, over the ends of collectives.

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_wire::{NakCode, Syndrome};

use super::{ModeII, SenderAck};
use crate::control::Pattern;
use crate::forward::{ACK, acknowledge, expedite, replicate};
use crate::invocation::{Invocation, edge_bit, edges_of};
use crate::mutation::Mutation;
use crate::source::Source;

impl ModeII {
    /// SendAck: tells a sender what has become known to have arrived, if anything has.
    pub(super) fn tell<P: Payload>(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        if self.advance_sender_ack(edge)
            && let Some(covered) = self.sender_acks[edge].covered
        {
            acknowledge(&self.config, edge, covered, ACK, out);
        }
    }

    /// Tells a sender once more, that nothing behind `sequence` need be sent again.
    pub(super) fn tell_again<P: Payload>(
        &mut self,
        edge: usize,
        sequence: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        self.advance_sender_ack(edge);
        if let Some(covered) = self.sender_acks[edge].covered {
            acknowledge(&self.config, edge, covered.min(sequence), ACK, out);
        }
    }

    /// A rank asks for one result of an AllReduce, and has later packets in hand. Where the switch has the sum, nothing of the rank's own is
    /// needed once more: the root of the tree sends the result at once, before other traffic, and other switches send their sum to it
    /// again, which it answers. Where others' parts are missing the rank can do nothing: they miss the same result, and ask, too.
    /// Whether the rank's own part is not needed.
    pub(super) fn answer_request<P: Payload>(
        &mut self,
        edge: usize,
        sequence: u64,
        invocation: &Invocation,
        out: &mut dyn DatapathSink<P>,
    ) -> bool {
        let Some(route) = self.place.aggregation(invocation.message.pattern) else { return false };
        if !self.config.resend_results {
            return false;
        }
        if !self.pipe.is_complete(sequence, route.sources) {
            return self.pipe.has_arrived(sequence, edge_bit(edge));
        }
        let held = self.pipe.header(sequence).expect("a complete slot holds something");
        if self.place.is_root() {
            expedite(&self.config, edge, sequence, held, self.once_more(sequence), out);
        } else {
            replicate(&self.config, route.outs, sequence, held, self.once_more(sequence), out);
        }
        true
    }

    /// The newest result up to `newest` that the root of the tree has of an AllReduce: whoever has waited in vain sees by it what else it
    /// misses. It goes with other traffic: before it, results on their way would be taken for lost. Whether there was one.
    fn send_newest_result<P: Payload>(
        &mut self,
        edge: usize,
        (position, newest): (u64, u64),
        pattern: Pattern,
        out: &mut dyn DatapathSink<P>,
    ) -> bool {
        let sources = match self.place.aggregation(pattern) {
            Some(route)
                if self.config.resend_results && pattern == Pattern::AllReduce && self.place.is_root() =>
            {
                route.sources
            }
            _ => return false,
        };
        let is_there = |sequence: &u64| self.pipe.is_complete(*sequence, sources);
        let Some(sequence) = (position..=newest).rev().find(is_there) else { return false };
        let held = self.pipe.header(sequence).expect("a complete slot holds something");
        replicate(&self.config, edge_bit(edge), sequence, held, self.once_more(sequence), out);
        true
    }

    /// A sum that is sent once more.
    pub(super) fn once_more<P: Payload>(&self, sequence: u64) -> Source<'static, P> {
        match self.config.breaks(Mutation::AnswersNextSlot) {
            true => self.pipe.next_payload(sequence),
            false => self.pipe.payload(sequence),
        }
    }

    /// A sender asks what has arrived of all that it has sent, up to `newest`: it is asked for what has not come here. While others
    /// are late whom its packet waits for it hears nothing, but for the newest result of an AllReduce, if the root of the tree has one. What
    /// else has passed is acknowledged by those it went to, if it is not lost there: a sender that asks twice sends that once more.
    pub(super) fn answer_question<P: Payload>(
        &mut self,
        edge: usize,
        newest: u64,
        out: &mut dyn DatapathSink<P>,
    ) {
        let nak = Syndrome::Nak(NakCode::SequenceError);
        self.advance_sender_ack(edge);
        let bit = edge_bit(edge);
        let SenderAck { position, covered, questioned, .. } = self.sender_acks[edge];
        if newest < position {
            if let Some(covered) = covered {
                acknowledge(&self.config, edge, covered, ACK, out);
            }
            return;
        }
        let Some(&invocation) = self.table.find(position) else {
            return acknowledge(&self.config, edge, position, nak, out);
        };
        if let Some(covered) = covered
            && position == invocation.first
            && self.config.edges[edge].mode.is_some()
            && !self.config.breaks(Mutation::CoveredToldOnce)
        {
            // Unless it hears that what it has sent before has arrived, a switch has no room for the results of this one.
            acknowledge(&self.config, edge, covered, ACK, out);
        }
        let route = self.place.aggregation(invocation.message.pattern);
        if let Some(route) = route.filter(|route| route.sources & bit != 0) {
            let mut misses = false;
            // It has sent no more than a window.
            let newest = newest.min(invocation.last).min(position + u64::from(self.config.window) - 1);
            for sequence in position..=newest {
                if !self.pipe.has_arrived(sequence, bit) {
                    acknowledge(&self.config, edge, sequence, nak, out);
                    misses = true;
                }
            }
            let pattern = invocation.message.pattern;
            if misses
                || self.send_newest_result(edge, (position, newest), pattern, out)
                || !self.pipe.is_complete(position, route.sources)
            {
                return;
            }
        }
        self.sender_acks[edge].questioned = Some(position);
        if questioned == Some(position) {
            acknowledge(&self.config, edge, position, nak, out);
        }
    }

    /// Passes on to a sender that `sequence` is asked for, or that its receiver is not ready. Both acknowledge what is before it, so
    /// they name what the sender was told of if that is less; but a selective NAK acknowledges nothing. What may be asked for by
    /// many receivers is asked for once.
    pub(super) fn pass_on<P: Payload>(
        &mut self,
        edge: usize,
        sequence: u64,
        syndrome: Syndrome,
        for_many: bool,
        out: &mut dyn DatapathSink<P>,
    ) {
        let bounded = match syndrome {
            Syndrome::Nak(NakCode::SequenceError) => !self.config.selective,
            Syndrome::ReceiverNotReady(_) => true,
            Syndrome::Ack(_) | Syndrome::Nak(_) => false,
        };
        self.advance_sender_ack(edge);
        let sequence = if bounded { sequence.min(self.sender_acks[edge].position) } else { sequence };
        if bounded && for_many {
            let asked = &mut self.sender_acks[edge].asked;
            if asked.is_some_and(|asked| asked <= sequence) {
                // It goes back there already, and sends all from there on.
                return;
            }
            *asked = Some(sequence);
        }
        acknowledge(&self.config, edge, sequence, syndrome, out);
    }

    /// Moves on to the first packet of a sender that is not known to have arrived. Whether a packet of its was passed.
    fn advance_sender_ack(&mut self, edge: usize) -> bool {
        let SenderAck { position: before, covered: covered_before, asked, questioned } =
            self.sender_acks[edge];
        let (mut position, mut covered) = (before.max(self.table.base()), covered_before);
        while let Some(invocation) = self.table.find(position) {
            let Some(arrived) = self.arrived(edge, invocation) else {
                position = invocation.last + 1;
                continue;
            };
            let arrived = arrived.clamp(invocation.first, invocation.last + 1);
            if arrived > position {
                position = arrived;
                covered = Some(arrived - 1);
            }
            if position <= invocation.last {
                break;
            }
        }
        let [asked, questioned] =
            [asked, questioned].map(|number| number.filter(|number| position <= *number));
        self.sender_acks[edge] = SenderAck { position, covered, asked, questioned };
        covered != covered_before
    }

    /// Everything before it of what `edge` sends in a collective has arrived at its receivers; none if it sends nothing, or nothing
    /// that this switch answers for: the results of an AllReduce are acknowledged at the first hop.
    fn arrived(&self, edge: usize, invocation: &Invocation) -> Option<u64> {
        let bit = edge_bit(edge);
        let pattern = invocation.message.pattern;
        match pattern {
            Pattern::AllReduce => (self.ends & bit != 0).then(|| self.acked[edge]),
            Pattern::Reduce { root } => {
                let route = self.place.aggregation(pattern).filter(|route| route.sources & bit != 0);
                route.and_then(|_| edges_of(self.place.toward(root)).next()).map(|out| self.acked[out])
            }
            Pattern::Broadcast { .. } => {
                let route = self.place.replication(pattern).filter(|route| route.sources & bit != 0);
                route.map(|route| self.acked_by_all(route.outs, invocation))
            }
        }
    }
}
