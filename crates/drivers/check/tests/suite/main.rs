//! The tests of this room, as one program: each file is linked once, not by itself.

mod clock;
mod common;
mod explore;
mod independence;
mod notices;
mod order;
