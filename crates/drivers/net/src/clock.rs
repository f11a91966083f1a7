//! What time it is at a node.

use quincunx_units::{Duration, Instant};

/// The node's clock.
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    /// The machine's: monotonic, zero when the node was made.
    Machine(std::time::Instant),
    /// One that is turned by hand: it says this until it is turned.
    Hand(Instant),
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self::Machine(std::time::Instant::now())
    }

    pub(crate) fn now(self) -> Instant {
        match self {
            Self::Machine(start) => {
                let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                Instant::ZERO + Duration::from_nanos(nanos)
            }
            Self::Hand(now) => now,
        }
    }
}
