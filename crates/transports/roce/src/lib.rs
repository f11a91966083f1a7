//! The RoCEv2 reliable-connection queue pair: a requester that sends again what was lost, and a responder that executes
//! every packet once and in order (InfiniBand Architecture volume 1, chapter 9.7, and annex A17).
//!
//! A node embeds a [`QueuePair`] per peer and lends all of them one memory. [`RoceHost`] is the smallest such node.
//!
//! # What it speaks
//! Send and Write, with and without immediate. Reads and atomics are refused with NAK "invalid request", which ends the
//! connection on both sides. With [`QueuePairConfig::rate`] a queue pair reacts to congestion as DCQCN has it, with
//! [`QueuePairConfig::congestion_window`] by fewer packets on the wire; without, notifications are counted and nothing else.
//!
//! # Where the architecture leaves a choice
//! - A Write's remote key is the number of the region, its virtual address the offset in the region, in bytes. A
//!   queue pair with `remote_write` opens every registered region to its peer; without, all Writes are refused with NAK
//!   "remote access", which ends the connection.
//! - A duplicate request is acknowledged again whether it asks for that or not: the sooner the requester, which has gone
//!   back too far, learns where to go on, the better.
//! - "Receiver not ready" silences "sequence error" until the packet comes again: the packets behind it are on the wire.
//! - With [`QueuePairConfig::credits`] acknowledges tell of receive requests. Before the first one tells, messages are sent as without; a
//!   "receiver not ready" tells, too. Where none is left, one packet that asks for an acknowledge finds out whether there is one by now; and a receiver that has told
//!   of its last one tells of the next by itself, which may get lost.
//! - A sequence-error NAK for packets that were acknowledged before makes the requester send all that is outstanding
//!   again. A peer that was told to skip numbers ([`QueuePair::skip`]) may say such a thing.
//! - Frames leave from UDP port 4791, the one that nodes are bound to: the invariant CRC covers the port, so a frame must
//!   name the one it is really sent from. Spreading queue pairs over paths by source port would take a socket for each.
//! - NAKs do not use up the retry budget, which measures silence; any progress restores it.
//! - The packet that fills the window asks for an acknowledge, so that no choice of `acknowledge_every` and window stalls.
//!
//! # What happens when
#![doc = include_str!("transitions.md")]
#![no_std]
extern crate alloc;

mod config;
mod congestion;
mod datagram;
mod early;
mod host;
mod mutation;
mod packet;
mod queue_pair;
mod rate;
mod requester;
mod responder;
mod sink;

pub use config::{ConfigError, INFINITE_RNR_RETRIES, MAX_MTU, MAX_WINDOW, QueuePairConfig, Reliability};
pub use datagram::DatagramQueuePair;
pub use host::{RoceCommand, RoceEvent, RoceHost, RoceRejected};
pub use mutation::Mutation;
pub use queue_pair::{MAX_MESSAGE, PostError, QueuePair};
pub use rate::RateConfig;
pub use sink::{DropReason, QueuePairSink, QueuePairTimer};

use quincunx_wire::{Operation, Psn, RoceHeader};

/// Packets that a direction's count begins with, so that a PSN from before the start has a count too.
const COUNT_BEFORE_START: u64 = 1 << 24;

/// The count of the first packet of a direction that begins with `psn`.
const fn first_count(psn: Psn) -> u64 {
    COUNT_BEFORE_START + psn.value() as u64
}

/// The header of a frame to the peer. Its UDP source port is 4791.
fn header_to_remote(config: &QueuePairConfig, psn: Psn, operation: Operation) -> RoceHeader {
    let mut header = RoceHeader::new(config.local.ip, config.remote.ip, config.remote.qp, psn, operation);
    if config.rate.is_some() {
        header.allow_marks();
    }
    header
}
