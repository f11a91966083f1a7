//! The invariant CRC, 4 bytes at the end of a RoCEv2 datagram (InfiniBand Architecture 7.8.1 and annex A17.3.3).
//!
//! CRC-32 (the polynomial of IEEE 802.3) over 8 bytes of ones, where the local route header of InfiniBand would be, and
//! the IP datagram, with ones in place of everything that may change on the way: traffic class, time to live or flow label and hop
//! limit, both checksums, and the congestion byte of the BTH. Stored little-endian, alone among all the fields.
//!
//! The masked bytes are copied to a prefix of 48 bytes, 68 over IPv6; everything after the BTH is read where it lies.

use crate::ip::IpRepr;
use crate::ipv4::Ipv4Repr;
use crate::ipv6::{self, Ipv6Repr};
use crate::udp::UdpRepr;
use crate::{bth, field::put, ipv4, udp};

/// Bytes of the checksum.
pub const LENGTH: usize = 4;

/// Where the local route header would be.
const ROUTE: usize = 8;
const IP: usize = ROUTE;
const UDP: usize = IP + ipv4::LENGTH;
const BTH: usize = UDP + udp::LENGTH;
const PREFIX: usize = BTH + bth::LENGTH;
const PREFIX_V6: usize = PREFIX - ipv4::LENGTH + ipv6::LENGTH;

/// The invariant CRC of a datagram, given its headers and its bytes from after the BTH to before the CRC.
pub fn compute(ip: &IpRepr, udp: &UdpRepr, bth: &[u8; bth::LENGTH], after_bth: &[u8]) -> u32 {
    let mut crc = begin(ip, udp, bth);
    crc.update(after_bth);
    crc.finalize()
}

/// The same, given the CRC of the payload with its pad instead of their bytes.
pub(crate) fn join(
    ip: &IpRepr,
    udp: &UdpRepr,
    bth: &[u8; bth::LENGTH],
    extension: &[u8],
    payload: &PayloadCrc,
) -> u32 {
    let mut crc = begin(ip, udp, bth);
    crc.update(extension);
    crc.combine(&payload.0);
    crc.finalize()
}

/// The CRC of a payload with its pad, to be joined to the CRCs of several headers.
#[derive(Clone, Debug)]
pub(crate) struct PayloadCrc(crc32fast::Hasher);

impl PayloadCrc {
    pub(crate) fn new(payload: &[u8]) -> Self {
        let mut crc = crc32fast::Hasher::new();
        crc.update(payload);
        let pad = payload.len().next_multiple_of(4) - payload.len();
        crc.update(&[0; 3][..pad]);
        Self(crc)
    }
}

fn begin(ip: &IpRepr, udp: &UdpRepr, bth: &[u8; bth::LENGTH]) -> crc32fast::Hasher {
    let mut crc = crc32fast::Hasher::new();
    match ip {
        IpRepr::V4(ipv4) => crc.update(&masked_prefix(ipv4, udp, bth)),
        IpRepr::V6(ipv6) => crc.update(&masked_prefix_v6(ipv6, udp, bth)),
    }
    crc
}

/// Everything up to the end of the BTH, with ones where the datagram may change on the way.
fn masked_prefix(ipv4: &Ipv4Repr, udp: &UdpRepr, bth: &[u8; bth::LENGTH]) -> [u8; PREFIX] {
    let mut prefix = [0xff; PREFIX];
    if let Some(out) = prefix[IP..].first_chunk_mut() {
        ipv4.emit_with_zero_checksum(out);
    }
    if let Some(out) = prefix[UDP..].first_chunk_mut() {
        udp.emit(out);
    }
    put(&mut prefix, BTH, bth);
    prefix[IP + ipv4::TRAFFIC_CLASS] = 0xff;
    prefix[IP + ipv4::TIME_TO_LIVE] = 0xff;
    put(&mut prefix, IP + ipv4::CHECKSUM, &[0xff; 2]);
    put(&mut prefix, UDP + udp::CHECKSUM, &[0xff; 2]);
    prefix[BTH + bth::CONGESTION] = 0xff;
    prefix
}

/// The same over IPv6.
fn masked_prefix_v6(ipv6: &Ipv6Repr, udp: &UdpRepr, bth: &[u8; bth::LENGTH]) -> [u8; PREFIX_V6] {
    const UDP: usize = IP + ipv6::LENGTH;
    const BTH: usize = UDP + udp::LENGTH;
    let mut prefix = [0xff; PREFIX_V6];
    if let Some(out) = prefix[IP..].first_chunk_mut() {
        // Of the first word the version stays.
        Ipv6Repr { traffic_class: 0xff, flow_label: u32::MAX, hop_limit: 0xff, ..*ipv6 }.emit(out);
    }
    if let Some(out) = prefix[UDP..].first_chunk_mut() {
        UdpRepr { checksum: 0xffff, ..*udp }.emit(out);
    }
    put(&mut prefix, BTH, bth);
    prefix[BTH + bth::CONGESTION] = 0xff;
    prefix
}
