//! The tests of this room, as one program: each file is linked once, not by itself.

mod common;
mod pause;
mod plain;
mod prescribed;
mod simulation;
