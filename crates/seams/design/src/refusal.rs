//! Why a design cannot do what it is asked for.

use alloc::format;
use alloc::string::{String, ToString};
use core::error::Error;
use core::fmt::{self, Display};

/// Why a design refuses parameters or a placement, in one line: what was expected, what was found, what to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal of its three parts.
    pub fn new(expected: impl Display, found: impl Display, remedy: impl Display) -> Self {
        Self(format!("expected {expected}, found {found}; {remedy}"))
    }

    /// Two versions of a design's parameters that do not meet, each with whose it is: ours is expected. It says which is older, for that one is
    /// to be upgraded.
    pub fn of_versions(design: &str, (us, ours): (&str, u32), (them, theirs): (&str, u32)) -> Self {
        let (older, newer) = if theirs < ours { (them, us) } else { (us, them) };
        Self(format!(
            "expected version {ours} of the parameters of {design}, found version {theirs}; {older} is older than {newer}: upgrade it, and run \
             the same version at both ends"
        ))
    }

    /// What an engine says of its set-up, which is such a line already.
    pub fn of(error: &impl Error) -> Self {
        Self(error.to_string())
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Refusal {}

/// A line that somebody else has said, as it is.
impl From<String> for Refusal {
    fn from(line: String) -> Self {
        Self(line)
    }
}
