//! The committed corpora of the fuzz targets of nodes, put through the same checks on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

#[path = "../../../fuzz/src/control.rs"]
mod control;
#[path = "../../../fuzz/src/harness.rs"]
mod harness;
#[path = "../../../fuzz/src/host.rs"]
mod host;
#[path = "../../../fuzz/src/inc_engine.rs"]
mod inc_engine;
#[path = "../../../fuzz/src/mode_i_switch.rs"]
mod mode_i_switch;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/switch.rs"]
mod switch;

#[test]
fn the_seeds_of_ranks_pass() {
    replay::replay("host", host::check);
}

#[test]
fn the_seeds_of_switches_that_frames_pass_through_pass() {
    replay::replay("inc_engine", inc_engine::check);
}

#[test]
fn the_seeds_of_switches_where_connections_end_pass() {
    replay::replay("mode_i_switch", mode_i_switch::check);
}
