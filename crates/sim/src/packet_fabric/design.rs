//! How a collective is carried out on hosts and switches.

use quincunx_control as control;
use std::fmt;
use std::str::FromStr;

/// How a collective is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Design {
    /// By a group as the manager sets it up.
    Managed(control::Design),
    /// By hosts that relay for each other: an AllGather over MultiWrite.
    MultiWrite,
}

impl From<control::Design> for Design {
    fn from(design: control::Design) -> Self {
        Self::Managed(design)
    }
}

impl FromStr for Design {
    type Err = control::ParseDesignError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name == "multiwrite" { Ok(Self::MultiWrite) } else { name.parse().map(Self::Managed) }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed(design) => design.fmt(f),
            Self::MultiWrite => f.pad("multiwrite"),
        }
    }
}
