//! What a queue pair tells the node that embeds it.

use quincunx_collective::Payload;
use quincunx_engine::Frame;
use quincunx_engine::verbs::Completion;
use quincunx_units::Duration;
use quincunx_wire::RoceHeader;

/// A queue pair's timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueuePairTimer {
    /// Nothing has been acknowledged for the retry time-out.
    Retry,
    /// The peer may be ready now.
    ReceiverNotReady,
    /// The next packet may leave now, at the current rate.
    Pace,
    /// No congestion has been notified for a while.
    Alpha,
    /// The rate may rise.
    Raise,
}

impl QueuePairTimer {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Retry, Self::ReceiverNotReady, Self::Pace, Self::Alpha, Self::Raise];
}

/// Why a frame was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropReason {
    /// For another address or queue pair.
    NotForUs,
    /// From another address than the peer's.
    WrongSource,
    /// The queue pair has failed.
    Failed,
    /// An acknowledge of nothing that is outstanding.
    StaleAcknowledge,
    /// A request that was executed before; it was acknowledged again.
    Duplicate,
    /// A request ahead of the expected PSN.
    OutOfSequence,
    /// A request that found no receive request.
    ReceiverNotReady,
    /// A request that was refused for good.
    Refused,
    /// A congestion notification where the rate is fixed.
    NoRateControl,
    /// The answer to a Read or an atomic, which are never asked, or a datagram.
    Unexpected,
}

/// Where a queue pair's answers go: the node that embeds it.
pub trait QueuePairSink<P: Payload> {
    /// Sends a frame to the peer.
    fn transmit(&mut self, frame: Frame<'_, RoceHeader, P>);

    /// Arms `timer` to fire `after` from now, in place of any earlier deadline.
    fn set_timer(&mut self, timer: QueuePairTimer, after: Duration);

    /// Disarms `timer`; nothing happens if it is not armed.
    fn cancel_timer(&mut self, timer: QueuePairTimer);

    /// Ends a work request.
    fn complete(&mut self, completion: Completion);

    /// Counts a frame that was dropped.
    fn drop_frame(&mut self, reason: DropReason);
}
