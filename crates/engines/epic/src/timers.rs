//! Timers of the engine in a switch.

use quincunx_design::DatapathTimer;

/// The kind of timers that wait for the ACK of packets on an edge (Mode-III).
pub(crate) const RESEND: u8 = 0;

/// ACKs wait for results to travel with (Mode-III).
pub(crate) const ACKNOWLEDGE_TIMER: DatapathTimer = DatapathTimer { kind: 1, edge: None };

/// Packets on `edge` wait for their ACK.
pub(crate) const fn resend_timer(edge: usize) -> DatapathTimer {
    DatapathTimer { kind: RESEND, edge: Some(edge as u16) }
}
