//! Hosts and Ethernet switches, packet by packet: the engines that run on real sockets, on links in virtual time.
//!
//! ```
//! use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
//! use quincunx_sim::packet_fabric::{Case, Contents, Setup, simulate};
//! use quincunx_units::ByteCount;
//!
//! let case = Case {
//!     design: "epic-3".parse()?,
//!     collective: Collective::AllReduce,
//!     reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
//!     size: ByteCount::new(64 << 10),
//!     contents: Contents::Numbers,
//!     seed: 1,
//! };
//! let row = simulate(&Setup::preset("epic-star8")?, &case)?;
//! assert_eq!(row.wrong, Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Setup`] is the fabric and how groups are set up on it; the papers' are presets of scenarios ([`Setup::preset`]).
//! - [`Case`] is one measurement, [`Row`] its result.
//! - [`Mesh`] is a fabric without switches, for MultiWrite; [`MeshCase`] and [`simulate_mesh`] are the same for it.
//! - [`Servers`] are meshes with a network between them, for dispatches to experts and what comes back; [`ExpertsCase`] and
//!   [`simulate_experts`]. Both are [`Accelerators`].
//! - [`Group`] is what [`simulate`] is made of, for owners that want several collectives in a row, an observer, or
//!   background traffic that comes and goes.

mod accelerators;
mod build;
mod data;
mod design;
mod error;
mod group;
mod lines;
mod medium;
mod mesh;
mod recorder;
mod relays;
mod row;
mod servers;
mod setup;
mod simulate;
mod tracer;
mod traffic;
mod watch;

pub use accelerators::{Accelerators, MeshRow};
pub(crate) use build::Built;
pub use data::Data;
pub(crate) use data::lengths;
pub use design::Design;
pub use error::SimulationError;
pub use group::{Finished, Group};
pub use medium::{Framing, RoceMedium};
pub use mesh::{Mesh, MeshCase, simulate_mesh};
pub use recorder::Recorder;
pub use row::{LinkUse, Row};
pub use servers::{ExpertsCase, Servers, simulate_experts};
pub use setup::{
    Background, Case, Composition, Congestion, Contents, Counted, Fabric, HostPieces, LossyLinks, Setup,
};
pub use simulate::{simulate, simulate_watched};
pub use tracer::Tracer;
