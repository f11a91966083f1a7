//! Who may watch a simulation: writers of traces and captures, and tests.

use crate::{Direction, NodeIndex};
use quincunx_engine::{Engine, Frame, PortId};
use quincunx_network::Fate;
use quincunx_units::{ByteCount, Instant};

/// A frame as it is queued for a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Departure {
    /// Where it goes.
    pub direction: Direction,
    /// When it was queued: now.
    pub queued: Instant,
    /// When its first bit leaves; an urgent frame may still come before it, and a pause put it off.
    pub start: Instant,
    /// When its last bit leaves.
    pub end: Instant,
    /// Its length on the wire.
    pub length: ByteCount,
    /// Whether it was marked for congestion.
    pub marked: bool,
    /// What becomes of it; none if the queue had no room, and it was never sent.
    pub fate: Option<Fate>,
}

/// Sees what happens, and changes nothing. Each method that is told something does nothing by default; `()` does nothing at all.
pub trait Observer<E: Engine> {
    /// Whether it is to be told of departures. It may answer no to spare the driver to describe every frame that is queued.
    fn sees_departures(&self) -> bool {
        true
    }

    /// A node sends a frame, whatever becomes of it. Told always, whoever sees departures.
    #[inline(always)]
    fn sent(&mut self, _node: NodeIndex, _frame: Frame<'_, E::Header, E::Payload>) {}

    /// A frame was queued for a link, or refused.
    fn departed(&mut self, _departure: &Departure, _frame: Frame<'_, E::Header, E::Payload>) {}

    /// A frame is handed to a node.
    fn arrived(
        &mut self,
        _at: Instant,
        _node: NodeIndex,
        _port: PortId,
        _frame: Frame<'_, E::Header, E::Payload>,
    ) {
    }

    /// A node dropped the frame that it was handed last.
    fn dropped(&mut self, _at: Instant, _node: NodeIndex, _port: PortId, _reason: E::DropReason) {}

    /// A timer fires.
    fn fired(&mut self, _at: Instant, _node: NodeIndex, _timer: E::Timer) {}

    /// A node tells its owner something.
    fn emitted(&mut self, _at: Instant, _node: NodeIndex, _event: &E::Event) {}
}

impl<E: Engine> Observer<E> for () {
    fn sees_departures(&self) -> bool {
        false
    }
}

/// Two that see the same.
impl<E: Engine, A: Observer<E>, B: Observer<E>> Observer<E> for (A, B) {
    fn sees_departures(&self) -> bool {
        self.0.sees_departures() || self.1.sees_departures()
    }

    #[inline(always)]
    fn sent(&mut self, node: NodeIndex, frame: Frame<'_, E::Header, E::Payload>) {
        self.0.sent(node, frame);
        self.1.sent(node, frame);
    }

    fn departed(&mut self, departure: &Departure, frame: Frame<'_, E::Header, E::Payload>) {
        self.0.departed(departure, frame);
        self.1.departed(departure, frame);
    }

    fn arrived(
        &mut self,
        at: Instant,
        node: NodeIndex,
        port: PortId,
        frame: Frame<'_, E::Header, E::Payload>,
    ) {
        self.0.arrived(at, node, port, frame);
        self.1.arrived(at, node, port, frame);
    }

    fn dropped(&mut self, at: Instant, node: NodeIndex, port: PortId, reason: E::DropReason) {
        self.0.dropped(at, node, port, reason);
        self.1.dropped(at, node, port, reason);
    }

    fn fired(&mut self, at: Instant, node: NodeIndex, timer: E::Timer) {
        self.0.fired(at, node, timer);
        self.1.fired(at, node, timer);
    }

    fn emitted(&mut self, at: Instant, node: NodeIndex, event: &E::Event) {
        self.0.emitted(at, node, event);
        self.1.emitted(at, node, event);
    }
}
