//! RoCE v1: what is written is read, the published payload shares, the invariant CRC against another way of computing it, and what
//! Wireshark reads.

use crate::common::any_packet;
use crate::tshark::dissect;
use proptest::prelude::*;
use quincunx_needs::need;
use quincunx_wire::netreduce::{FLOW_LABEL, LENGTH, NetReduceHeader, PAYLOAD, is_for_aggregation};
use quincunx_wire::pcapng::Writer;
use quincunx_wire::*;
use std::time::Duration;

const ADDRESSES: EthernetRepr =
    EthernetRepr { destination: MacAddress([2, 0, 0, 0, 0, 2]), source: MacAddress([2, 0, 0, 0, 0, 1]) };

fn frame(header: &RoceHeader, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xee; v1::frame_length(&header.operation, payload.len())];
    assert_eq!(v1::emit_frame(&ADDRESSES, header, payload, &mut out), out.len());
    out
}

/// The four frames of a message that is added up.
fn message() -> Vec<(RoceHeader, Vec<u8>)> {
    let reth = Reth { virtual_address: 0x2_0000, remote_key: 0, dma_length: 4 * PAYLOAD as u32 };
    let operations = [
        Operation::WriteFirst(reth),
        Operation::WriteMiddle,
        Operation::WriteLast,
        Operation::WriteLastImmediate(7),
    ];
    let (source, destination) = (Gid::from([10, 0, 0, 1]), Gid::from([10, 0, 0, 2]));
    let header = |(number, operation)| {
        RoceHeader::new(source, destination, QpNumber::new(0x11), Psn::new(0xff_fffe).plus(number), operation)
    };
    let nccl = NetReduceHeader { message: 0, rank: 3, frames: 4, elements: 1019, collective: 2 }.to_bytes();
    let mut all: Vec<_> =
        (0..).zip(operations).map(header).map(|header| (header, vec![0x5a; PAYLOAD])).collect();
    all[0].1[..LENGTH].copy_from_slice(&nccl);
    all
}

/// CRC-32 bit by bit, over the bytes that IV.D lists, built up field by field.
fn icrc_by_the_bit(frame: &[u8]) -> u32 {
    let mut covered = vec![0xff; 8];
    let end = frame.len() - 4;
    covered.extend(&frame[14..end]);
    // Traffic class and flow label; hop limit; the first reserved byte of the BTH.
    for (at, mask) in [(8, 0x0f), (9, 0xff), (10, 0xff), (11, 0xff), (8 + 7, 0xff), (8 + 40 + 4, 0xff)] {
        covered[at] |= mask;
    }
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    };
    !covered.iter().fold(u32::MAX, step)
}

#[test]
fn frames_of_a_message_have_the_published_shares_of_payload() {
    let lengths: Vec<_> = message().iter().map(|(header, payload)| frame(header, payload).len()).collect();
    assert_eq!(lengths, [1110, 1094, 1094, 1098]);
    let shares = [PAYLOAD - LENGTH, PAYLOAD, PAYLOAD, PAYLOAD].into_iter().zip(lengths);
    let percent: Vec<_> =
        shares.map(|(payload, length)| (1000.0 * payload as f64 / length as f64).round()).collect();
    assert_eq!(percent, [905.0, 936.0, 936.0, 933.0]);
}

#[test]
fn the_headers_lie_where_the_switch_looks_for_them() {
    let [first, middle, .., last] = &message()[..] else { unreachable!("four frames") };
    let bytes = frame(&first.0, &first.1);
    assert_eq!(bytes[12..14], [0x89, 0x15]);
    assert_eq!(u32::from_be_bytes([bytes[14], bytes[15], bytes[16], bytes[17]]), 6 << 28 | FLOW_LABEL);
    assert_eq!((bytes[20], bytes[54], &bytes[59..62]), (0x1b, 0x06, &[0, 0, 0x11][..]));
    assert_eq!((&bytes[63..66], &bytes[82..86]), (&[0xff, 0xff, 0xfe][..], b"QNR1".as_slice()));
    assert_eq!(NetReduceHeader::parse(&bytes[82..]).map(|header| header.frames), Ok(4));
    assert!(is_for_aggregation(&bytes[82..]) && !is_for_aggregation(&bytes[83..]));
    assert_eq!(frame(&middle.0, &middle.1)[66], 0x5a);
    assert_eq!(frame(&last.0, &last.1)[66..71], [0, 0, 0, 7, 0x5a]);
}

#[test]
fn what_is_not_for_aggregation_or_cut_short_is_no_netreduce_header() {
    let bytes = NetReduceHeader { message: 1, rank: 2, frames: 3, elements: 4, collective: 5 }.to_bytes();
    assert_eq!(NetReduceHeader::parse(&bytes[..LENGTH - 1]), Err(ParseError::Truncated));
    assert_eq!(NetReduceHeader::parse(&[0; LENGTH]), Err(ParseError::NotRoce));
}

proptest! {
    #[test]
    fn a_frame_says_what_was_written((header, payload) in any_packet(2048)) {
        let bytes = frame(&header, &payload);
        let read = v1::parse_frame(&bytes);
        // There are no ports in RoCE v1.
        let expected = RoceHeader { source_port: 4791, ..header };
        prop_assert_eq!(read, Ok((ADDRESSES, expected, &payload[..])));
        prop_assert!(v1::has_right_icrc(&bytes));
    }

    #[test]
    fn the_invariant_crc_is_that_of_another_implementation((header, payload) in any_packet(1100)) {
        let bytes = frame(&header, &payload);
        let found = bytes.last_chunk().map(|crc| u32::from_le_bytes(*crc));
        prop_assert_eq!(found, Some(icrc_by_the_bit(&bytes)));
    }

    #[test]
    fn every_bit_counts_but_those_that_may_change_on_the_way(bit in 14 * 8_usize..(1110 - 4) * 8) {
        let (header, payload) = &message()[0];
        let mut bytes = frame(header, payload);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let may_change = match bit / 8 {
            14 => bit % 8 < 4,
            15..=17 | 21 | 58 => true,
            _ => false,
        };
        // The version and the next header say whether it is RoCE v1 at all.
        prop_assert_eq!(v1::has_right_icrc(&bytes), may_change, "bit {} of byte {}", bit % 8, bit / 8);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..1110_usize) {
        let _ = v1::parse_frame(&bytes);
        let _ = v1::has_right_icrc(&bytes);
        let (header, payload) = &message()[0];
        prop_assert!(v1::parse_frame(&frame(header, payload)[..cut]).is_err());
    }
}

#[test]
fn wireshark_reads_all_four_opcodes() {
    let mut writer = Writer::new("quincunx");
    let port = writer.interface("port 0");
    for (header, payload) in message() {
        writer.packet(port, Duration::from_secs(1), &frame(&header, &payload));
    }
    let fields = [
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "infiniband.grh.sgid",
        "infiniband.invariant.crc",
        "_ws.malformed",
    ];
    let lines = need!(dissect("roce_v1", &writer.take(), &fields));
    let expected: Vec<Vec<String>> = message()
        .iter()
        .map(|(header, payload)| {
            let bytes = frame(header, payload);
            let crc = bytes.last_chunk().map_or(0, |crc| u32::from_be_bytes(*crc));
            let number = |value: u32| value.to_string();
            let opcode = number(header.operation.opcode().into());
            let qp = format!("{:#08x}", header.destination_qp.value());
            let gid = "::ffff:10.0.0.1".to_owned();
            vec![opcode, number(header.psn.value()), qp, gid, format!("{crc:#010x}"), String::new()]
        })
        .collect();
    assert_eq!(lines, expected);
}
