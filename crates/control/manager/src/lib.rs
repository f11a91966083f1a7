//! The control plane's decisions (EPIC 3.2, 3.3, 6): which nodes there are and how they are joined, which tree a group gets, who talks to
//! whom through which queue pair, and who has which part of a switch's memory.
//!
//! [`Manager`] is a state machine without input or output: attachments, requests, reports and time-outs go in,
//! [`Action`]s come out. It knows no socket, clock or thread. Which tree a group gets a [`policy::Policy`] decides.
//!
//! It knows designs by their name, and asks them for their plan: who is connected with whom, what each node is to do, what switches must
//! have. What a node gets is a [`GroupContext`](quincunx_design::GroupContext): all that its data plane needs to know of a group.
#![no_std]
extern crate alloc;

mod agent;
mod allowance;
mod cables;
mod calls;
mod engine;
mod error;
mod failure;
mod group;
mod journal;
mod manager;
pub mod map;
pub mod memory;
mod mutation;
mod node;
pub mod policy;
mod rank;
mod recreated;
mod sequence;
mod shared;
pub mod tree;

pub use agent::{Agent, AgentAction};
pub use allowance::{Allowance, Allowances};
pub use cables::{CableEnd, CableError, CableReport, HeardNeighbour, PortReport, REPORT_LIFE, Speaker};
pub use calls::{AwaitedMessage, Call, Place, Standing};
pub use engine::{
    AgentNode, ClientNode, ControlCommand, ControlConfig, ControlDrop, ControlEvent, ControlNode,
    ControlTimer, ManagerNode, Message, Pair, Session, StoreNode,
};
pub use error::{AttachError, Fallback, Holder, InitGroupError, ReportError, SwitchCount, UnknownGroup};
pub use failure::GroupFailure;
pub use group::{GroupRequest, GroupState, GroupSummary, Holding, Phase};
pub use journal::Journal;
pub use manager::{
    Action, Change, GroupRecord, HeldGroup, Instruction, LinkEnd, LinkRow, LinkState, Manager, ManagerConfig,
    ManagerTimer, PathTarget, ProbePaths, Report, RequestId, initial_psn,
};
pub use map::DeniedLink;
pub use mutation::Mutation;
pub use node::{Encapsulation, LinkReport, NodeDescription, Role};
pub use rank::Token;
pub use recreated::RecreatedGroup;
pub use sequence::{Progress, Sequence};
pub use shared::{LockUse, SharedMemory};
