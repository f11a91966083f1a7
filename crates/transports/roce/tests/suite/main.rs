//! The tests of this room, as one program: each file is linked once, not by itself.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

mod common;
mod congestion;
mod corpus;
mod credits;
mod datagram;
mod delivery;
mod exhaustive;
#[path = "../../../../../fuzz/src/harness.rs"]
mod harness;
mod host;
mod kernel;
mod rate;
#[path = "../../../../../fuzz/src/replay.rs"]
mod replay;
mod requester;
mod responder;
#[path = "../../../../../fuzz/src/roce_host.rs"]
mod roce_host;
mod selective;
mod skip;
mod transitions;
mod wild;
