//! Why a run has no outcome to compare.

use quincunx_cluster::SetUpError;
use quincunx_design::Refusal;
use quincunx_engine::verbs::Outcome;
use quincunx_nodes::NodeRejected;
use quincunx_scenario::ScenarioError;

/// Why a run has no outcome to compare.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A node refuses its part.
    #[error(transparent)]
    Rejected(#[from] NodeRejected),
    /// The design refuses the fabric or its parameters.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The design does not take a key or a value.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A fault at a node that does not exist.
    #[error("expected a node of the trial, found {found}; call it host-N or switch-N")]
    NoNode {
        /// The name as given.
        found: String,
    },
    /// A fault at a port.
    #[error("expected a fault between two nodes, found {found}; name both")]
    Port {
        /// As given.
        found: String,
    },
    /// A fault between nodes that have nothing to say to each other.
    #[error("expected two nodes that are connected, found {from} and {to}; name both ends of a connection")]
    NoConnection {
        /// The sender as given.
        from: String,
        /// The receiver as given.
        to: String,
    },
    /// The collective has failed.
    #[error("expected {rank} to end its collective, found {outcome:?}; look at the losses")]
    Failed {
        /// Who.
        rank: String,
        /// How.
        outcome: Outcome,
    },
    /// Not all ranks have come to an end.
    #[error("expected all ranks to end, found {unfinished} that had not when nothing was due or time was up")]
    Unfinished {
        /// How many.
        unfinished: usize,
    },
    /// The checker finds a run that is wrong.
    #[error("expected every run to be right, found one of {steps} steps that is not: {fault}")]
    Wrong {
        /// What is wrong with it.
        fault: String,
        /// How long it is.
        steps: usize,
    },
    /// The checker cannot look at everything.
    #[error("expected at most {most} states, found more; make the trial smaller, or list it as a gap")]
    TooLarge {
        /// As many as it looks at.
        most: u64,
    },
    /// A socket cannot be had.
    #[error(transparent)]
    Open(#[from] quincunx_sockets::OpenError),
    /// A socket failed.
    #[error(transparent)]
    Node(#[from] quincunx_driver_net::NodeError),
}

impl From<SetUpError> for RunError {
    fn from(error: SetUpError) -> Self {
        match error {
            SetUpError::Refused(refusal) => refusal.into(),
            SetUpError::Rejected(rejected) => rejected.into(),
        }
    }
}
