//! A UDP datagram as a whole Ethernet frame: the headers before its payload, and what they say.

use crate::global_route::gid_of;
use crate::inbox::Datagram;
use crate::neighbours::MacAddress;
use nix::libc;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// Bytes of Ethernet, of IPv6 without extension headers, and of UDP.
const ETHERNET: usize = 14;
const IPV6: usize = 40;
const UDP: usize = 8;

const PROTOCOL_UDP: u8 = 17;

/// Hops that a frame may take.
const HOPS: u8 = 64;

/// Writes the headers before a UDP payload of `length` bytes behind what is in `out`: don't fragment, no UDP checksum (the payload has a
/// stronger one of its own, RFC 6936).
pub fn head(
    source: MacAddress,
    destination: MacAddress,
    datagram: &Datagram,
    length: usize,
    out: &mut Vec<u8>,
) {
    out.extend(destination.0);
    out.extend(source.0);
    let udp_length = ((UDP + length) as u16).to_be_bytes();
    match (datagram.source.ip(), datagram.destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut ip = [0; 20];
            ip[0] = 0x45;
            ip[1] = datagram.tos;
            ip[2..4].copy_from_slice(&((20 + UDP + length) as u16).to_be_bytes());
            ip[4..6].copy_from_slice(&datagram.identification.to_be_bytes());
            ip[6] = 0x40;
            ip[8] = HOPS;
            ip[9] = PROTOCOL_UDP;
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..20].copy_from_slice(&to.octets());
            let sum = internet_checksum(&ip);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
            out.extend(ETHERTYPE_IPV4.to_be_bytes());
            out.extend(ip);
        }
        (from, to) => {
            out.extend(ETHERTYPE_IPV6.to_be_bytes());
            out.extend((6 << 28 | u32::from(datagram.tos) << 20).to_be_bytes());
            out.extend(udp_length);
            out.extend([PROTOCOL_UDP, HOPS]);
            out.extend(gid_of(from).octets());
            out.extend(gid_of(to).octets());
        }
    }
    out.extend(datagram.source.port().to_be_bytes());
    out.extend(datagram.destination.port().to_be_bytes());
    out.extend(udp_length);
    out.extend([0; 2]);
}

/// RFC 1071, over an even number of bytes.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Takes the headers off an Ethernet frame with a whole UDP datagram that came in by `interface`: who sent it to whom, and where its payload lies.
pub fn decapsulate(frame: &[u8], interface: u32) -> Option<(Datagram, Range<usize>)> {
    let ip = frame.get(ETHERNET..)?;
    let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let (version, half) =
        (ip.first()? >> 4, |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?])));
    // Short Ethernet frames are padded: what counts is what IP says.
    let (header, total, protocol) = match (ethertype, version) {
        (ETHERTYPE_IPV4, 4) if half(6)? & 0x3fff == 0 => {
            (usize::from(ip[0] & 0xf) * 4, usize::from(half(2)?), *ip.get(9)?)
        }
        (ETHERTYPE_IPV6, 6) => (IPV6, IPV6 + usize::from(half(4)?), *ip.get(6)?),
        _ => return None,
    };
    let ip = ip.get(..total)?;
    let udp = ip.get(header..)?;
    if header < 20 || protocol != PROTOCOL_UDP || udp.len() < UDP {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([udp[4], udp[5]]));
    if length < UDP || length > udp.len() {
        return None;
    }
    let [source, destination] = if version == 4 {
        [12, 16].map(|at| IpAddr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]))
    } else {
        let address = |at: usize| ip[at..].first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets));
        [address(8)?, address(24)?]
    };
    // As the kernel does with IPv4 addresses in an IPv6 header (RFC 4291, erratum 3480): they would be taken for an IPv4 sender's.
    if [source, destination].iter().any(|address| address.to_canonical() != *address) {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
    let start = ETHERNET + header + UDP;
    let datagram = Datagram {
        source: SocketAddr::new(source, port(0)),
        destination: SocketAddr::new(destination, port(2)),
        tos: if version == 4 { ip[1] } else { ip[0] << 4 | ip[1] >> 4 },
        identification: if version == 4 { u16::from_be_bytes([ip[4], ip[5]]) } else { 0 },
        interface,
    };
    Some((datagram, start..start + length - UDP))
}

/// A classic BPF program that passes whole UDP datagrams for `local` and nothing else, and the EtherType of its family.
pub(crate) fn filter(local: SocketAddr) -> (Vec<libc::sock_filter>, u16) {
    const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
    const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
    const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const LOAD_HALF_AFTER_IP: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
    const IP_LENGTH_TO_X: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    match local.ip() {
        IpAddr::V4(ip) => {
            let program = vec![
                step(LOAD_BYTE, 0, 0, 23),
                step(IF_EQUAL, 0, 8, u32::from(PROTOCOL_UDP)),
                step(LOAD_WORD, 0, 0, 30),
                step(IF_EQUAL, 0, 6, u32::from(ip)),
                step(LOAD_HALF, 0, 0, 20),
                // More fragments, or not the first.
                step(IF_ANY_BIT, 4, 0, 0x3fff),
                step(IP_LENGTH_TO_X, 0, 0, 14),
                step(LOAD_HALF_AFTER_IP, 0, 0, 16),
                step(IF_EQUAL, 0, 1, u32::from(local.port())),
                step(RETURN, 0, 0, u32::MAX),
                step(RETURN, 0, 0, 0),
            ];
            (program, ETHERTYPE_IPV4)
        }
        IpAddr::V6(ip) => {
            let word = |index: u32| (ip.to_bits() >> (96 - 32 * index)) as u32;
            let mut program = vec![step(LOAD_BYTE, 0, 0, 20), step(IF_EQUAL, 0, 11, u32::from(PROTOCOL_UDP))];
            for index in 0..4 {
                program.push(step(LOAD_WORD, 0, 0, 38 + 4 * index));
                program.push(step(IF_EQUAL, 0, 9 - 2 * index as u8, word(index)));
            }
            program.push(step(LOAD_HALF, 0, 0, 56));
            program.push(step(IF_EQUAL, 0, 1, u32::from(local.port())));
            program.extend([step(RETURN, 0, 0, u32::MAX), step(RETURN, 0, 0, 0)]);
            (program, ETHERTYPE_IPV6)
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
