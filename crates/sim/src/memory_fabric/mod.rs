//! Collectives on a memory fabric: accelerators, each with a link to every switch (SCIN 4.1).
//!
//! [`MemoryFabric`] says what the fabric is, with presets for the papers' set-ups; [`run`] runs a collective on it by
//! one of the [`Design`]s, over real numbers or lengths alone, and says how long it took, [`run_watched`] writes every packet,
//! too. [`expected`] says what must come out.

mod build;
mod expected;
mod medium;
mod run;
mod setup;
mod shape;
mod tracer;
mod traffic;
mod watch;

pub(crate) use build::Built;
pub use expected::expected;
pub use medium::FlitMedium;
pub use run::{Outcome, RunError, run, run_watched};
pub use setup::{Design, IsaSetup, MemoryFabric};
