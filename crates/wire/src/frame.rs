//! Whole RoCEv2 frames, from the Ethernet header to the invariant CRC: what a raw socket or a capture file carries.
//!
//! ```text
//! +----------+------+-----+-----+------------+---------+-----+------+
//! | Ethernet | IPv4 | UDP | BTH | extensions | payload | pad | ICRC |
//! +----------+------+-----+-----+------------+---------+-----+------+
//!     14        20     8     12      0..28       0..      0..3    4      bytes
//! ```

use crate::datagram::{MAX_DATAGRAM, datagram_length, emit_transport, parse_transport};
use crate::ethernet::{self, EthernetRepr, EthernetView};
use crate::ipv4::{self, Ipv4Repr, Ipv4View};
use crate::udp::{self, UdpRepr, UdpView};
use crate::{MacAddress, Operation, ParseError, RoceHeader, UdpPath};

/// Bytes before the BTH.
pub const HEADERS_BELOW_BTH: usize = ethernet::LENGTH + ipv4::LENGTH + udp::LENGTH;

/// What a frame's lower headers say beyond the [`RoceHeader`]: hop by hop, or of no meaning to RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// Hardware addresses of this hop.
    pub ethernet: EthernetRepr,
    /// IP identification. The invariant CRC covers it.
    pub identification: u16,
    /// IP "don't fragment". The invariant CRC covers it.
    pub dont_fragment: bool,
    /// IP hops left.
    pub time_to_live: u8,
    /// UDP checksum as it stands in the frame. RoCE senders write 0, "none"; so must whoever changes a frame.
    pub udp_checksum: u16,
}

impl Envelope {
    /// An envelope between two hardware addresses as a UDP socket would make it: identification 0, "don't fragment"
    /// set, 64 hops; and no UDP checksum.
    pub const fn new(source: MacAddress, destination: MacAddress) -> Self {
        Self {
            ethernet: EthernetRepr { destination, source },
            identification: 0,
            dont_fragment: true,
            time_to_live: 64,
            udp_checksum: 0,
        }
    }
}

/// Bytes of a frame for `operation` with `payload_length` bytes, without the frame check sequence.
pub const fn frame_length(operation: &Operation, payload_length: usize) -> usize {
    HEADERS_BELOW_BTH + datagram_length(operation, payload_length)
}

/// Reads an Ethernet frame: its envelope, what it says, and the payload it carries, without pad. What the adapter
/// appended to reach Ethernet's least length is ignored.
pub fn parse_frame(bytes: &[u8]) -> Result<(Envelope, RoceHeader, &[u8]), ParseError> {
    let (ethernet, rest) = EthernetView::split(bytes)?;
    let ethernet = EthernetRepr::parse(&ethernet)?;
    let (ipv4, rest) = Ipv4View::split(rest)?;
    let ipv4 = Ipv4Repr::parse(&ipv4)?;
    let (udp, rest) = UdpView::split(rest)?;
    let udp = UdpRepr::parse(&udp)?;
    let (header, payload) = parse_transport(&ipv4, &udp, rest)?;
    let envelope = Envelope {
        ethernet,
        identification: ipv4.identification,
        dont_fragment: ipv4.dont_fragment,
        time_to_live: ipv4.time_to_live,
        udp_checksum: udp.checksum,
    };
    Ok((envelope, header, payload))
}

/// Writes what lies before a datagram of `length` bytes in its frame: [`HEADERS_BELOW_BTH`] bytes at the start of `out`.
///
/// # Panics
/// If `out` is too short, or `length` more than [`MAX_DATAGRAM`].
pub fn emit_headers(envelope: &Envelope, path: &UdpPath, length: usize, out: &mut [u8]) {
    let (ipv4, udp) = lower_headers(envelope, path, length);
    emit_lower(envelope, &ipv4, &udp, &mut out[..HEADERS_BELOW_BTH]);
}

fn lower_headers(envelope: &Envelope, path: &UdpPath, length: usize) -> (Ipv4Repr, UdpRepr) {
    assert!(length <= MAX_DATAGRAM, "{length} bytes do not fit into a datagram");
    let udp = UdpRepr {
        source_port: path.source_port,
        length: (udp::LENGTH + length) as u16,
        checksum: envelope.udp_checksum,
    };
    let ipv4 = Ipv4Repr {
        source: path.source,
        destination: path.destination,
        traffic_class: path.traffic_class,
        identification: envelope.identification,
        dont_fragment: envelope.dont_fragment,
        time_to_live: envelope.time_to_live,
        total_length: (ipv4::LENGTH + udp::LENGTH + length) as u16,
    };
    (ipv4, udp)
}

fn emit_lower(envelope: &Envelope, ipv4: &Ipv4Repr, udp: &UdpRepr, out: &mut [u8]) {
    let too_short = "`out` has been cut to the length of the headers";
    let (ethernet_out, rest) = out.split_first_chunk_mut().expect(too_short);
    let (ipv4_out, rest) = rest.split_first_chunk_mut().expect(too_short);
    let (udp_out, _) = rest.split_first_chunk_mut().expect(too_short);
    envelope.ethernet.emit(ethernet_out);
    ipv4.emit(ipv4_out);
    udp.emit(udp_out);
}

/// Writes an Ethernet frame to the start of `out`; returns the bytes written, which are [`frame_length`].
///
/// # Panics
/// As [`crate::emit_datagram`] does.
pub fn emit_frame(envelope: &Envelope, header: &RoceHeader, payload: &[u8], out: &mut [u8]) -> usize {
    let length = datagram_length(&header.operation, payload.len());
    let path = UdpPath {
        source: header.source,
        destination: header.destination,
        source_port: header.source_port,
        traffic_class: header.traffic_class,
    };
    let (ipv4, udp) = lower_headers(envelope, &path, length);
    let (lower, transport) = out[..HEADERS_BELOW_BTH + length].split_at_mut(HEADERS_BELOW_BTH);
    emit_lower(envelope, &ipv4, &udp, lower);
    emit_transport(&ipv4, &udp, header, payload, None, transport);
    HEADERS_BELOW_BTH + length
}
