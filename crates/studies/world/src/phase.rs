//! How far a run has come: faults, and then how all ends.

use quincunx_units::Instant;

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Faults,
    /// Since when.
    Recovers(Instant),
    Drains(Instant),
    /// A job runs alone.
    Alone(usize, Instant),
    Forgets(Instant),
    Over,
}

impl Phase {
    pub(crate) const fn is_closing(self) -> bool {
        matches!(self, Self::Drains(_) | Self::Alone(..) | Self::Forgets(_) | Self::Over)
    }
}
