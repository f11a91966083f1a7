//! The tests of this room, as one program: each file is linked once, not by itself.

mod pytorch;
mod reading;
mod replaying;
mod round_trip;
mod samples;
