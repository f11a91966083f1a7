//! Any bytes as a UDP payload: no panic, and what is taken says the same after it was written again.
//!
//! Noise would nearly always end at the invariant CRC, so the target puts a right one at the end before it parses.

use quincunx_wire::{ParseError, UdpPath, datagram_length, emit_datagram, icrc, ipv4, parse_datagram, udp};
use std::net::Ipv4Addr;

const PATH: UdpPath = UdpPath {
    source: Ipv4Addr::new(127, 0, 0, 1),
    destination: Ipv4Addr::new(127, 0, 0, 2),
    source_port: 4791,
    traffic_class: 0,
};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let _ = parse_datagram(&PATH, bytes);
    let mut bytes = bytes.to_vec();
    if !correct_icrc(&mut bytes) {
        return;
    }
    match parse_datagram(&PATH, &bytes) {
        Err(error) => assert_ne!(error, ParseError::WrongIcrc),
        Ok((header, payload)) => {
            let mut again = vec![0; datagram_length(&header.operation, payload.len())];
            let written = emit_datagram(&header, payload, &mut again);
            assert_eq!(written, bytes.len());
            assert_eq!(parse_datagram(&PATH, &again), Ok((header, payload)));
        }
    }
}

/// Puts the right invariant CRC over the last four bytes; false if there is no room for one.
fn correct_icrc(bytes: &mut [u8]) -> bool {
    let length = bytes.len();
    let Some((transport, crc)) = bytes.split_last_chunk_mut() else { return false };
    let Some((bth, after_bth)) = transport.split_first_chunk() else { return false };
    let Ok(udp_length) = u16::try_from(udp::LENGTH + length) else { return false };
    let Some(total_length) = udp_length.checked_add(ipv4::LENGTH as u16) else { return false };
    let ipv4 = ipv4::Ipv4Repr {
        source: PATH.source,
        destination: PATH.destination,
        traffic_class: PATH.traffic_class,
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        total_length,
    };
    let udp = udp::UdpRepr { source_port: PATH.source_port, length: udp_length, checksum: 0 };
    *crc = icrc::compute(&ipv4, &udp, bth, after_bth).to_le_bytes();
    true
}
