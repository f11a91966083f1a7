//! Frames that the Linux kernel's software RoCE made: we read them all, and would have written the same bytes.

use crate::common;
use crate::common::vector;
use quincunx_wire::{
    HEADERS_BELOW_BTH, ParseError, headers_below_bth, parse_datagram, parse_frame, parse_identified_datagram,
};
use std::collections::BTreeMap;

/// Parses and rebuilds every frame of a capture; counts them by opcode.
fn rebuild_all(capture: &str) -> BTreeMap<u8, usize> {
    let mut by_opcode = BTreeMap::new();
    for (number, bytes) in (1..).zip(vector(capture)) {
        let (envelope, header, payload) =
            parse_frame(&bytes).unwrap_or_else(|error| panic!("{capture} frame {number}: {error}"));
        assert_eq!(common::frame(&envelope, &header, payload), bytes, "{capture} frame {number}");
        *by_opcode.entry(header.operation.opcode()).or_default() += 1;
    }
    by_opcode
}

#[test]
fn every_frame_between_two_kernels_is_rebuilt_to_the_byte() {
    let expected = [
        (0x00, 4), // SEND First
        (0x01, 4), // SEND Middle
        (0x02, 4), // SEND Last
        (0x06, 4), // RDMA WRITE First
        (0x07, 4), // RDMA WRITE Middle
        (0x08, 4), // RDMA WRITE Last
        (0x0c, 4), // RDMA READ Request
        (0x0d, 4), // RDMA READ Response First
        (0x0e, 4), // RDMA READ Response Middle
        (0x0f, 4), // RDMA READ Response Last
        (0x11, 4), // Acknowledge
        (0x12, 4), // ATOMIC Acknowledge
        (0x14, 4), // Fetch and add
        (0x64, 4), // UD SEND Only
    ];
    assert_eq!(rebuild_all("rxe.pcap"), BTreeMap::from(expected));
}

#[test]
fn every_frame_between_two_kernels_over_ipv6_is_rebuilt_to_the_byte() {
    let expected = [
        (0x00, 4), // SEND First
        (0x01, 4), // SEND Middle
        (0x02, 4), // SEND Last
        (0x06, 4), // RDMA WRITE First
        (0x07, 4), // RDMA WRITE Middle
        (0x08, 4), // RDMA WRITE Last
        (0x11, 4), // Acknowledge
    ];
    assert_eq!(rebuild_all("rxe-ipv6.pcap"), BTreeMap::from(expected));
}

#[test]
fn over_ipv6_a_socket_shows_all_that_the_kernels_invariant_crc_covers() {
    for bytes in vector("rxe-ipv6.pcap") {
        let (_, header, payload) = parse_frame(&bytes).expect("the vectors are valid");
        let datagram = &bytes[headers_below_bth(header.destination)..];
        assert_eq!(parse_datagram(&common::path(&header), datagram), Ok((header, payload)));
    }
}

#[test]
fn every_frame_between_a_kernel_and_user_space_is_rebuilt_to_the_byte() {
    let expected = [
        (0x04, 40), // SEND Only
        (0x11, 40), // Acknowledge
    ];
    assert_eq!(rebuild_all("rxe-rc-send.pcap"), BTreeMap::from(expected));
}

#[test]
fn a_damaged_kernel_frame_is_refused() {
    for mut bytes in [vector("rxe.pcap"), vector("rxe-ipv6.pcap")].concat() {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(parse_frame(&bytes), Err(ParseError::WrongIcrc));
    }
}

#[test]
fn the_kernels_datagrams_are_read_by_whoever_knows_their_identification() {
    for bytes in vector("rxe-rc-send.pcap") {
        let (envelope, header, payload) = parse_frame(&bytes).expect("the vectors are valid");
        let (path, datagram) = (common::path(&header), &bytes[HEADERS_BELOW_BTH..]);
        let known = parse_identified_datagram(&path, envelope.identification, datagram);
        assert_eq!(known, Ok((header, payload)));
        let other = parse_identified_datagram(&path, envelope.identification ^ 1, datagram);
        assert_eq!(other, Err(ParseError::WrongIcrc));
    }
}
