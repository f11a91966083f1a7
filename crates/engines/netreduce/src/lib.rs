//! AllReduce-Switch (Liu et al., 2021): an Ethernet switch that adds up the frames of NetReduce as they pass from rank to rank. What
//! happens to a frame, bit by bit, is decided in `rtl/allreduce_switch/README.md`, which the hardware keeps to as well.
//!
//! Ranks write to their next rank, in a ring, with ordinary RDMA Writes ([`NetReduce`]). The switch takes the frames that say so, and
//! sends each on with the sum of all ranks' frames of that place in it ([`Aggregator`]): so everybody's Write brings the result, and
//! who acknowledges, asks again or gives up is RoCE's matter. On a fabric whose ways are known it is a group's part of a switch
//! ([`NetReduceDatapath`]); by itself it is a whole switch that learns addresses and forwards whatever else passes ([`EthernetSwitch`]).
//!
//! It does not compute floating-point sums in any order but its own, it does not repair what hosts must not do (a fifth
//! message over the first), and it is one switch: trees of them are not in the paper.
#![no_std]
extern crate alloc;

mod aggregator;
mod bits;
mod config;
mod datapath;
mod design;
mod ethernet;
mod flows;
mod host;
mod mutation;
mod registers;

pub use aggregator::{Aggregator, Arrival, Destination, DropReason, Judgement, Outlet, Reason};
pub use config::{ConfigError, Shape};
pub use datapath::{Latencies, NetReduceDatapath, NetReduceDatapathConfig};
pub use design::{AggregationSwitch, NETREDUCE, NetReduceDesign, NetReduceParams};
pub use ethernet::{EthernetDrop, EthernetHeader, EthernetSwitch, EthernetSwitchConfig, MacTable, Way};
pub use host::{NetReduce, NetReduceConfig};
pub use mutation::Mutation;
pub use registers::{PortConfig, RefusedRegister};
