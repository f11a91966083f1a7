//! The tests of this room, as one program: each file is linked once, not by itself.

#[path = "../../examples/answers/lines.rs"]
mod lines;

mod comm_lib;
mod common;
mod context;
mod control;
mod memory;
mod mode_i;
mod mode_ii;
mod mode_iii;
mod plan;
mod rate_synchronisation;
mod standard_verbs;
mod transmit_slot;
mod vectors;
