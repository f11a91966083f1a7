//! Which entries make room for others, and which have waited too long (CAIS III-A4).

use super::{Held, Merge};
use crate::Mutation;
use crate::table::{Entry, Kind, Status, Table};
use quincunx_collective::Payload;
use quincunx_units::{Duration, Instant};

impl<P: Payload> Merge<P> {
    /// Has room for a new entry in a table, if the rules of eviction (III-A4) let it. What leaves for it keeps the buffer of the packet that
    /// needs the room.
    pub(super) fn evict_if_full(&mut self, now: Instant, home: usize, held: &mut Option<Held>) -> bool {
        let table = &self.tables[home];
        if !table.is_full() {
            return true;
        }
        let oldest = table.oldest().expect("a table that is full has an oldest entry");
        let Entry { status, address, count, .. } = *table.entry(oldest);
        match status {
            Status::LoadWait if self.config.mutation == Some(Mutation::EvictsWaiting) => {
                self.end(now, home, oldest);
            }
            // It is deferred; who wants its place goes past the unit, and nothing else is evicted.
            Status::LoadWait => return false,
            // All who have asked have been answered.
            Status::LoadReady => {
                self.end(now, home, oldest);
            }
            Status::Reduction => {
                let sum = self.end(now, home, oldest);
                if self.config.mutation != Some(Mutation::EvictionDropsPartial) {
                    self.send_sum(now, home, address, count, sum, held.take());
                }
            }
        }
        self.statistics.0[home].evicted += 1;
        true
    }

    /// How long until something is due; `None` if nothing is, or the timer is armed for it already. To be asked after every call.
    pub fn arm(&mut self, now: Instant) -> Option<Duration> {
        let leaves = self.delayed.front().map(|&(at, _)| at);
        let timeout = self.config.timeout;
        // Nothing that comes or is accessed now is due before what the timer is armed for.
        let soonest = now + timeout.min(self.config.group_timeout);
        if let Some(armed) = self.armed
            && armed > now
            && armed <= soonest
            && leaves.is_none_or(|leaves| armed <= leaves)
        {
            return None;
        }
        let entries = self.tables.iter().filter_map(Table::first_to_expire);
        let entry = entries.map(|(_, last)| last + timeout).min();
        let group = self.groups.oldest().map(|since| since + self.config.group_timeout);
        let due = entry.into_iter().chain(group).chain(leaves).min()?;
        self.armed = Some(due);
        Some(due.max(now).since(now))
    }

    /// The entry that nobody has accessed for the longest time, at least for `timeout`, and its last access. A load that waits for its data
    /// outlives the time-out.
    fn first_to_expire(table: &Table<P>, now: Instant, timeout: Duration) -> Option<(u32, Instant)> {
        table.first_to_expire().filter(|&(_, last)| now >= last + timeout)
    }

    /// The timer has fired: what it was armed for is due, whatever a driver without a clock calls now.
    pub fn handle_timer(&mut self, now: Instant) {
        let due = self.armed.take().map_or(now, |armed| armed.max(now));
        self.advance(due);
        let timeout = self.config.timeout;
        for home in 0..self.tables.len() {
            while let Some((number, _)) = Self::first_to_expire(&self.tables[home], due, timeout) {
                let Entry { kind, address, count, .. } = *self.tables[home].entry(number);
                let data = self.end(now, home, number);
                self.statistics.0[home].timed_out += 1;
                if kind == Kind::Reduction && self.config.mutation != Some(Mutation::TimeoutDropsPartial) {
                    self.send_sum(now, home, address, count, data, None);
                }
            }
        }
        while let Some((key, present)) = self.groups.expire(due, self.config.group_timeout) {
            self.release(now, key, present);
        }
    }
}
