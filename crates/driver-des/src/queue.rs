//! The queue of what is due: a heap with four children a node, over keys of 16 bytes.
//!
//! Four children fit into one cache line, so a level costs one miss where two levels of a binary heap cost two. A key
//! holds time, sequence number and source in one integer, so that an entry is compared in one go and nothing else is
//! looked at. What a source has to deliver is kept by the source: a link's direction keeps its frames in order of
//! arrival and has only the first of them here, so that the heap has as many entries as there are busy links and armed
//! timers, however many frames are under way.

use quincunx_units::Instant;

/// What is due when, for at most 2^24 sources and 2^40 events.
///
/// ```
/// # use quincunx_driver_des::EventQueue;
/// # use quincunx_units::Instant;
/// let mut queue = EventQueue::new();
/// queue.push(Instant::from_picos(5), 1, 77);
/// queue.push(Instant::from_picos(5), 0, 78);
/// assert_eq!(queue.pop(), Some((Instant::from_picos(5), 0, 78)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventQueue {
    /// Time above sequence number above source.
    heap: Vec<u128>,
    /// The first entry has been taken, and its place waits for the next one: who is at work on an event mostly adds another, which then
    /// goes down from the top, and none has to be moved up from the end for it.
    has_hole: bool,
}

const SOURCE_BITS: u32 = 24;
const ORDER_BITS: u32 = 64;
const ARITY: usize = 4;

fn pack(at: Instant, sequence: u64, source: u32) -> u128 {
    debug_assert!(sequence < 1 << (ORDER_BITS - SOURCE_BITS) && source < 1 << SOURCE_BITS);
    u128::from(at.as_picos()) << ORDER_BITS | u128::from(sequence << SOURCE_BITS | u64::from(source))
}

fn unpack(key: u128) -> (Instant, u64, u32) {
    let order = key as u64;
    let at = Instant::from_picos((key >> ORDER_BITS) as u64);
    (at, order >> SOURCE_BITS, (order & ((1 << SOURCE_BITS) - 1)) as u32)
}

impl EventQueue {
    /// Sources are numbered below this.
    pub const MAX_SOURCES: u32 = 1 << SOURCE_BITS;

    /// An empty queue.
    pub const fn new() -> Self {
        Self { heap: Vec::new(), has_hole: false }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.has_hole)
    }

    /// Whether nothing is due ever.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the first entry is due.
    pub fn next_time(&mut self) -> Option<Instant> {
        self.peek().map(|(at, ..)| at)
    }

    /// Adds an entry: `source` has something due at `at`; of equal times the lower `sequence` comes first.
    pub fn push(&mut self, at: Instant, sequence: u64, source: u32) {
        let key = pack(at, sequence, source);
        if std::mem::take(&mut self.has_hole) {
            return self.sink(key);
        }
        self.heap.push(0);
        self.rise(self.heap.len() - 1, key);
    }

    /// Takes the first entry out: time, sequence number, source.
    pub fn pop(&mut self) -> Option<(Instant, u64, u32)> {
        let first = self.peek()?;
        self.has_hole = true;
        Some(first)
    }

    /// The first entry, left in place.
    pub fn peek(&mut self) -> Option<(Instant, u64, u32)> {
        if std::mem::take(&mut self.has_hole) {
            let last = self.heap.pop().expect("the hole is an entry");
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        self.heap.first().map(|&key| unpack(key))
    }

    /// Puts another entry in the place of the first: a [`pop`](Self::pop) and a [`push`](Self::push) in one.
    ///
    /// # Panics
    /// If the queue is empty.
    pub fn replace_first(&mut self, at: Instant, sequence: u64, source: u32) {
        assert!(!self.heap.is_empty() && !self.has_hole, "a queue without a first entry");
        self.sink(pack(at, sequence, source));
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

    proptest! {
        #[test]
        fn the_heap_is_a_sorted_set(steps in proptest::collection::vec((0_u8..3, 0_u64..50), 0..300)) {
            let mut queue = EventQueue::new();
            let mut plain = BTreeSet::new();
            for (sequence, (what, time)) in steps.into_iter().enumerate() {
                let entry = (at(time), sequence as u64, time as u32);
                match what {
                    0 => prop_assert_eq!(queue.pop(), plain.pop_first()),
                    1 if !plain.is_empty() => {
                        prop_assert_eq!(queue.peek(), plain.pop_first());
                        plain.insert(entry);
                        queue.replace_first(entry.0, entry.1, entry.2);
                    }
                    _ => {
                        plain.insert(entry);
                        queue.push(entry.0, entry.1, entry.2);
                    }
                }
                prop_assert_eq!(queue.len(), plain.len());
                // Who only adds does not look.
                if time % 2 == 0 {
                    prop_assert_eq!(queue.peek(), plain.first().copied());
                }
            }
        }
    }
}
