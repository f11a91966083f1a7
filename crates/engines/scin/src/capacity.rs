//! How large a wave table must be (SCIN 3.4, equation 1).

use quincunx_units::{BitRate, ByteCount, Duration};

/// The least capacity of a wave table that keeps a link of payload rate `rate` and latency `latency` busy, when
/// accelerators take `response` to answer: Little's law over one round trip, B (2 L + L_acc).
pub fn minimum_capacity(rate: BitRate, latency: Duration, response: Duration) -> ByteCount {
    rate.bytes_in(latency * 2 + response)
}
