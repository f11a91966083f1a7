//! Frames as bytes: what nodes send each other when a path is replayed by the network driver. Headers are written by `wire`, and
//! behind them the provenance of each element.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use quincunx_collective::{Payload, Provenance, ProvenanceView};
use quincunx_driver_check::{End, NodeId};
use quincunx_driver_net::{Codec, Emitted, LinkEnd, end_address};
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_sockets::Datagram;
use quincunx_wire::{Envelope, MacAddress, ParseError, RoceHeader, emit_frame, parse_frame};

use crate::describe::{Describe, EngineOf};

/// A system whose frames can be written as bytes.
pub trait Wired: Describe {
    /// Writes and reads them.
    type Codec: Codec<EngineOf<Self>>;

    /// The codec of a node.
    fn codec(&self, node: NodeId) -> Self::Codec;
}

/// The longest frame that any of them writes.
pub(crate) const FRAME_LIMIT: usize = 4096;

/// Where what leaves a node arrives, by port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ports(BTreeMap<PortId, SocketAddr>);

/// An end of a link as the network driver names it.
pub(crate) fn link_end(end: End) -> LinkEnd {
    (end.node.index(), end.port)
}

impl Ports {
    pub(crate) fn new(node: NodeId, links: &[[End; 2]]) -> Self {
        let ends = links.iter().flat_map(|&[a, b]| [(a, b), (b, a)]);
        let own = ends.filter(|(near, _)| near.node == node);
        Self(own.map(|(near, far)| (near.port, end_address(link_end(far)))).collect())
    }

    /// A frame of `length` bytes that leaves a port. Where no link leads it goes nowhere.
    pub(crate) fn emitted(&self, port: PortId, length: usize) -> Emitted {
        let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let destination = self.0.get(&port).copied().unwrap_or(nowhere);
        Emitted { length, destination, share: 0, tos: 0, may_wait: false }
    }
}

/// The port that a datagram has arrived at.
pub(crate) fn port_of(datagram: &Datagram) -> PortId {
    PortId(datagram.destination.port())
}

/// Provenance as bytes: its length as a payload, and sixteen bytes for each element; nothing of an empty payload, as acknowledges carry it.
pub(crate) fn provenance_to_bytes(provenance: ProvenanceView<'_>) -> Vec<u8> {
    match Provenance::view_length(provenance) {
        0 => Vec::new(),
        length => [&(length as u32).to_be_bytes(), provenance.as_bytes()].concat(),
    }
}

/// The provenance in bytes, if that is what they are.
pub(crate) fn provenance_in_bytes(bytes: &[u8]) -> Option<ProvenanceView<'_>> {
    if bytes.is_empty() {
        return Some(Provenance::empty());
    }
    let (length, elements) = bytes.split_first_chunk()?;
    ProvenanceView::from_bytes(u32::from_be_bytes(*length) as usize, elements)
}

/// The codec of nodes that speak RoCE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoceProvenanceCodec(Ports);

/// Why bytes are no such frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CodecFault {
    /// The headers cannot be read.
    Header(ParseError),
    /// What follows them is no provenance.
    Provenance,
}

impl RoceProvenanceCodec {
    pub(crate) fn new(node: NodeId, links: &[[End; 2]]) -> Self {
        Self(Ports::new(node, links))
    }
}

impl<E: Engine<Header = RoceHeader, Payload = Provenance>> Codec<E> for RoceProvenanceCodec {
    type Fault = CodecFault;

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
    ) -> Result<(RoceHeader, ProvenanceView<'a>), CodecFault> {
        let (_, header, payload) = parse_frame(bytes).map_err(CodecFault::Header)?;
        Ok((header, provenance_in_bytes(payload).ok_or(CodecFault::Provenance)?))
    }

    type Shared<'a> = ProvenanceView<'a>;

    fn share<'a>(&self, payload: <Provenance as Payload>::View<'a>) -> ProvenanceView<'a> {
        payload
    }

    fn emit_shared(
        &mut self,
        port: PortId,
        header: &RoceHeader,
        payload: &ProvenanceView<'_>,
        out: &mut [u8],
    ) -> Emitted {
        let hardware = MacAddress([0; 6]);
        let length =
            emit_frame(&Envelope::new(hardware, hardware), header, &provenance_to_bytes(*payload), out);
        self.0.emitted(port, length)
    }

    fn emit(&mut self, port: PortId, frame: Frame<'_, RoceHeader, Provenance>, out: &mut [u8]) -> Emitted {
        <Self as Codec<E>>::emit_shared(self, port, frame.header, &frame.payload, out)
    }
}
