//! What a node's thread has done: how much it has copied, and how long that took beside all exchanges.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters since the endpoint was attached.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Collectives and messages that have ended well.
    pub ended: u64,
    /// Bytes copied between the application's memory and the node's, both ways.
    pub copied_bytes: u64,
    /// Time that took.
    pub copying: Duration,
    /// Time during which something was under way.
    pub busy: Duration,
}

#[derive(Default, Debug)]
pub(crate) struct Counters {
    pub(crate) ended: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) copying: AtomicU64,
    pub(crate) busy: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            ended: read(&self.ended),
            copied_bytes: read(&self.copied_bytes),
            copying: Duration::from_nanos(read(&self.copying)),
            busy: Duration::from_nanos(read(&self.busy)),
        }
    }

    pub(crate) fn add(counter: &AtomicU64, much: u64) {
        counter.fetch_add(much, Ordering::Relaxed);
    }
}
