//! What a command comes to that is not done.

/// What a command came to.
pub(crate) enum Failure {
    /// A wrong result.
    Wrong(String),
    /// Bad arguments or input, or no way to do what was asked.
    Input(String),
    /// An interrupt, which ended it before all was done.
    Interrupted(String),
}

impl Failure {
    /// What a room could not do, in its own words.
    pub(crate) fn input(error: impl std::fmt::Display) -> Self {
        Self::Input(error.to_string())
    }

    /// What it was.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Wrong(message) | Self::Input(message) | Self::Interrupted(message) => message,
        }
    }

    /// Nothing, if all rows are there; otherwise what was `running` when an interrupt ended the rest.
    pub(crate) fn unless_all(rows: usize, found: usize, running: &[String]) -> Result<(), Self> {
        if found == rows {
            return Ok(());
        }
        let at =
            if running.is_empty() { "between two runs".into() } else { format!("in {}", running.join(", ")) };
        Err(Self::Interrupted(format!(
            "expected {rows} row{}, found an interrupt after {found}; stopped {at}",
            if rows == 1 { "" } else { "s" }
        )))
    }
}
