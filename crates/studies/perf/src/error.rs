//! Why a run cannot be launched, and what ends a rank process early.

use quincunx_comm::CommError;
use quincunx_control_grpc::{AuthorityError, ClientError};
use quincunx_netns::NetnsError;
use quincunx_runtime::RuntimeError;
use std::fmt;

/// Why the processes cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The namespaces.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Certificates.
    #[error(transparent)]
    Certificates(#[from] AuthorityError),
    /// Their files.
    #[error("expected to write certificates to {path}, found \"{error}\"; make room there, or set TMPDIR")]
    CertificateFiles {
        /// Where.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A process.
    #[error("expected to start {what}, found \"{error}\"; see whether the program is still where it was")]
    Spawn {
        /// Which.
        what: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The manager.
    #[error(
        "expected the manager to say where it listens, found \"{found}\"; start `quincunx manager` by hand to see why"
    )]
    Manager {
        /// What it said.
        found: String,
    },
}

/// What ends a rank process early.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its node, its group or the manager.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The library that programs use.
    #[error(transparent)]
    Library(#[from] CommError),
    /// The manager.
    #[error(transparent)]
    Control(#[from] ClientError),
    /// The plan.
    #[error("expected a plan that makes sense, found {0}; use the same build for all processes")]
    Plan(String),
    /// Nobody listens to the results.
    #[error("expected to print results, found \"{0}\"; keep the parent process running")]
    Output(#[from] std::io::Error),
}

impl WorkerError {
    pub(crate) fn plan(error: &dyn fmt::Display) -> Self {
        Self::Plan(error.to_string())
    }
}
