//! What a group takes of a switch's memory (EPIC 4.2 to 4.4, F.3).

use crate::mode::Mode;
use crate::params::GroupParams;
use quincunx_units::ByteCount;

/// Bytes of one degree counter.
const DEGREE_BYTES: u64 = 4;

/// The array size N: Mode-II holds two windows of packets, each of Mode-III's two pipes one, if nothing else is said; Mode-I a
/// window of messages.
pub fn slots(mode: Mode, group: &GroupParams) -> u32 {
    match mode {
        Mode::I => group.transport.window.get(),
        Mode::II => 2 * group.transport.window_packets().get(),
        Mode::III => group.slots.unwrap_or(group.transport.window_packets().get()),
    }
}

/// Bytes of payload and degree buffers that a switch with `edges` edges takes for a group: exactly what its engine
/// allocates.
///
/// - Mode-I: a window of messages for each edge and two more, and a degree for each slot of the two pipes. The paper's
///   formula is (D + 1) windows: D - 1 to receive, one to aggregate, one to broadcast, where D counts all edges. We keep
///   a receive buffer for every edge, because any of them may be the one that results leave through, and we count the
///   degrees, as in the other modes;
/// - Mode-II: N packets and their degrees; reproducible, N packets an edge, because with the root of a collective below
///   the switch its parent contributes too;
/// - Mode-III: that for the pipe up, and N packets and degrees for the pipe down.
pub fn switch_memory(mode: Mode, group: &GroupParams, edges: u16) -> ByteCount {
    let slots = u64::from(slots(mode, group));
    let (mtu, edges) = (group.transport.mtu, u64::from(edges));
    let degrees = ByteCount::new(DEGREE_BYTES * slots);
    let copies = if group.reproducible { edges } else { 1 };
    let buffer = |copies| mtu * slots * copies + degrees;
    match mode {
        Mode::I => mtu * group.transport.window_packets() * (edges + 2) + degrees + degrees,
        Mode::II => buffer(copies),
        Mode::III => buffer(copies) + buffer(1),
    }
}
