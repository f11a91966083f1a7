//! Why a simulation gives no row.

use crate::session::Interrupted;
use quincunx_engine::verbs::Outcome;
use quincunx_units::Duration;

/// Why a simulation gives no row. All on one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// The scenario has a value that the design does not take, or the design refuses the fabric.
    #[error(transparent)]
    Cluster(#[from] quincunx_cluster::ClusterError),
    /// The design refuses what a node is told, or it is for another kind of fabric.
    #[error(transparent)]
    Refused(#[from] quincunx_design::Refusal),
    /// Traffic has no way.
    #[error(
        "expected a fabric with switches for traffic, found nodes that are joined directly; choose a tree such as star-8"
    )]
    NoWay,
    /// Traffic has nowhere to go.
    #[error(
        "expected two hosts or more for traffic, found one; choose a larger tree such as star-8 as `topology`"
    )]
    OneHost,
    /// Whoever watches has stopped it.
    #[error(transparent)]
    Stopped(#[from] Interrupted),
    /// A vector that does not split over the ranks.
    #[error("expected a size that splits into {ranks} parts of whole elements, found {size} bytes; round it")]
    Parts {
        /// Ranks in the group.
        ranks: u16,
        /// The size.
        size: u64,
    },
    /// An accelerator of a mesh refuses a collective.
    #[error(transparent)]
    Request(#[from] quincunx_engine::verbs::RequestError),
    /// A node refuses an order.
    #[error(transparent)]
    Rejected(#[from] quincunx_nodes::NodeRejected),
    /// A rank's collective failed.
    #[error(
        "expected every rank to finish, found {outcome:?} at rank {rank} after {after}; allow more retries or lose less"
    )]
    Failed {
        /// Which rank.
        rank: u16,
        /// How.
        outcome: Outcome,
        /// When.
        after: Duration,
    },
    /// Not all ranks finished.
    #[error(
        "expected every rank to finish, found {unfinished} of {ranks} still running after {after}; raise the limit or the window"
    )]
    Unfinished {
        /// Ranks that had not finished.
        unfinished: u16,
        /// Ranks in the group.
        ranks: u16,
        /// When the run ended: nothing was due any more, or the limit was reached.
        after: Duration,
    },
    /// Not all ranks finished, and links were paused when the run ended.
    #[error(
        "expected every rank to finish, found {unfinished} of {ranks} still running after {after} and {links} paused; raise the thresholds of congestion.pause, or the limit"
    )]
    Paused {
        /// Ranks that had not finished.
        unfinished: u16,
        /// Ranks in the group.
        ranks: u16,
        /// When the run ended: nothing was due any more, or the limit was reached.
        after: Duration,
        /// The directions.
        links: String,
    },
    /// The trace or the capture cannot be written.
    #[error("expected to write every frame, found \"{0}\"; look at the place and its free space")]
    Output(String),
}

impl SimulationError {
    pub(crate) fn output(error: std::io::Error) -> Self {
        Self::Output(error.to_string())
    }
}
