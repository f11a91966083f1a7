//! The group sync table: who of a group of thread blocks has come to a point (CAIS III-B3); and the boundaries of streams.

use crate::statistics::{GroupStatistics, Unseen};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::MAX_TAG;

/// The tag of a sync before a thread block is launched (III-B2).
pub const PRE_LAUNCH: u32 = 0;
/// The tag of a sync before the first access with the CAIS bit (III-B2).
pub const PRE_ACCESS: u32 = 1;
/// The tag of a release, which the merging table sends and no sync asks for: all have loaded from an address (III-B2, request throttling).
pub const LOADED: u32 = 2;
/// The same: all have added to an address.
pub const ADDED: u32 = 3;
/// The tag of a sync at the end of a stream's collective; its address is the number of the stream at its unit. Ours: all accelerators have
/// loaded what they wanted, and none has begun anything that writes over it. What the unit caches is forgotten then.
pub const BOUNDARY: u32 = MAX_TAG;

/// A group's number, and the point.
type Key = (u64, u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SyncGroup {
    present: u64,
    since: Instant,
}

/// What has come of a sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// It waits for others.
    Waits,
    /// These are released.
    Released(u64),
}

/// A sync that makes no sense: the same accelerator twice, or a stream that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Misplaced;

/// The table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Groups {
    capacity: usize,
    waiting: BTreeMap<Key, SyncGroup>,
    /// Those that wait, in the order in which they began to; and some that do not wait any more.
    order: VecDeque<(Key, Instant)>,
    /// Who has come to the boundary of each stream.
    boundaries: Vec<u64>,
    pub(crate) statistics: Unseen<GroupStatistics>,
}

impl Groups {
    pub(crate) fn new(capacity: usize, streams: u16) -> Self {
        Self {
            capacity,
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            boundaries: vec![0; streams.into()],
            statistics: Unseen::default(),
        }
    }

    /// An accelerator comes to a point of a group that `expected` belong to.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        key: Key,
        member: u16,
        expected: u32,
    ) -> Result<Arrival, Misplaced> {
        let bit = 1 << member;
        let is_full = self.waiting.len() >= self.capacity;
        let statistics = &mut self.statistics.0;
        let present = match self.waiting.get_mut(&key) {
            Some(group) if group.present & bit != 0 => return Err(Misplaced),
            Some(group) => {
                group.present |= bit;
                group.present
            }
            None => bit,
        };
        statistics.syncs += 1;
        if present.count_ones() >= expected {
            self.waiting.remove(&key);
            statistics.released += 1;
            self.tidy();
            return Ok(Arrival::Released(present));
        }
        if present == bit && !self.waiting.contains_key(&key) {
            if is_full {
                statistics.uncoordinated += 1;
                return Ok(Arrival::Released(bit));
            }
            self.waiting.insert(key, SyncGroup { present, since: now });
            self.order.push_back((key, now));
        }
        Ok(Arrival::Waits)
    }

    /// An accelerator comes to the boundary of a stream.
    pub(crate) fn arrive_at_boundary(
        &mut self,
        stream: u64,
        member: u16,
        expected: u32,
    ) -> Result<Arrival, Misplaced> {
        let boundary = usize::try_from(stream).ok().and_then(|stream| self.boundaries.get_mut(stream));
        let boundary = boundary.ok_or(Misplaced)?;
        if *boundary & 1 << member != 0 {
            return Err(Misplaced);
        }
        *boundary |= 1 << member;
        if boundary.count_ones() < expected {
            return Ok(Arrival::Waits);
        }
        Ok(Arrival::Released(core::mem::take(boundary)))
    }

    /// Since when the group that has waited longest waits.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.order.front().map(|&(_, since)| since)
    }

    /// Takes a group that has waited for `timeout` or longer.
    pub(crate) fn expire(&mut self, now: Instant, timeout: Duration) -> Option<(Key, u64)> {
        let &(key, since) = self.order.front()?;
        if now < since + timeout {
            return None;
        }
        let group = self.waiting.remove(&key).expect("the first of the order waits");
        self.statistics.0.timed_out += 1;
        self.tidy();
        Some((key, group.present))
    }

    /// Lets the order begin with a group that waits.
    fn tidy(&mut self) {
        while let Some(&(key, since)) = self.order.front() {
            if self.waiting.get(&key).is_some_and(|group| group.since == since) {
                return;
            }
            self.order.pop_front();
        }
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.waiting.len() <= self.capacity, "no more groups than there is room for");
        assert_eq!(self.waiting.is_empty(), self.order.is_empty(), "the order begins with one that waits");
        assert!(
            self.waiting.values().all(|group| group.present != 0),
            "somebody of a group that waits is there"
        );
        assert!(self.order.iter().map(|&(_, since)| since).is_sorted(), "in the order of time");
    }
}
