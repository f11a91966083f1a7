//! NVLS: accelerators reduce and multicast through the switch by memory instructions of their own (SCIN 2.2).
//!
//! - [`Multicast`] is what computes in a switch: `multimem.ld_reduce` reads all members and answers with the
//!   reduction, `multimem.st` writes at all members, `multimem.red` adds to a word of all members, or adds up what all
//!   members push and writes the sum at all of them.
//! - [`NvlsKernel`] is the AllReduce made of these, on one accelerator: a barrier, reduced loads of its own part, a
//!   store of each piece to all as it comes, a fence, a barrier. With `nvls.all_reduce=push` it is a barrier, a push of its
//!   whole vector, a fence, a barrier (CAIS II-C).
//!
//! Where we decide, and why: a store is answered when all members have answered, so that a fence behind it means what
//! it says; the switch takes no time to reduce, which favours it; the members are all accelerators, whose data lies
//! at the same addresses.
#![no_std]
extern crate alloc;

mod config;
mod design;
mod drops;
mod kernel;
mod multicast;
mod mutation;
mod push;
mod unit;

pub use config::MulticastConfig;
pub use design::{NVLS, Nvls, NvlsOptions, NvlsParams};
pub use drops::MulticastDrop;
pub use kernel::{AllReduceMode, NvlsConfig, NvlsKernel};
pub use multicast::Multicast;
pub use mutation::Mutation;
