//! One trial, every driver, same outcome.
//!
//! A [`Trial`] is a design of a catalog with its settings, a fabric, a collective with its data, and the frames that are lost or
//! doubled. [`run_everywhere`] runs it on each of [`DRIVERS`]: the same nodes of one cluster, told the same by the design's own plan, and a
//! [`Run`] comes back from each. `driver-des` runs it on links in virtual time; `driver-net` on UDP sockets of loopback addresses, a thread
//! a node, through the codec of the runtime. [`explore_every_run`] has `driver-check` look at all runs that there are of the same nodes, and
//! [`Explored`] comes back: that none is wrong, and what there is to be found in the runs of the others.
//!
//! What must be the same, and what need not be:
//!
//! - **Results**, always: to the bit, of real numbers whose sum depends on the order of the terms where the design sets that order.
//! - **Requests** ([`Run::requests`]): for each two nodes that speak to each other and each queue pair the same PSNs, with the
//!   same operation, addresses and payload. Two things are left out. The acknowledge request bit: a queue pair sets it on the
//!   last packet that it has to send, and how far it has come when the next message is posted is a matter of timing.
//!   Retransmissions: how many packets a sender that goes back has sent meanwhile is, too, and so is whether a time-out has
//!   fired.
//! - **The order in which requests are sent first** ([`Run::first_transmissions`]), but for losses under Mode-II: its switches
//!   pass on what is complete, in whatever order that comes about.
//! - **What is sent in all** ([`Run::payloads`]), and not in which order, where a rank sends one peer several things, each when it can:
//!   relays pass on what others send them between what they send themselves; hosts that speak to several others send results between
//!   their own data. And where hosts wait for their peer's buffers: how much is free again goes with data, or in a message without any.
//! - **Every frame in order** ([`Run::everything`]), answers and retransmissions among them, where nothing is left to timing:
//!   a sender has one message on its way at most, what ends it comes from the far end (the result of an AllReduce, an
//!   acknowledge that Mode-II passes on, a ring's next rank), and nothing that is lost is left to a time-out. Elsewhere one
//!   answer may do for several packets, a sender that runs ahead of others finds a switch without room and is told so (Reduce
//!   and Broadcast in Mode-I and Mode-III), and a result may take the place of an acknowledge.
//! - **Requests in order, and answers in order** ([`Run::apart`]), but not how the ones fall between the others, where both go
//!   the same way and neither waits for the other: the credits of a ring's AllReduce.
//!
//! Of all runs that the checker looks at:
//!
//! - **None is wrong**: every rank ends, its result is right, nobody's data is lost or counted twice, whichever frames are lost and doubled,
//!   of as many as the trial loses and doubles.
//! - **What the other drivers' runs did is among it**: the results of a run in virtual time whose elements say whose they are
//!   ([`Trial::contributions`], [`Explored::outcomes`]), and the header of every request that is sent, but for its acknowledge
//!   request bit ([`Explored::unknown_requests`]). Its nodes act at once, those on sockets take in several frames before they answer: a
//!   word of credit may then tell of more than any that the checker sees.
//!
//! A fault is named by two nodes that are connected and a frame's number on the way from one to the other, counted from 0 in the order in
//! which it is sent. It is the same frame in every driver as long as all frames before it are, see above; [`Run::lost`] says which it was.
//! On sockets a frame goes straight to whom it is for: switches that only forward see none, but with RoCE v1, whose frames
//! go to the host's switch. In virtual time it goes over their links, and
//! the number is translated to that on the link.
//!
//! [`run_in_virtual_time`] and [`run_on_sockets`] run a trial with something else where nodes are: `tests/hardware` has hardware in a
//! switch's place, frame by frame through a simulator of it, and holds what all send to what they send around ours.
//!
//! [`conform`] asks for all of that in one call, of a design from anywhere: `examples/own-design` does so for one that is in no catalog here.
//! `tests/catalog` walks over all designs, fabrics, collectives and settings; what is not run is in its table of gaps, with the reason.
//!
//! Nothing here depends on how long anything takes: real time-outs are either never reached, or repair what is lost, and
//! what they repair is not compared frame by frame.

mod check;
mod conform;
mod des;
mod error;
mod net;
mod run;
mod steps;
mod trial;

use quincunx_collective::{Numbers, Provenance, Rank};
use quincunx_engine::verbs::Outcome;

pub use check::{Explored, explore_every_run};
pub use conform::{Nonconformity, conform, explore_beside};
pub use des::{StandIn, run_in_virtual_time};
pub use error::RunError;
pub use net::run_on_sockets;
pub use run::{Flow, Run, Sent};
pub use trial::{Faults, SideBySide, Trial, scenario};

/// Runs a trial.
type Drive = fn(&Trial) -> Result<Run, RunError>;

/// The drivers that run a trial once, by name. `driver-check` runs it in every way: [`explore_every_run`].
pub const DRIVERS: [(&str, Drive); 2] = [("driver-des", des::run), ("driver-net", net::run)];

/// Runs a trial on each driver, in their order.
///
/// # Panics
/// If a run does not come to its end: with the name of its driver and the reason.
pub fn run_everywhere(trial: &Trial) -> [Run; DRIVERS.len()] {
    DRIVERS.map(|(name, drive)| drive(trial).unwrap_or_else(|error| panic!("{name}: {error}")))
}

impl Trial {
    /// What ranks are told in virtual time if `dissenter` is asked for what `other` says, and all others for what this says: by rank, and
    /// nothing where nothing has ended in a while. Of real numbers, with digests, checksums and all.
    ///
    /// # Errors
    /// If the design refuses any of it.
    pub fn told_if_ranks_disagree(
        &self,
        other: &Self,
        dissenter: Rank,
    ) -> Result<Vec<Option<Outcome>>, RunError> {
        des::disagree(self, other, dissenter)
    }

    /// What must come of it, in the order of [`Run::outputs`].
    pub fn expected(&self) -> Vec<Numbers> {
        steps::steps(self).into_iter().flat_map(|step| step.expected).collect()
    }

    /// What comes of a run in virtual time if each element says whose it is, as in [`Explored::outcomes`].
    ///
    /// # Errors
    /// If not all ranks end well.
    pub fn contributions(&self) -> Result<Vec<Provenance>, RunError> {
        des::contributions(self)
    }
}
