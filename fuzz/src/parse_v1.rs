//! Any bytes as a frame of RoCE v1, whose invariant CRC is corrected first: no panic, and what is taken says the same after it was
//! written again.

use quincunx_wire::v1::{emit_frame, frame_length, has_right_icrc, invariant_crc, is_roce_v1, parse_frame};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut frame = bytes.to_vec();
    if is_roce_v1(&frame)
        && let Some((before, crc)) = frame.split_last_chunk_mut()
    {
        *crc = invariant_crc(before).to_le_bytes();
        assert!(has_right_icrc(&frame));
    }
    for bytes in [bytes, &frame] {
        let Ok((addresses, header, payload)) = parse_frame(bytes) else { continue };
        let mut again = vec![0; frame_length(&header.operation, payload.len())];
        assert_eq!(emit_frame(&addresses, &header, payload, &mut again), again.len());
        assert_eq!(parse_frame(&again), Ok((addresses, header, payload)));
    }
}
