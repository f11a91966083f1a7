//! How many packets a queue pair keeps on the wire where it shares the way with others (AIMD: Chiu and Jain, "Analysis of the Increase and
//! Decrease Algorithms for Congestion Avoidance in Computer Networks", 1989; RFC 5681).
//!
//! - It begins with the window that it is set up with, and never has more.
//! - Congestion halves it, once in a round trip and down to [`LEAST`]; a window of packets acknowledged widens it by one.
//! - A notification is congestion. So is a loss while the round trip is long, in the upper half between the least and the longest that was
//!   seen: a queue on the way is full. What is lost while that is short was lost by chance, and fewer packets on the wire would lose
//!   as many of them. Not the upper quarter: a full queue there may meet an empty one on the way back.
//!
//! A loss is judged by how long it took from when the packet left until the peer asked for it, which something behind it made the peer do.
//! Where that is not known, as it was sent twice or the peer was asked what had arrived, it is judged by the newest time that is.

use quincunx_engine::Sparse;
use quincunx_units::{Duration, Instant};

/// No congestion brings the window below this: one packet that arrives behind a lost one tells of that, and one more keeps the line busy.
const LEAST: u32 = 2;

/// By this part of the difference the longest time comes closer to each shorter one that is measured: the way may be another one by now, and a
/// peer that was late once says nothing of queues.
const FORGOTTEN: u64 = 64;

/// The window of a queue pair.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Congestion {
    /// Packets on the wire, at most.
    window: u32,
    /// The same without congestion.
    most: u32,
    /// Packets acknowledged since the window was last changed.
    acknowledged: u32,
    /// Packets before this one left before the window was last narrowed.
    narrowed: u64,
    /// When packets left that are on the wire, and have been sent once.
    left: Sparse<Instant>,
    times: Option<Times>,
}

/// Round trips.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Times {
    least: Duration,
    longest: Duration,
    newest: Duration,
}

impl Congestion {
    /// Of a queue pair with a window of `most` packets, whose first one is `start`.
    pub(crate) fn new(most: u32, start: u64) -> Self {
        Self {
            window: most,
            most,
            acknowledged: 0,
            narrowed: start - 1,
            left: Sparse::default(),
            times: None,
        }
    }

    pub(crate) fn window(&self) -> u32 {
        self.window
    }

    pub(crate) fn is_narrowed(&self) -> bool {
        self.window < self.most
    }

    /// Packet `number` leaves for the first time.
    pub(crate) fn sent(&mut self, number: u64, now: Instant) {
        if now > Instant::ZERO {
            self.left.insert(number, now);
        }
    }

    /// What is on the wire may leave once more, or be asked for because the peer is asked what has arrived.
    pub(crate) fn forget(&mut self) {
        self.left.clear();
    }

    /// A packet was answered after `time`.
    pub(crate) fn measured(&mut self, time: Duration) {
        let times = self.times.get_or_insert(Times { least: time, longest: time, newest: time });
        times.newest = time;
        times.least = times.least.min(time);
        times.longest =
            if time < times.longest { times.longest - (times.longest - time) / FORGOTTEN } else { time };
    }

    /// All packets before `count` were acknowledged, `packets` more than before.
    pub(crate) fn acknowledged(&mut self, count: u64, packets: u64) {
        while self.left.pop_before(count).is_some() {}
        if !self.is_narrowed() {
            return;
        }
        self.acknowledged += packets.min(self.most.into()) as u32;
        while self.acknowledged >= self.window && self.is_narrowed() {
            self.acknowledged -= self.window;
            self.window += 1;
        }
    }

    /// Packet `lost` is to be sent again; all before `sent` have left.
    pub(crate) fn lost(&mut self, lost: u64, sent: u64, now: Instant) {
        if let (Some(left), Some(times)) = (self.left.remove(lost), &mut self.times) {
            times.newest = now.since(left);
        }
        if lost >= self.narrowed && self.times.as_ref().is_some_and(Times::is_long) {
            self.narrow(sent);
        }
    }

    /// Somebody tells of congestion; all before `acknowledged` have arrived, and all before `sent` have left.
    pub(crate) fn notified(&mut self, acknowledged: u64, sent: u64) {
        if acknowledged > self.narrowed {
            self.narrow(sent);
        }
    }

    fn narrow(&mut self, sent: u64) {
        self.window = (self.window / 2).max(LEAST.min(self.most));
        self.acknowledged = 0;
        self.narrowed = sent;
    }

    pub(crate) fn assert_invariants(&self) {
        assert!((LEAST.min(self.most)..=self.most).contains(&self.window), "{} packets", self.window);
        assert!(!self.is_narrowed() || self.acknowledged < self.window, "a window was acknowledged");
    }
}

impl Times {
    /// Whether the newest is in the upper half of them.
    fn is_long(&self) -> bool {
        self.longest > self.least && self.newest >= (self.least + self.longest) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_stands_still_leaves_no_trace() {
        let mut congestion = Congestion::new(4, 10);
        congestion.sent(10, Instant::ZERO);
        assert_eq!(congestion, Congestion::new(4, 10));
    }
}
