//! Nodes of the memory fabric: accelerators, and the switches between them (SCIN 3.2, figure 4).
//!
//! A [`FabricNode`] is either, as one engine. Both have ports of [`quincunx_memory::Port`]; an accelerator has its
//! memory and [kernels](quincunx_engine::shared_memory::Kernel) behind them, a switch its core and [units](quincunx_design::SwitchUnit)
//! that compute. A [`FabricPeer`] is an accelerator of another
//! kind of fabric, where links join accelerators directly: a program of verbs runs on it, the same as above queue pairs.

mod accelerator;
mod node;
mod peer;
mod sink;
mod switch;

pub use accelerator::{Accelerator, AcceleratorConfig};
pub use node::{FabricCommand, FabricConfig, FabricNode};
pub use peer::{FabricPeer, PeerCommand, PeerConfig, PeerEvent};
pub use sink::{FabricDrop, FabricEvent, FabricRejected, FabricTimer};
pub use switch::{FabricSwitch, FabricSwitchConfig};
