//! Frames of the earlier systems as bytes. What the systems themselves write is not told everywhere; this is enough to replay a path.
//!
//! ```text
//! +------+-------+---------+-----------+
//! | kind | chunk | workers | elements  |
//! +------+-------+---------+-----------+
//!    1       1        2       0..          bytes
//! ```

use quincunx_collective::{Payload, Provenance, ProvenanceView};
use quincunx_driver_check::{End, NodeId};
use quincunx_driver_net::{Codec, Emitted};
use quincunx_engine::{Frame, PortId};
use quincunx_sockets::Datagram;

use crate::codec::{FRAME_LIMIT, Ports, port_of, provenance_in_bytes, provenance_to_bytes};
use crate::prior_systems::frame::{Header, Workers};
use crate::prior_systems::node::Node;

const HEADER: usize = 4;

/// The codec of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PriorSystemCodec(Ports);

/// Bytes are no such frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Malformed;

impl PriorSystemCodec {
    pub(crate) fn new(node: NodeId, links: &[[End; 2]]) -> Self {
        Self(Ports::new(node, links))
    }
}

impl Codec<Node> for PriorSystemCodec {
    type Fault = Malformed;

    fn frame_limit(&self) -> usize {
        FRAME_LIMIT
    }

    fn port(&self, datagram: &Datagram) -> PortId {
        port_of(datagram)
    }

    fn parse<'a>(
        &mut self,
        _: &Datagram,
        bytes: &'a [u8],
    ) -> Result<(Header, ProvenanceView<'a>), Malformed> {
        let (&[kind, chunk, high, low], elements) = bytes.split_first_chunk::<HEADER>().ok_or(Malformed)?;
        let payload = provenance_in_bytes(elements).ok_or(Malformed)?;
        let workers = Workers::from_bits(u16::from_be_bytes([high, low]));
        let header = match kind {
            0 | 1 => Header::Contribution { chunk, workers, again: kind == 1 },
            2 if workers == Workers::NONE => Header::Result { chunk },
            _ => return Err(Malformed),
        };
        Ok((header, payload))
    }

    type Shared<'a> = ProvenanceView<'a>;

    fn share<'a>(&self, payload: <Provenance as Payload>::View<'a>) -> ProvenanceView<'a> {
        payload
    }

    fn emit_shared(
        &mut self,
        port: PortId,
        header: &Header,
        payload: &ProvenanceView<'_>,
        out: &mut [u8],
    ) -> Emitted {
        let (kind, chunk, workers) = match *header {
            Header::Contribution { chunk, workers, again } => (u8::from(again), chunk, workers),
            Header::Result { chunk } => (2, chunk, Workers::NONE),
        };
        let [high, low] = workers.bits().to_be_bytes();
        let bytes = [&[kind, chunk, high, low], provenance_to_bytes(*payload).as_slice()].concat();
        out[..bytes.len()].copy_from_slice(&bytes);
        self.0.emitted(port, bytes.len())
    }

    fn emit(&mut self, port: PortId, frame: Frame<'_, Header, Provenance>, out: &mut [u8]) -> Emitted {
        self.emit_shared(port, frame.header, &frame.payload, out)
    }
}
