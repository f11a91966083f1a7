//! A toy protocol for the driver's tests and benchmark: a windowed transfer with cumulative acknowledges and go-back-N.
//! It exists to exercise the driver, so it shares nothing with the engines.

use quincunx_collective::{BlockQuantization, Payload, Quantized, Reduction};
use quincunx_driver_net::{Codec, Emitted};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_sockets::Datagram;
use quincunx_units::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

pub(crate) const PORT: u16 = 4791;

/// An address of 127.0.0.0/8 that no other test process and no other `scene` of this one uses.
pub(crate) fn address(scene: u8, host: u8) -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    assert!(host < 4 && scene < 63, "scene {scene}, host {host}: an octet holds no more");
    SocketAddr::new(IpAddr::from([127, high, low, 1 + scene * 4 + host]), PORT)
}

/// Plain bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bytes(pub Vec<u8>);

impl Payload for Bytes {
    type View<'a> = &'a [u8];
    fn zeroed(length: usize) -> Self {
        Self(vec![0; length])
    }
    fn length(&self) -> usize {
        self.0.len()
    }
    fn empty<'a>() -> &'a [u8] {
        &[]
    }
    fn view(&self, range: Range<usize>) -> &[u8] {
        &self.0[range]
    }
    fn view_length(view: &[u8]) -> usize {
        view.len()
    }
    fn reborrow<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short> {
        view
    }

    fn subview(view: Self::View<'_>, range: Range<usize>) -> Self::View<'_> {
        &view[range]
    }
    fn from_view(view: &[u8]) -> Self {
        Self(view.to_vec())
    }
    fn write(&mut self, offset: usize, view: &[u8]) {
        self.0[offset..offset + view.len()].copy_from_slice(view);
    }
    fn reduce(&mut self, _: usize, _: &[u8], _: Reduction) {
        unreachable!("a transfer reduces nothing")
    }

    fn quantize(_: BlockQuantization, _: &[u8]) -> Quantized<Self> {
        unreachable!("bytes are not quantised here")
    }

    fn dequantize(_: BlockQuantization, _: usize, _: Quantized<&[u8]>) -> Self {
        unreachable!("bytes are not quantised here")
    }

    fn sum_quantized(_: BlockQuantization, _: usize, _: &[Quantized<&[u8]>]) -> Quantized<Self> {
        unreachable!("bytes are not quantised here")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Header {
    Data { number: u32, last: bool },
    Ack { next: u32 },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Retry(pub u16);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// Send `count` frames of `length` bytes.
    Send { port: PortId, count: u32, length: usize },
    /// Ask to be woken.
    Alarm { after: Duration },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Everything sent is acknowledged.
    Sent(PortId),
    /// A transfer is complete and was right: so many frames, so many bytes.
    Received { port: PortId, frames: u32, bytes: u64 },
    /// The alarm.
    Alarm,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Drop {
    OutOfOrder,
    StaleAck,
    WrongBytes,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected a port below {ports}, found {found}; name a port of the node")]
pub(crate) struct NoSuchPort {
    ports: usize,
    found: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Config {
    pub(crate) ports: u16,
    pub(crate) window: u32,
    /// Acknowledge every so many frames, and the last.
    pub(crate) ack_every: u32,
    pub(crate) retry: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Connection {
    length: usize,
    count: u32,
    next: u32,
    acknowledged: u32,
    expected: u32,
    bytes: u64,
}

/// What the alarm's timer is called; ports come below.
const ALARM: Retry = Retry(u16::MAX);

/// The protocol: each port is one connection, both ways.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Transfer {
    config: Config,
    source: Bytes,
    connections: Vec<Connection>,
    pub(crate) retries: u64,
    pub(crate) slots: Vec<u16>,
}

impl Transfer {
    fn acknowledge(&self, port: PortId, out: &mut impl Sink<Self>) {
        let header = Header::Ack { next: self.connections[usize::from(port.0)].expected };
        out.transmit(port, Frame { header: &header, payload: &[] });
    }
}

impl Engine for Transfer {
    type Config = Config;
    type ConfigError = NoSuchPort;
    type Header = Header;
    type Payload = Bytes;
    type Timer = Retry;
    type Command = Command;
    type Rejected = NoSuchPort;
    type Event = Event;
    type DropReason = Drop;

    fn new(config: Config) -> Result<Self, NoSuchPort> {
        // Byte i of frame n is n + i: a frame is cut out of the ramp at n.
        let source = Bytes((0..70_000_u32).map(|n| n as u8).collect());
        let connections = vec![Connection::default(); usize::from(config.ports)];
        Ok(Self { config, source, connections, retries: 0, slots: Vec::new() })
    }

    fn handle_frame(
        &mut self,
        _: Instant,
        port: PortId,
        frame: Frame<'_, Header, Bytes>,
        out: &mut impl Sink<Self>,
    ) {
        let connection = &mut self.connections[usize::from(port.0)];
        match *frame.header {
            Header::Data { number, last } if number == connection.expected => {
                let right = frame.payload == &self.source.0[(number & 255) as usize..][..frame.payload.len()];
                if !right {
                    return out.drop_frame(port, Drop::WrongBytes);
                }
                connection.expected += 1;
                connection.bytes += frame.payload.len() as u64;
                if last {
                    out.emit(Event::Received { port, frames: connection.expected, bytes: connection.bytes });
                }
                if last || connection.expected.is_multiple_of(self.config.ack_every) {
                    self.acknowledge(port, out);
                }
            }
            Header::Data { .. } => {
                out.drop_frame(port, Drop::OutOfOrder);
                self.acknowledge(port, out);
            }
            Header::Ack { next } if connection.acknowledged < next && next <= connection.count => {
                connection.acknowledged = next;
                connection.next = connection.next.max(next);
                if next == connection.count {
                    out.cancel_timer(Retry(port.0));
                    out.emit(Event::Sent(port));
                } else {
                    out.set_timer(Retry(port.0), self.config.retry);
                }
            }
            Header::Ack { .. } => out.drop_frame(port, Drop::StaleAck),
        }
    }

    fn handle_timer(&mut self, _: Instant, timer: Retry, out: &mut impl Sink<Self>) {
        if timer == ALARM {
            return out.emit(Event::Alarm);
        }
        let connection = &mut self.connections[usize::from(timer.0)];
        if connection.acknowledged < connection.count {
            connection.next = connection.acknowledged;
            self.retries += 1;
            out.set_timer(timer, self.config.retry);
        }
    }

    fn handle_command(
        &mut self,
        _: Instant,
        command: Command,
        out: &mut impl Sink<Self>,
    ) -> Result<(), NoSuchPort> {
        match command {
            Command::Send { port, count, length } => {
                let ports = self.connections.len();
                let connection = self
                    .connections
                    .get_mut(usize::from(port.0))
                    .ok_or(NoSuchPort { ports, found: port.0 })?;
                connection.count += count;
                connection.length = length;
                out.set_timer(Retry(port.0), self.config.retry);
            }
            Command::Alarm { after } => out.set_timer(ALARM, after),
        }
        Ok(())
    }

    fn wants_transmit(&self, port: PortId) -> bool {
        let connection = &self.connections[usize::from(port.0)];
        connection.next < connection.count && connection.next - connection.acknowledged < self.config.window
    }

    fn handle_transmit_slot(&mut self, _: Instant, port: PortId, out: &mut impl Sink<Self>) {
        if !self.wants_transmit(port) {
            return;
        }
        if self.slots.len() < 64 {
            self.slots.push(port.0);
        }
        let connection = &mut self.connections[usize::from(port.0)];
        let number = connection.next;
        connection.next += 1;
        let start = (number & 255) as usize;
        let header = Header::Data { number, last: connection.next == connection.count };
        out.transmit(
            port,
            Frame { header: &header, payload: &self.source.0[start..start + connection.length] },
        );
    }

    fn assert_invariants(&self) {
        for connection in &self.connections {
            assert!(
                connection.acknowledged <= connection.next && connection.next <= connection.count,
                "{connection:?}"
            );
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    Short,
    UnknownKind,
    UnknownPeer,
}

/// Peers by port; five bytes of header.
pub(crate) struct ToyCodec {
    pub(crate) peers: Vec<SocketAddr>,
    pub(crate) tos: u8,
}

const HEADER: usize = 5;

impl Codec<Transfer> for ToyCodec {
    type Fault = Fault;

    fn frame_limit(&self) -> usize {
        70_000
    }

    fn port(&self, datagram: &Datagram) -> PortId {
        let peer = self.peers.iter().position(|peer| *peer == datagram.source);
        PortId(peer.expect("only datagrams of peers have been read") as u16)
    }

    fn parse<'a>(&mut self, datagram: &Datagram, bytes: &'a [u8]) -> Result<(Header, &'a [u8]), Fault> {
        if !self.peers.contains(&datagram.source) {
            return Err(Fault::UnknownPeer);
        }
        let (head, payload) = bytes.split_at_checked(HEADER).ok_or(Fault::Short)?;
        let number = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let header = match head[0] {
            0 | 1 => Header::Data { number, last: head[0] == 1 },
            2 if payload.is_empty() => Header::Ack { next: number },
            _ => return Err(Fault::UnknownKind),
        };
        Ok((header, payload))
    }

    type Shared<'a> = &'a [u8];

    fn share<'a>(&self, payload: <Bytes as Payload>::View<'a>) -> &'a [u8] {
        payload
    }

    fn emit_shared(&mut self, port: PortId, header: &Header, payload: &&[u8], out: &mut [u8]) -> Emitted {
        self.emit(port, Frame { header, payload }, out)
    }

    fn emit(&mut self, port: PortId, frame: Frame<'_, Header, Bytes>, out: &mut [u8]) -> Emitted {
        let (kind, number) = match *frame.header {
            Header::Data { number, last } => (u8::from(last), number),
            Header::Ack { next } => (2, next),
        };
        out[0] = kind;
        out[1..HEADER].copy_from_slice(&number.to_be_bytes());
        let length = HEADER + frame.payload.len();
        out[HEADER..length].copy_from_slice(frame.payload);
        Emitted {
            length,
            destination: self.peers[usize::from(port.0)],
            share: 0,
            tos: self.tos,
            may_wait: false,
        }
    }
}
