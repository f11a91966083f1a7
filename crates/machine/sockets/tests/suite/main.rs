//! The tests of this room, as one program: each file is linked once, not by itself.

mod bridge;
mod loss;
