//! The tests of this room, as one program: each file is linked once, not by itself.

mod common;
mod designs;
mod earlier;
mod epic;
mod exchange;
mod memory;
mod multiwrite;
mod routed;
mod twins;
