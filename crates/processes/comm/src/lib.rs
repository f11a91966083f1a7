//! Collectives for an application's program. An [`Endpoint`] attaches a process to a manager and keeps a thread that answers the network
//! while the program computes; [`Group`]s of ranks run collectives and send each other messages, several under way at once, each
//! with a [`Handle`] to wait for.
//!
//! Data lies in buffers that the node keeps, and is copied between those and the application's in chunks: the next one while the one
//! before is exchanged (EPIC I.1). [`Counts`] says what share of the time that takes.
//!
//! ```no_run
//! use quincunx_comm::{CommError, Endpoint, Options, ReduceOp};
//! use quincunx_design::Catalog;
//!
//! fn sum_of_all(catalog: Catalog, values: &mut [f32]) -> Result<(), CommError> {
//!     let endpoint = Endpoint::attach(catalog, Options::from_environment()?)?;
//!     let world = endpoint.world()?;
//!     world.all_reduce(values, ReduceOp::Sum)?;
//!     endpoint.close()
//! }
//! ```

mod buffers;
mod counts;
mod element;
mod endpoint;
mod error;
mod experts;
mod group;
mod handle;
mod job;
mod joining;
mod launched;
mod notice;
mod options;
mod peers;
mod traffic;
mod worker;

pub use buffers::{BorrowedSink, BorrowedSource, Nothing, Sink, Source};
pub use counts::Counts;
pub use element::Numeric;
pub use endpoint::Endpoint;
pub use error::CommError;
pub use experts::{Arrival, Dispatch, ExpertLayout, Experts, Receiver, TokenBatch};
pub use group::{Buffers, Group, Operation};
pub use handle::Handle;
pub use options::{Options, deadline, duration};
pub use quincunx_collective::{DataType, Op, ParseNameError, ReduceOp};
pub use quincunx_control::Place;
pub use quincunx_control_grpc::Waits;
pub use quincunx_driver_net::Traffic;
pub use quincunx_runtime::CallSite;
pub use traffic::EndpointTraffic;
