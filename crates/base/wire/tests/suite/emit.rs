//! What a caller may ask of the writing side, and what is a bug of the caller's.

use crate::common;
use quincunx_wire::*;

fn header(operation: Operation) -> RoceHeader {
    let (source, destination) = (Gid::from([10, 0, 0, 1]), Gid::from([10, 0, 0, 2]));
    RoceHeader::new(source, destination, QpNumber::new(0x11), Psn::new(7), operation)
}

#[test]
fn lengths_count_headers_pad_and_crc() {
    let reth = Reth { virtual_address: 0, remote_key: 0, dma_length: 0 };
    assert_eq!(datagram_length(&Operation::WriteMiddle, 0), 12 + 4);
    assert_eq!(datagram_length(&Operation::WriteMiddle, 1), 12 + 1 + 3 + 4);
    assert_eq!(datagram_length(&Operation::WriteOnlyImmediate(reth, 0), 4), 12 + 16 + 4 + 4 + 4);
    assert_eq!(datagram_length(&Operation::CongestionNotification, 0), 12 + 16 + 4);
    assert_eq!(frame_length(&Operation::WriteMiddle, 0), 14 + 20 + 8 + 12 + 4);
}

#[test]
fn nothing_is_written_behind_the_datagram() {
    let mut out = [0xee; 40];
    let written = emit_datagram(&header(Operation::WriteMiddle), &[1, 2, 3, 4, 5], &mut out);
    assert_eq!(written, 12 + 8 + 4);
    assert!(out[written..].iter().all(|byte| *byte == 0xee));
}

#[test]
fn the_longest_payload_fits() {
    let header = header(Operation::WriteMiddle);
    // The longest datagram that is whole words.
    let payload = vec![7; (MAX_DATAGRAM - 12 - 4) / 4 * 4];
    let bytes = common::datagram(&header, &payload);
    assert_eq!(parse_datagram(&common::path(&header), &bytes), Ok((header, &payload[..])));
}

#[test]
#[should_panic(expected = "does not fit into a datagram")]
fn a_longer_payload_is_a_bug() {
    common::datagram(&header(Operation::WriteMiddle), &vec![7; MAX_DATAGRAM]);
}

#[test]
#[should_panic(expected = "carries no payload")]
fn a_payload_where_none_belongs_is_a_bug() {
    let acknowledge = Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 1 });
    common::datagram(&header(acknowledge), &[1]);
}

#[test]
fn counts_wider_than_their_field_keep_their_low_bits() {
    let wide = Aeth { syndrome: Syndrome::Ack(0xff), message_sequence: 0xff00_0001 };
    let header = header(Operation::Acknowledge(wide));
    let bytes = common::datagram(&header, &[]);
    let (found, _) = parse_datagram(&common::path(&header), &bytes).expect("a right datagram");
    let narrow = Aeth { syndrome: Syndrome::Ack(31), message_sequence: 1 };
    assert_eq!(found.operation, Operation::Acknowledge(narrow));
}
