//! The tests of this room, as one program: each file is linked once, not by itself.

mod allocation;
mod interposed;
mod netns;
mod support;
mod udp;
