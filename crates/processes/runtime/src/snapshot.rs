//! What operators see of a switch: a snapshot of its counts that other threads may read, and log lines.

use quincunx_collective::GroupId;
use quincunx_control_grpc::RankArrivals;
use quincunx_driver_net::{Statistics, Traffic};
use quincunx_ports::PortCounts;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Drops;

/// How old a snapshot may be while the switch runs.
const SNAPSHOT: Duration = Duration::from_millis(100);

/// How often at most a reason to drop frames is logged.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);

/// What a switch has counted since its start, and what it has installed now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SwitchCounts {
    /// What left.
    pub sent: Traffic,
    /// What came.
    pub received: Traffic,
    /// Frames dropped.
    pub dropped: Drops,
    /// What passed the ports of a switch that has some, by interface: frames of groups and all others.
    pub ports: BTreeMap<String, PortCounts>,
    /// Addresses that are known behind these ports.
    pub addresses: usize,
    /// Groups that are installed.
    pub groups: u64,
    /// Payload and degree buffers that they hold, in bytes.
    pub memory_held: u64,
    /// Connections that they have here.
    pub endpoints_held: u64,
    /// Groups installed since the start.
    pub installed: u64,
    /// Groups removed since the start, because they were destroyed or have failed.
    pub removed: u64,
    /// Groups that were refused here.
    pub refused: u64,
    /// Times that a group got the memory that it shares with others.
    pub locks_granted: u64,
    /// Times that another group had it.
    pub locks_refused: u64,
    /// Of those, times that the other group made nothing of it: another switch refused that one.
    pub locks_in_vain: u64,
    /// How long groups had it, all of them together.
    pub locks_held: Duration,
    /// How late the ranks of each group that is installed have come.
    pub arrivals: BTreeMap<GroupId, Vec<RankArrivals>>,
}

/// What is counted below the groups.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) dropped: Drops,
    pub(crate) ports: BTreeMap<String, PortCounts>,
    pub(crate) addresses: usize,
    pub(crate) arrivals: BTreeMap<GroupId, Vec<RankArrivals>>,
}

impl SwitchCounts {
    /// Adds what another core of the same switch has counted.
    fn add(&mut self, other: &Self) {
        let add = |to: &mut Traffic, of: &Traffic| {
            to.frames += of.frames;
            to.bytes += of.bytes;
            to.datagrams += of.datagrams;
            to.system_calls += of.system_calls;
        };
        add(&mut self.sent, &other.sent);
        add(&mut self.received, &other.received);
        for (reason, frames) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += frames;
        }
        self.ports.extend(other.ports.clone());
        self.addresses += other.addresses;
        self.groups += other.groups;
        self.memory_held += other.memory_held;
        self.endpoints_held += other.endpoints_held;
        self.installed += other.installed;
        self.removed += other.removed;
        self.refused += other.refused;
        self.locks_granted += other.locks_granted;
        self.locks_refused += other.locks_refused;
        self.locks_in_vain += other.locks_in_vain;
        self.locks_held += other.locks_held;
        self.arrivals.extend(other.arrivals.clone());
    }
}

/// The last snapshot of a switch, to be read from other threads.
#[derive(Debug, Default)]
pub struct SwitchSnapshot(Mutex<Vec<SwitchCounts>>);

impl SwitchSnapshot {
    /// What the switch had counted a tenth of a second ago, at most, over all its cores.
    pub fn counts(&self) -> SwitchCounts {
        let mut all = SwitchCounts::default();
        self.lock().iter().for_each(|core| all.add(core));
        all
    }

    /// The same of each core. A group with channels is one of each core that has some.
    pub fn cores(&self) -> Vec<SwitchCounts> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SwitchCounts>> {
        // What is in it is whole after every assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a core's part of a [`SwitchSnapshot`] up to date, and logs what was dropped.
pub(crate) struct SnapshotWriter<'a> {
    snapshot: &'a SwitchSnapshot,
    core: usize,
    next_snapshot: Instant,
    next_drops: Instant,
    /// What was logged.
    told: Drops,
}

impl<'a> SnapshotWriter<'a> {
    /// Of a core of the switch, counted from zero; those before it are there already.
    pub(crate) fn new(snapshot: &'a SwitchSnapshot, core: usize) -> Self {
        let now = Instant::now();
        snapshot.lock().resize(core + 1, SwitchCounts::default());
        Self { snapshot, core, next_snapshot: now, next_drops: now, told: Drops::new() }
    }

    /// Changes what is installed.
    pub(crate) fn note(&self, change: impl FnOnce(&mut SwitchCounts)) {
        change(&mut self.snapshot.lock()[self.core]);
    }

    /// Takes a snapshot, if the last one is old.
    pub(crate) fn look(&mut self, statistics: &Statistics, counted: impl FnOnce() -> Counted) {
        let now = Instant::now();
        if now < self.next_snapshot {
            return;
        }
        self.next_snapshot = now + SNAPSHOT;
        self.take(statistics, counted(), now >= self.next_drops);
    }

    /// Takes the last snapshot, whatever the time.
    pub(crate) fn end(&mut self, statistics: &Statistics, counted: Counted) {
        self.take(statistics, counted, true);
    }

    fn take(&mut self, statistics: &Statistics, counted: Counted, is_told: bool) {
        let Counted { dropped: drops, ports, addresses, arrivals } = counted;
        if is_told && drops != self.told {
            self.next_drops = Instant::now() + DROPS_INTERVAL;
            for (reason, frames, all) in more(&drops, &self.told) {
                tracing::warn!(reason, frames, all, "frames dropped");
            }
            self.told.clone_from(&drops);
        }
        let counts = &mut self.snapshot.lock()[self.core];
        (counts.sent, counts.received, counts.dropped) = (statistics.sent, statistics.received, drops);
        (counts.ports, counts.addresses, counts.arrivals) = (ports, addresses, arrivals);
    }
}

/// What has been dropped since, by reason, and in all.
fn more<'a>(now: &'a Drops, then: &'a Drops) -> impl Iterator<Item = (&'a str, u64, u64)> {
    now.iter().filter_map(|(reason, &all)| {
        let frames = all - then.get(reason).copied().unwrap_or(0).min(all);
        (frames > 0).then_some((reason.as_str(), frames, all))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_drops_is_what_has_been_dropped_since() {
        let drops = |drops: &[(&str, u64)]| -> Drops {
            drops.iter().map(|(reason, frames)| ((*reason).to_owned(), *frames)).collect()
        };
        let (then, now) = (drops(&[("a", 3), ("b", 1)]), drops(&[("a", 3), ("b", 5), ("c", 2)]));
        assert_eq!(more(&now, &then).collect::<Vec<_>>(), [("b", 4, 5), ("c", 2, 2)]);
    }
}
