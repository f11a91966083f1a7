//! The tests of this room, as one program: each file is linked once, not by itself.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

mod again;
mod agent;
mod cluster;
#[path = "../../../../../fuzz/src/control_rpc.rs"]
mod control_rpc;
mod corpus;
mod dashboard;
mod generated;
mod hardening;
mod loopback;
mod metrics;
#[path = "../../../../../fuzz/src/replay.rs"]
mod replay;
mod security;
mod services;
