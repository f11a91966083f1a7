//! TranslateHeader, ReplicateData and Forward: a packet leaves with the addresses of the edge it goes out of, and with
//! everything else as it was (EPIC 4.3, figure 7f).

use quincunx_collective::Payload;
use quincunx_design::DatapathSink;
use quincunx_engine::Frame;
use quincunx_wire::{Aeth, Operation, Psn, RoceHeader, Syndrome};

use crate::config::{EdgeConfig, GroupConfig};
use crate::invocation::{EdgeSet, edges_of};
use crate::pipe::SlotHeader;

/// TranslateHeader: the header of a packet with number `sequence` on `edge`.
pub(crate) fn translate(edge: &EdgeConfig, sequence: u64, slot: SlotHeader) -> RoceHeader {
    let psn = Psn::from_count(sequence);
    let mut header = RoceHeader::new(edge.local.ip, edge.remote.ip, edge.remote.qp, psn, slot.operation);
    header.acknowledge_request = slot.acknowledge_request;
    header
}

/// Sends one packet out of `edge`.
pub(crate) fn send<P: Payload>(
    config: &GroupConfig,
    edge: usize,
    sequence: u64,
    slot: SlotHeader,
    payload: P::View<'_>,
    out: &mut dyn DatapathSink<P>,
) {
    let header = translate(&config.edges[edge], sequence, slot);
    out.transmit(edge as u16, Frame { header: &header, payload: P::reborrow(payload) });
}

/// Sends one packet out of `edge` that somebody waits for with later ones in hand: before other traffic.
pub(crate) fn expedite<P: Payload>(
    config: &GroupConfig,
    edge: usize,
    sequence: u64,
    slot: SlotHeader,
    payload: P::View<'_>,
    out: &mut dyn DatapathSink<P>,
) {
    let mut header = translate(&config.edges[edge], sequence, slot);
    header.expedite();
    out.transmit(edge as u16, Frame { header: &header, payload: P::reborrow(payload) });
}

/// ReplicateData and Forward: sends one packet out of every edge in `outs`.
pub(crate) fn replicate<P: Payload>(
    config: &GroupConfig,
    outs: EdgeSet,
    sequence: u64,
    slot: SlotHeader,
    payload: P::View<'_>,
    out: &mut dyn DatapathSink<P>,
) {
    out.replicate(payload, &mut |send| {
        for edge in edges_of(outs) {
            send(edge as u16, &translate(&config.edges[edge], sequence, slot));
        }
    });
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
    send(config, edge, sequence, slot, P::empty(), out);
}

/// Credit field of an ACK that grants no end-to-end credits (InfiniBand Architecture 9.7.7.2).
pub(crate) const ACK: Syndrome = Syndrome::Ack(31);
