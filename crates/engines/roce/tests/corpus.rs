//! The committed corpus of the fuzz target `roce_host`, put through the same check on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

#[path = "../../../../fuzz/src/harness.rs"]
mod harness;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/roce_host.rs"]
mod roce_host;

#[test]
fn the_seeds_pass() {
    replay::replay("roce_host", roce_host::check);
}
