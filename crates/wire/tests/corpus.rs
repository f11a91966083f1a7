//! The committed corpus of the fuzz targets that parse, put through the same checks on stable Rust.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

#[path = "../../../fuzz/src/parse_datagram.rs"]
mod parse_datagram;
#[path = "../../../fuzz/src/parse_flit.rs"]
mod parse_flit;
#[path = "../../../fuzz/src/parse_frame.rs"]
mod parse_frame;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn the_datagrams_pass() {
    replay::replay("parse_datagram", parse_datagram::check);
}

#[test]
fn the_frames_pass() {
    replay::replay("parse_frame", parse_frame::check);
}

#[test]
fn the_packets_of_the_memory_fabric_pass() {
    replay::replay("parse_flit", parse_flit::check);
}
