//! What is wrong with a scenario, in one line that names the key.

/// Why a scenario is refused, before anything runs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Neither a preset nor a file.
    #[error("expected {what}: {known}, or a file; found \"{found}\"")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// What there is.
        known: String,
        /// The name as given.
        found: String,
    },
    /// A file that cannot be read.
    #[error("expected to read {path}, found \"{error}\"; look at the path and its permissions")]
    Unreadable {
        /// The path as given.
        path: String,
        /// What the system said.
        error: String,
    },
    /// A text that is no TOML.
    #[error("expected TOML in {place}, found {error}; correct that")]
    Syntax {
        /// File or preset.
        place: String,
        /// What the parser said, on one line.
        error: String,
    },
    /// A key that does not belong there, or a value that is not its kind.
    #[error("{place}: {error}")]
    Key {
        /// File, preset or override.
        place: String,
        /// What was expected and found, and the path of the key.
        error: String,
    },
    /// A line of a file that contradicts the fabric or itself.
    #[error("{path}:{line}: expected {expected}, found {found}; {remedy}")]
    Line {
        /// The file.
        path: String,
        /// Counted from one.
        line: usize,
        /// What would have been right.
        expected: String,
        /// What there is.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// An override that is none.
    #[error("expected --set key=value such as link.rate=200Gbit/s, found \"{found}\"")]
    Override {
        /// The text as given.
        found: String,
    },
    /// Values that do not go together.
    #[error("{place}: expected {expected}, found {found}; {remedy}")]
    Contradiction {
        /// File or preset.
        place: String,
        /// What would have been right.
        expected: String,
        /// What there is.
        found: String,
        /// What to do.
        remedy: String,
    },
}
