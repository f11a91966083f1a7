//! The tests of this room, as one program: each file is linked once, not by itself.

#![allow(unreachable_pub, reason = "the checks are shared with the crate of the fuzz targets")]

mod aeth;
mod atp;
mod common;
mod corpus;
mod emit;
mod flit;
mod gid;
mod lldp;
mod multiwrite;
#[path = "../../../../../fuzz/src/parse_datagram.rs"]
mod parse_datagram;
#[path = "../../../../../fuzz/src/parse_flit.rs"]
mod parse_flit;
#[path = "../../../../../fuzz/src/parse_frame.rs"]
mod parse_frame;
#[path = "../../../../../fuzz/src/parse_lldp.rs"]
mod parse_lldp;
#[path = "../../../../../fuzz/src/parse_v1.rs"]
mod parse_v1;
mod pcapng;
mod properties;
mod psn;
mod refusals;
#[path = "../../../../../fuzz/src/replay.rs"]
mod replay;
mod switchml;
mod tshark;
mod v1;
mod vectors;
