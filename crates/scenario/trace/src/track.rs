//! Lines of a trace.

/// A line of the trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Track(pub(crate) u64);
