//! The tests of this room, as one program: each file is linked once, not by itself.

mod decoders;
mod deployments;
mod exchanges;
mod memory;
mod profiles;
mod serving;
mod steps;
mod timing;
