//! The tests of this room, as one program: each file is linked once, not by itself.

mod all_gather;
mod combine;
mod common;
mod dispatch;
mod own_writes;
mod plan;
mod wild;
mod writes;
