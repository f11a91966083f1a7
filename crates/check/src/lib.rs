//! What the checker explores: hosts and switches, put together from the engines that also run on real networks,
//! and what must hold in it.
//!
//! A [`Network`] of one [`Protocol`] is a [`System`](quincunx_driver_check::System) for `driver-check`; [`Group`] is that of EPIC. Payloads are
//! counts of contributions, so that a rank whose data is lost or counted twice is seen whatever the numbers are.
//!
//! What is found wrong is a [`Path`]: printed and traced by [`Sequence`], and run once more in virtual time by [`replay`], by a driver that
//! shares no code with the explorer.
#![warn(missing_docs)]

mod described;
mod exchange;
mod flights;
mod group;
mod network;
mod print;
mod replay;
mod trace;

pub use described::Described;
pub use print::Sequence;
pub use quincunx_driver_check::{Exploration, Fault, Path, Statistics, Unfinished, Verdict, explore};
pub use quincunx_epic::Mutation;
pub use quincunx_roce::Reliability;
pub use replay::{Divergence, replay};

pub use exchange::{Exchange, ExchangeError, ExchangeSetup, Kind, Messages, Pair};
pub use group::{Epic, Group, GroupError, Setup};
pub use network::{Network, Node, Owner, Protocol, Task};
