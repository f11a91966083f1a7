//! The tests of this room, as one program: each file is linked once, not by itself.

mod aggregators;
mod design;
mod ranks;
mod star;
mod support;
mod wild;
