//! SCIN: an accelerator in the switch of a memory fabric, which computes collectives by reads and writes of its own.
//!
//! The [`Isa`] (in-switch accelerator) takes [`Instruction`]s. For each it waits until the participants have counted
//! up a counter of its barrier manager, reads the operands in waves into wave tables, adds them up in a tree, writes
//! the results back, and, when all writes are answered, sets a flag at each participant. [`Participant`] is what that
//! leaves to an accelerator. [`SCIN`] and [`SCIN_INQ`] put them on a fabric.
//!
//! | SCIN | where |
//! |---|---|
//! | 3.3 barrier, flags | `controller`, `participant` |
//! | 3.4 equation 1 | [`minimum_capacity`] |
//! | 3.4 instruction format, figure 6 | `instruction` |
//! | 3.4 wave tables, tags | `wave` |
//! | 3.4 wave controllers | `controller`, `isa` |
//! | 3.4 accumulator, write-back | `write_back`, `isa` |
//!
//! # Where we decide, and why
//! - An instruction says whether it waits at the barrier and whether it notifies (two bits more than figure 6), so
//!   that a ReduceScatter made of Reduces is synchronised once, not once a part.
//! - A wave takes the same entry in the tables of all accelerators. The tables are a pool for all controllers, which
//!   take entries in turn.
//! - Waves are read out packet by packet: the accumulator takes a packet when it has come from all sources, and the entry
//!   is released with the last. The paper has a wave READY when all of it is there and read out then. The entry is free
//!   at the same moment, so that regulation is the same; the results of the first packets leave earlier, by at most the
//!   time that a wave is on its link. For waves of 4 KB that is nothing; for a table that is one wave (4.4) it is what
//!   spreads the answers to writes over the time when no operands come: figure 11a's two thirds are 0.60 so, and
//!   0.57 if nothing leaves before the table is full, whose answers then all compete with the next operands. Quantised
//!   waves are read out whole, as their scale factors leave in packets of their own behind the last of them.
//! - The compute units take in each operand at a rate (`isa.compute_rate`), one result behind the other, and the first flit of a
//!   result leaves after their latency: a rate below the links' bounds the throughput. Of the prototype it is a flit of 32 B a cycle
//!   (3.5), as fast as its links; of the simulated system the paper says nothing.
//! - What the accumulator gives waits for the link outside the wave tables, in as many places as tags can name: the
//!   paper releases entries when a wave has been read out, and does not say what the write queue holds.
//! - Counters count up to the number of participants and start again: no accelerator may count for the next
//!   collective before its flag is set. [`Participant`] does not.
#![no_std]
extern crate alloc;

mod capacity;
mod config;
mod controller;
mod design;
mod instruction;
mod isa;
mod mutation;
mod participant;
mod plan;
mod unit;
mod wave;
mod write_back;

pub use capacity::minimum_capacity;
pub use config::{ComputeLatency, ConfigError, IsaConfig};
pub use design::{IsaParams, SCIN, SCIN_INQ, Scin, ScinParams};
pub use instruction::{Accelerators, Addresses, Instruction, InstructionError};
pub use isa::{Isa, IsaDrop, IsaEvent, LoadError};
pub use mutation::Mutation;
pub use participant::{Participant, ParticipantConfig};
pub use plan::{instructions, quantized_all_reduce};
