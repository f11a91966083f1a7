//! The engine, its frames, and the sink that its answers go to.

use alloc::fmt::Debug;
use core::error::Error;
use core::hash::Hash;
use quincunx_collective::Payload;
use quincunx_units::{Duration, Instant};

/// A port of a node, numbered from zero in the order of the node's configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u16);

/// A parsed header and a borrowed payload. Bytes never reach an engine.
#[derive(Debug)]
pub struct Frame<'a, H, P: Payload> {
    /// The header.
    pub header: &'a H,
    /// What follows it; borrowed from the sender's memory or from the receive buffer.
    pub payload: P::View<'a>,
}

impl<H, P: Payload> Clone for Frame<'_, H, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H, P: Payload> Copy for Frame<'_, H, P> {}

/// Where an engine's answers go. A driver implements it; nothing an engine says is lost or reordered here.
pub trait Sink<E: Engine> {
    /// Sends a frame out of `port`.
    fn transmit(&mut self, port: PortId, frame: Frame<'_, E::Header, E::Payload>);

    /// Sends one payload several times, under other headers: `copies` calls what it is given with the port and the header of each. The same as
    /// that many calls of [`transmit`](Self::transmit); a driver may do once what the copies share.
    fn replicate(
        &mut self,
        payload: <E::Payload as Payload>::View<'_>,
        copies: impl FnOnce(&mut dyn FnMut(PortId, &E::Header)),
    ) {
        copies(&mut |port, header| {
            self.transmit(port, Frame { header, payload: E::Payload::reborrow(payload) });
        });
    }

    /// Arms `timer` to fire `after` from now, in place of any earlier deadline.
    fn set_timer(&mut self, timer: E::Timer, after: Duration);

    /// Disarms `timer`; nothing happens if it is not armed.
    fn cancel_timer(&mut self, timer: E::Timer);

    /// Tells the owner of the node what happened.
    fn emit(&mut self, event: E::Event);

    /// Counts a frame that was dropped, by reason. A peer's fault is never worse than this.
    fn drop_frame(&mut self, port: PortId, reason: E::DropReason);
}

/// A protocol as a state machine. Work per call is bounded by the node's configuration, never by a peer.
///
/// The call loop of a driver: hand in whatever is due (`handle_frame`, `handle_timer`, `handle_command`, in any
/// order), then, for each port that can take a frame and for which `wants_transmit` says so, `handle_transmit_slot`.
pub trait Engine: Clone + Eq + Hash + Debug + Sized {
    /// What the node is set up with.
    type Config;
    /// Why a set-up is refused.
    type ConfigError: Error;
    /// A parsed wire header, never bytes.
    type Header: Clone + Eq + Hash + Debug;
    /// What frames carry.
    type Payload: Payload;
    /// Named timers: the driver holds the deadlines, so that a checker can ignore them.
    type Timer: Copy + Ord + Hash + Debug;
    /// What the node's owner asks of it.
    type Command;
    /// Misuse by the owner: nothing has changed.
    type Rejected: Error;
    /// What the node's owner is told.
    type Event;
    /// Why a frame was dropped.
    type DropReason: Copy + Ord + Debug;

    /// A node in its initial state.
    fn new(config: Self::Config) -> Result<Self, Self::ConfigError>;

    /// Takes a frame that arrived on `port`.
    fn handle_frame(
        &mut self,
        now: Instant,
        port: PortId,
        frame: Frame<'_, Self::Header, Self::Payload>,
        out: &mut impl Sink<Self>,
    );

    /// Takes the expiry of `timer`. One that was cancelled meanwhile must be harmless.
    fn handle_timer(&mut self, now: Instant, timer: Self::Timer, out: &mut impl Sink<Self>);

    /// Takes an order from the node's owner.
    fn handle_command(
        &mut self,
        now: Instant,
        command: Self::Command,
        out: &mut impl Sink<Self>,
    ) -> Result<(), Self::Rejected>;

    /// Whether a transmit slot on `port` would be used. To be asked again after every call.
    fn wants_transmit(&self, port: PortId) -> bool;

    /// Whether there may be a port that wants a slot: a node with many ports that sends by itself can spare its driver to
    /// ask for each.
    fn may_want_transmit(&self) -> bool {
        true
    }

    /// Sends at most one frame out of `port`: this is where back-pressure acts.
    fn handle_transmit_slot(&mut self, now: Instant, port: PortId, out: &mut impl Sink<Self>);

    /// Panics if the state breaks a rule that must always hold: a bug here, whatever peers and owners do.
    fn assert_invariants(&self);
}
