//! RoCEv2 frames: checked views over bytes, and small reprs that can only say meaningful things.
//!
//! Parsing never panics and never trusts a length; building writes into a caller's buffer and never allocates.
#![no_std]
extern crate alloc;

mod psn;
mod roce;

pub use psn::{Psn, SequenceNumber};
pub use roce::{
    Aeth, AtomicEth, Endpoint, MAX_QPN, NakCode, Operation, Position, QpNumber, Reth, RoceHeader, Syndrome,
};
