//! RoCEv2 datagrams to frames of real numbers and back, for the network driver.

use quincunx_collective::{Numbers, Payload};
use quincunx_driver_net::{Codec, Datagram, Emitted, Parsed};
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_wire::{
    Aeth, Operation, ParseError, RoceHeader, SharedPayload, Syndrome, UdpPath, emit_datagram,
    emit_shared_datagram, parse_identified_datagram,
};
use std::net::SocketAddrV4;

/// UDP port of RoCEv2 (InfiniBand Architecture annex A17).
pub(crate) const ROCE_PORT: u16 = 4791;

/// The only port of a node on one socket.
pub(crate) const PORT: PortId = PortId(0);

/// The longest datagram: headers, 4096 bytes of payload, ICRC.
const FRAME_LIMIT: usize = 4096 + 64;

/// The RoCEv2 codec of a node with one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoceCodec;

impl<E: Engine<Header = RoceHeader, Payload = Numbers>> Codec<E> for RoceCodec {
    type Fault = ParseError;

    fn frame_limit(&self) -> usize {
        FRAME_LIMIT
    }

    fn parse(&mut self, datagram: &Datagram, bytes: &[u8]) -> Result<Parsed<RoceHeader>, ParseError> {
        let path = UdpPath {
            source: *datagram.source.ip(),
            destination: *datagram.destination.ip(),
            source_port: datagram.source.port(),
            traffic_class: datagram.tos,
        };
        let (header, payload) = parse_identified_datagram(&path, datagram.identification, bytes)?;
        // The payload is a part of `bytes`: where, the addresses tell.
        let start = payload.as_ptr().addr() - bytes.as_ptr().addr();
        Ok(Parsed { port: PORT, header, payload: start..start + payload.len() })
    }

    fn payload<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes
    }

    type Shared<'a> = SharedPayload<'a>;

    fn share<'a>(&self, payload: <Numbers as Payload>::View<'a>) -> SharedPayload<'a> {
        SharedPayload::new(payload)
    }

    fn emit_shared(
        &mut self,
        _: PortId,
        header: &RoceHeader,
        payload: &SharedPayload<'_>,
        out: &mut [u8],
    ) -> Emitted {
        let length = emit_shared_datagram(header, payload, out);
        emitted(header, length)
    }

    fn emit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>, out: &mut [u8]) -> Emitted {
        let length = emit_datagram(frame.header, frame.payload, out);
        emitted(frame.header, length)
    }
}

fn emitted(header: &RoceHeader, length: usize) -> Emitted {
    Emitted {
        length,
        destination: SocketAddrV4::new(header.destination, ROCE_PORT),
        tos: header.traffic_class,
        // Requests must stay in order, and a NAK wants to be early; an ACK only has to come.
        may_wait: matches!(header.operation, Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(_), .. })),
    }
}
