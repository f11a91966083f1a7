//! The committed corpora of the fuzz targets of nodes, put through the same checks on stable Rust.

use crate::host;
use crate::inc_engine;
use crate::mode_i_switch;
use crate::replay;
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
