//! The tests of this room, as one program: each file is linked once, not by itself.

mod contexts;
mod group_memory;
mod settings;
mod transport;
