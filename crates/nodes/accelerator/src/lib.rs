//! An accelerator at the granularity of thread blocks (CAIS IV-A): SMs that hold blocks and compute one after the other, kernels whose blocks
//! are dispatched when what they wait for has happened, tiles that are fetched from other accelerators and kept, and the packets that all of
//! this puts on the links of a memory fabric.
//!
//! - [`Program`] is what one accelerator runs, as data: kernels, blocks, tiles, counters.
//! - [`Gpu`] is the accelerator, a state machine that a driver runs.
//!
//! What it leaves out: an SM's warps and its own cache, contention for the accelerator's own memory, and what kernels compute: a block takes
//! the time that the program says, and sends what lies in memory. So real numbers flow, and tell whether every contribution is counted once, but
//! they are not those of a product of matrices.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod access;
mod blocks;
mod cache;
mod config;
mod gpu;
mod program;
mod schedule;
mod sending;
mod sms;

pub use access::{Granularity, Request, Requests, Rows, SECTOR};
pub use config::GpuConfig;
pub use gpu::{Gpu, GpuDrop, GpuEvent, GpuSink, GpuTimer, KernelProgress};
pub use program::*;
pub use schedule::{Machine, Offload, Overlap, Plan, Schedule, SubLayer, Unit};
