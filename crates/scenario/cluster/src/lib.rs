//! From a scenario to nodes, links and what each node is told of a group: once, for the simulator, the checker and the tests of all
//! drivers.
//!
//! - [`Wiring`] has nodes, and links between their ports: a tree, a fabric with several ways, a ring, a mesh, servers with a network
//!   between, or whatever its owner builds.
//! - [`Cluster`] is groups on a wiring. The design plans each, as it does for the manager; addresses, queue-pair numbers, routes and, where
//!   there are several ways, the links that a tree keeps to are given out here. A driver asks for the [`commands`](Cluster::commands) of each node, or for nodes with all of them carried out.
//! - [`ManagedCluster`] has groups of some of the hosts each, made by the manager's own code.
//! - [`MemoryLayout`] is the same for streams of collectives on a memory fabric: what its accelerators and switches are set up with.
//!
//! Nothing here runs a node, and nothing knows a design by name.

mod cluster;
mod embedding;
mod install;
mod managed;
mod memory;
mod rank_placement;
mod scenario;
mod wiring;

pub use cluster::{Cluster, GroupSpec, address};
pub use install::{Ports, SetUpError};
pub use managed::{MadeGroup, ManagedCluster, ManagedSetup};
pub use memory::{EARLY_WRITE_RESPONSE, MemoryLayout, MemorySetup, Stream, expected, unit_of};
pub use scenario::{ClusterError, demand, token_length};
pub use wiring::{NodeIndex, Wiring, WiringEnd, WiringLink, WiringNode};
