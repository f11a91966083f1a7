//! The contract between a protocol and whatever drives it. No protocol lives here.
//!
//! An [`Engine`] is a state machine without input or output of its own: frames, named timers and commands go in;
//! frames, timers and events come out through a [`Sink`]. It knows no clock, socket, thread, randomness or unordered
//! map, so that a network driver, a simulator and a model checker can all run the same code.
//!
//! [`verbs`] is the other seam: what a host's transport offers to the collective above it. [`shared_memory`] is the
//! same for the accelerators of a memory fabric, [`writes`] what an application writes to others itself, [`routing`] whom tokens are for.
//! What runs above a seam is a value of any type: see [`erased`].
#![no_std]
extern crate alloc;

mod agreement;
mod channels;
mod contract;
mod erased;
mod lengths;
mod mutation;
mod program;
mod round_trip;
pub mod routing;
pub mod shared_memory;
mod sparse;
mod terms;
pub mod verbs;
mod verified;
pub mod writes;

#[doc(hidden)]
pub use alloc::boxed::Box;
pub use channels::{Channels, MAX_CHANNELS};
pub use contract::{Engine, Frame, PortId, Sink};
pub use mutation::UnknownMutation;
pub use round_trip::{Missing, RoundTrip};
pub use sparse::Sparse;
pub use terms::Terms;
pub use verified::Verified;
