//! Collectives between hosts alone: the baselines, and what a group falls back to when it gets no switch memory.
//!
//! A [`HostProgram`] runs primitives over queue pairs by one of the [`Algorithm`]s; all six, or those that it offers. Each is only a plan: a
//! list of stages, one after the other, of the kind "take these peers' pieces and my own, combine them, keep the
//! result, pass it on to those peers" (`plan`). One executor (`program`) runs every plan, piece by piece, so that
//! the combining of one piece overlaps the transfer of the next.
//!
//! Messages are sends into slots of one chunk that are posted as soon as they are free, whether a collective runs or
//! not: a peer that is ahead, even one collective ahead, finds a receive request. Each side tells the other how many
//! slots it has freed (in the immediates), and none sends more than there is room for. So receiver-not-ready comes up
//! only before a peer's first collective, and the queue pair handles that.
//!
//! **No rank is done before all ranks agree** on the collective, its type, operation, root and length. Each message says in its immediate what
//! its sender takes part in, and a rank combines and passes on only what comes from those who take part in the same. What an AllReduce, a
//! ReduceScatter, an AllGather or a Barrier leaves at a rank has come from all others on such ways. A Broadcast and a Reduce have
//! messages without bytes beside the data for that (`ring`, `tree`, `direct`), and what has no bytes is a Barrier.
//!
//! Accelerators on a memory fabric have kernels of their own, which share nothing with these but the idea: [`SharedRing`],
//! [`QuantizedRing`], which quantises at every hop, and [`SharedDirect`].
//!
//! It does not choose between algorithms, and it does not repair: when a queue pair fails, the group has failed.
#![no_std]
extern crate alloc;

mod config;
mod connection;
mod design;
mod design_rq;
mod direct;
mod double_tree;
mod halving_doubling;
mod mutation;
mod pace;
mod plan;
mod program;
mod quantized_ring;
mod ring;
mod shared_direct;
mod shared_memory;
mod tree;
mod two_trees;

pub use config::{Algorithm, Config, ConfigError, DEFAULT_CHUNK, DEFAULT_WINDOW};
pub use design::{DIRECT, DOUBLE_TREE, HALVING_DOUBLING, HostParams, Hosts, Pieces, RING, TREE};
pub use design_rq::{RING_RQ, RequantizedRing, RqParams};
pub use mutation::Mutation;
pub use pace::Pace;
pub use program::HostProgram;
pub use quantized_ring::{QuantizedRing, QuantizedRingConfig};
pub use shared_direct::{SharedDirect, SharedDirectConfig};
pub use shared_memory::{SharedRing, SharedRingConfig};
pub use tree::neighbours as tree_neighbours;
pub use two_trees::TwoTrees;
