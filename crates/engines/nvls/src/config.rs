//! What the multicast unit is set up with.

use crate::Mutation;
use quincunx_collective::Reduction;
use quincunx_wire::flit::{FlitFormat, NodeId};

/// What the unit is set up with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MulticastConfig {
    /// The switch that it is in.
    pub node: NodeId,
    /// Members of the region: the accelerators below this number, one a port.
    pub members: u16,
    /// Reduced loads, and stores, that it has room for at once; others wait in the buffers of their ports.
    pub entries: u16,
    /// Addresses that it adds up at once what is pushed to; with none it takes no pushes. What is pushed to others waits in the buffers of its port.
    pub sums: u16,
    /// How packets are cut.
    pub format: FlitFormat,
    /// What it does with what it loads.
    pub reduction: Reduction,
    /// A rule to break, for the checker alone.
    pub mutation: Option<Mutation>,
}
