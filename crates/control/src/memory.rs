//! What a group takes of a switch's memory (EPIC 4.2 to 4.4, F.3).

use crate::{GroupParameters, Mode};
use quincunx_units::ByteCount;

/// Bytes of one degree counter.
const DEGREE_BYTES: u64 = 4;

/// The array size N: Mode-II holds two windows of packets, each of Mode-III's two pipes one, Mode-I a window of
/// messages.
pub fn slots(mode: Mode, parameters: &GroupParameters) -> u32 {
    match mode {
        Mode::I => parameters.window_messages,
        Mode::II => 2 * parameters.window_packets(),
        Mode::III => parameters.window_packets(),
    }
}

/// Bytes of payload and degree buffers at a switch with `children` and perhaps a parent.
///
/// - Mode-I: a window of messages for each edge and one more: D - 1 to receive, one to aggregate, one to broadcast,
///   and D counts all edges;
/// - Mode-II: N packets and their degrees; reproducible, N packets a child;
/// - Mode-III: that for the pipe up, and N packets and degrees for the pipe down.
pub fn switch_memory(mode: Mode, parameters: &GroupParameters, children: u16, has_parent: bool) -> ByteCount {
    let packets = u64::from(slots(mode, parameters));
    let copies = if parameters.reproducible { u64::from(children) } else { 1 };
    let buffer = |copies| parameters.mtu * packets * copies + ByteCount::new(DEGREE_BYTES * packets);
    match mode {
        Mode::I => {
            let degree = u64::from(children) + u64::from(has_parent);
            parameters.mtu * u64::from(parameters.window_packets()) * (degree + 1)
        }
        Mode::II => buffer(copies),
        Mode::III => buffer(copies) + buffer(1),
    }
}
