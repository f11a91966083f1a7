//! What can go wrong, each on one line.

use quincunx_control_grpc::ClientError;
use quincunx_design::Refusal;
use quincunx_runtime::RuntimeError;

/// Why a call did not succeed. It can be cloned: everything that was under way in a group that has failed gets the same.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommError {
    /// The call makes no sense; nothing has changed.
    #[error("{0}")]
    Misuse(String),
    /// The group is of no use any more: a rank has died, or has not answered.
    #[error("{0}")]
    Group(String),
    /// The endpoint is of no use any more, and with it all its groups.
    #[error("{0}")]
    Endpoint(String),
    /// Time is up; the group is of no use any more.
    #[error("{0}")]
    TimedOut(String),
}

impl CommError {
    /// A misuse: what was expected, what was found, what to do.
    pub(crate) fn misuse(expected: impl AsRef<str>, found: impl AsRef<str>, remedy: &str) -> Self {
        Self::Misuse(format!("expected {}, found {}; {remedy}", expected.as_ref(), found.as_ref()))
    }

    /// Nothing can be asked of an endpoint that its owner has closed.
    pub(crate) fn closed() -> Self {
        Self::Endpoint("expected an endpoint that runs, found it closed; attach again".into())
    }

    /// What was under way in a group that this rank has given up.
    pub(crate) fn aborted() -> Self {
        Self::Group(
            "expected the end of a collective, found its group aborted by this rank; make another group"
                .into(),
        )
    }

    /// Nor of one of the process that has forked this one: its thread is there.
    pub(crate) fn forked() -> Self {
        Self::Endpoint(
            "expected a call by the process that attached, found a child that it has forked; attach again in the child".into(),
        )
    }

    /// The same of one whose thread has met a fault of its own.
    pub(crate) fn fault() -> Self {
        Self::Endpoint(
            "expected an endpoint that runs, found a fault of it, which is printed on standard error; report it, and attach again".into(),
        )
    }
}

impl From<RuntimeError> for CommError {
    fn from(error: RuntimeError) -> Self {
        let text = error.to_string();
        match error {
            RuntimeError::GroupFailed { .. }
            | RuntimeError::PeerFailed { .. }
            | RuntimeError::Disagreement(_)
            | RuntimeError::Corrupted { .. } => Self::Group(text),
            RuntimeError::TimedOut { .. } => Self::TimedOut(text),
            RuntimeError::Rejected(_) => Self::Misuse(text),
            RuntimeError::Open(_)
            | RuntimeError::Link { .. }
            | RuntimeError::Cores { .. }
            | RuntimeError::CoreEnded { .. }
            | RuntimeError::Name(_)
            | RuntimeError::Node(_)
            | RuntimeError::Device(_)
            | RuntimeError::Control(_)
            | RuntimeError::Hardware(_)
            | RuntimeError::Capture { .. } => Self::Endpoint(text),
        }
    }
}

impl From<ClientError> for CommError {
    fn from(error: ClientError) -> Self {
        Self::Endpoint(error.to_string())
    }
}

impl From<Refusal> for CommError {
    fn from(refusal: Refusal) -> Self {
        Self::Misuse(refusal.to_string())
    }
}
