//! Each reason to refuse a frame, met on its own: the frame is otherwise right, checksums included.

use crate::common::{datagram, frame, path};
use quincunx_wire::ip::IpRepr;
use quincunx_wire::*;

const ETHERTYPE: usize = 12;
const IP: usize = ethernet::LENGTH;
const UDP: usize = IP + ipv4::LENGTH;
const BTH: usize = UDP + udp::LENGTH;

fn header(operation: Operation) -> RoceHeader {
    let [source, destination] = [1, 2].map(|last| Gid::from([10, 0, 0, last]));
    RoceHeader::new(source, destination, QpNumber::new(0x11), Psn::new(7), operation)
}

/// The same over IPv6.
fn header_v6(operation: Operation) -> RoceHeader {
    let [source, destination] =
        [1, 2].map(|last| Gid::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]));
    RoceHeader { source, destination, ..header(operation) }
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
    let ip = IpRepr::of_socket(&path(header), bytes.len() + icrc::LENGTH).expect("one family");
    let udp = udp::UdpRepr { source_port: header.source_port, length, checksum: 0 };
    let (bth, after_bth) = bytes.split_first_chunk().expect("a BTH");
    let crc = icrc::compute(&ip, &udp, bth, after_bth);
    bytes.extend(crc.to_le_bytes());
    parse_datagram(&path(header), &bytes).expect_err("a refusal")
}

/// Changes the byte at `at` of a right frame over IPv6; says why it is refused.
fn refusal_v6(at: usize, value: u8) -> Result<(), ParseError> {
    let envelope = Envelope::new(MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    let mut bytes = frame(&envelope, &header_v6(Operation::Send(Position::Only)), &[1, 2, 3, 4, 5]);
    bytes[at] = value;
    parse_frame(&bytes).map(|_| ())
}

#[test]
fn over_ipv6_extension_headers_fragments_and_other_protocols_are_refused() {
    assert_eq!(refusal_v6(IP, 0x60), Ok(()));
    let next_header = IP + 6;
    for (value, expected) in [
        (0, ParseError::Ipv6Extension),  // hop-by-hop options
        (43, ParseError::Ipv6Extension), // routing
        (44, ParseError::Fragment),
        (60, ParseError::Ipv6Extension), // destination options
        (58, ParseError::NotRoce),       // ICMPv6
        (6, ParseError::NotRoce),        // TCP
    ] {
        assert_eq!(refusal_v6(next_header, value), Err(expected), "next header {value}");
    }
    assert_eq!(refusal_v6(IP, 0x45), Err(ParseError::NotRoce)); // version 4 below IPv6's EtherType
}

#[test]
fn ipv4_addresses_in_an_ipv6_header_are_refused() {
    let envelope = Envelope::new(MacAddress([2, 0, 0, 0, 0, 1]), MacAddress([2, 0, 0, 0, 0, 2]));
    for at in [IP + 8, IP + 24] {
        let mut bytes = frame(&envelope, &header_v6(Operation::Send(Position::Only)), &[1, 2, 3, 4, 5]);
        bytes[at..at + 12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        assert_eq!(parse_frame(&bytes), Err(ParseError::MappedAddress), "byte {at}");
    }
}

#[test]
fn over_ipv6_lengths_that_disagree_are_refused() {
    const UDP_V6: usize = IP + ipv6::LENGTH;
    let right = refusal_v6(IP + 5, (udp::LENGTH + bth::LENGTH + 8 + icrc::LENGTH) as u8);
    assert_eq!(right, Ok(()));
    assert_eq!(refusal_v6(IP + 4, 1), Err(ParseError::Truncated));
    assert_eq!(refusal_v6(IP + 5, 7), Err(ParseError::Truncated));
    assert_eq!(refusal_v6(IP + 5, 31), Err(ParseError::WrongUdpLength));
    assert_eq!(refusal_v6(UDP_V6 + 5, 8), Err(ParseError::WrongUdpLength));
}

#[test]
fn over_ipv6_the_invariant_crc_leaves_out_what_routers_change_and_covers_the_rest() {
    const UDP_V6: usize = IP + ipv6::LENGTH;
    const BTH_V6: usize = UDP_V6 + udp::LENGTH;
    // Traffic class and flow label, hop limit, UDP checksum, congestion.
    for at in [IP, IP + 1, IP + 2, IP + 3, IP + 7, UDP_V6 + 6, UDP_V6 + 7, BTH_V6 + 4] {
        assert_eq!(refusal_v6(at, 0x6b), Ok(()), "byte {at}");
    }
    // Both addresses, source port; BTH and payload.
    for at in [IP + 8, IP + 23, IP + 24, IP + 39, UDP_V6 + 1, BTH_V6 + 7, BTH_V6 + 12] {
        assert_eq!(refusal_v6(at, 0x5a), Err(ParseError::WrongIcrc), "byte {at}");
    }
}

#[test]
fn the_right_frame_is_taken() {
    assert_eq!(refusal(ETHERTYPE, 0x08), Ok(()));
}

#[test]
fn other_protocols_are_not_roce() {
    assert_eq!(refusal(ETHERTYPE, 0x86), Err(ParseError::NotRoce)); // EtherType 0x8600
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
    for error in [
        ParseError::Truncated,
        ParseError::WrongIcrc,
        ParseError::UnexpectedPayload,
        ParseError::Ipv6Extension,
        ParseError::TwoFamilies,
        ParseError::MappedAddress,
    ] {
        let line = error.to_string();
        assert!(line.starts_with("expected ") && line.contains("found ") && !line.contains('\n'), "{line}");
    }
}
