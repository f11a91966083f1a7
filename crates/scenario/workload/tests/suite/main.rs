//! The tests of this room, as one program: each file is linked once, not by itself.

mod iteration;
mod models;
mod profile;
mod roofline;
mod transformer;
