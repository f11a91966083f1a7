//! How long a node looks for datagrams before it sleeps. Who yields the processor between two looks has it back at once where it would be
//! idle, and soon where other nodes have it, for they yield too; from somebody who computes, only when his slice is over, and the kernel
//! takes who yields often for one who has no hurry. So a node that had to wait for it sleeps for a while in place of that: who sleeps is
//! woken when a datagram comes, before those who compute.

use quincunx_units::{Duration, Instant};

/// It takes longer only where somebody computes: the kernel's slices are of milliseconds, what nodes do in a turn is not.
const LONG: Duration = Duration::from_millis(1);

/// So long it is not tried again then: each try may cost a slice.
const REST: Duration = Duration::from_millis(100);

/// What a node knows of it.
pub(crate) struct Spin {
    length: Duration,
    rests_until: Instant,
}

impl Spin {
    pub(crate) const fn new(length: Duration) -> Self {
        Self { length, rests_until: Instant::ZERO }
    }

    /// Until when to look, from `start` on.
    pub(crate) fn end(&self, start: Instant) -> Instant {
        if start < self.rests_until { start } else { start + self.length }
    }

    /// A look, and the processor yielded behind it, took as long.
    pub(crate) fn note_look(&mut self, from: Instant, to: Instant) {
        if to.since(from) > LONG {
            self.rests_until = to + REST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_node_looks_as_long_as_it_may() {
        let mut spin = Spin::new(Duration::from_micros(50));
        spin.note_look(millis(4), millis(4) + Duration::from_micros(300));
        assert_eq!(spin.end(millis(5)), millis(5) + Duration::from_micros(50));
    }

    #[test]
    fn who_waited_for_the_processor_sleeps_for_a_while() {
        let mut spin = Spin::new(Duration::from_micros(50));
        spin.note_look(millis(4), millis(8));
        assert_eq!(spin.end(millis(8)), millis(8));
        assert_eq!(spin.end(millis(107)), millis(107));
        assert_eq!(spin.end(millis(108)), millis(108) + Duration::from_micros(50));
    }
}
