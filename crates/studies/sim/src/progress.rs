//! How far a run has come, and whether it goes on.

use quincunx_units::Instant;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Steps between two reports of progress: some tenths of a second.
pub(crate) const STEPS_A_REPORT: u64 = 1 << 20;

/// How far a run has come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// Virtual time.
    pub now: Instant,
    /// Steps so far.
    pub steps: u64,
    /// The share of the work that is done, from 0 to 1; none where nobody can say.
    pub share: Option<f64>,
}

/// A function that is told from time to time how far a run has come, and says whether it goes on.
pub type ProgressFn<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Lets a run go on to its end.
pub fn ignore_progress(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Lets a run go on to its end, unless it is stopped from elsewhere.
pub(crate) fn unless(stop: &AtomicBool) -> impl FnMut(Progress) -> ControlFlow<()> {
    |_| if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
