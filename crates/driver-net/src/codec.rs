//! What the owner of a node tells the driver about its protocol's bytes, and who may watch them pass.

use crate::Datagram;
use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_units::Instant;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::Range;

/// A frame as found in a datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed<H> {
    /// The node's port that it belongs to.
    pub port: PortId,
    /// Its header.
    pub header: H,
    /// Where in the datagram its payload lies.
    pub payload: Range<usize>,
}

/// Where a frame goes and how much of the buffer it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// Bytes written.
    pub length: usize,
    /// Receiver's address and UDP port.
    pub destination: SocketAddr,
    /// IP type-of-service byte.
    pub tos: u8,
    /// Later frames for the same destination may pass this one: then it travels at the end of their datagram.
    pub may_wait: bool,
}

/// Bytes to frame and back. One is made for each node, so it may hold the node's tables (which peer is which port).
pub trait Codec<E: Engine> {
    /// Why bytes are no frame for this node; such datagrams are counted by it.
    type Fault: Copy + Ord + Debug;

    /// The most bytes that [`emit`](Self::emit) writes.
    fn frame_limit(&self) -> usize;

    /// Reads the UDP payload `bytes` that came with `datagram`.
    ///
    /// # Errors
    /// Whatever a peer may send that is not a frame for this node: it never panics.
    fn parse(&mut self, datagram: &Datagram, bytes: &[u8]) -> Result<Parsed<E::Header>, Self::Fault>;

    /// The payload as the engine sees it: `bytes` are what [`parse`](Self::parse) called payload, still in the receive
    /// buffer.
    fn payload<'a>(&self, bytes: &'a [u8]) -> <E::Payload as Payload>::View<'a>;

    /// What copies of one payload share, worked out once.
    type Shared<'a>;

    /// Works out what frames share that carry `payload` under different headers.
    fn share<'a>(&self, payload: <E::Payload as Payload>::View<'a>) -> Self::Shared<'a>;

    /// Does what [`emit`](Self::emit) does, for a frame with a shared payload.
    fn emit_shared(
        &mut self,
        port: PortId,
        header: &E::Header,
        payload: &Self::Shared<'_>,
        out: &mut [u8],
    ) -> Emitted;

    /// Writes the UDP payload of a frame that leaves `port` to the start of `out`, which holds `frame_limit` bytes.
    fn emit(&mut self, port: PortId, frame: Frame<'_, E::Header, E::Payload>, out: &mut [u8]) -> Emitted;
}

/// Which way a datagram passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It left this node.
    Sent,
    /// It arrived at this node; injected faults come after.
    Received,
}

/// Watches every frame that passes, for instance to write a capture file.
pub trait Observer: Send {
    /// A frame passed: `bytes` is its UDP payload.
    fn observe(&mut self, now: Instant, direction: Direction, datagram: &Datagram, bytes: &[u8]);
}
