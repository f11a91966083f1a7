//! The tables of one port: the CAM lookup table, which finds an entry by address and type, and the merging table, whose entries are in
//! the order of their last access (CAIS III-A2, figure 5).
//!
//! The lookup is open addressing with linear probing, in twice as many places as there can be entries; what is taken out is closed up, so
//! that nothing has to be cleaned later. The order of accesses is a list through the entries. Each of both takes the same time however many
//! entries there are.

use crate::statistics::Unseen;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Payload;
use quincunx_units::Instant;
use quincunx_wire::flit::NodeId;

/// What an entry merges.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `ld.cais`.
    Load,
    /// `red.cais`.
    Reduction,
}

/// The status of an entry (III-A2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// A load whose data the home has been asked for.
    LoadWait,
    /// A load whose data are cached.
    LoadReady,
    /// A sum in the making.
    Reduction,
}

/// A load that waits for its data: what the Content Array keeps of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Waiting {
    pub(crate) requester: NodeId,
    pub(crate) tag: u32,
}

/// An entry of the merging table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Entry<P> {
    pub(crate) address: u64,
    pub(crate) kind: Kind,
    pub(crate) status: Status,
    /// Requests of a load; contributions to a sum.
    pub(crate) count: u32,
    /// Accelerators that have asked.
    pub(crate) seen: u64,
    /// Those of them that wait to hear that all others have.
    pub(crate) notify: u64,
    /// Bytes.
    pub(crate) length: usize,
    pub(crate) last_access: Instant,
    /// Cached data, or the sum.
    pub(crate) data: P,
    /// In order.
    pub(crate) waiting: Vec<Waiting>,
    /// When the first and the latest request came.
    pub(crate) requested: Unseen<[Instant; 2]>,
    older: u32,
    newer: u32,
}

const NONE: u32 = u32::MAX;

/// The tables of one port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Table<P> {
    capacity: usize,
    /// The lookup: one more than an entry's number; zero is an empty place. A power of two of them.
    places: Vec<u32>,
    entries: Vec<Entry<P>>,
    free: Vec<u32>,
    oldest: u32,
    newest: u32,
    /// Of the entries that do not wait for their data the one that was not accessed for the longest time, and when it was: what may expire next.
    settled: Option<(u32, Instant)>,
}

impl<P: Payload> Table<P> {
    /// Tables with room for `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        let places = (2 * capacity.min(1024)).next_power_of_two();
        Self {
            capacity,
            places: vec![0; places],
            entries: Vec::new(),
            free: Vec::new(),
            oldest: NONE,
            newest: NONE,
            settled: None,
        }
    }

    /// Entries that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken() >= self.capacity
    }

    /// Requests that wait: loads for their data, contributions for the others of their sum. Walks over all entries.
    pub(crate) fn waiting(&self) -> u64 {
        let waiting = self.entries.iter().filter(|entry| entry.length > 0).map(|entry| match entry.status {
            Status::LoadWait => entry.waiting.len() as u64,
            Status::LoadReady => 0,
            Status::Reduction => u64::from(entry.count),
        });
        waiting.sum()
    }

    /// The most that were ever taken at once.
    pub(crate) fn most(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, number: u32) -> &Entry<P> {
        &self.entries[number as usize]
    }

    pub(crate) fn entry_mut(&mut self, number: u32) -> &mut Entry<P> {
        &mut self.entries[number as usize]
    }

    /// The entry of a number that a peer has given, if it is taken.
    pub(crate) fn known(&self, number: u32) -> Option<&Entry<P>> {
        // What is free has no length.
        self.entries.get(number as usize).filter(|entry| entry.length > 0)
    }

    fn place(&self, address: u64, kind: Kind) -> usize {
        let mixed = (address << 1 | kind as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.places.len() - 1)
    }

    /// The entry of an address and type; of any type, if `kind` is `None`.
    #[inline]
    pub(crate) fn find(&self, address: u64, kind: Kind) -> Option<u32> {
        let mut place = self.place(address, kind);
        loop {
            let number = self.places[place].checked_sub(1)?;
            let entry = &self.entries[number as usize];
            if entry.address == address && entry.kind == kind {
                return Some(number);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
    }

    /// Takes an entry, which is the newest then.
    ///
    /// # Panics
    /// If the table is full.
    pub(crate) fn insert(
        &mut self,
        address: u64,
        status: Status,
        length: usize,
        now: Instant,
        data: P,
    ) -> u32 {
        assert!(!self.is_full(), "room for an entry");
        let kind = match status {
            Status::LoadWait | Status::LoadReady => Kind::Load,
            Status::Reduction => Kind::Reduction,
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                address: 0,
                kind,
                status,
                count: 0,
                seen: 0,
                notify: 0,
                length: 0,
                last_access: Instant::ZERO,
                data: P::zeroed(0),
                waiting: Vec::new(),
                requested: Unseen([Instant::ZERO; 2]),
                older: NONE,
                newer: NONE,
            });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[number as usize];
        (entry.address, entry.kind, entry.status) = (address, kind, status);
        (entry.length, entry.data, entry.requested) = (length, data, Unseen([now; 2]));
        if self.entries.len() * 2 > self.places.len() {
            self.grow();
        } else {
            self.file(number);
        }
        self.append(number, now);
        number
    }

    /// Frees an entry; what it held is the caller's.
    pub(crate) fn remove(&mut self, number: u32) -> P {
        self.unfile(number);
        self.unlink(number);
        let entry = &mut self.entries[number as usize];
        // What is free is equal, whatever it was.
        (entry.address, entry.count, entry.length) = (0, 0, 0);
        (entry.seen, entry.notify) = (0, 0);
        (entry.kind, entry.status, entry.last_access) = (Kind::Load, Status::LoadWait, Instant::ZERO);
        entry.waiting.clear();
        self.free.push(number);
        core::mem::replace(&mut entry.data, P::zeroed(0))
    }

    /// An entry is accessed: it is the newest now.
    pub(crate) fn touch(&mut self, number: u32, now: Instant) {
        if self.newest == number {
            let entry = &mut self.entries[number as usize];
            entry.last_access = now;
            let is_settled = entry.status != Status::LoadWait;
            if is_settled && self.settled.is_none_or(|(first, _)| first == number) {
                self.settled = Some((number, now));
            }
            return;
        }
        self.unlink(number);
        self.append(number, now);
    }

    /// The data of a load have come: it is accessed, and waits no longer.
    pub(crate) fn fill(&mut self, number: u32, data: P, now: Instant) {
        let entry = &mut self.entries[number as usize];
        (entry.status, entry.data) = (Status::LoadReady, data);
        self.touch(number, now);
    }

    /// Of the entries that do not wait for their data the one that was not accessed for the longest time, and its last access.
    pub(crate) const fn first_to_expire(&self) -> Option<(u32, Instant)> {
        self.settled
    }

    /// The entry that was not accessed for the longest time.
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The entry that was accessed next after this one.
    pub(crate) fn newer(&self, number: u32) -> Option<u32> {
        let newer = self.entries[number as usize].newer;
        (newer != NONE).then_some(newer)
    }

    fn append(&mut self, number: u32, now: Instant) {
        let older = core::mem::replace(&mut self.newest, number);
        let entry = &mut self.entries[number as usize];
        (entry.older, entry.newer, entry.last_access) = (older, NONE, now);
        if entry.status != Status::LoadWait && self.settled.is_none() {
            self.settled = Some((number, now));
        }
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = number,
            None => self.oldest = number,
        }
    }

    fn unlink(&mut self, number: u32) {
        let entry = &mut self.entries[number as usize];
        let (older, newer) = (entry.older, entry.newer);
        (entry.older, entry.newer) = (NONE, NONE);
        if self.settled.is_some_and(|(first, _)| first == number) {
            self.settled = self.settled_from(newer);
        }
        match self.entries.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    /// The first entry from this one on that does not wait for its data.
    fn settled_from(&self, mut number: u32) -> Option<(u32, Instant)> {
        while let Some(entry) = self.entries.get(number as usize) {
            if entry.status != Status::LoadWait {
                return Some((number, entry.last_access));
            }
            number = entry.newer;
        }
        None
    }

    fn file(&mut self, number: u32) {
        let entry = &self.entries[number as usize];
        let mut place = self.place(entry.address, entry.kind);
        while self.places[place] != 0 {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = number + 1;
    }

    /// Takes an entry out of the lookup, and closes up what stands behind it.
    fn unfile(&mut self, number: u32) {
        let mask = self.places.len() - 1;
        let entry = &self.entries[number as usize];
        let mut hole = self.place(entry.address, entry.kind);
        while self.places[hole] != number + 1 {
            hole = (hole + 1) & mask;
        }
        self.places[hole] = 0;
        let mut next = (hole + 1) & mask;
        while let Some(other) = self.places[next].checked_sub(1) {
            let entry = &self.entries[other as usize];
            let home = self.place(entry.address, entry.kind);
            // It may stand in the hole if that lies between its own place and where it stands.
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.places[hole] = other + 1;
                self.places[next] = 0;
                hole = next;
            }
            next = (next + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let places = self.places.len() * 2;
        self.places = vec![0; places];
        for number in 0..self.entries.len() as u32 {
            if self.entries[number as usize].length > 0 {
                self.file(number);
            }
        }
    }

    /// Panics if the state breaks a rule that must always hold.
    pub(crate) fn assert_invariants(&self) {
        let filed = self.places.iter().filter(|&&place| place != 0).count();
        assert_eq!(filed, self.taken(), "every entry that is taken can be found");
        assert!(self.taken() <= self.capacity, "no more entries than there is room for");
        assert_eq!(self.settled, self.settled_from(self.oldest), "what may expire next");
        let (mut listed, mut next, mut before) = (0, self.oldest(), Instant::ZERO);
        while let Some(number) = next {
            let entry = self.entry(number);
            assert_eq!(self.find(entry.address, entry.kind), Some(number), "found by address and type");
            assert!(entry.last_access >= before, "in the order of accesses");
            let waits = entry.status == Status::LoadWait;
            assert_eq!(waits, !entry.waiting.is_empty(), "who waits, waits for data");
            assert_eq!(entry.kind == Kind::Reduction, entry.status == Status::Reduction, "type and status");
            let held = if waits { 0 } else { entry.length };
            assert_eq!(entry.data.length(), held, "what an entry holds");
            assert!(entry.count >= entry.seen.count_ones(), "who was seen has asked");
            assert_eq!(entry.notify & !entry.seen, 0, "who waits to hear of the others has asked");
            (listed, next, before) = (listed + 1, self.newer(number), entry.last_access);
        }
        assert_eq!(listed, self.taken(), "every entry that is taken is in the order of accesses");
    }
}
