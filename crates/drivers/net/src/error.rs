//! What stops a node.

use quincunx_units::Duration;
use std::net::SocketAddr;

/// What stops a node. Nothing that a peer sends does.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A frame could not be sent, for a reason that will not pass.
    #[error(
        "expected to send a frame of {length} bytes to {destination}, found \"{error}\"; keep frames within the link's MTU \
         (of UDP, 28 bytes go to IP and UDP)"
    )]
    Send {
        /// Receiver.
        destination: SocketAddr,
        /// UDP payload.
        length: usize,
        /// What the system said.
        error: std::io::Error,
    },
    /// The socket no longer works.
    #[error("expected to receive at {local}, found \"{error}\"; look whether the interface is still there")]
    Receive {
        /// The node's address.
        local: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// The kernel would not let the node wait.
    #[error(
        "expected to wait for datagrams at {local}, found \"{error}\"; look at the limits of the process"
    )]
    Wait {
        /// The node's address.
        local: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// What was waited for did not happen.
    #[error("expected an event at {local} within {} s, found none; look whether the peers run", limit.as_secs_f64())]
    TimedOut {
        /// The node's address.
        local: SocketAddr,
        /// How long was waited.
        limit: Duration,
    },
}
