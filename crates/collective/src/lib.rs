//! Collectives as mathematics: the primitives and their reference results, the reductions, and what payloads can be.
//!
//! Nothing here knows how data travels. The same protocol runs over real numbers, over lengths alone, or over
//! counts of who contributed, because it only ever touches a [`Payload`].
#![no_std]
extern crate alloc;

mod payload;
mod primitive;
mod reduction;

pub use payload::Payload;
pub use primitive::{Collective, Rank};
pub use reduction::{DataType, ReduceOp, Reduction};
