//! Hosts and switches, assembled once from the protocol engines and driven by every driver. Each is itself an
//! [`Engine`](quincunx_engine::Engine).
//!
//! - [`Host`] is a rank: queue pairs below, a collective [`Program`](quincunx_engine::verbs::Program) above them.
//! - [`Switch`] takes part in groups of all three EPIC modes at once: Mode-II and Mode-III in its IncEngine, Mode-I as
//!   queue pairs with aggregation above them. What is for somebody else it forwards.
//! - [`Station`] is one or the other.
//! - [`fabric::FabricNode`] is an accelerator or a switch of the memory fabric, [`fabric::FabricPeer`] an accelerator in a mesh.
#![no_std]
extern crate alloc;

mod contexts;
pub mod fabric;
mod host;
mod mesh;
mod programs;
mod station;
mod switch;
mod transport;

pub use contexts::{ContextError, comm_lib_config, host_config, host_group, switch_group};
pub use host::{Host, HostCommand, HostEvent, HostGroup, HostRejected, HostTimer};
pub use mesh::mesh_parts;
pub use programs::Programs;
pub use station::{Station, StationCommand, StationEvent, StationKind, StationRejected, StationTimer};
pub use switch::{Switch, SwitchCommand, SwitchEvent, SwitchGroup, SwitchRejected, SwitchTimer};
pub use transport::NodeDrop;
