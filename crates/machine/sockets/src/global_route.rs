//! Frames with a global route header straight above Ethernet (EtherType 0x8915), as RoCE v1 has them. What a transport must know of
//! them is what it knows of IP: who sends to whom, and how long they are.

use crate::inbox::Datagram;
use crate::neighbours::MacAddress;
use nix::libc;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;

/// EtherType of RoCE v1.
pub(crate) const ETHERTYPE: u16 = 0x8915;

/// Ethernet alone: the header belongs to what the owner reads and writes.
pub(crate) const HEAD: usize = 14;

const HEADER: usize = 40;
const PAYLOAD_LENGTH: usize = 4;
const NEXT_HEADER: usize = 6;
const SOURCE: usize = 8;
const DESTINATION: usize = 24;

/// The next header: that of InfiniBand's transport.
const TRANSPORT: u8 = 0x1b;

/// The header before what the owner has written.
pub(crate) fn head(source: MacAddress, destination: MacAddress) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0..6].copy_from_slice(&destination.0);
    head[6..12].copy_from_slice(&source.0);
    head[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    head
}

/// The GID of an address.
pub(crate) fn gid_of(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The sender that a global route header names.
pub(crate) fn source(packet: &[u8]) -> Option<IpAddr> {
    address(packet, SOURCE)
}

fn address(packet: &[u8], at: usize) -> Option<IpAddr> {
    let gid: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
    Some(Ipv6Addr::from(gid).to_canonical())
}

/// Takes the Ethernet header off a frame: who sent it to whom, at the port `port` as if it had come through UDP, and where it lies from
/// the global route header on. Short frames are padded: what counts is what the header says.
pub(crate) fn decapsulate(frame: &[u8], port: u16, interface: u32) -> Option<(Datagram, Range<usize>)> {
    let packet = frame.get(HEAD..)?;
    let header = packet.get(..HEADER)?;
    if frame[12..HEAD] != ETHERTYPE.to_be_bytes() || header[0] >> 4 != 6 || header[NEXT_HEADER] != TRANSPORT {
        return None;
    }
    let length = u16::from_be_bytes([header[PAYLOAD_LENGTH], header[PAYLOAD_LENGTH + 1]]);
    let end = HEAD + HEADER + usize::from(length);
    let datagram = Datagram {
        source: SocketAddr::new(source(header)?, port),
        destination: SocketAddr::new(address(header, DESTINATION)?, port),
        tos: header[0] << 4 | header[1] >> 4,
        identification: 0,
        interface,
    };
    let is_of_one_family = datagram.source.is_ipv4() == datagram.destination.is_ipv4();
    (is_of_one_family && end <= frame.len()).then_some((datagram, HEAD..end))
}

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// A classic BPF program that passes such frames for `local` and nothing else.
pub(crate) fn filter_for(local: IpAddr) -> Vec<libc::sock_filter> {
    let at = (HEAD + DESTINATION) as u32;
    let gid = gid_of(local);
    let word = |index: usize| (gid.to_bits() >> (96 - 32 * index)) as u32;
    vec![
        step(LOAD_HALF, 0, 0, 12),
        step(IF_EQUAL, 0, 9, u32::from(ETHERTYPE)),
        step(LOAD_WORD, 0, 0, at),
        step(IF_EQUAL, 0, 7, word(0)),
        step(LOAD_WORD, 0, 0, at + 4),
        step(IF_EQUAL, 0, 5, word(1)),
        step(LOAD_WORD, 0, 0, at + 8),
        step(IF_EQUAL, 0, 3, word(2)),
        step(LOAD_WORD, 0, 0, at + 12),
        step(IF_EQUAL, 0, 1, word(3)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

/// A program that passes such frames, whoever they are for, if they came in by one of these interfaces: at most 250.
pub(crate) fn filter_from(interfaces: &[u32]) -> Vec<libc::sock_filter> {
    // Where the kernel's extensions tell of the interface.
    const INTERFACE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX) as u32;
    let count = interfaces.len() as u8;
    let mut program = vec![
        step(LOAD_HALF, 0, 0, 12),
        step(IF_EQUAL, 0, count + 1, u32::from(ETHERTYPE)),
        step(LOAD_WORD, 0, 0, INTERFACE),
    ];
    // Each leads over the others and the refusal to the leave.
    let each = |(before, &interface): (u8, &u32)| step(IF_EQUAL, count - before, 0, interface);
    program.extend((0..count).zip(interfaces).map(each));
    program.extend([step(RETURN, 0, 0, 0), step(RETURN, 0, 0, u32::MAX)]);
    program
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const HERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const THERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
    const PORT: u16 = 4791;

    /// From 10.77.0.1 to 10.77.0.2 with traffic class 0x22 and four bytes behind the header.
    fn frame() -> Vec<u8> {
        let mut frame = head(HERE, THERE).to_vec();
        frame.extend([0x62, 0x20, 0, 0, 0, 4, TRANSPORT, 64]);
        for last in [1, 2] {
            frame.extend(gid_of(IpAddr::from([10, 77, 0, last])).octets());
        }
        frame.extend(b"data");
        frame
    }

    #[test]
    fn a_frame_is_read_from_its_header_on_and_padding_is_ignored() {
        let mut bytes = frame();
        let whole = bytes.len();
        bytes.resize(whole + 6, 0);
        let (found, packet) = decapsulate(&bytes, PORT, 7).expect("a whole frame");
        let expected = Datagram {
            source: "10.77.0.1:4791".parse().expect("an address"),
            destination: "10.77.0.2:4791".parse().expect("an address"),
            tos: 0x22,
            identification: 0,
            interface: 7,
        };
        assert_eq!((found, packet), (expected, HEAD..whole));
    }

    #[test]
    fn a_truncated_frame_is_refused_at_every_length() {
        let bytes = frame();
        for length in 0..bytes.len() {
            assert_eq!(decapsulate(&bytes[..length], PORT, 7), None, "{length} bytes");
        }
    }

    #[test]
    fn frames_of_other_types_versions_headers_and_addresses_are_refused() {
        let bytes = frame();
        let [source, destination] = [SOURCE, DESTINATION].map(|at| HEAD + at + 11);
        for at in [12, HEAD, HEAD + NEXT_HEADER, HEAD + PAYLOAD_LENGTH, source, destination] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            assert_eq!(decapsulate(&bytes, PORT, 7), None, "byte {at}");
        }
    }

    /// What a filter makes of a frame: the steps that are in use in this room.
    pub(crate) fn passes(program: &[libc::sock_filter], frame: &[u8], interface: u32) -> bool {
        const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
        const LOAD_HALF_BEHIND: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
        const IP_LENGTH: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
        const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
        let half = |start: usize| u32::from(u16::from_be_bytes([frame[start], frame[start + 1]]));
        let (mut at, mut value, mut index) = (0, 0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let start = k as usize;
            match u32::from(code) {
                LOAD_BYTE => value = frame[start].into(),
                LOAD_HALF => value = half(start),
                LOAD_HALF_BEHIND => value = half(start + index),
                IP_LENGTH => index = usize::from(frame[start] & 0xf) * 4,
                IF_ANY_BIT => at += usize::from(if value & k > 0 { jt } else { jf }),
                LOAD_WORD if k as i32 == libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX => value = interface,
                LOAD_WORD => value = u32::from_be_bytes(frame[start..start + 4].try_into().expect("a word")),
                IF_EQUAL => at += usize::from(if value == k { jt } else { jf }),
                RETURN => return k > 0,
                other => panic!("no step {other}"),
            }
        }
    }

    #[test]
    fn a_host_takes_what_is_for_its_address() {
        let for_other = filter_for(IpAddr::from([10, 77, 0, 3]));
        assert!(passes(&filter_for(IpAddr::from([10, 77, 0, 2])), &frame(), 1));
        assert!(!passes(&for_other, &frame(), 1));
        let mut ordinary = frame();
        ordinary[12..14].copy_from_slice(&[8, 0]);
        assert!(!passes(&filter_for(IpAddr::from([10, 77, 0, 2])), &ordinary, 1));
        let mut over_ipv6 = frame();
        let gid = Ipv6Addr::new(0xfd77, 1, 2, 3, 4, 5, 6, 7);
        over_ipv6[HEAD + DESTINATION..][..16].copy_from_slice(&gid.octets());
        assert!(passes(&filter_for(gid.into()), &over_ipv6, 1));
        for word in 0..4 {
            let other = Ipv6Addr::from_bits(gid.to_bits() ^ 1 << (32 * word));
            assert!(!passes(&filter_for(other.into()), &over_ipv6, 1), "{other}");
        }
    }

    #[test]
    fn a_bridge_takes_what_comes_in_by_its_ports() {
        let program = filter_from(&[3, 5, 9]);
        let passed: Vec<u32> = (0..12).filter(|interface| passes(&program, &frame(), *interface)).collect();
        assert_eq!(passed, [3, 5, 9]);
        let mut ordinary = frame();
        ordinary[12..14].copy_from_slice(&[8, 0]);
        assert!(!passes(&program, &ordinary, 5));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120), at in 0_usize..58, value: u8) {
            let mut changed = frame();
            changed[at] = value;
            for bytes in [bytes, changed] {
                if let Some((_, packet)) = decapsulate(&bytes, PORT, 7) {
                    prop_assert!(packet.end <= bytes.len());
                }
            }
        }
    }
}
