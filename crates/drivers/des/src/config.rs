//! What links are set up with.

use quincunx_units::{BitRate, ByteCount, Duration};

/// What a link can do, each way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkConfig {
    /// Bits that go in a second.
    pub rate: BitRate,
    /// From the moment a bit is sent to the moment it arrives.
    pub latency: Duration,
}

/// How a direction's queue treats frames: those that wait, and the one that is being sent. Without limits by default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct QueueConfig {
    /// Bytes that may be in it; a frame that finds no room is dropped.
    pub limit: Option<ByteCount>,
    /// A frame that finds more bytes than this in it is marked by the medium.
    pub mark_above: Option<ByteCount>,
}

/// When the node at the end of a direction pauses its sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PauseConfig {
    /// More bytes than this in the input buffer pause it. What arrives until that takes effect is two latencies and two frames.
    pub xoff: ByteCount,
    /// So few bytes resume it; no more than `xoff`.
    pub xon: ByteCount,
}
