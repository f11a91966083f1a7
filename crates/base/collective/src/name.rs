//! Reading the names that people type for collectives, operations and element types.

use alloc::string::{String, ToString};

/// Why a text is none of the names that were asked for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of {expected}, found \"{found}\"")]
pub struct ParseNameError {
    /// The names there are.
    pub expected: &'static str,
    /// The text as it was given.
    pub found: String,
}

/// The value called `found`.
pub(crate) fn find<T: Copy>(
    table: &[(&str, T)],
    expected: &'static str,
    found: &str,
) -> Result<T, ParseNameError> {
    let entry = table.iter().find(|(name, _)| *name == found);
    entry.map(|(_, value)| *value).ok_or_else(|| ParseNameError { expected, found: found.to_string() })
}
