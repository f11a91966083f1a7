//! TranslateHeader, ReplicateData and Forward: a packet leaves with the addresses of the edge it goes out of, and with
//! everything else as it was (EPIC 4.3, figure 7f).

use quincunx_collective::Payload;
use quincunx_design::{Copies, DatapathSink};
use quincunx_engine::Frame;
use quincunx_wire::{Aeth, Operation, Psn, RoceHeader, Syndrome};

use crate::config::{EdgeConfig, GroupConfig};
use crate::invocation::{EdgeSet, edges_of};
use crate::pipe::SlotHeader;
use crate::source::Source;

/// TranslateHeader: the header of a packet with number `sequence` on `edge`.
pub(crate) fn translate(edge: &EdgeConfig, sequence: u64, slot: SlotHeader) -> RoceHeader {
    let psn = Psn::from_count(sequence);
    let mut header = RoceHeader::new(edge.local.ip, edge.remote.ip, edge.remote.qp, psn, slot.operation);
    header.acknowledge_request = slot.acknowledge_request;
    header
}

/// Sends one packet out of `edge`, unless its payload is stored no more: whether it has.
pub(crate) fn send<P: Payload>(
    config: &GroupConfig,
    edge: usize,
    sequence: u64,
    slot: SlotHeader,
    payload: Source<'_, P>,
    out: &mut dyn DatapathSink<P>,
) -> bool {
    transmit(edge, &translate(&config.edges[edge], sequence, slot), payload, out)
}

fn transmit<P: Payload>(
    edge: usize,
    header: &RoceHeader,
    payload: Source<'_, P>,
    out: &mut dyn DatapathSink<P>,
) -> bool {
    match payload {
        Source::Frame(payload) => out.transmit(edge as u16, Frame { header, payload: P::reborrow(payload) }),
        Source::Stored(place) => return out.transmit_stored(edge as u16, header, place),
    }
    true
}

/// Sends one packet out of `edge` that somebody waits for with later ones in hand, before other traffic, unless its payload is stored no more: whether
/// it has.
pub(crate) fn expedite<P: Payload>(
    config: &GroupConfig,
    edge: usize,
    sequence: u64,
    slot: SlotHeader,
    payload: Source<'_, P>,
    out: &mut dyn DatapathSink<P>,
) -> bool {
    let mut header = translate(&config.edges[edge], sequence, slot);
    header.expedite();
    transmit(edge, &header, payload, out)
}

/// ReplicateData and Forward: sends one packet out of every edge in `outs`, unless its payload is stored no more: whether it has.
pub(crate) fn replicate<P: Payload>(
    config: &GroupConfig,
    outs: EdgeSet,
    sequence: u64,
    slot: SlotHeader,
    payload: Source<'_, P>,
    out: &mut dyn DatapathSink<P>,
) -> bool {
    let copies: Copies<'_> = &mut |send| {
        for edge in edges_of(outs) {
            send(edge as u16, &translate(&config.edges[edge], sequence, slot));
        }
    };
    match payload {
        Source::Frame(payload) => out.replicate(payload, copies),
        Source::Stored(place) => return out.replicate_stored(place, copies),
    }
    true
}

/// Sends an acknowledge with the number `sequence` out of `edge`: everything up to it for an ACK, the one that is
/// missing for a NAK.
pub(crate) fn acknowledge<P: Payload>(
    config: &GroupConfig,
    edge: usize,
    sequence: u64,
    syndrome: Syndrome,
    out: &mut dyn DatapathSink<P>,
) {
    // The message sequence number tells a requester how many messages are done; PSNs tell it already, so that
    // requesters only check that it is not absurd. A switch that sees packets, not messages, leaves it at zero.
    let operation = Operation::Acknowledge(Aeth { syndrome, message_sequence: 0 });
    let slot = SlotHeader { operation, acknowledge_request: false, length: 0 };
    send(config, edge, sequence, slot, Source::Frame(P::empty()), out);
}

/// Credit field of an ACK that grants no end-to-end credits (InfiniBand Architecture 9.7.7.2).
pub(crate) const ACK: Syndrome = Syndrome::Ack(31);
