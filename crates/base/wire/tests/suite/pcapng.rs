//! A capture, block by block, against the layout of the pcapng format.

use quincunx_wire::pcapng::{LinkType, Writer};
use std::time::Duration;

/// Type and body of every block; each must announce its length at both ends and lie on 4 bytes.
fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let length = word(4) as usize;
        assert_eq!(length % 4, 0, "a block of {length} bytes");
        assert_eq!(word(length - 4) as usize, length, "the lengths of a block disagree");
        blocks.push((word(0), bytes[8..length - 4].to_vec()));
        bytes = &bytes[length..];
    }
    blocks
}

#[test]
fn a_capture_begins_with_its_section() {
    let capture = blocks(&Writer::new("qx").take());
    let section = [
        &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], // byte order, version 1.0
        &[0xff; 8],                                // length not known
        &[4, 0, 2, 0, b'q', b'x', 0, 0],           // written by
        &[0, 0, 0, 0],                             // no more options
    ];
    assert_eq!(capture, [(0x0a0d_0d0a, section.concat())]);
}

#[test]
fn an_interface_has_a_name_and_counts_nanoseconds() {
    let mut writer = Writer::new("qx");
    writer.interface("spine");
    let interface = [
        &[1, 0, 0, 0, 0, 0, 0, 0][..],                        // Ethernet, no snap length
        &[2, 0, 5, 0, b's', b'p', b'i', b'n', b'e', 0, 0, 0], // name
        &[9, 0, 1, 0, 9, 0, 0, 0],                            // units of 10^-9 s
        &[0, 0, 0, 0],                                        // no more options
    ];
    assert_eq!(blocks(&writer.take())[1..], [(1, interface.concat())]);
}

#[test]
fn an_interface_says_what_its_packets_begin_with() {
    let mut writer = Writer::new("qx");
    writer.interface_of("link", LinkType::User);
    assert_eq!(blocks(&writer.take())[1].1[..2], [147, 0]);
}

#[test]
fn a_packet_has_its_interface_time_lengths_and_padded_bytes() {
    let mut writer = Writer::new("qx");
    writer.interface("leaf 0");
    let spine = writer.interface("spine");
    let _ = writer.take();
    writer.packet(spine, Duration::from_nanos(0x0102_0304_0506_0708), &[0xaa; 5]);
    let packet = [
        &[1, 0, 0, 0][..],         // interface
        &[4, 3, 2, 1, 8, 7, 6, 5], // time, high half first
        &[5, 0, 0, 0, 5, 0, 0, 0], // captured, on the wire
        &[0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0],
    ];
    assert_eq!(blocks(&writer.take()), [(6, packet.concat())]);
}

#[test]
#[should_panic(expected = "is not one of 0 interfaces")]
fn a_packet_of_another_captures_interface_is_a_bug() {
    let foreign = Writer::new("one").interface("port");
    Writer::new("other").packet(foreign, Duration::ZERO, &[]);
}
