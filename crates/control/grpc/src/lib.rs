//! The control plane over gRPC: [`ManagerServer`] carries out what [`quincunx_control::Manager`] decides;
//! [`ControlClient`] is what a rank, a switch or an operator's tool calls.
//!
//! The client's interface is blocking, with an end to every wait: a data plane is a plain thread that polls for
//! instructions. Messages are checked as they come in; what an older or newer peer says wrongly is a one-line error.

mod address;
mod asking;
mod audit;
mod authority;
mod bereaved;
mod calls;
mod client;
mod connector;
mod convert;
mod credentials;
mod dashboard;
mod events;
mod guard;
mod identity;
mod metrics;
mod pages;
mod passed;
mod paths;
mod probe;
mod questions;
mod quota;
mod reach;
mod records;
mod relay;
mod revoked;
mod server;
mod service;
mod state;
mod status;
mod store;
mod waits;

pub use address::{AddressError, MANAGER_PORT, ManagerAddress, Managers};
pub use authority::{Authority, AuthorityError, Subject};
pub use calls::{
    Aligned, CallRecord, GroupArrivals, GroupCalls, LATENESS_BOUNDS, Lateness, Ran, RankArrivals, RankCalls,
    TimedCall,
};
pub use client::{Attachment, ClientConfig, ClientError, ControlClient, Reporter, Revocation};
pub use convert::DecodeError;
pub use credentials::{Credentials, CredentialsError};
pub use identity::Identity;
pub use pages::MetricsServer;
pub use paths::{FRAMES_OF_SIZE, NodeAnswer, NodePaths, PATH_SIZES, PathCounts};
pub use probe::Probe;
pub use quota::{Quota, Quotas};
pub use relay::AgentServer;
pub use server::{ManagerServer, ServerConfig};
pub use status::{Explanation, GroupName, GroupStatus, Holder, NodeStatus, OTHERS};
pub use store::{StoreError, StorePlace, StorePlaceError};
pub use waits::{Connection, Elsewhere, RankStanding, Reason, Waited, Waits};

/// The messages as compiled from `proto/quincunx/control/v1/control.proto`.
pub mod proto {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    include!("generated/quincunx.control.v1.rs");

    /// All of them as protobuf descriptors.
    pub const DESCRIPTORS: &[u8] = include_bytes!("generated/control.bin");
}
