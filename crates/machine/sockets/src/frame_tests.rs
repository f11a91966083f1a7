//! Headers of whole frames: what is written is read again, and what is damaged is refused.

use super::*;
use proptest::prelude::*;

const HERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const THERE: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

fn over_ipv4() -> Datagram {
    Datagram {
        source: "10.77.0.1:4791".parse().expect("an address"),
        destination: "10.77.0.2:4791".parse().expect("an address"),
        tos: 0x22,
        identification: 0x3551,
        interface: 7,
    }
}

fn over_ipv6() -> Datagram {
    Datagram {
        source: "[fd77::1]:4791".parse().expect("an address"),
        destination: "[fd77::2]:4791".parse().expect("an address"),
        identification: 0,
        ..over_ipv4()
    }
}

fn frame(datagram: &Datagram, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    head(HERE, THERE, datagram, payload.len(), &mut frame);
    frame.extend_from_slice(payload);
    frame
}

#[test]
fn a_frame_is_read_as_it_was_written_and_padding_is_ignored() {
    for datagram in [over_ipv4(), over_ipv6()] {
        let mut bytes = frame(&datagram, b"payload");
        bytes.extend([0; 20]);
        let (found, payload) = decapsulate(&bytes, 7).expect("a whole datagram");
        assert_eq!((found, &bytes[payload]), (datagram, &b"payload"[..]));
    }
}

#[test]
fn ipv4_addresses_in_an_ipv6_header_are_refused() {
    for at in [22, 38] {
        let mut bytes = frame(&over_ipv6(), b"payload");
        bytes[at..at + 12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(decapsulate(&bytes, 7), None, "byte {at}");
    }
}

#[test]
fn what_is_written_over_ipv6_is_what_the_wire_room_writes() {
    let bytes = frame(&over_ipv6(), b"payload");
    let expected = [
        &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd][..],
        // Version, traffic class and flow label; length, UDP, hops.
        &[0x62, 0x20, 0, 0, 0, 15, 17, 64],
        &[0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        &[0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        // Ports, length, no checksum.
        &[0x12, 0xb7, 0x12, 0xb7, 0, 15, 0, 0],
        b"payload",
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn the_header_checksum_is_right_and_nothing_may_be_cut() {
    let bytes = frame(&over_ipv4(), &[1; 100]);
    assert_eq!(internet_checksum(&bytes[14..34]), 0);
    assert_eq!(bytes[18..22], [0x35, 0x51, 0x40, 0], "the identification, don't fragment");
    // A worked example that is often quoted for RFC 1071.
    let quoted = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(internet_checksum(&quoted), 0xb861);
}

#[test]
fn a_truncated_frame_is_refused_at_every_length() {
    for datagram in [over_ipv4(), over_ipv6()] {
        let bytes = frame(&datagram, b"payload");
        for length in 0..bytes.len() {
            assert_eq!(decapsulate(&bytes[..length], 7), None, "{length} bytes");
        }
    }
}

#[test]
fn a_filter_passes_datagrams_for_its_address_and_port_and_no_others() {
    use crate::global_route::tests::passes;
    for datagram in [over_ipv4(), over_ipv6()] {
        let (program, ethertype) = filter(datagram.destination);
        let right = frame(&datagram, b"payload");
        assert_eq!(right[12..14], ethertype.to_be_bytes());
        assert!(passes(&program, &right, 1), "{datagram:?}");
        // Each byte of the receiver's address and of its port, and the protocol.
        let (address, port, protocol) =
            if datagram.source.is_ipv4() { (30..34, 36..38, 23) } else { (38..54, 56..58, 20) };
        for at in address.chain(port).chain([protocol]) {
            let mut other = right.clone();
            other[at] ^= 1;
            assert!(!passes(&program, &other, 1), "byte {at} of {datagram:?}");
        }
    }
}

#[test]
fn fragments_and_other_protocols_are_refused() {
    for (at, value) in [(12, 0x86), (14, 0x65), (14, 0x44), (20, 0x20), (21, 1), (23, 6), (39, 7), (38, 1)] {
        let mut bytes = frame(&over_ipv4(), b"payload");
        bytes[at] = value;
        assert_eq!(decapsulate(&bytes, 7), None, "byte {at} is {value}");
    }
    // Another EtherType, version 4, a fragment, hop-by-hop options, ICMPv6; a UDP length that is too long, or shorter than its header.
    for (at, value) in [(13, 0), (14, 0x45), (20, 44), (20, 0), (20, 58), (59, 16), (59, 7)] {
        let mut bytes = frame(&over_ipv6(), b"payload");
        bytes[at] = value;
        assert_eq!(decapsulate(&bytes, 7), None, "over IPv6 byte {at} is {value}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Some((_, payload)) = decapsulate(&bytes, 7) {
            prop_assert!(payload.end <= bytes.len());
        }
    }

    #[test]
    fn no_mutation_makes_it_panic(is_ipv6 in any::<bool>(), at in 0_usize..49, value in any::<u8>()) {
        let mut bytes = frame(&if is_ipv6 { over_ipv6() } else { over_ipv4() }, b"payload");
        bytes[at] = value;
        if let Some((_, payload)) = decapsulate(&bytes, 7) {
            prop_assert!(payload.end <= bytes.len());
        }
    }
}
