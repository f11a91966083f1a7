//! A ring of bytes from which messages of any length are cut, and given back in the same order: what a send or receive queue's messages
//! lie in while hardware has them.

/// Cut in multiples of this, so that messages of no bytes have a place of their own.
const GRAIN: usize = 64;

/// Which bytes of a ring are taken. It holds no memory.
#[derive(Debug)]
pub(crate) struct Ring {
    capacity: usize,
    /// Where the oldest piece begins; the others follow, over the end of the ring.
    tail: usize,
    /// Behind the newest piece.
    head: usize,
    pieces: usize,
}

impl Ring {
    /// A ring that has room for `bytes` at least.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { capacity: bytes.next_multiple_of(GRAIN).max(GRAIN), tail: 0, head: 0, pieces: 0 }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes `length` bytes in a row: where they begin, if there is room.
    pub(crate) fn take(&mut self, length: usize) -> Option<usize> {
        let length = length.next_multiple_of(GRAIN).max(GRAIN);
        if self.pieces == 0 {
            (self.tail, self.head) = (0, 0);
        }
        let is_wrapped = self.pieces > 0 && self.head <= self.tail;
        let at = match is_wrapped {
            true if self.head + length <= self.tail => self.head,
            false if self.head + length <= self.capacity => self.head,
            false if length <= self.tail => 0,
            _ => return None,
        };
        self.head = at + length;
        self.pieces += 1;
        Some(at)
    }

    /// Gives the oldest piece back; `next` is where the one after it begins, if there is one.
    pub(crate) fn give_back(&mut self, next: Option<usize>) {
        assert!(self.pieces > 0, "what is given back was taken");
        self.pieces -= 1;
        self.tail = next.unwrap_or(self.head);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn pieces_never_overlap_whatever_their_lengths() {
        let mut ring = Ring::new(1024);
        let mut held: VecDeque<(usize, usize)> = VecDeque::new();
        let mut taken = 0;
        for step in 0_usize..10_000 {
            let length = step * 7919 % 400;
            match ring.take(length) {
                Some(at) => {
                    assert!(at + length.max(1) <= ring.capacity());
                    let is_free = |&(from, other): &(usize, usize)| {
                        at + length.max(1) <= from || from + other.max(1) <= at
                    };
                    assert!(held.iter().all(is_free), "{at} and {length} bytes beside {held:?}");
                    held.push_back((at, length));
                    taken += 1;
                }
                None => {
                    held.pop_front().expect("an empty ring has room for what is no longer than it");
                    ring.give_back(held.front().map(|(at, _)| *at));
                }
            }
        }
        assert!(taken > 5_000, "{taken} pieces were taken");
    }

    #[test]
    fn what_is_longer_than_the_ring_has_no_place() {
        let mut ring = Ring::new(100);
        assert_eq!(ring.capacity(), 128);
        assert_eq!(ring.take(129), None);
        assert_eq!(ring.take(128), Some(0));
        assert_eq!(ring.take(0), None, "it is full");
    }
}
