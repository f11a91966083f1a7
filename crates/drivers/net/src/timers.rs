//! Deadlines of an engine's named timers.
//!
//! Engines re-arm a timer far more often than it fires (a retry timer moves with every acknowledge), so moving a deadline
//! further away only notes the new one: the queue finds out when the old one comes. Each timer is queued at most once.

use quincunx_units::Instant;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy)]
struct Armed {
    /// When it shall fire; none once cancelled.
    deadline: Option<Instant>,
    /// Where it stands in the queue: at its deadline or before.
    queued: Instant,
}

/// Timers with their deadlines.
pub(crate) struct Timers<T> {
    armed: BTreeMap<T, Armed>,
    queue: BTreeSet<(Instant, T)>,
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) fn new() -> Self {
        Self { armed: BTreeMap::new(), queue: BTreeSet::new() }
    }

    /// Arms `timer` for `deadline`, in place of any earlier one.
    pub(crate) fn set(&mut self, timer: T, deadline: Instant) {
        match self.armed.get_mut(&timer) {
            Some(armed) => {
                armed.deadline = Some(deadline);
                if deadline < armed.queued {
                    self.queue.remove(&(armed.queued, timer));
                    armed.queued = deadline;
                    self.queue.insert((deadline, timer));
                }
            }
            None => {
                self.armed.insert(timer, Armed { deadline: Some(deadline), queued: deadline });
                self.queue.insert((deadline, timer));
            }
        }
    }

    /// Disarms `timer`; nothing happens if it is not armed.
    pub(crate) fn cancel(&mut self, timer: T) {
        if let Some(armed) = self.armed.get_mut(&timer) {
            armed.deadline = None;
        }
    }

    /// Disarms `timer`, whatever its deadline; whether it was armed.
    pub(crate) fn take(&mut self, timer: T) -> bool {
        self.armed.get_mut(&timer).is_some_and(|armed| armed.deadline.take().is_some())
    }

    /// Timers in the queue, cancelled ones among them: a bound on how many can be due.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The next deadline if it is not after `horizon`; else that or an instant before it, which is after `horizon` too.
    pub(crate) fn next_check(&mut self, horizon: Instant) -> Option<Instant> {
        loop {
            let &(queued, timer) = self.queue.first()?;
            if queued > horizon {
                return Some(queued);
            }
            let armed = self.armed.get_mut(&timer).expect("a queued timer is known");
            match armed.deadline {
                Some(deadline) if deadline == queued => return Some(deadline),
                Some(deadline) => {
                    armed.queued = deadline;
                    self.queue.insert((deadline, timer));
                }
                None => {
                    self.armed.remove(&timer);
                }
            }
            self.queue.remove(&(queued, timer));
        }
    }

    /// Disarms and returns a timer whose deadline is not after `now`: the earliest.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<T> {
        while let Some(&(queued, timer)) = self.queue.first() {
            if queued > now {
                return None;
            }
            self.queue.pop_first();
            let armed = self.armed.get_mut(&timer).expect("a queued timer is known");
            match armed.deadline {
                Some(deadline) if deadline > queued => {
                    armed.queued = deadline;
                    self.queue.insert((deadline, timer));
                }
                Some(_) => {
                    self.armed.remove(&timer);
                    return Some(timer);
                }
                None => {
                    self.armed.remove(&timer);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(time: u64) -> Instant {
        Instant::from_picos(time)
    }

    #[test]
    fn a_timer_fires_once_at_its_last_deadline() {
        let mut timers = Timers::new();
        timers.set('a', at(5));
        timers.set('a', at(9));
        assert_eq!(timers.pop_due(at(8)), None);
        assert_eq!(timers.pop_due(at(9)), Some('a'));
        assert_eq!(timers.pop_due(at(99)), None);
    }

    #[test]
    fn a_deadline_may_come_nearer() {
        let mut timers = Timers::new();
        timers.set('a', at(9));
        timers.set('a', at(5));
        assert_eq!(timers.next_check(at(0)), Some(at(5)));
        assert_eq!(timers.pop_due(at(5)), Some('a'));
    }

    #[test]
    fn a_cancelled_timer_never_fires() {
        let mut timers = Timers::new();
        timers.set('a', at(5));
        timers.cancel('a');
        timers.cancel('b');
        assert_eq!(timers.pop_due(at(99)), None);
        assert_eq!(timers.len(), 0);
    }

    #[test]
    fn a_timer_that_is_taken_was_armed_and_is_no_longer() {
        let mut timers = Timers::new();
        timers.set('a', at(5));
        assert!(timers.take('a') && !timers.take('a') && !timers.take('b'));
        timers.set('a', at(9));
        assert_eq!((timers.pop_due(at(8)), timers.pop_due(at(9))), (None, Some('a')));
    }

    proptest! {
        /// Compared with the plain rule: one deadline a timer, the earliest due one fires.
        #[test]
        fn laziness_does_not_show(steps in proptest::collection::vec((0_u8..3, 0_u8..4, 0_u64..20), 0..200)) {
            let mut timers = Timers::new();
            let mut plain: BTreeMap<u8, Instant> = BTreeMap::new();
            let mut now = 0;
            for (what, timer, time) in steps {
                match what {
                    0 => {
                        timers.set(timer, at(now + time));
                        plain.insert(timer, at(now + time));
                    }
                    1 => {
                        timers.cancel(timer);
                        plain.remove(&timer);
                    }
                    _ => {
                        now += time;
                        while let Some(fired) = timers.pop_due(at(now)) {
                            let first = plain.iter().map(|(&timer, &deadline)| (deadline, timer)).min();
                            prop_assert_eq!(first.map(|(_, timer)| timer), Some(fired));
                            prop_assert!(plain.remove(&fired).is_some_and(|deadline| deadline <= at(now)));
                        }
                        prop_assert!(plain.values().all(|&deadline| deadline > at(now)));
                    }
                }
                let earliest = plain.values().min().copied();
                let horizon = at(now + time);
                let check = timers.next_check(horizon);
                if earliest.is_some_and(|first| first <= horizon) {
                    prop_assert_eq!(check, earliest);
                } else {
                    prop_assert!(check.is_none_or(|check| check > horizon));
                    prop_assert!(earliest.is_none_or(|first| check.is_some_and(|check| check <= first)));
                }
                prop_assert!(timers.len() <= 4);
            }
        }
    }
}
