//! What the switch does to frames, frame by frame.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

mod corpus;
mod datapath;
mod design;
#[path = "../../../../../fuzz/src/ethernet_switch.rs"]
mod ethernet_switch;
mod host;
#[path = "../../examples/answers/lines.rs"]
mod lines;
mod registers;
#[path = "../../../../../fuzz/src/replay.rs"]
mod replay;
mod support;
mod switch;
mod vectors;
