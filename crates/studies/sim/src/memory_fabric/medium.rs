//! How long packets of flits are on a link, and when a node is handed them.

use quincunx_collective::Payload;
use quincunx_driver_des::{Direction, Medium};
use quincunx_nodes::fabric::{FabricNode, FabricPeer};
use quincunx_units::ByteCount;
use quincunx_wire::flit::{FlitFormat, FlitHeader};

/// Links of a memory fabric, each made with its accelerator first and its switch second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlitMedium {
    /// How packets are cut.
    pub format: FlitFormat,
    /// Accelerators: the node numbers below this.
    pub accelerators: u16,
    /// What a link idles behind each packet with data, in bytes.
    pub gap: ByteCount,
}

impl FlitMedium {
    const fn gap(&self, header: &FlitHeader) -> ByteCount {
        if header.transaction.carries_data() { self.gap } else { ByteCount::new(0) }
    }

    fn length(&self, header: &FlitHeader, payload: usize) -> ByteCount {
        ByteCount::new(self.format.wire_bytes(header.transaction, payload) as u64) + self.gap(header)
    }
}

impl<P: Payload> Medium<FabricNode<P>> for FlitMedium {
    fn wire_length(&self, header: &FlitHeader, payload: usize) -> ByteCount {
        self.length(header, payload)
    }

    /// A switch cuts through: it forwards a packet when its header is there. What it computes with must be there
    /// whole, and so must what an accelerator gets.
    fn needed_length(&self, direction: Direction, header: &FlitHeader, whole: ByteCount) -> ByteCount {
        let forwarded = !direction.backward && !header.inc && header.destination.0 < self.accelerators;
        // Nobody waits for what the link idles behind it.
        let packet = whole - self.gap(header);
        if forwarded { packet.min(ByteCount::new(self.format.header_bytes() as u64)) } else { packet }
    }
}

/// Links of a mesh: nobody cuts through.
impl<P: Payload> Medium<FabricPeer<P>> for FlitMedium {
    fn wire_length(&self, header: &FlitHeader, payload: usize) -> ByteCount {
        self.length(header, payload)
    }

    fn needed_length(&self, _: Direction, header: &FlitHeader, whole: ByteCount) -> ByteCount {
        whole - self.gap(header)
    }
}
