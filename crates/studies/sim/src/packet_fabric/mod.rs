//! Hosts and Ethernet switches, packet by packet: the engines that run on real sockets, on links in virtual time.
//!
//! ```
//! use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
//! use quincunx_designs::CATALOG;
//! use quincunx_scenario::Scenario;
//! use quincunx_sim::packet_fabric::simulate;
//! use quincunx_sim::{Contents, Request};
//! use quincunx_units::ByteCount;
//!
//! let scenario = Scenario::find("epic-star8", &[], CATALOG)?;
//! let row = simulate(&Request {
//!     design: scenario.design(CATALOG, "epic-3")?,
//!     scenario,
//!     collective: Collective::AllReduce,
//!     reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
//!     size: ByteCount::new(64 << 10),
//!     contents: Contents::Numbers,
//!     background: None,
//!     seed: 1,
//! })?;
//! assert_eq!(row.wrong, Some(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`simulate`] carries out a [`Request`](crate::Request) on trees, rings, meshes and servers; [`Row`] is its result.
//! - [`SimulatedGroup`] is what [`simulate`] is made of, for owners that want several collectives in a row, an observer, or
//!   background traffic that comes and goes. Who is where, and what each is told, `quincunx-cluster` says.

mod build;
mod data;
mod error;
mod experts;
mod group;
mod medium;
mod observer;
mod recorder;
mod retransmissions;
mod row;
mod simulate;
mod tracer;
mod traffic;

pub(crate) use build::Built;
pub use data::Data;
pub(crate) use data::lengths;
pub use error::SimulationError;
pub use group::{Finished, SimulatedGroup};
pub use medium::{RoceMedium, Surroundings};
pub(crate) use observer::OutputObserver;
pub(crate) use retransmissions::Retransmissions;
pub use row::{LinkUse, Row};
pub(crate) use simulate::counts;
pub use simulate::{simulate, simulate_with_outputs};
pub(crate) use traffic::stamp;
