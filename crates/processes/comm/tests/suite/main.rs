//! The tests of this room over sockets, as one program: each file is linked once, not by itself.

mod agreement;
mod blocks;
mod experts;
mod fabric;
mod given_back;
mod recreate;
mod restarts;
mod waits;
