//! The tests of this room, as one program: each file is linked once, not by itself.

mod collectives;
mod common;
mod disagreement;
mod efficiency;
mod misuse;
mod plan;
mod shared_direct;
