//! CAIS: loads and reductions that compute kernels issue, merged in the switch (Compute-Aware In-Switch computing).
#![no_std]
extern crate alloc;

mod config;
mod design;
mod groups;
mod kernel;
mod merge;
mod mutation;
mod statistics;
mod table;
mod unit;

pub use config::{ConfigError, MergeConfig};
pub use design::{CAIS, Cais, CaisParams, LoadParams, MergeParams, SyncParams};
pub use groups::{BOUNDARY, PRE_ACCESS, PRE_LAUNCH};
pub use kernel::{CaisConfig, CaisKernel};
pub use merge::Merge;
pub use mutation::Mutation;
pub use statistics::{GroupStatistics, PortStatistics};
pub use table::{Kind, Status};
pub use unit::MergeDrop;
