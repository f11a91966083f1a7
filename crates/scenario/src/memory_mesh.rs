//! A full mesh of accelerators on a memory fabric, in groups that gather each for itself, and relay for each other (MultiWrite 3.1).

use crate::fabric::Contradiction;
use crate::{MemoryLink, RelaySetup};
use quincunx_units::ByteCount;
use serde::Deserialize;

/// Messages are shorter: packets say their length in 24 bits.
const LONGEST_MESSAGE: ByteCount = ByteCount::new(1 << 24);

/// Accelerators that are joined each with each, without switches, and write to each other's memory.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryMeshFabric {
    /// What it is, in a line.
    pub summary: Option<String>,
    /// Groups; each runs the collective for itself.
    pub groups: u16,
    /// Accelerators in a group.
    pub members: u16,
    /// Every link.
    pub link: MemoryLink,
    /// Relays.
    pub relay: RelaySetup,
}

impl MemoryMeshFabric {
    /// Accelerators.
    pub fn ranks(&self) -> u16 {
        self.groups.saturating_mul(self.members)
    }

    pub(crate) fn check(&self) -> Result<(), Contradiction> {
        if self.relay.piece >= LONGEST_MESSAGE {
            let found = self.relay.piece.to_string();
            return Err(("a `relay.piece` below 16 MiB", found, "a packet has no more bits for its length"));
        }
        self.link.check()?;
        self.relay.check(self.groups, self.members)
    }
}
