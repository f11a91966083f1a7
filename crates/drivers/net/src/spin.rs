//! How long a node looks for datagrams before it sleeps. Who yields the processor between two looks has it back at once where it would be
//! idle, and soon where other nodes have it, for they yield too; from somebody who computes, only when his slice is over, and the kernel
//! takes who yields often for one who has no hurry. So a node that had to wait for it sleeps for a while in place of that: who sleeps is
//! woken when a datagram comes, before those who compute.

use quincunx_units::{Duration, Instant};

/// It takes longer only where somebody computes: the kernel's slices are of milliseconds, what nodes do in a turn mostly is not.
const LONG: Duration = Duration::from_millis(2);

/// So long it is not tried again then, and twice as long each time that it is no better, for each try may cost a slice.
const REST: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(160)];

/// What a node knows of it.
pub(crate) struct Spin {
    length: Duration,
    rests_until: Instant,
    next_rest: Duration,
}

impl Spin {
    pub(crate) const fn new(length: Duration) -> Self {
        Self { length, rests_until: Instant::ZERO, next_rest: REST[0] }
    }

    /// Until when to look, from `start` on.
    pub(crate) fn end(&self, start: Instant) -> Instant {
        if start < self.rests_until { start } else { start + self.length }
    }

    /// A look, and the processor yielded behind it, took as long.
    pub(crate) fn note_look(&mut self, from: Instant, to: Instant) {
        if to.since(from) > LONG {
            self.rests_until = to + self.next_rest;
            self.next_rest = REST[1].min(self.next_rest * 2);
        } else {
            self.next_rest = REST[0];
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
        assert_eq!(spin.end(millis(12)), millis(12));
        assert_eq!(spin.end(millis(13)), millis(13) + Duration::from_micros(50));
    }

    #[test]
    fn who_waits_for_it_again_and_again_tries_ever_more_seldom_until_a_look_is_short() {
        let mut spin = Spin::new(Duration::from_micros(50));
        let rests = [5, 10, 20, 40, 80, 160, 160].map(|rest| {
            spin.note_look(millis(0), millis(4));
            (spin.end(millis(3 + rest)) == millis(3 + rest), spin.end(millis(4 + rest)) > millis(4 + rest))
        });
        assert_eq!(rests, [(true, true); 7]);
        spin.note_look(millis(200), millis(201));
        spin.note_look(millis(300), millis(304));
        assert!(spin.end(millis(309)) > millis(309));
    }
}
