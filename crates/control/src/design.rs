//! How a group's collectives are carried out.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use quincunx_fabric::Mode;

/// A collective among hosts alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HostDesign {
    /// Each rank sends to the next.
    Ring,
    /// Ranks form a tree.
    Tree,
    /// Each rank sends to each other.
    Direct,
}

/// What hosts of a full mesh do with each other's memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MeshDesign {
    /// An AllGather: part of the data goes over relays, once for all who are to have it (MultiWrite 3.1).
    MultiWrite,
    /// An AllGather: part of the data goes over relays, once for each who is to have it.
    Unicast,
    /// What the application writes, to one rank or several (MultiWrite 4.3.2).
    Writes,
}

/// What a group runs: `epic-1`, `epic-2`, `epic-3`, `ring`, `tree`, `direct`, `multiwrite`, `unicast-multipath` or `writes`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Design {
    /// In the network.
    Epic(Mode),
    /// Among the hosts.
    Host(HostDesign),
    /// Among the hosts of a full mesh.
    Mesh(MeshDesign),
}

/// Why a text names no design.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "expected a design: epic-1, epic-2, epic-3, ring, tree, direct, multiwrite, unicast-multipath or writes; found \"{found}\""
)]
pub struct ParseDesignError {
    /// The text as it was given.
    pub found: String,
}

impl Design {
    /// All designs with their names.
    const NAMES: [(&'static str, Self); 9] = [
        ("epic-1", Self::Epic(Mode::I)),
        ("epic-2", Self::Epic(Mode::II)),
        ("epic-3", Self::Epic(Mode::III)),
        ("ring", Self::Host(HostDesign::Ring)),
        ("tree", Self::Host(HostDesign::Tree)),
        ("direct", Self::Host(HostDesign::Direct)),
        ("multiwrite", Self::Mesh(MeshDesign::MultiWrite)),
        ("unicast-multipath", Self::Mesh(MeshDesign::Unicast)),
        ("writes", Self::Mesh(MeshDesign::Writes)),
    ];
}

impl FromStr for Design {
    type Err = ParseDesignError;

    fn from_str(text: &str) -> Result<Self, ParseDesignError> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|&(_, design)| design).ok_or_else(|| ParseDesignError { found: text.to_string() })
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) =
            Self::NAMES.iter().find(|(_, design)| design == self).expect("every design has a name");
        f.pad(name)
    }
}
