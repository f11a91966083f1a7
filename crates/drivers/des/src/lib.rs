//! Drives engines in virtual time: nodes, the links between them, and a queue of what is due.
//!
//! The driver knows no protocol. Its owner hands it engines, and a [`Medium`] that says how long a frame is on the wire.
//! A [`Simulation`] owns all of its state, so that many run side by side, one a thread; nothing is global, and no
//! outcome depends on anything but the configuration and the seed. The call loop of the owner:
//!
//! ```text
//! let mut simulation = Simulation::new(medium, seed);
//! let (a, b) = (simulation.add_node(engine), simulation.add_node(other));
//! simulation.connect((a, &[PortId(0)]), (b, &[PortId(3)]), LinkConfig { rate, latency });
//! simulation.command(a, order)?;
//! while let Stopped::Event(emitted) = simulation.run(Limits { time, steps }) { .. }
//! ```
//!
//! - Time is exact in picoseconds. What is due at one instant happens in the order in which it was scheduled.
//! - A frame costs one entry in the queue, its arrival; a second one only if the sender waits for the port to be free.
//! - Nothing is allocated for a frame in steady state, if its payload needs no allocation.
//! - Faults (a `FaultPlan` of `quincunx-network`), queue limits, congestion marks, pauses and background traffic belong to one
//!   direction of one link.
//! - A whole run can be prescribed by a `FaultList`: a fate for each frame, a time for each firing of a timer
//!   ([`Simulation::prescribe`]).
//! - An [`Observer`] sees every frame: traces and captures are written by it.

mod busy;
mod channel;
mod config;
mod index;
mod medium;
mod network;
mod observer;
mod pause;
mod pausing;
mod places;
mod queue;
mod simulation;
mod timers;

pub use busy::BusyOverTime;
pub use channel::DirectionStatistics;
pub use config::{LinkConfig, PauseConfig, QueueConfig};
pub use index::{Direction, LinkIndex, NodeIndex};
pub use medium::Medium;
pub use network::Emitted;
pub use observer::{Departure, Observer};
pub use queue::EventQueue;
pub use simulation::{Limits, Simulation, Stopped};
