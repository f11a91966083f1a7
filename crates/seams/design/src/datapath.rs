//! What runs in a switch that frames pass through: one group's part, frame by frame. Where connections end at the switch, a
//! [`Program`](quincunx_engine::verbs::Program) runs there instead, above queue pairs.

use crate::{GroupMemory, Refusal};
use core::ops::Range;
use quincunx_collective::Payload;
use quincunx_engine::Frame;
use quincunx_units::{Duration, Instant};
use quincunx_wire::RoceHeader;

/// A datapath's named timer: one of its kinds, of the group or of an edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DatapathTimer {
    /// Which of the datapath's kinds.
    pub kind: u8,
    /// The edge whose it is; none if it is the group's.
    pub edge: Option<u16>,
}

/// Calls what it is given with the edge and the header of each copy. By reference, for a header that moves costs a switch more than one that is
/// made.
pub type Copies<'a> = &'a mut dyn FnMut(&mut dyn FnMut(u16, &RoceHeader));

/// Why a frame does not leave: another group has written where its payload was.
pub const MEMORY_TAKEN: &str = "memory-taken";

/// Where a datapath's answers go. Edges are numbered as the plan has it.
pub trait DatapathSink<P: Payload> {
    /// Sends a frame over an edge.
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, P>);
    /// Sends one payload over several edges, under other headers.
    fn replicate(&mut self, payload: P::View<'_>, copies: Copies<'_>);
    /// The group's part of the switch's memory.
    fn memory(&mut self) -> GroupMemory<'_, P>;
    /// Sends a frame over an edge with what is stored in a place of the memory. Whether it has: if another group has written there since, it
    /// drops the frame.
    fn transmit_stored(&mut self, edge: u16, header: &RoceHeader, place: Range<usize>) -> bool {
        let stored = self.memory().stored(place).map(P::from_view);
        match &stored {
            Some(stored) => self.transmit(edge, Frame { header, payload: stored.view(0..stored.length()) }),
            None => self.drop_frame(edge, MEMORY_TAKEN),
        }
        stored.is_some()
    }
    /// Sends what is stored in a place of the memory over several edges, under other headers. Whether it has.
    fn replicate_stored(&mut self, place: Range<usize>, copies: Copies<'_>) -> bool {
        let stored = self.memory().stored(place).map(P::from_view);
        match &stored {
            Some(stored) => self.replicate(stored.view(0..stored.length()), copies),
            None => copies(&mut |edge, _| self.drop_frame(edge, MEMORY_TAKEN)),
        }
        stored.is_some()
    }
    /// Arms a timer to fire `after` from now, in place of any earlier deadline.
    fn set_timer(&mut self, timer: DatapathTimer, after: Duration);
    /// Disarms a timer; nothing happens if it is not armed.
    fn cancel_timer(&mut self, timer: DatapathTimer);
    /// The neighbour on an edge does not answer, or has failed: the group is over.
    fn unreachable(&mut self, edge: u16);
    /// Counts a frame of an edge that was dropped, by reason.
    fn drop_frame(&mut self, edge: u16, reason: &'static str);
    /// The neighbour on an edge has begun its part in a collective, whose number is the same on all edges. Said again of what comes again.
    fn begun(&mut self, _edge: u16, _number: u64) {}
}

/// One group's part of a switch. The contract is that of [`Engine`](quincunx_engine::Engine): work per call is bounded by the
/// group's set-up, a peer's frame never panics.
pub trait Datapath<P: Payload> {
    /// Takes a frame of a neighbour: it came from where the edge leads, and is for this end of it.
    fn handle_frame(
        &mut self,
        now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    );

    /// Takes a frame that comes back over a connection that passes, for the neighbour on `edge` who sends on it: acknowledges. As it is,
    /// it goes on at once.
    fn handle_reply(
        &mut self,
        _now: Instant,
        edge: u16,
        frame: Frame<'_, RoceHeader, P>,
        out: &mut dyn DatapathSink<P>,
    ) {
        out.transmit(edge, frame);
    }

    /// Takes the expiry of a timer. One that was cancelled meanwhile must be harmless.
    fn handle_timer(&mut self, now: Instant, timer: DatapathTimer, out: &mut dyn DatapathSink<P>);

    /// Whether a transmit slot on the edge would be used.
    fn wants_transmit(&self, _edge: u16) -> bool {
        false
    }

    /// Whether there may be an edge that wants a slot.
    fn may_want_transmit(&self) -> bool {
        false
    }

    /// Sends at most one frame over the edge.
    fn handle_transmit_slot(&mut self, _now: Instant, _edge: u16, _out: &mut dyn DatapathSink<P>) {}

    /// All timers that may be armed, to be disarmed when the group is removed.
    fn timers(&self) -> alloc::vec::Vec<DatapathTimer> {
        alloc::vec::Vec::new()
    }

    /// The line by which simulated hardware that does the same is told of this group, before its first packet (`rtl/bench/sim.h`).
    ///
    /// # Errors
    /// If there is none, or it cannot do what the group wants.
    fn told_to_hardware(&self) -> Result<alloc::string::String, Refusal> {
        Err(Refusal::new(
            "a group whose switch there is hardware for",
            "another one",
            "start the switch without --hardware, or choose a design with a block in rtl/",
        ))
    }

    /// Bytes of payload and degree buffers in use (EPIC F.3).
    fn buffer_bytes(&self) -> usize;

    /// Panics if the state breaks a rule that must always hold.
    fn assert_invariants(&self);
}

quincunx_engine::erased! {
    /// A datapath of any type.
    pub trait AnyDatapath<P: Payload>: Datapath<P>
}
