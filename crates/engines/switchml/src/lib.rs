//! SwitchML (Sapio et al., *Scaling Distributed Machine Learning with In-Network Aggregation*, NSDI 2021): a switch with a pool of slots that
//! ranks add integers up in, packet by packet.
//!
//! A vector is cut into pieces of a packet. Each piece has a slot, and each slot one piece at a time: a rank sends the next one when
//! the result of the last one is here, so that the pool is the window and nobody sends more than the switch has room for ([`Worker`]). The
//! switch knows of each rank and slot what it has added, and keeps the sum before the current one, in a second pool, for whoever has missed it
//! ([`Pools`]). Packets are datagrams: a rank that waits too long sends again, and that is all there is of reliability.
//!
//! Switches add integers alone. Binary32 values become integers by a power of two that the ranks agree on for each piece, by the largest exponent of
//! any of them; it travels one piece ahead, in the packet of the piece before it in the slot ([`FixedPoint`](quincunx_collective::FixedPoint)).
//!
//! # Where it differs from the paper
//! - A piece's number travels in whole, not as slot, version and offset, and the switch compares numbers where the paper's looks at a bit for each
//!   version. With bits a packet that is late by two uses of its slot is counted for another piece: `quincunx check switchml all_reduce --tree star-2
//!   --window 1 --reorder --mutate version-bit`.
//! - Packets are RoCEv2 datagrams (as those of the paper's RDMA implementation are RoCEv2 packets of unreliable connections), 28 bytes longer
//!   than the paper's own over UDP.
//! - Ranks send a digest of what they ask for, and the switch tells all of them if they differ.
//! - A Barrier is an AllReduce of nothing; the paper has AllReduce alone.
//! - One switch: the paper's trees of switches are not here.
#![no_std]
extern crate alloc;

mod config;
mod design;
mod mutation;
mod pools;
mod worker;

pub use config::{PoolShape, PoolShapeError};
pub use design::{Aggregation, SWITCHML, SwitchMlDesign, SwitchMlParams};
pub use mutation::Mutation;
pub use pools::{Pools, PoolsConfig};
pub use worker::{Worker, WorkerConfig};
