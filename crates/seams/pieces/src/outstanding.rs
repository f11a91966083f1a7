//! Packets without a result, and the time-outs after which they are sent again.
//!
//! A rank waits for as long as its peers take to contribute: a time-out tells nothing of who is slow, so it waits twice as long each time that
//! nothing has come, up to a limit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_engine::verbs::{Failure, UNLIMITED_RETRIES};
use quincunx_units::{Duration, Instant};

/// A time-out is doubled so many times at most: 64 times as long.
const MOST_DOUBLINGS: u32 = 6;

/// A packet that waits for its result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    number: u64,
    since: Instant,
    /// Results of packets that were sent behind it.
    overtaken: u8,
}

/// Packets that wait for their results.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Outstanding {
    timeout: Duration,
    retries: u16,
    /// The one that was sent longest ago first.
    waiting: VecDeque<Waiting>,
    /// The packet that the alarm is for, if it is set.
    alarm: Option<u64>,
    /// Time-outs since something came.
    silence: u16,
}

impl Outstanding {
    /// Nothing waits. It fails after `retries` time-outs in a row.
    pub const fn new(timeout: Duration, retries: u16) -> Self {
        Self { timeout, retries, waiting: VecDeque::new(), alarm: None, silence: 0 }
    }

    /// How many packets wait.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// A packet is sent, or sent again after it was due. [`set_alarm`](Self::set_alarm) is to be asked afterwards.
    pub fn push(&mut self, now: Instant, number: u64) {
        self.waiting.push_back(Waiting { number, since: now, overtaken: 0 });
    }

    /// A packet has its result.
    pub fn answer(&mut self, number: u64) {
        self.silence = 0;
        if let Some(index) = self.position(number) {
            self.waiting.remove(index);
        }
    }

    /// Takes out those that were sent before this one and now are overtaken for the `limit`th time: called before it is answered.
    pub fn overtaken(&mut self, number: u64, limit: u8) -> Vec<u64> {
        let before = self.position(number).unwrap_or(0);
        self.waiting.iter_mut().take(before).for_each(|waiting| waiting.overtaken += 1);
        let lost = self.waiting.iter().filter(|waiting| waiting.overtaken >= limit).map(|lost| lost.number);
        let lost: Vec<u64> = lost.collect();
        self.waiting.retain(|waiting| waiting.overtaken < limit);
        lost
    }

    /// After how long an alarm is to be set: for the packet that has waited longest, unless it is set already.
    pub fn set_alarm(&mut self, now: Instant) -> Option<Duration> {
        let oldest = self.waiting.front().filter(|_| self.alarm.is_none())?;
        let left = (oldest.since + self.patience()).since(now);
        self.alarm = Some(oldest.number);
        Some(left.max(Duration::from_nanos(1)))
    }

    /// The alarm: takes out the oldest packet if that was for it, and others that wait for as long. Where the clock stands still, that is one at
    /// a time. [`set_alarm`](Self::set_alarm) is to be asked afterwards.
    ///
    /// # Errors
    /// If nothing has come for too many time-outs.
    pub fn take_due(&mut self, now: Instant) -> Result<Vec<u64>, Failure> {
        let due = self.alarm.take();
        let patience = self.patience();
        let is_overdue = |waiting: &Waiting| now.since(waiting.since) >= patience;
        let due_now = |waiting: &&Waiting| Some(waiting.number) == due || is_overdue(waiting);
        let overdue = self.waiting.iter().take_while(due_now).count();
        if overdue > 0 {
            if self.retries != UNLIMITED_RETRIES && self.silence >= self.retries {
                return Err(Failure::RetryExceeded);
            }
            // Who never gives up counts no further than it waits longer: explorations end.
            let most = if self.retries == UNLIMITED_RETRIES { MOST_DOUBLINGS as u16 } else { u16::MAX };
            self.silence = self.silence.saturating_add(1).min(most);
        }
        Ok(self.waiting.drain(..overdue).map(|waiting| waiting.number).collect())
    }

    /// Nothing is waited for any more.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Panics if something waits and nothing wakes it.
    pub fn assert_invariants(&self) {
        assert!(self.waiting.is_empty() || self.alarm.is_some(), "something waits, and nothing wakes it");
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.waiting.iter().position(|waiting| waiting.number == number)
    }

    /// How long packets wait at present.
    fn patience(&self) -> Duration {
        self.timeout * (1u64 << u32::from(self.silence).min(MOST_DOUBLINGS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(1);

    fn with(numbers: &[u64]) -> Outstanding {
        let mut outstanding = Outstanding::new(TIMEOUT, UNLIMITED_RETRIES);
        numbers.iter().for_each(|number| outstanding.push(Instant::ZERO, *number));
        outstanding
    }

    #[test]
    fn what_is_overtaken_often_enough_is_taken_out() {
        let mut outstanding = with(&[4, 5, 6, 7, 8]);
        for (number, lost) in [(6, &[][..]), (5, &[]), (8, &[4])] {
            assert_eq!(outstanding.overtaken(number, 3), lost, "behind {number}");
            outstanding.answer(number);
        }
        assert_eq!(outstanding.count(), 1, "7 was overtaken once");
    }

    #[test]
    fn what_nobody_waits_for_overtakes_nothing() {
        let mut outstanding = with(&[4, 5]);
        assert_eq!(outstanding.overtaken(9, 1), [0_u64; 0]);
        outstanding.answer(9);
        assert_eq!(outstanding.count(), 2);
    }

    #[test]
    fn an_alarm_is_set_once_and_for_the_oldest() {
        let mut outstanding = with(&[4]);
        outstanding.push(Instant::ZERO + TIMEOUT / 2, 5);
        assert_eq!(outstanding.set_alarm(Instant::ZERO + TIMEOUT / 2), Some(TIMEOUT / 2));
        assert_eq!(outstanding.set_alarm(Instant::ZERO), None);
        assert_eq!(outstanding.take_due(Instant::ZERO + TIMEOUT), Ok(alloc::vec![4]));
        assert_eq!(outstanding.set_alarm(Instant::ZERO + TIMEOUT), Some(TIMEOUT * 3 / 2), "twice as long");
    }
}
