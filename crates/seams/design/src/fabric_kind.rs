//! What a design may run on.

/// Kinds of fabrics that designs run on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FabricKind {
    /// Hosts at the leaves of a tree of Ethernet switches.
    Tree,
    /// Hosts in a ring, each joined to the next one and to the one before.
    Ring,
    /// Hosts joined each with each, in domains.
    Mesh,
    /// The same, but a network lies between the domains.
    Servers,
    /// Accelerators around switches that read and write each other's memory.
    Memory,
    /// Accelerators joined each with each that write to each other's memory.
    MemoryMesh,
}

impl FabricKind {
    /// Whether ranks speak with each other by queue pairs there; otherwise accelerators issue reads and writes by themselves.
    pub const fn has_queue_pairs(self) -> bool {
        !matches!(self, Self::Memory)
    }
}
