//! What has become of traffic: seen where it arrives.

use quincunx_units::{Duration, Instant};
use std::ops::Range;

/// Watches packets arrive, and keeps what concerns the measured window.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    window: Range<Instant>,
    /// Of packets made in the window, in picoseconds.
    latencies: Vec<u64>,
    /// Packets that arrived in the window.
    accepted: u64,
}

/// How long packets took from when they were made until all of them had arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Latencies {
    pub(crate) packets: u64,
    pub(crate) mean: Duration,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Default for Meter {
    /// One that measures nothing.
    fn default() -> Self {
        Self::new(Instant::ZERO..Instant::ZERO)
    }
}

impl Meter {
    pub(crate) fn new(window: Range<Instant>) -> Self {
        Self { window, latencies: Vec::new(), accepted: 0 }
    }

    /// A packet that was made at `made` has arrived.
    pub(crate) fn arrived(&mut self, at: Instant, made: Instant) {
        self.accepted += u64::from(self.window.contains(&at));
        if self.window.contains(&made) {
            self.latencies.push(at.since(made).as_picos());
        }
    }

    /// Packets that arrived in the window.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Of the packets that were made in the window; none if there were none.
    pub(crate) fn latencies(mut self) -> Option<Latencies> {
        let all = &mut self.latencies;
        all.sort_unstable();
        let packets = all.len() as u64;
        let sum: u128 = all.iter().copied().map(u128::from).sum();
        let mean = sum.checked_div(u128::from(packets))?;
        // Nearest rank: the least that so many hundredths do not exceed.
        let at = |hundredths: usize| Duration::from_picos(all[(all.len() * hundredths).div_ceil(100) - 1]);
        Some(Latencies {
            packets,
            mean: Duration::from_picos(mean as u64),
            p50: at(50),
            p99: at(99),
            max: at(100),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(picos: u64) -> Instant {
        Instant::from_picos(picos)
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let mut meter = Meter::new(at(0)..at(1));
        (1..=200).rev().for_each(|latency| meter.arrived(at(latency), at(0)));
        let latencies = meter.latencies().unwrap();
        let picos = [latencies.mean, latencies.p50, latencies.p99, latencies.max].map(Duration::as_picos);
        assert_eq!(picos, [100, 100, 198, 200]);
    }

    #[test]
    fn what_was_made_before_the_window_counts_where_it_arrives_and_not_for_its_latency() {
        let mut meter = Meter::new(at(10)..at(20));
        for (arrival, made) in [(15, 5), (15, 10), (25, 19), (25, 20)] {
            meter.arrived(at(arrival), at(made));
        }
        assert_eq!(meter.accepted(), 2);
        assert_eq!(meter.latencies().unwrap().packets, 2);
    }

    #[test]
    fn no_packet_has_no_latency() {
        assert_eq!(Meter::new(at(0)..at(1)).latencies(), None);
    }
}
