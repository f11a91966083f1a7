//! The tests of this room, as one program.

mod gpu;
mod turns;
mod wild;
