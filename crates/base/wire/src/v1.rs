//! RoCE v1: frames of the base transport header straight above Ethernet, under a global route header (InfiniBand Architecture
//! annex A16). AllReduce-Switch's frames are such (III, figure 6).
//!
//! ```text
//! +----------+-----+-----+------------+---------+-----+------+
//! | Ethernet | GRH | BTH | extensions | payload | pad | ICRC |
//! +----------+-----+-----+------------+---------+-----+------+
//!     14       40    12      0..28       0..      0..3    4      bytes
//! ```
//!
//! The invariant CRC covers eight bytes of ones, then the GRH to the end of the pad, with ones in place of traffic class, flow
//! label, hop limit and the congestion byte of the BTH (IV.D of the paper calls that one "reserve").

use crate::bth::{self, BthRepr, BthView};
use crate::datagram::{body_operation, bth_of, datagram_length};
use crate::ethernet::{self, EthernetRepr, EthernetView};
use crate::field::copy;
use crate::grh::{self, GrhRepr, GrhView};
use crate::netreduce;
use crate::{Operation, ParseError, RoceHeader};
use crate::{crc, icrc};

/// EtherType of RoCE v1.
pub const ETHERTYPE: u16 = 0x8915;

/// Bytes before the BTH.
pub const HEADERS_BELOW_BTH: usize = ethernet::LENGTH + grh::LENGTH;

/// Bytes from GRH to ICRC for `operation` with `payload_length` bytes.
pub const fn packet_length(operation: &Operation, payload_length: usize) -> usize {
    grh::LENGTH + datagram_length(operation, payload_length)
}

/// Bytes of a frame for `operation` with `payload_length` bytes, without the frame check sequence.
pub const fn frame_length(operation: &Operation, payload_length: usize) -> usize {
    ethernet::LENGTH + packet_length(operation, payload_length)
}

/// Whether a frame is RoCE v1: its EtherType, version 6 and a BTH next, and that BTH is there.
pub fn is_roce_v1(frame: &[u8]) -> bool {
    let Ok((view, rest)) = EthernetView::split(frame) else { return false };
    view.ethertype() == ETHERTYPE
        && GrhView::split(rest)
            .is_ok_and(|(grh, rest)| grh.is_before_bth() && rest.len() >= bth::LENGTH + icrc::LENGTH)
}

/// The invariant CRC that belongs at the end of a frame, given everything before it, from the Ethernet header on.
///
/// # Panics
/// If the BTH is not there: see [`is_roce_v1`].
pub fn invariant_crc(before: &[u8]) -> u32 {
    packet_crc(&before[ethernet::LENGTH..])
}

/// The same from the GRH on.
fn packet_crc(before: &[u8]) -> u32 {
    let (head, rest) = before.split_at(grh::LENGTH + bth::LENGTH);
    let mask = |masked: &mut [u8; grh::LENGTH + bth::LENGTH]| {
        masked.copy_from_slice(head);
        // Version stays.
        masked[grh::FIRST_WORD] |= 0x0f;
        masked[grh::FIRST_WORD + 1..][..3].fill(0xff);
        masked[grh::HOP_LIMIT] = 0xff;
        masked[grh::LENGTH + bth::CONGESTION] = 0xff;
    };
    crc::after_ones(mask, &[], rest)
}

/// Whether the last four bytes of a RoCE v1 frame are its invariant CRC.
pub fn has_right_icrc(frame: &[u8]) -> bool {
    let split = frame.split_last_chunk().filter(|_| is_roce_v1(frame));
    split.is_some_and(|(before, found)| invariant_crc(before) == u32::from_le_bytes(*found))
}

/// Reads a frame: the hardware addresses, what it says, and the payload it carries, without pad. Adapters pad short frames: what
/// counts is what the GRH says.
pub fn parse_frame(bytes: &[u8]) -> Result<(EthernetRepr, RoceHeader, &[u8]), ParseError> {
    let (ethernet, rest) = EthernetView::split(bytes)?;
    if ethernet.ethertype() != ETHERTYPE {
        return Err(ParseError::NotRoce);
    }
    let (header, payload) = parse_packet(rest)?;
    Ok((EthernetRepr { destination: ethernet.destination(), source: ethernet.source() }, header, payload))
}

/// Reads what lies above Ethernet, GRH to ICRC: what it says, and the payload it carries, without pad. The ICRC, which does not cover
/// Ethernet, is checked before anything of the BTH is believed.
pub fn parse_packet(bytes: &[u8]) -> Result<(RoceHeader, &[u8]), ParseError> {
    let (grh, rest) = GrhView::split(bytes)?;
    let grh = GrhRepr::parse(&grh)?;
    let rest = rest.get(..usize::from(grh.payload_length)).ok_or(ParseError::Truncated)?;
    let (bth, after_bth) = rest.split_first_chunk().ok_or(ParseError::Truncated)?;
    let (body, found) = after_bth.split_last_chunk().ok_or(ParseError::Truncated)?;
    let before = &bytes[..grh::LENGTH + bth::LENGTH + body.len()];
    if packet_crc(before) != u32::from_le_bytes(*found) {
        return Err(ParseError::WrongIcrc);
    }
    let bth = BthRepr::parse(&BthView::new(bth))?;
    let (operation, payload) = body_operation(&bth, body)?;
    let path = (grh.source, grh.destination, DEFAULT_PORT, grh.traffic_class);
    Ok((RoceHeader::of_bth(path, &bth, operation), payload))
}

/// There are no ports in RoCE v1; a header has one all the same.
const DEFAULT_PORT: u16 = 4791;

/// Writes a frame to the start of `out`; returns the bytes written, which are [`frame_length`].
///
/// # Panics
/// If `out` is too short, the frame longer than a GRH can say, or there is a payload but `header.operation` carries none.
pub fn emit_frame(ethernet: &EthernetRepr, header: &RoceHeader, payload: &[u8], out: &mut [u8]) -> usize {
    let (ethernet_out, rest) = out.split_first_chunk_mut().expect("room for an Ethernet header");
    ethernet.emit_with(ETHERTYPE, ethernet_out);
    ethernet::LENGTH + emit_packet(header, payload, rest)
}

/// Writes what lies above Ethernet, GRH to ICRC, to the start of `out`; returns the bytes written, which are [`packet_length`].
///
/// # Panics
/// As [`emit_frame`] does.
pub fn emit_packet(header: &RoceHeader, payload: &[u8], out: &mut [u8]) -> usize {
    let operation = &header.operation;
    assert!(payload.is_empty() || operation.carries_payload(), "{operation:?} carries no payload");
    let length = datagram_length(operation, payload.len());
    let payload_length = u16::try_from(length).expect("a frame that a GRH can tell the length of");
    let out = &mut out[..grh::LENGTH + length];
    let (before, icrc_out) = out.split_last_chunk_mut().expect("an ICRC is part of the length");
    let too_short = "`out` has been cut to the length of the packet";
    let (grh_out, rest) = before.split_first_chunk_mut().expect(too_short);
    let (bth_out, rest) = rest.split_first_chunk_mut().expect(too_short);
    let RoceHeader { source, destination, traffic_class, .. } = *header;
    // Ours speak RoCE v1 for aggregation alone.
    let flow_label = netreduce::FLOW_LABEL;
    GrhRepr { source, destination, traffic_class, flow_label, payload_length }.emit(grh_out);
    bth_of(header, payload.len()).emit(bth_out);
    let (extension, padded) = rest.split_at_mut(operation.extension_length());
    operation.emit_extension(extension);
    let (payload_out, pad) = padded.split_at_mut(payload.len());
    copy(payload_out, payload);
    pad.fill(0);
    *icrc_out = packet_crc(before).to_le_bytes();
    grh::LENGTH + length
}
