//! What the owner of a node tells the driver about its protocol's bytes, and who may watch them pass.

use quincunx_collective::Payload;
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_sockets::Datagram;
use quincunx_units::Instant;
use std::fmt::Debug;
use std::net::SocketAddr;

/// A frame as found in a datagram: its header, and its payload as the engine sees it.
pub type Parsed<'a, E> = (<E as Engine>::Header, <<E as Engine>::Payload as Payload>::View<'a>);

/// Where a frame goes and how much of the buffer it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Emitted {
    /// Bytes written.
    pub length: usize,
    /// Receiver's address and UDP port.
    pub destination: SocketAddr,
    /// Which of the processes at that address it is for; of what goes to different ones no two travel in one datagram.
    pub share: u8,
    /// IP type-of-service byte.
    pub tos: u8,
    /// Later frames for the same destination may pass this one: then it travels at the end of their datagram.
    pub may_wait: bool,
}

/// What a datagram is, before it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Aside {
    /// A frame of the engine's, or none at all.
    Frame,
    /// The codec has taken it: the engine does not see it.
    Taken,
    /// The same, and this is to be sent.
    Answer {
        /// The UDP payload.
        bytes: Vec<u8>,
        /// To whom.
        destination: SocketAddr,
        /// Which of the processes at that address.
        share: u8,
    },
}

/// Bytes to frame and back. One is made for each node, so it may hold the node's tables (which peer is which port).
pub trait Codec<E: Engine> {
    /// Why bytes are no frame for this node; such datagrams are counted by it.
    type Fault: Copy + Ord + Debug;

    /// The most bytes that [`emit`](Self::emit) writes.
    fn frame_limit(&self) -> usize;

    /// The node's port that a datagram came in by.
    fn port(&self, datagram: &Datagram) -> PortId;

    /// Takes what is none of the engine's, such as questions about the path. Unless its owner says otherwise a codec takes nothing.
    fn take_aside(&mut self, _now: Instant, _datagram: &Datagram, _bytes: &[u8]) -> Aside {
        Aside::Frame
    }

    /// Reads the UDP payload `bytes` that came with `datagram`.
    ///
    /// # Errors
    /// Whatever a peer may send that is not a frame for this node: it never panics.
    fn parse<'a>(&mut self, datagram: &Datagram, bytes: &'a [u8]) -> Result<Parsed<'a, E>, Self::Fault>;

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
