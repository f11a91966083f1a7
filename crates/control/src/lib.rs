//! The control plane's decisions (EPIC 3.2, 3.3, 6.1): which nodes there are, which tree a group gets, who talks to
//! whom through which queue pair, and what fits into a switch's memory.
//!
//! [`Manager`] is a state machine without input or output: attachments, requests, reports and time-outs go in,
//! [`Action`]s come out. It knows no socket, clock or thread. The policy is trivial so far: the tree is the one asked
//! for, switches fill it from the root down in the order of their addresses, and members fill its leaves in order.
//!
//! What a node gets is a [`SwitchContext`] or a [`RankContext`]: all that its data plane needs to know of a group.
#![no_std]
extern crate alloc;

mod assign;
mod context;
mod design;
mod error;
mod group;
mod manager;
mod memory;
mod mesh;
mod node;

pub use assign::{TreeContexts, host_contexts, mesh_contexts, tree_contexts};
pub use context::{EdgeContext, GroupParameters, Peer, QueuePairContext, RankContext, Retry, SwitchContext};
pub use design::{Design, HostDesign, MeshDesign, ParseDesignError};
pub use error::{AttachError, Fallback, InitGroupError, ReportError, UnknownGroup};
pub use group::{GroupFailure, GroupRequest, GroupState, GroupSummary, Holding};
pub use manager::{Action, Instruction, Manager, ManagerConfig, Report, RequestId};
pub use memory::{slots, switch_memory};
pub use mesh::{LinkRates, MeshSetup};
pub use node::{NodeDescription, Role};
