//! Simulated hardware in the place of a switch's datapath: a program that Verilator made of a block of `rtl/`, which is told frames in lines, and
//! answers so (`rtl/bench/sim.h`). What a group is, the datapath that it replaces says in such a line
//! ([`told_to_hardware`](quincunx_design::Datapath::told_to_hardware)).
//!
//! [`Block`] is the program, [`SimulatedDatapath`] what a switch runs.

mod block;
mod datapath;
mod program;

pub use block::{Block, Happened, Pace};
pub use datapath::SimulatedDatapath;
pub use program::ProgramError;
