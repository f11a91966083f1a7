//! The tests of this room, as one program: each file is linked once, not by itself.

mod agreement;
mod allocation;
mod cables;
mod common;
mod cores;
mod experts;
mod foreign_rank;
mod groups;
mod mesh;
mod one_address;
mod one_memory;
mod recreate;
mod seeds;
mod strangers;
mod switch_memory;
mod verify;
mod wire_page;
