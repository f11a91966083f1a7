//! What the fuzz targets check: a function `check` of any bytes for each, and what they share.
//!
//! The tests of the rooms put the seeds through the same files on stable Rust: each takes those that it needs as modules of its own,
//! so they name each other as `crate::...`, and nothing here needs a fuzzer.

pub mod control;
pub mod control_rpc;
pub mod ethernet_switch;
pub mod harness;
pub mod host;
pub mod inc_engine;
pub mod mode_i_switch;
pub mod parse_datagram;
pub mod parse_flit;
pub mod parse_frame;
pub mod parse_lldp;
pub mod parse_v1;
pub mod roce_host;
pub mod switch;
