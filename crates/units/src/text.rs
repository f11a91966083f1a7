//! Reading and printing units as people write them.

/// Why a text is not the unit that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected {expected}, found \"{found}\"")]
pub struct ParseUnitError {
    /// What would have been right, with an example.
    pub expected: &'static str,
    /// The text as it was given.
    pub found: alloc::string::String,
}
