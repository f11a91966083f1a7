//! How far a rank's collective has come: none, one, or none ever again.

use quincunx_engine::verbs::{Failure, Outcome, QpIndex, RequestError};

/// `R` is the progress of one that runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State<R> {
    /// None runs.
    Idle,
    /// One runs.
    Running(R),
    /// One has failed, and the group with it.
    Failed,
}

impl<R> State<R> {
    /// Whether a collective can begin.
    pub(crate) fn check_idle(&self) -> Result<(), RequestError> {
        match self {
            Self::Idle => Ok(()),
            Self::Running(_) => Err(RequestError::Busy),
            Self::Failed => Err(RequestError::GroupFailed),
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        matches!(self, Self::Failed)
    }

    /// Ends the group; the outcome of the collective that ran, if one did.
    pub(crate) fn fail(&mut self, qp: QpIndex, failure: Failure) -> Option<Outcome> {
        let was_running = matches!(self, Self::Running(_));
        *self = Self::Failed;
        was_running.then_some(Outcome::Failed { qp, failure })
    }
}
