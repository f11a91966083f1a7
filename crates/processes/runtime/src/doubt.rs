//! A group that is said to be broken, until the manager has said what becomes of it: that it is over, or is made anew, or that its ranks have
//! called different collectives, and nothing is broken at all.

use quincunx_collective::{Collective, GroupId};
use quincunx_control::{GroupFailure, Report};
use quincunx_engine::verbs::Failure;
use std::time::{Duration, Instant};

use crate::process::RuntimeError;

/// How long the manager has for that.
const VERDICT: Duration = Duration::from_secs(2);

/// What a rank finds wrong by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A queue pair failed.
    Peer {
        /// Who is at its other end.
        peer: String,
        /// How it failed.
        failure: Failure,
    },
    /// A result does not agree with its checksum.
    Corrupted {
        /// Whose.
        rank: u16,
        /// Of what.
        collective: Collective,
    },
}

/// A fault that the manager has been told of, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Suspicion {
    pub(crate) since: Instant,
    pub(crate) fault: Fault,
}

/// Why a group is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// As the manager has said.
    FromManager(GroupFailure),
    /// By what this rank has found.
    Found(Fault),
}

impl Suspicion {
    /// Whether the manager has had its time.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > VERDICT
    }

    /// What the manager is told.
    pub(crate) fn report(&self) -> Report {
        match &self.fault {
            Fault::Peer { peer, failure } => {
                Report::DataPlaneFailed { reason: format!("the queue pair to {peer} failed: {failure}") }
            }
            Fault::Corrupted { rank, collective } => Report::Corrupted {
                reason: format!("the result of {collective} at rank {rank} does not agree with its checksum"),
            },
        }
    }
}

impl End {
    pub(crate) fn error(&self, group: GroupId) -> RuntimeError {
        let group = group.0;
        match self.clone() {
            Self::FromManager(failure) if failure.is_disagreement() => {
                RuntimeError::Disagreement(failure.reason)
            }
            Self::FromManager(GroupFailure { node, reason }) => {
                RuntimeError::GroupFailed { group, node, reason }
            }
            Self::Found(Fault::Peer { peer, failure }) => RuntimeError::PeerFailed { peer, failure },
            Self::Found(Fault::Corrupted { collective, .. }) => RuntimeError::Corrupted { group, collective },
        }
    }
}
