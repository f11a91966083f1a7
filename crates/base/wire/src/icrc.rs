//! The invariant CRC, 4 bytes at the end of a RoCEv2 datagram (InfiniBand Architecture 7.8.1 and annex A17.3.3).
//!
//! CRC-32 (the polynomial of IEEE 802.3) over 8 bytes of ones, where the local route header of InfiniBand would be, and
//! the IP datagram, with ones in place of everything that may change on the way: traffic class, time to live or flow label and hop
//! limit, both checksums, and the congestion byte of the BTH. Stored little-endian, alone among all the fields.
//!
//! What is masked is copied, 40 bytes over IPv4 and 60 over IPv6; everything after the BTH is read where it lies.

use crate::crc::{self, BodyCrc};
use crate::ip::IpRepr;
use crate::ipv4::Ipv4Repr;
use crate::ipv6::{self, Ipv6Repr};
use crate::udp::UdpRepr;
use crate::{bth, field::put, ipv4, udp};

/// Bytes of the checksum.
pub const LENGTH: usize = 4;

/// What is masked over IPv4.
const MASKED: usize = ipv4::LENGTH + udp::LENGTH + bth::LENGTH;

/// What is masked over IPv6.
const MASKED_V6: usize = ipv6::LENGTH + udp::LENGTH + bth::LENGTH;

/// The invariant CRC of a datagram, given its headers and its bytes from after the BTH to before the CRC.
pub fn compute(ip: &IpRepr, udp: &UdpRepr, bth: &[u8; bth::LENGTH], after_bth: &[u8]) -> u32 {
    compute_apart(ip, udp, bth, &[], after_bth)
}

/// The same, given the extension headers, and the payload with its pad, which may lie elsewhere.
#[inline]
pub(crate) fn compute_apart(
    ip: &IpRepr,
    udp: &UdpRepr,
    bth: &[u8; bth::LENGTH],
    extension: &[u8],
    payload: &[u8],
) -> u32 {
    match ip {
        IpRepr::V4(ip) => crc::after_ones(|out| mask(ip, udp, bth, out), extension, payload),
        IpRepr::V6(ip) => crc::after_ones(|out| mask_v6(ip, udp, bth, out), extension, payload),
    }
}

/// The same, given the CRC of the payload, which needs no pad, in place of its bytes.
#[inline]
pub(crate) fn join(
    ip: &IpRepr,
    udp: &UdpRepr,
    bth: &[u8; bth::LENGTH],
    extension: &[u8],
    payload: &BodyCrc,
) -> u32 {
    match ip {
        IpRepr::V4(ip) => payload.after_ones(|out| mask(ip, udp, bth, out), extension),
        IpRepr::V6(ip) => payload.after_ones(|out| mask_v6(ip, udp, bth, out), extension),
    }
}

/// Everything up to the end of the BTH, with ones where the datagram may change on the way.
#[inline]
fn mask(ip: &Ipv4Repr, udp: &UdpRepr, bth: &[u8; bth::LENGTH], out: &mut [u8; MASKED]) {
    let ip = Ipv4Repr { traffic_class: 0xff, time_to_live: 0xff, ..*ip };
    put(out, 0, &ip.to_bytes([0xff; 2]));
    mask_above(udp, bth, &mut out[ipv4::LENGTH..]);
}

/// The same over IPv6.
#[inline]
fn mask_v6(ip: &Ipv6Repr, udp: &UdpRepr, bth: &[u8; bth::LENGTH], out: &mut [u8; MASKED_V6]) {
    if let Some(out) = out.first_chunk_mut() {
        // Of the first word the version stays.
        Ipv6Repr { traffic_class: 0xff, flow_label: u32::MAX, hop_limit: 0xff, ..*ip }.emit(out);
    }
    mask_above(udp, bth, &mut out[ipv6::LENGTH..]);
}

/// UDP and BTH.
#[inline]
fn mask_above(udp: &UdpRepr, bth: &[u8; bth::LENGTH], out: &mut [u8]) {
    if let Some(out) = out.first_chunk_mut() {
        UdpRepr { checksum: 0xffff, ..*udp }.emit(out);
    }
    put(out, udp::LENGTH, bth);
    out[udp::LENGTH + bth::CONGESTION] = 0xff;
}
