//! Whole RoCEv2 frames, from the Ethernet header to the invariant CRC: what a raw socket or a capture file carries.
//!
//! ```text
//! +----------+------+-----+-----+------------+---------+-----+------+
//! | Ethernet |  IP  | UDP | BTH | extensions | payload | pad | ICRC |
//! +----------+------+-----+-----+------------+---------+-----+------+
//!     14     20 or 40  8     12      0..28       0..      0..3    4      bytes
//! ```

use crate::datagram::{MAX_DATAGRAM, datagram_length, emit_transport, parse_transport};
use crate::ethernet::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6, EthernetRepr, EthernetView};
use crate::ip::{self, IpRepr};
use crate::ipv4::{self, Ipv4Repr, Ipv4View};
use crate::ipv6::Ipv6Repr;
use crate::udp::{self, UdpRepr, UdpView};
use crate::{Gid, MacAddress, Operation, ParseError, RoceHeader, UdpPath};

/// Bytes before the BTH over IPv4.
pub const HEADERS_BELOW_BTH: usize = ethernet::LENGTH + ipv4::LENGTH + udp::LENGTH;

/// Bytes before the BTH of a frame to an address: 42, or 62 over IPv6.
#[inline]
pub const fn headers_below_bth(address: Gid) -> usize {
    ethernet::LENGTH + ip::header_length(address) + udp::LENGTH
}

/// What a frame's lower headers say beyond the [`RoceHeader`]: hop by hop, or of no meaning to RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Envelope {
    /// Hardware addresses of this hop.
    pub ethernet: EthernetRepr,
    /// IPv4 identification. The invariant CRC covers it. IPv6 has none: 0.
    pub identification: u16,
    /// IPv4 "don't fragment". The invariant CRC covers it. True over IPv6, where routers never cut datagrams.
    pub dont_fragment: bool,
    /// IPv6 flow label, 20 bits. IPv4 has none: 0.
    pub flow_label: u32,
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
            flow_label: 0,
            time_to_live: 64,
            udp_checksum: 0,
        }
    }
}

/// Bytes of a frame over IPv4 for `operation` with `payload_length` bytes, without the frame check sequence.
#[inline]
pub const fn frame_length(operation: &Operation, payload_length: usize) -> usize {
    HEADERS_BELOW_BTH + datagram_length(operation, payload_length)
}

/// Reads an Ethernet frame: its envelope, what it says, and the payload it carries, without pad. What the adapter
/// appended to reach Ethernet's least length is ignored.
pub fn parse_frame(bytes: &[u8]) -> Result<(Envelope, RoceHeader, &[u8]), ParseError> {
    let (view, rest) = EthernetView::split(bytes)?;
    let ethernet = EthernetRepr::parse(&view)?;
    let (ip, rest) = match view.ethertype() {
        ETHERTYPE_IPV6 => Ipv6Repr::split(rest).map(|(ip, rest)| (IpRepr::V6(ip), rest))?,
        _ => {
            let (view, rest) = Ipv4View::split(rest)?;
            (IpRepr::V4(Ipv4Repr::parse(&view)?), rest)
        }
    };
    let (udp, rest) = UdpView::split(rest)?;
    let udp = UdpRepr::parse(&udp)?;
    let (header, payload) = parse_transport(&ip, &udp, rest)?;
    let below = match ip {
        IpRepr::V4(Ipv4Repr { identification, dont_fragment, time_to_live, .. }) => {
            (identification, dont_fragment, 0, time_to_live)
        }
        IpRepr::V6(Ipv6Repr { flow_label, hop_limit, .. }) => (0, true, flow_label, hop_limit),
    };
    let (identification, dont_fragment, flow_label, time_to_live) = below;
    let udp_checksum = udp.checksum;
    let envelope =
        Envelope { ethernet, identification, dont_fragment, flow_label, time_to_live, udp_checksum };
    Ok((envelope, header, payload))
}

/// Writes what lies before a datagram of `length` bytes in its frame to the start of `out`; returns the bytes written, which are
/// [`headers_below_bth`] of the receiver.
///
/// # Panics
/// If `out` is too short, `length` more than [`MAX_DATAGRAM`], or the path's addresses of two families.
pub fn emit_headers(envelope: &Envelope, path: &UdpPath, length: usize, out: &mut [u8]) -> usize {
    let (ip, udp) = lower_headers(envelope, path, length);
    let below = headers_below_bth(path.destination);
    emit_lower(envelope, &ip, &udp, &mut out[..below]);
    below
}

fn lower_headers(envelope: &Envelope, path: &UdpPath, length: usize) -> (IpRepr, UdpRepr) {
    assert!(length <= MAX_DATAGRAM, "{length} bytes do not fit into a datagram");
    let udp = UdpRepr {
        source_port: path.source_port,
        length: (udp::LENGTH + length) as u16,
        checksum: envelope.udp_checksum,
    };
    let Envelope { identification, dont_fragment, flow_label, time_to_live, .. } = *envelope;
    let ip = match IpRepr::of_socket(path, length).unwrap_or_else(|error| panic!("{error}")) {
        IpRepr::V4(ip) => IpRepr::V4(Ipv4Repr { identification, dont_fragment, time_to_live, ..ip }),
        IpRepr::V6(ip) => IpRepr::V6(Ipv6Repr { flow_label, hop_limit: time_to_live, ..ip }),
    };
    (ip, udp)
}

fn emit_lower(envelope: &Envelope, ip: &IpRepr, udp: &UdpRepr, out: &mut [u8]) {
    let too_short = "`out` has been cut to the length of the headers";
    let (ethernet_out, rest) = out.split_first_chunk_mut().expect(too_short);
    let udp_out = match ip {
        IpRepr::V4(ip) => {
            envelope.ethernet.emit_with(ETHERTYPE_IPV4, ethernet_out);
            let (ip_out, rest) = rest.split_first_chunk_mut().expect(too_short);
            ip.emit(ip_out);
            rest
        }
        IpRepr::V6(ip) => {
            envelope.ethernet.emit_with(ETHERTYPE_IPV6, ethernet_out);
            let (ip_out, rest) = rest.split_first_chunk_mut().expect(too_short);
            ip.emit(ip_out);
            rest
        }
    };
    udp.emit(udp_out.first_chunk_mut().expect(too_short));
}

/// Writes an Ethernet frame to the start of `out`; returns the bytes written, which are [`frame_length`] over IPv4.
///
/// # Panics
/// As [`crate::emit_datagram`] does.
pub fn emit_frame(envelope: &Envelope, header: &RoceHeader, payload: &[u8], out: &mut [u8]) -> usize {
    let length = datagram_length(&header.operation, payload.len());
    let (ip, udp) = lower_headers(envelope, &UdpPath::of(header), length);
    let below = headers_below_bth(header.destination);
    let (lower, transport) = out[..below + length].split_at_mut(below);
    emit_lower(envelope, &ip, &udp, lower);
    emit_transport(&ip, &udp, header, payload, None, transport);
    below + length
}
