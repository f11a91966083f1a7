//! The tests of this room, as one program: each file is linked once, not by itself.

mod instruction;
mod isa;
#[path = "../../examples/answers/lines.rs"]
mod lines;
mod participant;
mod vectors;
