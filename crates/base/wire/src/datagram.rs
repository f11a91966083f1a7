//! What a UDP socket carries for RoCEv2: from the base transport header to the invariant CRC.
//!
//! ```text
//! +-----+------------+---------+-----+------+
//! | BTH | extensions | payload | pad | ICRC |
//! +-----+------------+---------+-----+------+
//!   12      0..28       0..      0..3    4      bytes
//! ```
//!
//! A socket hides the IP header, but the invariant CRC covers it. So both sides assume IP identification 0, "don't
//! fragment" set, and no options. On Linux that is what a socket sends which is not connected and has the option
//! `IP_MTU_DISCOVER` at `IP_PMTUDISC_DO`; any other numbers its datagrams, and a peer that sees the true header (an
//! adapter, the kernel's RoCE, [`crate::parse_frame`]) drops them. So it is with the pieces, after the first, of a send
//! that the kernel segments. The kernel's RoCE numbers its own datagrams: only who sees their headers can check them
//! ([`parse_identified_datagram`]). Over IPv6 there is nothing to number, and the CRC covers no field that a socket hides.

use crate::bth::{self, BthRepr, BthView};
use crate::crc::BodyCrc;
use crate::field::copy;
use crate::ip::IpRepr;
use crate::ipv4::{self, Ipv4Repr};
use crate::udp::{self, UdpRepr};
use crate::{Operation, ParseError, RoceHeader, UdpPath, icrc};

/// Bytes that fit into one UDP datagram over IPv4: over IPv6 there is room for 20 more, which nobody needs.
pub const MAX_DATAGRAM: usize = u16::MAX as usize - ipv4::LENGTH - udp::LENGTH;

/// Bytes from BTH to ICRC for `operation` with `payload_length` bytes.
pub const fn datagram_length(operation: &Operation, payload_length: usize) -> usize {
    bth::LENGTH + operation.extension_length() + payload_length.next_multiple_of(4) + icrc::LENGTH
}

/// Reads a UDP payload, BTH to ICRC: what it says and the payload it carries, without pad.
///
/// The ICRC is checked before anything else is believed.
pub fn parse_datagram<'a>(path: &UdpPath, bytes: &'a [u8]) -> Result<(RoceHeader, &'a [u8]), ParseError> {
    parse_identified_datagram(path, 0, bytes)
}

/// Does what [`parse_datagram`] does for a datagram whose IP identification is known; IPv6 has none.
pub fn parse_identified_datagram<'a>(
    path: &UdpPath,
    identification: u16,
    bytes: &'a [u8],
) -> Result<(RoceHeader, &'a [u8]), ParseError> {
    if bytes.len() > MAX_DATAGRAM {
        return Err(ParseError::TooLong);
    }
    let (ip, udp) = socket_headers(path, bytes.len())?;
    let ip = match ip {
        IpRepr::V4(ipv4) => IpRepr::V4(Ipv4Repr { identification, ..ipv4 }),
        IpRepr::V6(_) => ip,
    };
    parse_transport(&ip, &udp, bytes)
}

/// Writes BTH to ICRC to the start of `out`; returns the bytes written, which are [`datagram_length`].
///
/// # Panics
/// If `out` is too short, if the datagram would be longer than [`MAX_DATAGRAM`], if there is a payload but `header.operation`
/// carries none, or if the header's addresses are of two families.
pub fn emit_datagram(header: &RoceHeader, payload: &[u8], out: &mut [u8]) -> usize {
    emit_through_socket(header, payload, None, out)
}

/// A payload that goes to several destinations: its share of the invariant CRC is computed once, if it is as long as a full packet by one of
/// RoCE's path MTUs (256 bytes to 4 KiB); else anew for each (`benches/icrc.rs`).
#[derive(Clone, Debug)]
pub struct SharedPayload<'a> {
    bytes: &'a [u8],
    crc: Option<BodyCrc>,
}

impl<'a> SharedPayload<'a> {
    /// Reads `bytes` once.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, crc: BodyCrc::new(bytes) }
    }

    /// The payload.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Does what [`emit_datagram`] does, byte for byte, without computing the payload's share of the CRC again.
///
/// # Panics
/// As [`emit_datagram`] does.
pub fn emit_shared_datagram(header: &RoceHeader, payload: &SharedPayload<'_>, out: &mut [u8]) -> usize {
    emit_through_socket(header, payload.bytes, payload.crc.as_ref(), out)
}

fn emit_through_socket(
    header: &RoceHeader,
    payload: &[u8],
    payload_crc: Option<&BodyCrc>,
    out: &mut [u8],
) -> usize {
    let length = datagram_length(&header.operation, payload.len());
    assert!(length <= MAX_DATAGRAM, "a payload of {} bytes does not fit into a datagram", payload.len());
    let (ip, udp) = socket_headers(&UdpPath::of(header), length).unwrap_or_else(|error| panic!("{error}"));
    emit_transport(&ip, &udp, header, payload, payload_crc, &mut out[..length]);
    length
}

/// The headers that a datagram sent through a socket has.
#[inline]
fn socket_headers(path: &UdpPath, length: usize) -> Result<(IpRepr, UdpRepr), ParseError> {
    let udp_length = udp::LENGTH + length;
    let udp = UdpRepr { source_port: path.source_port, length: udp_length as u16, checksum: 0 };
    Ok((IpRepr::of_socket(path, length)?, udp))
}

/// Reads BTH to ICRC under the given headers.
pub(crate) fn parse_transport<'a>(
    ip: &IpRepr,
    udp: &UdpRepr,
    bytes: &'a [u8],
) -> Result<(RoceHeader, &'a [u8]), ParseError> {
    let (bth, after_bth) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
    let (body, found) = after_bth.split_last_chunk().ok_or(ParseError::Truncated)?;
    if icrc::compute(ip, udp, bth, body) != u32::from_le_bytes(*found) {
        return Err(ParseError::WrongIcrc);
    }
    let bth = BthRepr::parse(&BthView::new(bth))?;
    let (operation, payload) = body_operation(&bth, body)?;
    let (source, destination) = ip.addresses();
    let path = (source, destination, udp.source_port, ip.traffic_class());
    Ok((RoceHeader::of_bth(path, &bth, operation), payload))
}

/// What lies between BTH and ICRC: the operation with its extension headers, and the payload without pad.
pub(crate) fn body_operation<'a>(bth: &BthRepr, body: &'a [u8]) -> Result<(Operation, &'a [u8]), ParseError> {
    let (operation, padded) = Operation::split(bth.opcode, body)?;
    let length = padded.len().checked_sub(usize::from(bth.pad_count)).ok_or(ParseError::BadPad)?;
    if padded.len() % 4 != 0 {
        return Err(ParseError::BadPad);
    }
    let payload = &padded[..length];
    if !payload.is_empty() && !operation.carries_payload() {
        return Err(ParseError::UnexpectedPayload);
    }
    Ok((operation, payload))
}

/// The BTH of a header before a payload of so many bytes.
pub(crate) fn bth_of(header: &RoceHeader, payload_length: usize) -> BthRepr {
    let pad_count = payload_length.next_multiple_of(4) - payload_length;
    BthRepr {
        opcode: header.operation.opcode(),
        solicited: header.solicited,
        migration: header.migration,
        pad_count: pad_count as u8,
        partition_key: header.partition_key,
        forward_congestion: header.forward_congestion,
        backward_congestion: header.backward_congestion,
        destination_qp: header.destination_qp,
        acknowledge_request: header.acknowledge_request,
        psn: header.psn,
    }
}

/// Fills `out` with BTH to ICRC under the given headers; `payload_crc`, if there is one, is that of `payload`.
pub(crate) fn emit_transport(
    ip: &IpRepr,
    udp: &UdpRepr,
    header: &RoceHeader,
    payload: &[u8],
    payload_crc: Option<&BodyCrc>,
    out: &mut [u8],
) {
    let operation = &header.operation;
    assert!(payload.is_empty() || operation.carries_payload(), "{operation:?} carries no payload");
    let bth = bth_of(header, payload.len());
    let too_short = "the caller has cut `out` to the length of the datagram";
    let (bth_out, after_bth) = out.split_first_chunk_mut().expect(too_short);
    let (body, icrc_out) = after_bth.split_last_chunk_mut().expect(too_short);
    bth.emit(bth_out);
    let (extension, padded) = body.split_at_mut(operation.extension_length());
    operation.emit_extension(extension);
    let (payload_out, pad) = padded.split_at_mut(payload.len());
    assert_eq!(pad.len(), usize::from(bth.pad_count), "the caller has cut `out` to another length");
    // Without a pad it is read before it is copied: the processor fetches ahead of the CRC better than ahead of the copy.
    let crc = match payload_crc {
        Some(payload_crc) => {
            copy(payload_out, payload);
            icrc::join(ip, udp, bth_out, extension, payload_crc)
        }
        None if pad.is_empty() => {
            let crc = icrc::compute_apart(ip, udp, bth_out, extension, payload);
            copy(payload_out, payload);
            crc
        }
        None => {
            copy(payload_out, payload);
            pad.fill(0);
            icrc::compute_apart(ip, udp, bth_out, extension, padded)
        }
    };
    *icrc_out = crc.to_le_bytes();
}
