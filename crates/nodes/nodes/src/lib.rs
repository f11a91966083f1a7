//! Hosts and switches, assembled once from the protocol engines and driven by every driver. Each is itself an
//! [`Engine`](quincunx_engine::Engine).
//!
//! - [`Host`] is a rank: queue pairs below, a collective [`Program`](quincunx_engine::verbs::Program) above them.
//! - [`Switch`] takes part in groups of any design: frames pass through a [`Datapath`](quincunx_design::Datapath), or end at queue pairs
//!   with a program above them. What is for somebody else it forwards.
//! - [`Node`] is one or the other.
//! - [`locks`] say which group may use memory that several share, invocation by invocation.
//! - [`fabric::FabricNode`] is an accelerator or a switch of the memory fabric, [`fabric::FabricPeer`] an accelerator in a mesh.
#![no_std]
extern crate alloc;

mod contexts;
pub mod fabric;
mod forwarding;
mod host;
pub mod locks;
mod mutation;
mod node;
mod offload;
mod switch;
mod transport;

pub use contexts::{contended_host_group, host_group, switch_group, switch_groups};
pub use forwarding::way_of_flow;
pub use host::{Host, HostCommand, HostContention, HostEvent, HostGroup, HostRejected, HostTimer, Ways};
pub use mutation::Mutation;
pub use node::{Node, NodeCommand, NodeEvent, NodeKind, NodeRejected, NodeTimer};
pub use offload::{Offloadable, PostedWork, Work};
pub use switch::{
    MemoryPart, Switch, SwitchCommand, SwitchEvent, SwitchGroup, SwitchLocks, SwitchRejected, SwitchTimer,
};
pub use transport::NodeDrop;
