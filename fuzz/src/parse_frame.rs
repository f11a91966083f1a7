//! Any bytes as an Ethernet frame: no panic, and what is taken says the same after it was written again.

use quincunx_wire::{datagram_length, emit_frame, headers_below_bth, parse_frame};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    if let Ok((envelope, header, payload)) = parse_frame(bytes) {
        let below = headers_below_bth(header.destination);
        let mut again = vec![0; below + datagram_length(&header.operation, payload.len())];
        let written = emit_frame(&envelope, &header, payload, &mut again);
        assert_eq!(written, again.len());
        assert_eq!(parse_frame(&again), Ok((envelope, header, payload)));
    }
}
