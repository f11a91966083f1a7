//! Collectives on a memory fabric: accelerators, each with a link to every switch (SCIN 4.1).
//!
//! [`MemoryFabric`] says what the fabric is; the papers' are presets of scenarios; [`run`] runs a collective on it by
//! a [design](quincunx_design::Design), over real numbers or lengths alone, and says how long it took, [`run_with_outputs`] writes every
//! packet, too, and [`run_streams`] runs several side by side. [`expected`] says what must come out.

mod build;
mod error;
mod measure;
mod medium;
mod mesh;
mod observer;
mod run;
mod setup;
mod shape;
mod stream;
mod tracer;
mod traffic;

pub(crate) use build::Built;
pub use error::RunError;
pub(crate) use measure::{measure, wrong_elements};
pub use medium::FlitMedium;
pub(crate) use mesh::simulate_memory_mesh;
pub(crate) use observer::OutputObserver;
pub use quincunx_cluster::{Stream, expected};
pub use run::{Outcome, Timing, run, run_streams, run_with_outputs};
pub use setup::MemoryFabric;
