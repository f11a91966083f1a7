//! The committed corpus of the fuzz target `mode_i_switch`, put through the same check on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

#[path = "../../../fuzz/checks/mode_i_switch.rs"]
mod mode_i_switch;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn the_seeds_pass() {
    replay::replay("mode_i_switch", mode_i_switch::check);
}
