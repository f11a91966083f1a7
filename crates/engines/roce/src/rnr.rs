//! The receiver-not-ready delays: 32 codes, in pairs that grow by half and by a third (InfiniBand Architecture, table
//! 45 "Encoding for RNR NAK Timer Field").

use quincunx_units::Duration;

/// How long a requester waits after a receiver-not-ready answer with `code`; only the low 5 bits count.
pub const fn receiver_not_ready_delay(code: u8) -> Duration {
    /// In units of 10 us, by code.
    const DELAYS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
        2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Duration::from_micros(DELAYS[(code & 0x1f) as usize] * 10)
}
