//! What a merge unit counts, for those who measure it. Nothing that it does depends on any of it.

use core::hash::{Hash, Hasher};
use quincunx_units::{Duration, Instant};

/// What is not part of a state: all of it is equal, so that an exploration does not tell states apart by it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unseen<T>(pub(crate) T);

impl<T> PartialEq for Unseen<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Unseen<T> {}

impl<T> Hash for Unseen<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What has passed the merging table of one port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStatistics {
    /// Entries that are taken.
    pub entries: usize,
    /// The most that were taken at once.
    pub peak: usize,
    /// Loads that came with the CAIS bit.
    pub loads: u64,
    /// Of these, those that found an entry: the home was not asked for them.
    pub merged_loads: u64,
    /// Reductions that came with the CAIS bit.
    pub reductions: u64,
    /// Of these, those that found an entry.
    pub merged_reductions: u64,
    /// Sums that left with all contributions in them.
    pub whole_sums: u64,
    /// Sums that left before.
    pub partial_sums: u64,
    /// Requests that passed by the tables: they were full of loads that wait, or had an entry of another length.
    pub bypassed: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Entries that nobody accessed for too long.
    pub timed_out: u64,
    /// Entries that are over, however they ended.
    pub ended: u64,
    /// From the first to the latest request of an entry, all that are over together. The mean is this over [`ended`](Self::ended).
    pub waited: Duration,
}

/// What has passed the group sync table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupStatistics {
    /// Syncs that came.
    pub syncs: u64,
    /// Groups that were released together.
    pub released: u64,
    /// Syncs that were answered at once, since the table was full.
    pub uncoordinated: u64,
    /// Groups that were released before all were there, since they had waited too long.
    pub timed_out: u64,
}

impl PortStatistics {
    pub(crate) fn end(&mut self, requested: Unseen<[Instant; 2]>) {
        let [first, latest] = requested.0;
        self.ended += 1;
        self.waited += latest.since(first);
    }
}
