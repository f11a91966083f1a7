//! One scenario, every driver, same outcome.
//!
//! A [`Scenario`] is a collective, its data, and the frames that are lost. [`run_everywhere`] runs it on each of
//! [`DRIVERS`]: the same nodes, made from the same contexts, and a [`Run`] comes back from each. `driver-des` runs it on links
//! in virtual time; `driver-net` on UDP sockets of loopback addresses, a thread a node, through the codec of the runtime.
//!
//! What must be the same, and what need not be:
//!
//! - **Results**, always: to the bit, of real numbers whose sum depends on the order of the terms.
//! - **Requests**, always ([`Run::requests`]): for each direction of each link and each queue pair the same PSNs, with the
//!   same operation, addresses and payload. Two things are left out. The acknowledge request bit: a queue pair sets it on the
//!   last packet that it has to send, and how far it has come when the next message is posted is a matter of timing.
//!   Retransmissions: how many packets a sender that goes back has sent meanwhile is, too, and so is whether a time-out has
//!   fired.
//! - **The order in which requests are sent first** ([`Run::first_transmissions`]), but for losses under Mode-II: its switches
//!   pass on what is complete, in whatever order that comes about.
//! - **What is sent in all** ([`Run::payloads`]), on a mesh whose ranks relay: between what they send themselves they pass on what
//!   others send them, when it comes.
//! - **Every frame in order** ([`Run::everything`]), answers and retransmissions among them, where nothing is left to timing:
//!   a sender has one message on its way at most, what ends it comes from the far end (the result of an AllReduce, an
//!   acknowledge that Mode-II passes on, a ring's next rank), and nothing that is lost is left to a time-out. Elsewhere one
//!   answer may do for several packets, a sender that runs ahead of others finds a switch without room and is told so (Reduce
//!   and Broadcast in Mode-I and Mode-III), and a result may take the place of an acknowledge.
//! - **Requests in order, and answers in order** ([`Run::apart`]), but not how the ones fall between the others, where both go
//!   the same way and neither waits for the other: the credits of a ring's AllReduce.
//!
//! A loss is named by the direction of a link and a frame's number there, counted from 0 in the order in which it is sent:
//! `Simulation::set_faults` of `driver-des`, `Node::set_faults` of `driver-net`. It is the same frame in both as long as all
//! frames before it are, see above; [`Run::lost`] says which it was.
//!
//! Nothing here depends on how long anything takes: real time-outs are either never reached, or repair what is lost, and
//! what they repair is not compared frame by frame.

mod cluster;
mod des;
mod net;
mod run;
mod scenario;

pub use run::{Flow, Run, RunError, Sent};
pub use scenario::{Losses, Scenario};

/// Runs a scenario.
type Drive = fn(&Scenario) -> Result<Run, RunError>;

/// All drivers, by name. A driver that explores every order of events has no single run; it stands beside these when it
/// answers with one that is compared like the others, or with the set of its outcomes, in which these are to be found.
pub const DRIVERS: [(&str, Drive); 2] = [("driver-des", des::run), ("driver-net", net::run)];

/// Runs a scenario on each driver, in their order.
///
/// # Panics
/// If a run does not come to its end: with the name of its driver and the reason.
pub fn run_everywhere(scenario: &Scenario) -> [Run; DRIVERS.len()] {
    DRIVERS.map(|(name, drive)| drive(scenario).unwrap_or_else(|error| panic!("{name}: {error}")))
}
