//! What the owner knows of frames on the wire and the driver does not.

use crate::Direction;
use quincunx_engine::Engine;
use quincunx_units::ByteCount;

/// Says how long frames are. The same frame must get the same answer every time.
pub trait Medium<E: Engine> {
    /// Bytes that a frame with `payload` bytes of payload takes on the link, with everything around it: preamble, gaps,
    /// checksums.
    fn wire_length(&self, header: &E::Header, payload: usize) -> ByteCount;

    /// Bytes of the frame, from its start, that must have arrived before the node is handed it: at most `whole`, its
    /// [`wire_length`](Self::wire_length). The whole frame by default (store and forward); a cut-through fabric answers with what the node needs to decide. The engine is
    /// handed the whole frame then: the rest arrives while the node already sends, so links out of such a node must
    /// not be faster than links into it. The direction says who is handed it: a switch may cut through where an endpoint
    /// may not.
    fn needed_length(&self, _direction: Direction, _header: &E::Header, whole: ByteCount) -> ByteCount {
        whole
    }

    /// Whether a frame goes before all that wait in its queue, but for other urgent ones: what a switch keeps a queue of
    /// higher priority for. None does by default.
    fn is_urgent(&self, _header: &E::Header) -> bool {
        false
    }

    /// Marks a frame that has met congestion (IP: congestion experienced), if it can be marked; whether it is. None can by
    /// default.
    fn mark_congestion(&self, _header: &mut E::Header) -> bool {
        false
    }
}
