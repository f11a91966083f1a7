//! How long RoCE frames are on the wire.

use quincunx_collective::Payload;
use quincunx_driver_des::Medium;
use quincunx_nodes::Node;
use quincunx_units::ByteCount;
use quincunx_wire::{Framing, Operation, RoceHeader};

/// Bytes around a frame on an Ethernet link: preamble and start delimiter, frame check sequence, inter-packet gap
/// (IEEE 802.3, 3.1.1, 4.4.2).
const AROUND_A_FRAME: u64 = 8 + 4 + 12;

/// The shortest Ethernet frame without its check sequence; shorter ones are padded.
const SHORTEST_FRAME: u64 = 60;

/// What a frame takes on a link beside its payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Surroundings {
    /// What it takes on an Ethernet link, from the preamble to the gap behind it.
    Ethernet,
    /// So many bytes, whatever the operation.
    Fixed(ByteCount),
}

/// A store-and-forward network of RoCE frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RoceMedium {
    /// What a frame takes beside its payload.
    pub surroundings: Surroundings,
    /// What frames are, on an Ethernet link.
    pub framing: Framing,
}

impl<P: Payload> Medium<Node<P>> for RoceMedium {
    fn wire_length(&self, header: &RoceHeader, payload: usize) -> ByteCount {
        match self.surroundings {
            Surroundings::Ethernet => {
                let frame = self.framing.frame_length(&header.operation, payload) as u64;
                ByteCount::new(frame.max(SHORTEST_FRAME) + AROUND_A_FRAME)
            }
            Surroundings::Fixed(around) => around + ByteCount::new(payload as u64),
        }
    }

    /// What answers goes before what asks: an ACK that waits behind data is late news, and a NAK behind data makes that
    /// data wait at the receiver. So does what says so itself.
    fn is_urgent(&self, header: &RoceHeader) -> bool {
        matches!(header.operation, Operation::Acknowledge(_) | Operation::CongestionNotification)
            || header.is_expedited()
    }

    fn mark_congestion(&self, header: &mut RoceHeader) -> bool {
        header.mark_congestion()
    }
}
