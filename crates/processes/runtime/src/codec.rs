//! RoCE datagrams to frames of real numbers and back, for the network driver.
//!
//! A datagram of RoCEv2 begins with the BTH, for a socket has the headers below. One of RoCE v1 begins with the global route header.

use quincunx_collective::{Numbers, Payload};
use quincunx_driver_net::{Aside, Codec, Emitted};
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_sockets::Datagram;
use quincunx_units::Instant;
use quincunx_wire::path_probe::is_path_probe;
use quincunx_wire::{
    Aeth, Framing, Operation, ParseError, RoceHeader, SharedPayload, Syndrome, UdpPath, emit_datagram,
    emit_shared_datagram, grh, parse_identified_datagram, v1,
};
use std::net::SocketAddr;

use crate::prober::Prober;

/// UDP port of RoCEv2 (InfiniBand Architecture annex A17).
pub const ROCE_PORT: u16 = 4791;

/// The interface of those of whom the driver cannot tell where they are: whatever comes by another one than anybody's may be theirs.
const UNKNOWN: u32 = 0;

/// The port of whatever comes by an interface that leads to nobody whom the node knows.
const ELSEWHERE: PortId = PortId(u16::MAX);

/// The longest datagram: global route header and others, 4096 bytes of payload, ICRC.
const FRAME_LIMIT: usize = 4096 + 104;

/// Where in a datagram the upper byte of its destination queue pair is: behind the first five bytes of the BTH.
pub(crate) const fn share_at(framing: Framing) -> usize {
    match framing {
        Framing::RoceV2 => 5,
        Framing::RoceV1 => grh::LENGTH + 5,
    }
}

/// The codec of a node whose ports are interfaces, each of which has a number from when it is first asked for. As long as none is, the
/// node has one port, and all comes by that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoceCodec {
    framing: Framing,
    /// By port.
    interfaces: Vec<u32>,
    pub(crate) prober: Prober,
}

impl RoceCodec {
    /// For frames that travel so.
    pub fn new(framing: Framing) -> Self {
        Self { framing, ..Self::default() }
    }

    /// The port of frames that come in by `interface`, which has one from now on.
    pub fn port_of(&mut self, interface: u32) -> PortId {
        let known = self.interfaces.iter().position(|known| *known == interface);
        let port = known.unwrap_or_else(|| {
            self.interfaces.push(interface);
            self.interfaces.len() - 1
        });
        PortId(port as u16)
    }
}

/// Reads a datagram of either framing: its header, and where its payload lies.
fn parse<'a>(
    framing: Framing,
    datagram: &Datagram,
    bytes: &'a [u8],
) -> Result<(RoceHeader, &'a [u8]), ParseError> {
    match framing {
        Framing::RoceV2 => {
            let path = UdpPath {
                source: datagram.source.ip().into(),
                destination: datagram.destination.ip().into(),
                source_port: datagram.source.port(),
                traffic_class: datagram.tos,
            };
            match parse_identified_datagram(&path, datagram.identification, bytes) {
                // A link that splits a merged datagram numbers the pieces; their sender, a socket, wrote 0.
                Err(ParseError::WrongIcrc) if datagram.identification > 0 => {
                    parse_identified_datagram(&path, 0, bytes)
                }
                parsed => parsed,
            }
        }
        // It says itself from whom it is, and for whom: who handed it on does not matter.
        Framing::RoceV1 => v1::parse_packet(bytes),
    }
}

impl<E: Engine<Header = RoceHeader, Payload = Numbers>> Codec<E> for RoceCodec {
    type Fault = ParseError;

    fn frame_limit(&self) -> usize {
        FRAME_LIMIT
    }

    fn port(&self, datagram: &Datagram) -> PortId {
        match &self.interfaces[..] {
            [] => PortId(0),
            interfaces => {
                let port = |interface| interfaces.iter().position(|known| *known == interface);
                let port = port(datagram.interface).or_else(|| port(UNKNOWN));
                port.map_or(ELSEWHERE, |port| PortId(port as u16))
            }
        }
    }

    fn parse<'a>(
        &mut self,
        datagram: &Datagram,
        bytes: &'a [u8],
    ) -> Result<(RoceHeader, &'a [u8]), ParseError> {
        parse(self.framing, datagram, bytes)
    }

    fn take_aside(&mut self, now: Instant, datagram: &Datagram, bytes: &[u8]) -> Aside {
        match is_path_probe(bytes) {
            true => self.prober.take(now, datagram, bytes),
            false => Aside::Frame,
        }
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
        let length = match self.framing {
            Framing::RoceV2 => emit_shared_datagram(header, payload, out),
            Framing::RoceV1 => v1::emit_packet(header, payload.bytes(), out),
        };
        emitted(header, length)
    }

    fn emit(&mut self, _: PortId, frame: Frame<'_, RoceHeader, Numbers>, out: &mut [u8]) -> Emitted {
        let length = match self.framing {
            Framing::RoceV2 => emit_datagram(frame.header, frame.payload, out),
            Framing::RoceV1 => v1::emit_packet(frame.header, frame.payload, out),
        };
        emitted(frame.header, length)
    }
}

fn emitted(header: &RoceHeader, length: usize) -> Emitted {
    Emitted {
        length,
        destination: SocketAddr::new(header.destination.address(), ROCE_PORT),
        share: header.destination_qp.share(),
        tos: header.traffic_class,
        // Requests must stay in order, and a NAK wants to be early; an ACK only has to come.
        may_wait: matches!(header.operation, Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(_), .. })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_nodes::Switch;
    use quincunx_wire::{Gid, Psn, QpNumber, datagram_length};

    #[test]
    fn pieces_that_a_link_has_numbered_are_read_as_their_sender_wrote_them() {
        let ends = [1, 2].map(|last| Gid::from([10, 0, 0, last]));
        let operation = Operation::WriteMiddle;
        let header = RoceHeader::new(ends[0], ends[1], QpNumber::new(17), Psn::new(5), operation);
        let mut bytes = vec![0; datagram_length(&operation, 8)];
        emit_datagram(&header, b"8 bytes.", &mut bytes);
        let [source, destination] = ends.map(|ip| SocketAddr::new(ip.address(), ROCE_PORT));
        let mut codec = RoceCodec::default();
        let mut read = |identification, bytes: &[u8]| {
            let datagram = Datagram { source, destination, tos: 0, identification, interface: 0 };
            Codec::<Switch<Numbers>>::parse(&mut codec, &datagram, bytes).map(|(header, _)| header)
        };
        for identification in [0, 3] {
            assert_eq!(read(identification, &bytes), Ok(header));
        }
        bytes[20] ^= 1;
        assert_eq!(read(3, &bytes), Err(ParseError::WrongIcrc));
    }

    #[test]
    fn a_frame_says_by_one_byte_which_rank_at_an_address_it_is_for() {
        let ends = [1, 2].map(|last| Gid::from([10, 0, 0, last]));
        let queue_pair = QpNumber::new(0x03_0011);
        let header = RoceHeader::new(ends[0], ends[1], queue_pair, Psn::new(5), Operation::WriteMiddle);
        for framing in [Framing::RoceV2, Framing::RoceV1] {
            let mut bytes = vec![0; FRAME_LIMIT];
            let mut codec = RoceCodec::new(framing);
            let payload = Numbers::zeroed(8);
            let frame = Frame { header: &header, payload: payload.view(0..8) };
            let emitted = Codec::<Switch<Numbers>>::emit(&mut codec, PortId(0), frame, &mut bytes);
            assert_eq!((emitted.share, bytes[share_at(framing)]), (3, 3), "{framing}");
        }
    }
}
