//! Why a file makes no fabric.

/// What was expected, what was found, where, and what to do: one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}; {remedy}")]
pub struct ImportError {
    pub(crate) place: String,
    pub(crate) expected: String,
    pub(crate) found: String,
    pub(crate) remedy: String,
}
