//! A switch's recorder (EPIC 6.2): who has locked which part of its memory.

use alloc::collections::BTreeMap;
use quincunx_collective::GroupId;
use quincunx_units::{ByteCount, Duration, Instant};

use super::LockMutation as Mutation;

/// How often a group was granted and refused a switch's memory, and how long it had it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LockCounts {
    /// Times that it got what it asked for.
    pub granted: u64,
    /// Times that another group had it.
    pub refused: u64,
    /// Of `refused`, times that the other group made nothing of it, for another switch had refused that one.
    pub in_vain: u64,
    /// Who had it the last time that it was refused.
    pub held_by: Option<GroupId>,
    /// How long it has had it in all.
    pub held: Duration,
}

/// A lock that is held.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Lock {
    offset: ByteCount,
    length: ByteCount,
    since: Instant,
    /// Groups that were refused because of it.
    refused: alloc::vec::Vec<GroupId>,
}

/// Who has what of the memory of one switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Recorder {
    locks: BTreeMap<GroupId, Lock>,
    counts: BTreeMap<GroupId, LockCounts>,
    now: Instant,
    /// In the checker nothing is counted: each count would be a state of its own.
    uncounted: bool,
    mutation: Option<Mutation>,
}

impl Recorder {
    /// A recorder that counts nothing, and breaks a rule: for the checker.
    pub fn for_checker(mutation: Option<Mutation>) -> Self {
        Self { uncounted: true, mutation, ..Self::default() }
    }

    pub(super) const fn mutation(&self) -> Option<Mutation> {
        self.mutation
    }

    /// It is so late, for what is counted.
    pub fn advance(&mut self, now: Instant) {
        if !self.uncounted {
            self.now = now;
        }
    }

    /// Locks `length` bytes at `offset` for a group, if no other group has a byte of them: whether it does.
    pub fn lock(&mut self, group: GroupId, offset: ByteCount, length: ByteCount) -> bool {
        let overlaps = |lock: &Lock| offset < lock.offset + lock.length && lock.offset < offset + length;
        let in_the_way = self.locks.iter_mut().find(|(holder, lock)| **holder != group && overlaps(lock));
        let mut counts = LockCounts::default();
        let counts = if self.uncounted { &mut counts } else { self.counts.entry(group).or_default() };
        match in_the_way {
            Some((&holder, lock)) if self.mutation != Some(Mutation::GrantsTwice) => {
                counts.refused += 1;
                counts.held_by = Some(holder);
                if !self.uncounted {
                    lock.refused.push(group);
                }
                false
            }
            _ => {
                counts.granted += 1;
                let lock = Lock { offset, length, since: self.now, refused: alloc::vec::Vec::new() };
                self.locks.insert(group, lock);
                true
            }
        }
    }

    /// What the group may have locked is somewhere else from now on.
    pub fn move_to(&mut self, group: GroupId, offset: ByteCount) {
        if let Some(lock) = self.locks.get_mut(&group) {
            lock.offset = offset;
        }
    }

    /// The group has nothing locked any more; `used` says whether it has run in the tree meanwhile.
    pub fn release(&mut self, group: GroupId, used: bool) {
        let Some(lock) = self.locks.remove(&group) else { return };
        if let Some(counts) = self.counts.get_mut(&group) {
            counts.held += self.now.since(lock.since);
        }
        for refused in lock.refused.into_iter().filter(|_| !used) {
            if let Some(counts) = self.counts.get_mut(&refused) {
                counts.in_vain += 1;
            }
        }
    }

    /// The group is over: it has no lock and is not counted.
    pub fn forget(&mut self, group: GroupId) {
        self.release(group, true);
        self.counts.remove(&group);
    }

    /// Whether a group has its memory.
    pub fn holds(&self, group: GroupId) -> bool {
        self.locks.contains_key(&group)
    }

    /// How many locks are held.
    pub fn held(&self) -> usize {
        self.locks.len()
    }

    /// What has been counted, by group; of a lock that is held, as long as it has been so far.
    pub fn counts(&self) -> impl Iterator<Item = (GroupId, LockCounts)> {
        self.counts.iter().map(|(&group, &counts)| {
            let under_way = self.locks.get(&group).map(|lock| self.now.since(lock.since));
            (group, LockCounts { held: counts.held + under_way.unwrap_or_default(), ..counts })
        })
    }

    /// Panics if two groups have locked a byte.
    pub fn assert_invariants(&self) {
        if self.mutation == Some(Mutation::GrantsTwice) {
            return;
        }
        for (a, first) in &self.locks {
            for (b, second) in self.locks.range(a..).skip(1) {
                let apart = first.offset + first.length <= second.offset
                    || second.offset + second.length <= first.offset;
                assert!(apart, "groups {a} and {b} have locked one part of the memory");
            }
        }
    }
}
