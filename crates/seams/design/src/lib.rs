//! What a design says of itself, and how everybody else asks it. No design lives here.
//!
//! A design is a value: an implementation of [`Design`] in its engine's crate, and one line in a [`Catalog`]. What is written above the
//! engines asks that value and never a name:
//!
//! - its [`Params`], typed there, a document of keys ([`Settings`]) everywhere else;
//! - its [`Plan`], a pure function of parameters and [`Placement`]: connections, roles, memory. Manager, simulator, checker and tests call
//!   this one, and tell nodes their [`Context`];
//! - its parts: on a rank a program above queue pairs, or a kernel on an accelerator; in a switch a program, a [`Datapath`] that frames pass
//!   through, or a [`SwitchUnit`] of a memory fabric;
//! - what it is, as data ([`About`]), with its [`Model`]: what the checker must know.
#![no_std]
extern crate alloc;

mod about;
mod catalog;
mod closed_form;
mod context;
mod datapath;
mod design;
mod fabric_kind;
mod group_memory;
mod memory;
mod model;
mod parameter;
mod placement;
mod plan;
mod refusal;
mod role;
mod settings;
mod switch_unit;
mod transport;

pub use about::About;
pub use catalog::Catalog;
pub use closed_form::{ClosedForm, Premises, Reference};
pub use context::{ConnectionContext, Contention, Context, GroupContext, Node, Peer, Place};
pub use datapath::{AnyDatapath, Copies, Datapath, DatapathSink, DatapathTimer, MEMORY_TAKEN};
pub use design::{AnyDesign, Design, Endpoint, Installed, Parts, PayloadKind, SwitchPart};
pub use fabric_kind::FabricKind;
pub use group_memory::{GroupMemory, Writers};
pub use memory::{
    AcceleratorFabric, Form, MemoryContext, MemoryNeeds, MemoryNode, MemoryStream, Quantization,
};
pub use model::Model;
pub use parameter::{Help, Parameter};
pub use placement::{Demand, LinkRates, Placement, SharedMemory};
pub use plan::{Connection, ConnectionEnd, Member, Naming, Plan, SwitchPlan};
pub use refusal::Refusal;
pub use role::Role;
pub use serde_json::Value;
pub use settings::{Assignment, Params, Settings, renamed};
pub use switch_unit::{
    AnySwitchUnit, Buffer, SwitchUnit, UnitCounter, UnitEvent, UnitOutput, UnitSink, UnitTrack,
};
pub use transport::Transport;
