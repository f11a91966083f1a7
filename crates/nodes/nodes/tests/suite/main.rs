//! The tests of this room, as one program: each file is linked once, not by itself.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

mod channels;
mod common;
mod contention;
mod contexts;
#[path = "../../../../../fuzz/src/control.rs"]
mod control;
mod corpus;
mod epic_collectives;
mod fabric_peer;
mod fabric_wild;
mod forwarding;
#[path = "../../../../../fuzz/src/harness.rs"]
mod harness;
#[path = "../../../../../fuzz/src/host.rs"]
mod host;
#[path = "../../../../../fuzz/src/inc_engine.rs"]
mod inc_engine;
mod kernel_hosts;
mod locks;
#[path = "../../../../../fuzz/src/mode_i_switch.rs"]
mod mode_i_switch;
mod offload;
mod offload_switch;
mod ports;
#[path = "../../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../../fuzz/src/switch.rs"]
mod switch;
mod turns;
