//! The control plane over gRPC: [`ManagerServer`] carries out what [`quincunx_control::Manager`] decides;
//! [`ControlClient`] is what a rank, a switch or an operator's tool calls.
//!
//! The client's interface is blocking, with an end to every wait: a data plane is a plain thread that polls for
//! instructions. Messages are checked as they come in; what an older or newer peer says wrongly is a one-line error.

mod client;
mod convert;
mod server;

pub use client::{Attachment, ClientConfig, ClientError, ControlClient, NodeStatus};
pub use convert::DecodeError;
pub use server::{ManagerServer, ServerConfig};

/// The messages as compiled from `proto/quincunx/control/v1/control.proto`.
pub mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    tonic::include_proto!("quincunx.control.v1");
}
