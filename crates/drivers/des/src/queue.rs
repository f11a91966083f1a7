//! The queue of what is due: a heap with four children a node, over keys of 16 bytes, and runs of entries that are due at one instant.
//!
//! Four children fit into one cache line, so a level costs one miss where two levels of a binary heap cost two. A key
//! holds time, sequence number and source in one integer, so that an entry is compared in one go and nothing else is
//! looked at. What a source has to deliver is kept by the source: a link's direction keeps its frames in order of
//! arrival and has only the first of them here, so that the heap has as many entries as there are busy links and armed
//! timers, however many frames are under way.
//!
//! Where links are alike, many entries are due at one instant, and mostly they are put in one behind the other. They make a run, which has
//! one place in the heap: taking the next entry of a run moves nothing.

use quincunx_units::Instant;

/// What is due when, for at most [`MAX_SOURCES`](Self::MAX_SOURCES) sources and 2^40 events.
///
/// ```
/// # use quincunx_driver_des::EventQueue;
/// # use quincunx_units::Instant;
/// let mut queue = EventQueue::new();
/// queue.push(Instant::from_picos(5), 1, 77);
/// queue.push(Instant::from_picos(5), 0, 78);
/// assert_eq!(queue.pop(), Some((Instant::from_picos(5), 0, 78)));
/// ```
#[derive(Clone, Debug)]
pub struct EventQueue {
    /// Time above sequence number above source; for a run the key of its first entry, with the run's place behind all sources.
    heap: Vec<u128>,
    /// The first entry has been taken, and its place waits for the next one: who is at work on an event mostly adds another, which then
    /// goes down from the top, and none has to be moved up from the end for it.
    has_hole: bool,
    runs: [EntryRun; RUNS],
    /// The run that entries are taken from: it is not in the heap.
    current: usize,
    /// The key of its next entry; [`NONE`] if there is none.
    next_of_run: u128,
    /// Entries, in the heap and in runs.
    length: usize,
}

/// Entries of one instant, in order. An entry that comes out of order, or whose instant finds the place taken by another, is in the heap by
/// itself.
#[derive(Clone, Debug, Default)]
struct EntryRun {
    /// When they are due; without entries, when the last one is due that was looked up here and put into the heap.
    at: u64,
    /// Sequence number above source.
    orders: Vec<u64>,
    /// The first of them that has not been taken.
    next: usize,
}

const SOURCE_BITS: u32 = 24;
const ORDER_BITS: u32 = 64;
const ARITY: usize = 4;
const RUN_BITS: u32 = 6;
/// How many runs there can be: where links are alike, several times as many as instants at which something is due.
const RUNS: usize = 1 << RUN_BITS;
/// Later than any key.
const NONE: u128 = u128::MAX;

fn pack(at: u64, order: u64) -> u128 {
    u128::from(at) << ORDER_BITS | u128::from(order)
}

fn order(sequence: u64, source: u32) -> u64 {
    debug_assert!(sequence < 1 << (ORDER_BITS - SOURCE_BITS) && source < 1 << SOURCE_BITS);
    sequence << SOURCE_BITS | u64::from(source)
}

fn unpack(key: u128) -> (Instant, u64, u32) {
    let order = key as u64;
    let at = Instant::from_picos((key >> ORDER_BITS) as u64);
    (at, order >> SOURCE_BITS, (order & ((1 << SOURCE_BITS) - 1)) as u32)
}

/// The place of an instant's run (Fibonacci hashing: Knuth, volume 3, 6.4).
const fn place_of(at: u64) -> usize {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RUN_BITS)) as usize
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl EventQueue {
    /// Sources are numbered below this.
    pub const MAX_SOURCES: u32 = (1 << SOURCE_BITS) - RUNS as u32;

    /// An empty queue.
    pub fn new() -> Self {
        Self {
            heap: Vec::new(),
            has_hole: false,
            runs: [const { EntryRun { at: 0, orders: Vec::new(), next: 0 } }; RUNS],
            current: 0,
            next_of_run: NONE,
            length: 0,
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is due ever.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// When the first entry is due.
    #[inline]
    pub fn next_time(&mut self) -> Option<Instant> {
        let first = self.first_of_heap().min(self.next_of_run);
        (first != NONE).then(|| unpack(first).0)
    }

    /// Adds an entry: `source` has something due at `at`; of equal times the lower `sequence` comes first.
    #[inline]
    pub fn push(&mut self, at: Instant, sequence: u64, source: u32) {
        debug_assert!(source < Self::MAX_SOURCES);
        let (at, order) = (at.as_picos(), order(sequence, source));
        self.length += 1;
        let run = &mut self.runs[place_of(at)];
        if run.at != at {
            if run.orders.is_empty() {
                run.at = at;
            }
        } else if run.orders.last().is_some_and(|&last| last < order) {
            return run.orders.push(order);
        } else if run.orders.is_empty() {
            // The second one of this instant begins a run.
            run.orders.push(order);
            let key = self.key_of_run(place_of(at));
            return self.insert(key);
        }
        self.insert(pack(at, order));
    }

    /// Takes the first entry out: time, sequence number, source.
    #[inline]
    pub fn pop(&mut self) -> Option<(Instant, u64, u32)> {
        self.pop_until(Instant::from_picos(u64::MAX))
    }

    /// Takes the first entry out if it is due at `limit` or before.
    #[inline(always)]
    pub fn pop_until(&mut self, limit: Instant) -> Option<(Instant, u64, u32)> {
        let first = self.first_of_heap();
        let is_of_run = self.next_of_run < first;
        let (at, sequence, source) = unpack(if is_of_run { self.next_of_run } else { first });
        if at > limit || self.length == 0 {
            return None;
        }
        self.length -= 1;
        if is_of_run {
            self.advance_run();
            return Some((at, sequence, source));
        }
        self.has_hole = true;
        match source.checked_sub(Self::MAX_SOURCES) {
            None => Some((at, sequence, source)),
            Some(place) => Some(self.begin_run(place as usize)),
        }
    }

    /// The key of the first entry in the heap, or [`NONE`].
    #[inline]
    fn first_of_heap(&mut self) -> u128 {
        if std::mem::take(&mut self.has_hole) {
            self.fill_hole();
        }
        self.heap.first().copied().unwrap_or(NONE)
    }

    fn fill_hole(&mut self) {
        let last = self.heap.pop().expect("the hole is an entry");
        if !self.heap.is_empty() {
            self.sink(last);
        }
    }

    fn insert(&mut self, key: u128) {
        if std::mem::take(&mut self.has_hole) {
            return self.sink(key);
        }
        self.heap.push(0);
        self.rise(self.heap.len() - 1, key);
    }

    /// What stands in the heap for a run.
    fn key_of_run(&self, place: usize) -> u128 {
        let run = &self.runs[place];
        let order = run.orders[run.next] | ((1 << SOURCE_BITS) - 1);
        pack(run.at, order - (RUNS - 1 - place) as u64)
    }

    /// Takes entries from the run at `place` from now on, which has just been taken out of the heap: the first of them. The run before, if it
    /// has entries left, is interrupted by a lower sequence number of the same instant, and goes back.
    fn begin_run(&mut self, place: usize) -> (Instant, u64, u32) {
        if self.next_of_run != NONE {
            let key = self.key_of_run(self.current);
            self.insert(key);
        }
        self.current = place;
        let run = &self.runs[place];
        let first = pack(run.at, run.orders[run.next]);
        self.advance_run();
        unpack(first)
    }

    /// Goes on to the next entry of the current run.
    #[inline]
    fn advance_run(&mut self) {
        let run = &mut self.runs[self.current];
        run.next += 1;
        self.next_of_run = match run.orders.get(run.next) {
            Some(&order) => pack(run.at, order),
            None => {
                run.orders.clear();
                run.next = 0;
                NONE
            }
        };
    }

    /// Finds the place of `key` upward from the hole at `place`.
    fn rise(&mut self, mut place: usize, key: u128) {
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] <= key {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = key;
    }

    /// Finds the place of `key` downward from the hole at the top.
    fn sink(&mut self, key: u128) {
        let mut place = 0;
        loop {
            let first = ARITY * place + 1;
            let children = match self.heap.get(first..first + ARITY) {
                // All four: pairs first, which the processor compares side by side.
                Some(four) => {
                    let left = usize::from(four[1] < four[0]);
                    let right = 2 + usize::from(four[3] < four[2]);
                    Some(if four[right] < four[left] { right } else { left })
                }
                None => {
                    (first..self.heap.len()).min_by_key(|&child| self.heap[child]).map(|child| child - first)
                }
            };
            match children.map(|child| first + child) {
                Some(child) if self.heap[child] < key => {
                    self.heap[place] = self.heap[child];
                    place = child;
                }
                _ => break,
            }
        }
        self.heap[place] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn at(time: u64) -> Instant {
        Instant::from_picos(time)
    }

    #[test]
    fn what_is_due_at_one_instant_comes_in_the_order_of_its_numbers() {
        let mut queue = EventQueue::new();
        for sequence in [3, 1, 2] {
            queue.push(at(7), sequence, 9);
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(_, sequence, _)| sequence).collect();
        assert_eq!(order, [1, 2, 3]);
    }

    #[test]
    fn the_widest_key_comes_back_whole() {
        let mut queue = EventQueue::new();
        let widest = (at(u64::MAX), (1 << 40) - 1, EventQueue::MAX_SOURCES - 1);
        queue.push(widest.0, widest.1, widest.2);
        assert_eq!(queue.pop(), Some(widest));
    }

    #[test]
    fn what_is_due_after_the_limit_stays() {
        let mut queue = EventQueue::new();
        for sequence in 1..4 {
            queue.push(at(7), sequence, 9);
        }
        assert_eq!(queue.pop_until(at(6)), None);
        assert_eq!(queue.pop_until(at(7)), Some((at(7), 1, 9)));
        assert_eq!((queue.pop_until(at(6)), queue.len()), (None, 2));
    }

    #[test]
    fn a_run_takes_one_place_in_the_heap_besides_the_entry_before_it() {
        let mut queue = EventQueue::new();
        for sequence in 0..1000 {
            queue.push(at(7), sequence, 9);
        }
        assert_eq!((queue.len(), queue.heap.len()), (1000, 2));
    }

    #[test]
    fn an_entry_with_a_lower_number_interrupts_a_run_of_its_instant() {
        let mut queue = EventQueue::new();
        for sequence in [10, 20, 30, 40] {
            queue.push(at(7), sequence, 9);
        }
        assert_eq!([queue.pop(), queue.pop()], [Some((at(7), 10, 9)), Some((at(7), 20, 9))]);
        queue.push(at(7), 25, 9);
        queue.push(at(7), 50, 9);
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|(_, sequence, _)| sequence).collect();
        assert_eq!(order, [25, 30, 40, 50]);
    }

    proptest! {
        #[test]
        fn the_queue_is_a_sorted_set(
            steps in proptest::collection::vec((0_u8..3, 0_u64..50), 0..300),
            instants in 1_u64..50,
            disorder in 0_u64..16,
        ) {
            let mut queue = EventQueue::new();
            let mut plain = BTreeSet::new();
            for (number, (what, time)) in steps.into_iter().enumerate() {
                // Mostly in order, as those who schedule number what they put in; frames keep the number that they were sent with.
                let entry = (at(time % instants), number as u64 ^ disorder, time as u32);
                match what {
                    0 => prop_assert_eq!(queue.pop(), plain.pop_first()),
                    _ => {
                        plain.insert(entry);
                        queue.push(entry.0, entry.1, entry.2);
                    }
                }
                prop_assert_eq!(queue.len(), plain.len());
                // Who only adds does not look.
                if time % 2 == 0 {
                    prop_assert_eq!(queue.next_time(), plain.first().map(|first| first.0));
                }
            }
            prop_assert!(std::iter::from_fn(|| queue.pop()).eq(plain));
        }
    }
}
