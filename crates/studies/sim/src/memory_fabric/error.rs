//! Why a memory fabric gives nothing.

use crate::session::Interrupted;
use quincunx_collective::Collective;
use quincunx_design::Refusal;
use quincunx_nodes::fabric::FabricRejected;

/// Why a run has given nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// The design cannot do that on this fabric.
    #[error(transparent)]
    Design(#[from] Refusal),
    /// The collective cannot be done so.
    #[error(transparent)]
    Rejected(#[from] FabricRejected),
    /// A collective that no design has in a vector that all ranks share.
    #[error("expected a collective of whole vectors, found {0}; take servers such as two-servers for it")]
    Routed(Collective),
    /// Traffic has nowhere to go.
    #[error("expected two `accelerators` or more for traffic, found one; add some")]
    OneAccelerator,
    /// Whoever watches has stopped it.
    #[error(transparent)]
    Stopped(#[from] Interrupted),
    /// Nothing more happens, and the collective is not over.
    #[error(
        "expected {expected} accelerators to finish, found {found} when nothing more could happen; this is a fault of the protocol"
    )]
    Stalled {
        /// Accelerators.
        expected: u16,
        /// Of them, those that did.
        found: u16,
    },
    /// Several streams whose accelerators load, store or add: an accelerator has one fence.
    #[error(
        "expected at most one stream beside those that run in the switches, found {0}; run the others by themselves"
    )]
    Streams(usize),
    /// Streams that add differently: what computes in a switch adds in one way.
    #[error(
        "expected streams of one operation and one type of elements, found several; run them by themselves"
    )]
    Reductions,
    /// The trace or the capture cannot be written.
    #[error("expected to write every packet, found \"{0}\"; look at the place and its free space")]
    Output(String),
}

impl RunError {
    pub(crate) fn output(error: std::io::Error) -> Self {
        Self::Output(error.to_string())
    }
}
