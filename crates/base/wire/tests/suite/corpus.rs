//! The committed corpus of the fuzz targets that parse, put through the same checks on stable Rust.

use crate::parse_datagram;
use crate::parse_flit;
use crate::parse_frame;
use crate::parse_lldp;
use crate::parse_v1;
use crate::replay;
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

#[test]
fn the_frames_of_lldp_pass() {
    replay::replay("parse_lldp", parse_lldp::check);
}

#[test]
fn the_frames_of_roce_v1_pass() {
    replay::replay("parse_v1", parse_v1::check);
}
