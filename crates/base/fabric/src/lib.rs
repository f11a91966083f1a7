//! What a collective runs on: hosts, switches and the links between them, and the tree laid over them.
//!
//! - [`TreeShape`] names a uniform tree (`star-8`, `tree-3-2`, `tree-2x4`);
//! - [`MeshShape`] names a full mesh of hosts in domains (`mesh-2x4`), [`Shape`] either;
//! - [`SwitchedShape`] names a fabric with several ways between two hosts (`leaf-spine-8x4x8`, `fat-tree-4`, `clos-4x4x8x4x4`, `rail-4x8x2`,
//!   `dragonfly-4x2x9`);
//! - [`Topology`] is the physical side: nodes, ports, links with a rate and a latency;
//! - [`IncTree`] is the logical side (EPIC 3.1): ranks at the leaves, switches inside, any depth and fan-in.
//!
//! Nothing here has an address: who gets which `<IP, QP>` is the manager's decision.
#![no_std]
extern crate alloc;

mod clos;
mod dragonfly;
mod fat_tree;
mod inc_tree;
mod leaf_spine;
mod mesh;
mod rail;
mod shape;
mod switched;
mod topology;
mod tree_shape;

pub use clos::Clos;
pub use inc_tree::{IncTree, TreeEdge, TreeEdgeId, TreeEnd, TreeError, TreeNode, TreeNodeId, TreeRole};
pub use mesh::MeshShape;
pub use shape::{Shape, ShapeError};
pub use switched::SwitchedShape;
pub use topology::{Link, LinkId, LinkProperties, Node, NodeId, NodeKind, PortRef, Topology, TopologyError};
pub use tree_shape::TreeShape;
