//! What a Mode-II switch tells senders: acknowledges are cumulative, and a sender may have packets of several collectives under
//! way, whose receivers differ (EPIC 4.3, nodeAckPsn). So it is told of its packets in a row, over the ends of collectives.

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_wire::{NakCode, Syndrome};

use super::{ModeII, SenderAck};
use crate::control::Pattern;
use crate::forward::{ACK, acknowledge};
use crate::invocation::{Invocation, edge_bit, edges_of};

impl<P: Payload> ModeII<P> {
    /// SendAck: tells a sender what has become known to have arrived, if anything has.
    pub(super) fn tell(&mut self, edge: usize, out: &mut dyn DatapathSink<P>) {
        if self.advance_sender_ack(edge)
            && let Some(covered) = self.sender_acks[edge].covered
        {
            acknowledge(&self.config, edge, covered, ACK, out);
        }
    }

    /// Tells a sender once more, that nothing behind `sequence` need be sent again.
    pub(super) fn tell_again(&mut self, edge: usize, sequence: u64, out: &mut dyn DatapathSink<P>) {
        self.advance_sender_ack(edge);
        if let Some(covered) = self.sender_acks[edge].covered {
            acknowledge(&self.config, edge, covered.min(sequence), ACK, out);
        }
    }

    /// Passes on to a sender that `sequence` is asked for, or that its receiver is not ready. Both acknowledge what is before it, so
    /// they name what the sender was told of if that is less; but a selective NAK acknowledges nothing. What may be asked for by
    /// many receivers is asked for once.
    pub(super) fn pass_on(
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
        let SenderAck { position: before, covered: covered_before, asked } = self.sender_acks[edge];
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
        self.sender_acks[edge] =
            SenderAck { position, covered, asked: asked.filter(|asked| position <= *asked) };
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
