//! The committed corpus of the fuzz target `host`, put through the same check on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

#[path = "../../../fuzz/checks/host.rs"]
mod host;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn the_seeds_pass() {
    replay::replay("host", host::check);
}
