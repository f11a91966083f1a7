//! The tests of this room, as one program: each file is linked once, not by itself.

mod common;
mod eviction;
mod groups;
mod loads;
mod lookup;
mod reductions;
mod timing;
