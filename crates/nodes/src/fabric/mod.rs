//! Nodes of the memory fabric: accelerators, and the switches between them (SCIN 3.2, figure 4).
//!
//! A [`FabricNode`] is either, as one engine. Both have ports of [`quincunx_memory::Port`]; an accelerator has its
//! memory and a communication kernel behind them, a switch its core and what computes in it. A [`FabricPeer`] is an accelerator of another
//! kind of fabric, where links join accelerators directly: a program of verbs runs on it, the same as above queue pairs.

mod accelerator;
mod kernels;
mod node;
mod peer;
mod switch;

pub use accelerator::{Accelerator, AcceleratorConfig};
pub use kernels::{KernelRejected, Kernels};
pub use node::{
    FabricCommand, FabricConfig, FabricConfigError, FabricDrop, FabricEvent, FabricNode, FabricRejected,
    FabricTimer,
};
pub use peer::{FabricPeer, PeerCommand, PeerConfig, PeerEvent};
pub use switch::{FabricSwitch, FabricSwitchConfig};
