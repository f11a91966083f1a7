//! The committed corpus of the fuzz target `inc_engine`, put through the same check on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

#[path = "../../../../fuzz/checks/inc_engine.rs"]
mod inc_engine;
#[path = "../../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn the_seeds_pass() {
    replay::replay("inc_engine", inc_engine::check);
}
