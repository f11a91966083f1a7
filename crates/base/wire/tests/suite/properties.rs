//! What holds for every header and every payload, and for any bytes at all.

use crate::common::{any_framed, any_header, any_packet, datagram, frame, path};
use proptest::prelude::*;
use quincunx_wire::*;

/// As long as the longest payload of RoCE and a bit more.
const LONGEST: usize = 5000;

/// The header without what the invariant CRC leaves out.
fn invariant(header: RoceHeader) -> RoceHeader {
    RoceHeader { traffic_class: 0, forward_congestion: false, backward_congestion: false, ..header }
}

proptest! {
    #[test]
    fn a_datagram_says_what_was_written((header, payload) in any_packet(LONGEST)) {
        let bytes = datagram(&header, &payload);
        prop_assert_eq!(parse_datagram(&path(&header), &bytes), Ok((header, &payload[..])));
    }

    #[test]
    fn a_pad_is_zero_whatever_was_in_the_buffer((header, payload) in any_packet(LONGEST)) {
        let mut out = vec![0xee; datagram_length(&header.operation, payload.len())];
        emit_datagram(&header, &payload, &mut out);
        let pad = payload.len().next_multiple_of(4) - payload.len();
        let before_icrc = out.len() - icrc::LENGTH;
        prop_assert_eq!(&out[before_icrc - pad..before_icrc], &[0; 3][..pad]);
    }

    #[test]
    fn a_shared_payload_makes_the_same_bytes((header, payload) in any_packet(LONGEST)) {
        let shared = SharedPayload::new(&payload);
        let mut out = vec![0xee; datagram_length(&header.operation, payload.len())];
        prop_assert_eq!(emit_shared_datagram(&header, &shared, &mut out), out.len());
        prop_assert_eq!(out, datagram(&header, &payload));
    }

    #[test]
    fn a_frame_says_what_was_written((envelope, header, payload) in any_framed(LONGEST)) {
        let bytes = frame(&envelope, &header, &payload);
        prop_assert_eq!(parse_frame(&bytes), Ok((envelope, header, &payload[..])));
    }

    #[test]
    fn a_frame_as_a_socket_makes_it_holds_the_datagram((header, payload) in any_packet(LONGEST)) {
        let envelope = Envelope::new(MacAddress([2; 6]), MacAddress([4; 6]));
        let bytes = frame(&envelope, &header, &payload);
        prop_assert_eq!(&bytes[headers_below_bth(header.destination)..], datagram(&header, &payload));
    }

    #[test]
    fn what_pads_a_short_frame_on_the_wire_is_ignored(
        (envelope, header, payload) in any_framed(8),
        trailer in prop::collection::vec(any::<u8>(), 0..16),
    ) {
        let mut bytes = frame(&envelope, &header, &payload);
        bytes.extend(trailer);
        prop_assert_eq!(parse_frame(&bytes), Ok((envelope, header, &payload[..])));
    }

    #[test]
    fn every_prefix_of_a_datagram_is_refused((header, payload) in any_packet(100)) {
        let bytes = datagram(&header, &payload);
        for length in 0..bytes.len() {
            prop_assert!(parse_datagram(&path(&header), &bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn every_prefix_of_a_frame_is_truncated((envelope, header, payload) in any_framed(100)) {
        let bytes = frame(&envelope, &header, &payload);
        for length in 0..bytes.len() {
            prop_assert_eq!(parse_frame(&bytes[..length]), Err(ParseError::Truncated), "{} bytes", length);
        }
    }

    #[test]
    fn a_flipped_bit_of_a_datagram_shows_or_changes_only_congestion((header, payload) in any_packet(100)) {
        let mut bytes = datagram(&header, &payload);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            match parse_datagram(&path(&header), &bytes) {
                Err(error) => prop_assert_eq!(error, ParseError::WrongIcrc),
                Ok((found, found_payload)) => {
                    prop_assert_eq!(bit / 8, 4, "bit {} is in no masked byte", bit);
                    prop_assert_eq!(invariant(found), invariant(header));
                    prop_assert_eq!(found_payload, &payload[..]);
                }
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_flipped_bit_of_a_frame_shows_or_changes_only_the_envelope_and_congestion(
        (envelope, header, payload) in any_framed(100),
    ) {
        let mut bytes = frame(&envelope, &header, &payload);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((found_envelope, found, found_payload)) = parse_frame(&bytes) {
                prop_assert_eq!(invariant(found), invariant(header));
                prop_assert_eq!(found_payload, &payload[..]);
                let unprotected = Envelope {
                    ethernet: envelope.ethernet,
                    udp_checksum: envelope.udp_checksum,
                    flow_label: envelope.flow_label,
                    // Over IPv4 a checksum covers it.
                    time_to_live: if !header.source.is_ipv4() { envelope.time_to_live } else { found_envelope.time_to_live },
                    ..found_envelope
                };
                prop_assert_eq!(unprotected, envelope);
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_datagram_from_elsewhere_is_refused((header, payload) in any_packet(100), other in any_header()) {
        let here = path(&header);
        let bytes = datagram(&header, &payload);
        for elsewhere in [
            UdpPath { source: other.source, ..here },
            UdpPath { destination: other.destination, ..here },
            UdpPath { source_port: other.source_port, ..here },
        ] {
            prop_assume!(elsewhere != here && elsewhere.source.is_ipv4() == elsewhere.destination.is_ipv4());
            prop_assert_eq!(parse_datagram(&elsewhere, &bytes), Err(ParseError::WrongIcrc));
        }
    }

    #[test]
    fn what_goes_from_one_family_to_the_other_is_refused((header, payload) in any_packet(100), other in any_header()) {
        prop_assume!(header.source.is_ipv4() != other.source.is_ipv4());
        let bytes = datagram(&header, &payload);
        let mixed = UdpPath { source: other.source, ..path(&header) };
        prop_assert_eq!(parse_datagram(&mixed, &bytes), Err(ParseError::TwoFamilies));
    }

    #[test]
    fn routers_may_change_the_traffic_class((header, payload) in any_packet(100), traffic_class: u8) {
        let bytes = datagram(&header, &payload);
        let marked = UdpPath { traffic_class, ..path(&header) };
        let expected = RoceHeader { traffic_class, ..header };
        prop_assert_eq!(parse_datagram(&marked, &bytes), Ok((expected, &payload[..])));
    }

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), header in any_header()) {
        prop_assert!(parse_datagram(&path(&header), &bytes).is_err());
        prop_assert!(parse_frame(&bytes).is_err());
    }
}
