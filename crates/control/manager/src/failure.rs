//! Why a group is over.

use alloc::string::String;
use core::fmt;

/// Who made a group fail, and how.
#[derive(Clone, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("{}", Line(self))]
pub struct GroupFailure {
    /// The node at fault, or the one that noticed.
    pub node: String,
    /// One line.
    pub reason: String,
}

impl GroupFailure {
    /// Whether nothing is broken, and ranks have called different collectives: then the reason is a line of its own. It is told by its words,
    /// which nodes and records of any version have.
    pub fn is_disagreement(&self) -> bool {
        self.reason.starts_with(DISAGREEMENT)
    }
}

struct Line<'a>(&'a GroupFailure);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupFailure { node, reason } = self.0;
        match self.0.is_disagreement() {
            true => f.write_str(reason),
            false => write!(f, "node \"{node}\": {reason}"),
        }
    }
}

/// How the reason of a group begins whose ranks did not call the same.
pub(crate) const DISAGREEMENT: &str = "expected all ranks of group";
