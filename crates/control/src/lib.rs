//! The control plane's decisions (EPIC 3.2, 3.3, 6.1): which nodes there are, which tree a group gets, who talks to
//! whom through which queue pair, and what fits into a switch's memory.
//!
//! [`Manager`] is a state machine without input or output: attachments, requests, reports and time-outs go in,
//! [`Action`]s come out. It knows no socket, clock or thread. The policy is trivial so far: the tree is the one asked
//! for, switches fill it from the root down in the order of their addresses, and members fill its leaves in order.
//!
//! It knows designs by their name, and asks them for their plan: who is connected with whom, what each node is to do, what switches must
//! have. What a node gets is a [`GroupContext`](quincunx_design::GroupContext): all that its data plane needs to know of a group.
#![no_std]
extern crate alloc;

mod error;
mod group;
mod manager;
mod node;

pub use error::{AttachError, Fallback, InitGroupError, ReportError, UnknownGroup};
pub use group::{GroupFailure, GroupRequest, GroupState, GroupSummary, Holding};
pub use manager::{Action, Instruction, Manager, ManagerConfig, Report, RequestId};
pub use node::{Encapsulation, NodeDescription, Role};
