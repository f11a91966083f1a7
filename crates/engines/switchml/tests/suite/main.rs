//! The tests of this room, as one program: each file is linked once, not by itself.

mod design;
mod pools;
mod star;
mod support;
mod wild;
mod worker;
