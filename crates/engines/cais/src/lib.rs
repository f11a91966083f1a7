//! CAIS: loads and reductions that compute kernels issue, merged in the switch (Compute-Aware In-Switch computing).
//!
//! - [`Merge`] is what computes in a switch (III-A2 to III-A4): a CAM lookup table and a merging table for each home's port, the two
//!   micro-functions, eviction, time-out; and the group sync table (III-B3).
//! - [`CaisKernel`] makes AllReduce, ReduceScatter and AllGather of loads and reductions alone, to hold the unit against references and to
//!   explore it. The kernels that the paper is about compute meanwhile; they are not here.
//!
//! The CAIS bit is the INC bit of the header, of a `Read` (`ld.cais`) or a `Reduce` (`red.cais`) for the home. The tag of a `Reduce` says how
//! many contributions are in it, so that a home knows when all are there, however they came.
//!
//! Where we decide what the paper leaves open, and why:
//! - **A load entry ends when N-1 different accelerators have asked**, not after N-1 requests (III-A3, step 5): two thread blocks of one may
//!   load the same line, and would end it before others have asked. A reduction entry counts contributions.
//! - **The unit reads the home itself**, and answers all who wait; step 2 sends on the first request. The same packets pass. The tag of its
//!   read is the entry's number; no generation is needed, for an entry that waits is never given up.
//! - **Who waits** takes room in the Content Array: for twice as many as there are accelerators. A request that finds no room, or an entry of
//!   another length, goes past the unit.
//! - **A contribution that is whole by itself** (two accelerators) takes no entry.
//! - **What goes past the unit, and what an eviction sends, holds the buffer of the packet that caused it** until it has left, so that
//!   accelerators are held back. What a time-out sends does not: there are no more of these than entries.
//! - **Data that come are an access.** The time-out is ours, five microseconds; what is due first has the unit's one timer. Groups have a
//!   time-out of their own, twenty times as long: who waits for an accelerator that is behind must not be released before it is there.
//! - **Boundaries** are ours. The paper says nothing of coherence. An entry whose other readers went past the unit stays with its data, and
//!   would answer the next kernel's loads of the same address with what was there before; the exploration shows it (`boundary-keeps-data`).
//!   At a boundary, a sync of its own that is never answered early, all accelerators have loaded what they wanted, and the switch forgets
//!   what it caches.
//! - **A group that waits too long is released**, as an entry ends: one of it may have been answered at once while the table was full.
//! - **The sync table** has 1024 groups.
//! - **Requests are throttled** (III-B2) by who sends them; the merging table's entries tell whom a request asks them to (its N bit) when all
//!   others have come to the address, or when the entry ends before: nobody waits for what the switch does not follow any more.
//! - **The hash of an address** ([`link_of`](quincunx_engine::shared_memory::link_of)) folds the number of its line by exclusive or.
#![no_std]
extern crate alloc;

mod config;
mod design;
mod drops;
mod groups;
mod kernel;
mod merge;
mod mutation;
mod statistics;
mod table;
mod unit;

pub use config::{ConfigError, MergeConfig};
pub use design::{CAIS, Cais, CaisParams, LoadParams, MergeParams, SyncParams};
pub use drops::MergeDrop;
pub use groups::{ADDED, BOUNDARY, LOADED, PRE_ACCESS, PRE_LAUNCH};
pub use kernel::{CaisConfig, CaisKernel};
pub use merge::Merge;
pub use mutation::Mutation;
pub use statistics::{GroupStatistics, PortStatistics};
pub use table::{Kind, Status};
