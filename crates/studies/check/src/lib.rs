//! What the checker explores: hosts and switches, put together from the engines that also run on real networks,
//! and what must hold in it.
//!
//! A [`Network`] with its [`Protocol`] is a [`System`](quincunx_driver_check::System) for `driver-check`; payloads say
//! which ranks' which elements are in each element, so that data that is lost, counted twice or another packet's is seen whatever the
//! numbers are:
//!
//! - [`Network::of_group`]: a group of any design of a catalog, as the manager would set it up, on a tree, a ring or a mesh;
//! - [`MemoryGroup`]: the same on a memory fabric, accelerators around switches;
//! - [`Study`]: what is no design: two queue pairs and nothing else ([`Network::of_queue_pairs`]), MultiWrite with tables that no plan makes
//!   ([`Network::of_relays`]), the rules of [earlier systems](prior_systems).
//!
//! [`Subject::find`] knows all by name. What is found wrong is a [`Path`]: printed and traced by [`Sequence`], and run once more by
//! drivers that share no code with the explorer: in virtual time by [`replay`], and by [`replay_as_bytes`] on nodes of the network
//! driver, where frames travel as bytes. [`faults_of`] is what they follow.
#![warn(missing_docs)]

mod arguments;
mod codec;
mod connections;
mod control;
mod describe;
mod disagreement;
mod exchange;
mod explored;
mod find;
mod flights;
mod group;
mod installed;
mod locks;
mod memory;
mod network;
mod print;
pub mod prior_systems;
mod relays;
mod replay;
mod requested;
mod standby;
mod studies;
mod study;
mod subject;
mod tasks;
mod topology;
mod trace;
mod twin;
mod writes;

pub use codec::{CodecFault, RoceProvenanceCodec, Wired};
pub use describe::Describe;
pub use disagreement::Disagreement;
pub use flights::faults_of;
pub use print::{Happening, Sequence, StepDescription};
pub use quincunx_driver_check::{
    Exploration, Fault, JUMP, MOST, Path, Statistics, Unfinished, Verdict, explore,
};
pub use quincunx_roce::{Mutation as QueuePairMutation, Reliability};
pub use replay::{Divergence, replay, replay_as_bytes};

pub use arguments::Arguments;
pub use control::{ControlOwner, ControlPlane, ControlSetup};
pub use exchange::{ExchangeError, ExchangeSetup, Kind, Messages, Pair};
pub use explored::{Counterexample, Explored, Finding};
pub use find::names_of_designs;
pub use group::{Designed, Explorer, GroupSetup};
pub use locks::{LockFrame, LockNode, LockOwner, LockPlaces, LockSetup, Locks};
pub use memory::{Begin, MemoryGroup, MemoryGroupSetup, MemoryNode, MemoryNodeEvent};
pub use network::{MOST_GROUPS, Membership, Network, OwnWrite, OwnWrites, Owner, Protocol, Task};
pub use relays::{MultiWrite, Pattern, RelayError, RelayMutation, RelaySetup};
pub use standby::Standby;
pub use studies::{STUDIES, summary as studies_summary};
pub use study::Study;
pub use subject::Subject;
pub use topology::{Topology, UnknownTopology};
