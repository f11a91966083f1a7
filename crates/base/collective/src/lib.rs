//! Collectives as mathematics: the primitives and their reference results, the reductions, block quantization, and what
//! payloads can be.
//!
//! Nothing here knows how data travels. The same protocol runs over real numbers ([`Numbers`]), over lengths alone
//! ([`LengthOnly`]), or over whose elements are in each ([`Provenance`]), because it only ever touches a
//! [`Payload`].
#![no_std]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod bandwidth;
mod block_format;
mod blocks;
mod checksum;
mod fixed_point;
mod gate;
mod length_only;
mod name;
mod numbers;
mod payload;
mod primitive;
mod provenance;
mod quantization;
mod quarter;
mod reduction;
mod reference;
mod routes;
mod sample;
mod simd;
mod tree;

pub use bandwidth::Bandwidths;
pub use block_format::BlockFormat;
pub use fixed_point::{FixedPoint, NOT_FINITE, largest_exponent};
pub use gate::{Choice, Gate, GateKind, Routing};
pub use length_only::LengthOnly;
pub use name::ParseNameError;
pub use numbers::Numbers;
pub use payload::Payload;
pub use primitive::{Collective, GroupId, Rank};
pub use provenance::{Provenance, ProvenanceView};
pub use quantization::{BlockQuantization, BlockSizeError, CodeType, Quantized};
pub use reduction::{DataType, Op, ReduceOp, Reduction};
pub use reference::{Fold, reduce_in_order, reduce_in_tree, reference, wrong_elements};
pub use routes::{Routes, reference_combine, reference_dispatch};
pub use sample::{SplitMix64, exact, noise, pattern};
#[doc(hidden)]
pub use simd::{Without, reduce_without};
pub use tree::accumulate_in_tree;
