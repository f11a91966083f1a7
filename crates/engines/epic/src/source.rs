//! Where the payload of a packet is that a switch sends or stores.

use core::ops::Range;
use quincunx_collective::Payload;

/// Where the payload of a packet is.
pub(crate) enum Source<'a, P: Payload> {
    /// In a frame.
    Frame(P::View<'a>),
    /// In a place of the group's memory.
    Stored(Range<usize>),
}
