//! The tests of this room, as one program: each file is linked once, not by itself.

mod inc_tree;
mod mesh;
mod shape;
mod switched;
mod topology;
