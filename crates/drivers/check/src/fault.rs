//! What is wrong with a run.

use crate::system::NodeId;

/// What is wrong with a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An engine has panicked: an assertion of its own, or an invariant.
    Panic {
        /// Where.
        node: NodeId,
        /// What it said.
        message: String,
    },
    /// A node's owner was told something wrong.
    Wrong {
        /// Where.
        node: NodeId,
        /// What is wrong.
        message: String,
    },
    /// A node refused what its owner asked for.
    Refused {
        /// Where.
        node: NodeId,
        /// Why.
        message: String,
    },
    /// A node sends without end while nothing arrives.
    Endless {
        /// Where.
        node: NodeId,
    },
    /// Two cases that the system calls symmetric differ: explore without symmetries.
    Asymmetry {
        /// Where.
        node: NodeId,
    },
    /// Nothing can happen any more, and somebody has not got what it wanted.
    Stuck,
    /// Whatever happens, the end is not reached any more.
    Livelock,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Panic { message, .. } => write!(f, "an engine panics: {message}"),
            Self::Wrong { message, .. } | Self::Refused { message, .. } => write!(f, "{message}"),
            Self::Endless { .. } => write!(f, "a node sends without end while nothing arrives"),
            Self::Asymmetry { .. } => {
                write!(f, "two cases that were called symmetric differ; explore without symmetries")
            }
            Self::Stuck => write!(f, "nothing can happen any more, and not everybody is done"),
            Self::Livelock => write!(f, "from here on the end is never reached, whatever happens"),
        }
    }
}
