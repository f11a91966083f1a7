//! ATP (Lao et al., *ATP: In-network Aggregation for Multi-tenant Learning*, NSDI 2021): a switch that adds up what it has room for, and a
//! parameter server for everything else.
//!
//! A vector is cut into pieces of a packet. A packet is hashed to one of the switch's aggregators, which belongs to whoever comes first
//! ([`Aggregators`]). Sums that are whole go to the server, and so do packets that find another one's sum. The server, which is at rank 0, adds up what
//! comes in parts, and its result goes through the switch to all workers, and frees the aggregator on the way. The result is the acknowledge of a
//! worker's packet. What seems to be lost is sent again; the switch hands over to the server what it has of it ([`AtpRank`]).
//!
//! Switches add integers alone: values of binary32 become integers as in SwitchML ([`IntegerVector`](quincunx_pieces::IntegerVector)).
//!
//! # Where it differs from the paper
//! - A number takes an aggregator over from one that is a window or more before it. By the paper's rule a packet that is late holds one for good:
//!   no sum is wrong, but the switch has one aggregator less (`quincunx check atp-rules all_reduce --packets 2 --duplicate`).
//! - Each group has aggregators of its own, which the manager has given it: jobs do not contend for them, only packets of one window. With
//!   `aggregation.aggregators` of fewer than the window more of them go to the server.
//! - The window is what the parameters say. The paper's grows and shrinks with marks of congestion (ECN).
//! - The paper's workers choose one scale for all values, and ask the server for sums of binary32 where one has overflowed. Here ranks agree on a
//!   scale for each packet, so that none does; or `aggregation.fraction_bits` says one, and what is too large saturates.
//! - The server is a rank. By default it adds its rank's part itself, as EPIC's "ATP 7-to-1" (appendix I.2); with `aggregation.server_sends` that goes
//!   through the switch as the others' do ("8-to-1").
//! - Packets are RoCEv2 datagrams. Ranks send a digest of what they ask for, and the server tells all of them if they differ.
//! - A Barrier is an AllReduce of nothing; the paper has AllReduce alone.
//! - One switch: the paper's two levels, racks and one above them, are not here.
#![no_std]
extern crate alloc;

mod aggregators;
mod config;
mod design;
mod mutation;
mod partial;
mod rank;
mod server;
mod worker;

pub use aggregators::{Aggregators, AggregatorsConfig};
pub use config::{AtpShape, AtpShapeError};
pub use design::{ATP, Aggregation, AtpDesign, AtpParams};
pub use mutation::Mutation;
pub use rank::AtpRank;
pub use worker::WorkerConfig;
