//! What a design says of itself, and how everybody else asks it. No design lives here.
//!
//! A design is a value: an implementation of [`Design`] in its engine's crate, and one line in a [`Catalog`]. What is written above the
//! engines asks that value and never a name:
//!
//! - its [`Params`], typed there, a document of keys ([`Settings`]) everywhere else;
//! - its [`Plan`], a pure function of parameters and [`Placement`]: connections, roles, switch memory. Manager, simulator, checker and
//!   tests call this one, and tell nodes their [`GroupContext`];
//! - its parts: a program above queue pairs on a rank or a switch, or a [`Datapath`] that frames pass through;
//! - its [`Model`]: what the checker must know.
//!
//! A design on the memory fabric is a [`MemoryDesign`] instead: a kernel on each accelerator, and a [`SwitchUnit`] in the switches if they
//! compute.
#![no_std]
extern crate alloc;

mod catalog;
mod closed_form;
mod context;
mod datapath;
mod design;
mod memory_design;
mod memory_placement;
mod model;
mod placement;
mod plan;
mod refusal;
mod settings;
mod switch_unit;
mod transport;

pub use catalog::Catalog;
pub use closed_form::{ClosedForm, Premises};
pub use context::{ConnectionContext, Contention, GroupContext, Node, Peer, Role};
pub use datapath::{AnyDatapath, Copies, Datapath, DatapathSink, DatapathTimer};
pub use design::{AnyDesign, Design, Parts, PayloadKind, SwitchPart};
pub use memory_design::{AnyMemoryDesign, Form, MemoryDesign, MemoryNeeds, MemoryParts};
pub use memory_placement::{MemoryPlacement, MemoryStream, Quantization};
pub use model::Model;
pub use placement::{Demand, FabricKind, LinkRates, Placement};
pub use plan::{Connection, ConnectionEnd, Member, Naming, Plan, SwitchPlan};
pub use refusal::Refusal;
pub use serde_json::Value;
pub use settings::{Assignment, Help, Parameter, Params, Settings};
pub use switch_unit::{
    AnySwitchUnit, Buffer, SwitchUnit, UnitCounter, UnitEvent, UnitOutput, UnitSink, UnitTrack,
};
pub use transport::Transport;
