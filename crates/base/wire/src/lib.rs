//! RoCE frames: checked views over bytes, and small reprs that can only say meaningful things.
//!
//! Two pairs of entries do all that a node needs: [`parse_datagram`] and [`emit_datagram`] for what a UDP socket
//! carries, [`parse_frame`] and [`emit_frame`] for whole Ethernet frames. Beneath them, each header has a module with
//! its layout, a view and a repr; [`pcapng`] writes captures. [`v1`] has the frames of RoCE v1. [`multiwrite`] says who a
//! write is for, [`netreduce`] that a message is to be added up on its way, [`path_probe`] finds out what a path carries, [`lldp`] who is at the other end of a cable. [`flit`] has the packets of the memory fabric, which have nothing to do with RoCE.
//!
//! Parsing takes any bytes at all: it never panics, never allocates, never trusts a length, and believes nothing
//! before the invariant CRC matches. Building writes into a caller's buffer and never allocates. IPv4 without options
//! and IPv6 without extension headers; no fragments, no VLAN tags.
#![no_std]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod aeth;
pub mod atomic;
pub mod atp;
pub mod bth;
pub mod congestion;
mod crc;
mod datagram;
pub mod deth;
mod error;
pub mod ethernet;
mod field;
pub mod flit;
mod frame;
mod framing;
mod gid;
pub mod grh;
pub mod icrc;
pub mod immediate;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod lldp;
pub mod multiwrite;
pub mod netreduce;
mod operation;
mod path;
pub mod path_probe;
pub mod pcapng;
mod psn;
mod qp;
pub mod reth;
mod roce;
pub mod switchml;
pub mod udp;
pub mod v1;

pub use datagram::{
    MAX_DATAGRAM, SharedPayload, datagram_length, emit_datagram, emit_shared_datagram, parse_datagram,
    parse_identified_datagram,
};
pub use error::ParseError;
pub use ethernet::{EthernetRepr, MacAddress};
pub use frame::{
    Envelope, HEADERS_BELOW_BTH, emit_frame, emit_headers, frame_length, headers_below_bth, parse_frame,
};
pub use framing::{Framing, NoFraming};
pub use gid::Gid;
pub use path::UdpPath;
pub use psn::{Psn, SequenceNumber};
pub use qp::{MAX_QPN, QpNumber};
pub use roce::{Aeth, AtomicEth, Deth, Endpoint, NakCode, Operation, Position, Reth, RoceHeader, Syndrome};
