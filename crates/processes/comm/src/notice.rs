//! Who waits long in a collective has it said whom for: on standard error, by a thread of its own, for the node goes on meanwhile.

use quincunx_collective::GroupId;
use quincunx_control_grpc::{ControlClient, GroupName};
use std::time::{Duration, Instant};

/// When a group's waits are to be told.
#[derive(Debug)]
pub(crate) struct Notice {
    /// How long the first one takes; zero: none comes.
    first: Duration,
    /// Since when nothing has ended though something is under way, and after how long that is told next.
    waits: Option<(Instant, Duration)>,
}

impl Notice {
    pub(crate) const fn after(first: Duration) -> Self {
        Self { first, waits: None }
    }

    /// A collective has ended.
    pub(crate) const fn reset(&mut self) {
        self.waits = None;
    }

    /// Whether it is time, if something is under way.
    pub(crate) fn is_due(&mut self, is_busy: bool, now: Instant) -> bool {
        if !is_busy || self.first.is_zero() {
            self.waits = None;
            return false;
        }
        let (since, next) = self.waits.get_or_insert((now, self.first));
        let is_due = now.saturating_duration_since(*since) >= *next;
        if is_due {
            *next *= 2;
        }
        is_due
    }
}

/// Asks whom the ranks of a group wait for, and prints it if this one is the first that waits.
pub(crate) fn tell(client: ControlClient, group: GroupId, rank: u16) {
    let ask = move || {
        // Whoever does not hear an answer is told by the group's end.
        let Ok(waits) = client.ask_waits(&GroupName::Number(group)) else { return };
        if waits.waiting().0.first() == Some(&rank) {
            eprintln!("quincunx: {waits}");
        }
    };
    // Without a thread nothing is said.
    let _ = std::thread::Builder::new().name("quincunx-notice".into()).spawn(ask);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At which of so many milliseconds it is due.
    fn told(notice: &mut Notice, start: Instant, millis: std::ops::Range<u64>) -> Vec<u64> {
        millis.filter(|at| notice.is_due(true, start + Duration::from_millis(*at))).collect()
    }

    #[test]
    fn it_is_told_after_twice_the_time_each_time() {
        let (mut notice, start) = (Notice::after(Duration::from_millis(5)), Instant::now());
        assert_eq!(told(&mut notice, start, 0..100), [5, 10, 20, 40, 80]);
    }

    #[test]
    fn what_ends_or_is_not_there_makes_it_begin_anew() {
        let (mut notice, start) = (Notice::after(Duration::from_millis(5)), Instant::now());
        assert_eq!(told(&mut notice, start, 0..8), [5]);
        notice.reset();
        assert_eq!(told(&mut notice, start, 8..15), [13]);
        assert!(!notice.is_due(false, start + Duration::from_millis(15)));
        assert_eq!(told(&mut notice, start, 16..22), [21]);
    }

    #[test]
    fn no_time_is_never() {
        let (mut notice, start) = (Notice::after(Duration::ZERO), Instant::now());
        assert!(told(&mut notice, start, 0..100).is_empty());
    }
}
