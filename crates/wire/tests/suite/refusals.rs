//! Each reason to refuse a frame, met on its own: the frame is otherwise right, checksums included.

use crate::common::{datagram, frame, path};
use quincunx_wire::*;
use std::net::Ipv4Addr;

const ETHERTYPE: usize = 12;
const IP: usize = ethernet::LENGTH;
const UDP: usize = IP + ipv4::LENGTH;
const BTH: usize = UDP + udp::LENGTH;

fn header(operation: Operation) -> RoceHeader {
    let (source, destination) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    RoceHeader::new(source, destination, QpNumber::new(0x11), Psn::new(7), operation)
}

fn acknowledge() -> RoceHeader {
    header(Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 1 }))
}

fn right_frame() -> Vec<u8> {
    let envelope = Envelope::new(MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    frame(&envelope, &header(Operation::Send(Position::Only)), &[1, 2, 3, 4, 5])
}

/// Changes the byte at `at` of a right frame and makes the IPv4 checksum right again; says why it is refused.
fn refusal(at: usize, value: u8) -> Result<(), ParseError> {
    let mut bytes = right_frame();
    bytes[at] = value;
    bytes[IP + 10..IP + 12].fill(0);
    let words = bytes[IP..UDP].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[IP + 10..IP + 12].copy_from_slice(&checksum.to_be_bytes());
    parse_frame(&bytes).map(|_| ())
}

/// Changes a datagram with `change`, makes its invariant CRC right again, and says why it is refused.
fn datagram_refusal(header: &RoceHeader, payload: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> ParseError {
    let mut bytes = datagram(header, payload);
    bytes.truncate(bytes.len() - icrc::LENGTH);
    change(&mut bytes);
    let length = (udp::LENGTH + bytes.len() + icrc::LENGTH) as u16;
    let ipv4 = ipv4::Ipv4Repr {
        source: header.source,
        destination: header.destination,
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        total_length: ipv4::LENGTH as u16 + length,
    };
    let udp = udp::UdpRepr { source_port: header.source_port, length, checksum: 0 };
    let (bth, after_bth) = bytes.split_first_chunk().expect("a BTH");
    let crc = icrc::compute(&ipv4, &udp, bth, after_bth);
    bytes.extend(crc.to_le_bytes());
    parse_datagram(&path(header), &bytes).expect_err("a refusal")
}

#[test]
fn the_right_frame_is_taken() {
    assert_eq!(refusal(ETHERTYPE, 0x08), Ok(()));
}

#[test]
fn other_protocols_are_not_roce() {
    assert_eq!(refusal(ETHERTYPE, 0x86), Err(ParseError::NotRoce)); // IPv6's EtherType is 0x86dd
    assert_eq!(refusal(IP, 0x65), Err(ParseError::NotRoce)); // IP version 6
    assert_eq!(refusal(IP + 9, 6), Err(ParseError::NotRoce)); // TCP
    assert_eq!(refusal(UDP + 3, 0xb8), Err(ParseError::NotRoce)); // port 4792
}

#[test]
fn options_are_refused() {
    assert_eq!(refusal(IP, 0x46), Err(ParseError::Ipv4Options));
}

#[test]
fn fragments_are_refused() {
    assert_eq!(refusal(IP + 6, 0x20), Err(ParseError::Fragment)); // more follow
    assert_eq!(refusal(IP + 7, 0x01), Err(ParseError::Fragment)); // not the first
}

#[test]
fn a_wrong_ipv4_checksum_is_refused() {
    let mut bytes = right_frame();
    bytes[IP + 10] ^= 1;
    assert_eq!(parse_frame(&bytes), Err(ParseError::WrongIpv4Checksum));
}

#[test]
fn lengths_that_disagree_are_refused() {
    let total = right_frame().len() - IP;
    assert_eq!(refusal(IP + 3, total as u8 + 1), Err(ParseError::Truncated));
    assert_eq!(refusal(IP + 3, ipv4::LENGTH as u8 - 1), Err(ParseError::Truncated));
    assert_eq!(refusal(IP + 3, total as u8 - 1), Err(ParseError::WrongUdpLength));
    assert_eq!(refusal(UDP + 5, 8), Err(ParseError::WrongUdpLength));
}

#[test]
fn what_the_invariant_crc_covers_cannot_change() {
    // IP identification, both addresses, source port; BTH opcode, partition key, queue pair, PSN; payload.
    for at in [IP + 5, IP + 15, IP + 19, UDP + 1, BTH, BTH + 2, BTH + 7, BTH + 11, BTH + 12] {
        assert_eq!(refusal(at, 0x5a), Err(ParseError::WrongIcrc), "byte {at}");
    }
}

#[test]
fn what_the_invariant_crc_leaves_out_may_change() {
    for at in [0, 6, IP + 1, IP + 8, UDP + 6, UDP + 7, BTH + 4] {
        assert_eq!(refusal(at, 0xc3), Ok(()), "byte {at}");
    }
}

#[test]
fn another_transport_version_is_refused() {
    let error = datagram_refusal(&acknowledge(), &[], |bytes| bytes[1] |= 1);
    assert_eq!(error, ParseError::BadVersion);
}

#[test]
fn an_unknown_opcode_is_refused() {
    for opcode in (0x15..=0xff).filter(|opcode| ![0x64, 0x65, 0x81].contains(opcode)) {
        let error = datagram_refusal(&acknowledge(), &[], |bytes| bytes[0] = opcode);
        assert_eq!(error, ParseError::UnknownOpcode, "opcode {opcode:#x}");
    }
}

#[test]
fn a_missing_extension_header_is_truncated() {
    for opcode in [3, 5, 6, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20, 0x64, 0x81] {
        let error = datagram_refusal(&header(Operation::WriteMiddle), &[], |bytes| bytes[0] = opcode);
        assert_eq!(error, ParseError::Truncated, "opcode {opcode:#x}");
    }
}

#[test]
fn a_reserved_syndrome_is_refused() {
    // Type 2, a NAK code out of range, and the highest bit.
    for syndrome in [0x40, 0x64, 0x7f, 0x80, 0xff] {
        let error = datagram_refusal(&acknowledge(), &[], |bytes| bytes[bth::LENGTH] = syndrome);
        assert_eq!(error, ParseError::UnknownSyndrome, "syndrome {syndrome:#x}");
    }
}

#[test]
fn more_pad_than_payload_is_refused() {
    let error = datagram_refusal(&header(Operation::WriteMiddle), &[], |bytes| bytes[1] |= 0x30);
    assert_eq!(error, ParseError::BadPad);
}

#[test]
fn a_payload_of_half_a_word_is_refused() {
    let error = datagram_refusal(&header(Operation::WriteMiddle), &[], |bytes| bytes.extend([1, 2]));
    assert_eq!(error, ParseError::BadPad);
}

#[test]
fn a_payload_where_none_belongs_is_refused() {
    let error = datagram_refusal(&acknowledge(), &[], |bytes| bytes.extend([1, 2, 3, 4]));
    assert_eq!(error, ParseError::UnexpectedPayload);
}

#[test]
fn more_than_a_datagram_holds_is_refused() {
    let bytes = vec![0; MAX_DATAGRAM + 1];
    assert_eq!(parse_datagram(&path(&acknowledge()), &bytes), Err(ParseError::TooLong));
}

#[test]
fn each_reason_is_one_line() {
    for error in [ParseError::Truncated, ParseError::WrongIcrc, ParseError::UnexpectedPayload] {
        let line = error.to_string();
        assert!(line.starts_with("expected ") && line.contains("found ") && !line.contains('\n'), "{line}");
    }
}
