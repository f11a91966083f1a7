//! Any bytes as messages to a manager and from it, in any order: no panic, the manager's invariants hold, and what is understood says the same
//! after it was said again.
//!
//! A message is a byte for its kind, two for its length (little-endian), and its bytes.

use quincunx_control_grpc::Probe;
use quincunx_designs::{CATALOG, FALLBACK};

/// Panics if `bytes` show a fault.
pub fn check(bytes: &[u8]) {
    let mut probe = Probe::new(CATALOG, Some(FALLBACK));
    let mut rest = bytes;
    while let Some(([kind, low, high], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (message, after) = after.split_at(length);
        probe.take(*kind, message);
        rest = after;
    }
}
