//! SCIN: an accelerator in the switch of a memory fabric, which computes collectives by reads and writes of its own.
//!
//! The [`Isa`] (in-switch accelerator) takes [`Instruction`]s. For each it waits until the participants have counted
//! up a counter of its barrier manager, reads the operands in waves into wave tables, adds them up in a tree, writes
//! the results back, and, when all writes are answered, sets a flag at each participant. [`Participant`] is what that
//! leaves to an accelerator.
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
//! - What the accumulator gives waits for the link outside the wave tables, in as many places as tags can name: the
//!   paper releases entries when a wave has been read out, and does not say what the write queue holds.
//! - Counters count up to the number of participants and start again: no accelerator may count for the next
//!   collective before its flag is set. [`Participant`] does not.
#![no_std]
extern crate alloc;

mod capacity;
mod config;
mod controller;
mod instruction;
mod isa;
mod participant;
mod plan;
mod wave;
mod write_back;

pub use capacity::minimum_capacity;
pub use config::{ComputeLatency, ConfigError, IsaConfig};
pub use instruction::{Accelerators, Addresses, Instruction, InstructionError};
pub use isa::{Isa, IsaDrop, IsaEvent, LoadError};
pub use participant::{Participant, ParticipantConfig, ParticipantRejected};
pub use plan::{instructions, quantized_all_reduce};
