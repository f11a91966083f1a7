//! Any bytes as a UDP payload: no panic, and what is taken says the same after it was written again.
//!
//! Noise would nearly always end at the invariant CRC, so the target puts a right one at the end before it parses.

use quincunx_wire::ip::IpRepr;
use quincunx_wire::{Gid, ParseError, UdpPath, datagram_length, emit_datagram, icrc, parse_datagram, udp};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const OVER_V4: UdpPath = UdpPath {
    source: Gid::of(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1))),
    destination: Gid::of(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))),
    source_port: 4791,
    traffic_class: 0,
};

const OVER_V6: UdpPath = UdpPath {
    source: Gid::of(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    destination: Gid::of(IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2))),
    ..OVER_V4
};

/// Panics if `bytes` show a fault over either family.
pub fn check(bytes: &[u8]) {
    [OVER_V4, OVER_V6].iter().for_each(|path| check_on(path, bytes));
}

fn check_on(path: &UdpPath, bytes: &[u8]) {
    let _ = parse_datagram(path, bytes);
    let mut bytes = bytes.to_vec();
    if !correct_icrc(path, &mut bytes) {
        return;
    }
    match parse_datagram(path, &bytes) {
        Err(error) => assert_ne!(error, ParseError::WrongIcrc),
        Ok((header, payload)) => {
            let mut again = vec![0; datagram_length(&header.operation, payload.len())];
            let written = emit_datagram(&header, payload, &mut again);
            assert_eq!(written, bytes.len());
            assert_eq!(parse_datagram(path, &again), Ok((header, payload)));
        }
    }
}

/// Puts the right invariant CRC over the last four bytes; false if there is no room for one.
fn correct_icrc(path: &UdpPath, bytes: &mut [u8]) -> bool {
    let length = bytes.len();
    let Some((transport, crc)) = bytes.split_last_chunk_mut() else { return false };
    let Some((bth, after_bth)) = transport.split_first_chunk() else { return false };
    if length > quincunx_wire::MAX_DATAGRAM {
        return false;
    }
    let ip = IpRepr::of_socket(path, length).expect("addresses of one family");
    let udp =
        udp::UdpRepr { source_port: path.source_port, length: (udp::LENGTH + length) as u16, checksum: 0 };
    *crc = icrc::compute(&ip, &udp, bth, after_bth).to_le_bytes();
    true
}
