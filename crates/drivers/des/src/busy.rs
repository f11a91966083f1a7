//! How busy a direction of a link was over time, in a fixed number of bins however long a run becomes.

use quincunx_units::{Duration, Instant};

/// Bins that are kept. Once a run outgrows them, neighbours are put together, and each is twice as wide: half of them are in
/// use then.
const BINS: usize = 64;

/// Time on the wire, in bins of equal width from the moment on at which counting began. The width is a power of two of
/// picoseconds, so that a bin is found without a division.
#[derive(Clone, Debug)]
pub(crate) struct BusyBins {
    origin: Instant,
    shift: u32,
    /// Apart from the rest, which every frame touches.
    picos: Box<[u64; BINS]>,
    /// A time without a gap that is not in the bins yet: it grows with each frame that is queued, and may be put off.
    since: Instant,
    until: Instant,
}

impl BusyBins {
    /// Nothing from `origin` on.
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, shift: 0, picos: Box::new([0; BINS]), since: origin, until: origin }
    }

    /// Counts the time from `start` to `end`, which is not before what was counted last.
    #[inline]
    pub(crate) fn extend(&mut self, start: Instant, end: Instant) {
        if start > self.until {
            self.add(self.since, self.until);
            self.since = start;
        }
        self.until = end;
    }

    /// What is counted from `at` on may be put off.
    pub(crate) fn cut(&mut self, at: Instant) {
        self.add(self.since, self.until.min(at));
        (self.since, self.until) = (at, self.until.max(at));
    }

    /// Puts off what was counted since the last cut.
    pub(crate) fn put_off(&mut self, later: Duration) {
        (self.since, self.until) = (self.since + later, self.until + later);
    }

    /// Counts from `origin` on, with what is counted already and comes later.
    pub(crate) fn restart(&mut self, origin: Instant) {
        *self = Self { since: self.since, until: self.until, ..Self::new(origin) };
    }

    /// All that is busy until `now`, in the bins; if a pause keeps the rest, that comes later.
    fn settled(&self, now: Instant, is_paused: bool) -> Self {
        let mut bins = self.clone();
        if !is_paused {
            bins.add(self.since, self.until.min(now));
        }
        bins.cover(now.since(bins.origin).as_picos());
        bins
    }

    #[inline]
    fn add(&mut self, start: Instant, end: Instant) {
        let (mut start, end) = (start.since(self.origin).as_picos(), end.since(self.origin).as_picos());
        self.cover(end);
        while start < end {
            let bin = start >> self.shift;
            let until = end.min((bin + 1) << self.shift);
            self.picos[bin as usize] += until - start;
            start = until;
        }
    }

    /// Widens the bins until they reach up to `end` picoseconds from the origin.
    fn cover(&mut self, end: u64) {
        while end.saturating_sub(1) >> self.shift >= BINS as u64 {
            self.widen();
        }
    }

    fn widen(&mut self) {
        for bin in 0..BINS / 2 {
            self.picos[bin] = self.picos[2 * bin] + self.picos[2 * bin + 1];
        }
        self.picos[BINS / 2..].fill(0);
        self.shift += 1;
    }
}

/// How busy all directions were, in equal bins of time from the moment on at which counting began.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BusyOverTime {
    /// The width of a bin; the last one ends earlier.
    pub bin: Duration,
    /// For each direction, in the order of [`statistics`](crate::Simulation::statistics): the share of each bin in which bits
    /// were on the wire.
    pub directions: Vec<Vec<f64>>,
}

impl BusyOverTime {
    /// The mean of all directions, bin by bin.
    pub fn mean(&self) -> Vec<f64> {
        let bins = self.directions.iter().map(Vec::len).min().unwrap_or(0);
        let count = self.directions.len() as f64;
        (0..bins).map(|bin| self.directions.iter().map(|shares| shares[bin]).sum::<f64>() / count).collect()
    }

    /// Until `now`; of each direction the bins, and whether it is paused.
    pub(crate) fn new<'a>(all: impl Iterator<Item = (&'a BusyBins, bool)>, now: Instant) -> Self {
        let mut all: Vec<BusyBins> = all.map(|(bins, is_paused)| bins.settled(now, is_paused)).collect();
        let shift = all.iter().map(|bins| bins.shift).max().unwrap_or(0);
        let shares = |bins: &mut BusyBins| {
            while bins.shift < shift {
                bins.widen();
            }
            let length = now.since(bins.origin).as_picos();
            let share = |(number, &busy): (u64, &u64)| {
                let counted = (length - (number << shift)).min(1 << shift);
                // A frame that is being sent when a pause begins was counted to its end.
                busy.min(counted) as f64 / counted as f64
            };
            (0..length.div_ceil(1 << shift)).zip(&*bins.picos).map(share).collect()
        };
        Self { bin: Duration::from_picos(1 << shift), directions: all.iter_mut().map(shares).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(picos: u64) -> Instant {
        Instant::from_picos(picos)
    }

    fn until(now: u64, all: &[&BusyBins]) -> BusyOverTime {
        BusyOverTime::new(all.iter().map(|&bins| (bins, false)), at(now))
    }

    /// Picoseconds that a direction was busy.
    fn busy(over_time: &BusyOverTime, direction: usize, now: u64) -> f64 {
        let bin = over_time.bin.as_picos();
        let widths = (0..now).step_by(bin as usize).map(|start| bin.min(now - start));
        over_time.directions[direction].iter().zip(widths).map(|(share, width)| share * width as f64).sum()
    }

    #[test]
    fn a_long_run_has_wide_bins_and_none_of_it_is_lost() {
        let mut bins = BusyBins::new(at(1000));
        // Every other 100 picoseconds, for 12,800.
        for start in (1000..13_800).step_by(200) {
            bins.extend(at(start), at(start + 100));
        }
        let found = until(13_800, &[&bins]);
        assert_eq!((found.bin, found.directions[0].len()), (Duration::from_picos(256), 50));
        assert_eq!(busy(&found, 0, 12_800).round(), 6400.0);
    }

    #[test]
    fn what_is_queued_is_not_counted_before_it_is_sent() {
        let mut bins = BusyBins::new(at(0));
        bins.extend(at(10), at(60));
        assert_eq!(busy(&until(20, &[&bins]), 0, 20), 10.0);
    }

    #[test]
    fn what_a_pause_puts_off_is_counted_when_it_is_sent() {
        let mut bins = BusyBins::new(at(0));
        bins.extend(at(0), at(40));
        bins.cut(at(10));
        bins.put_off(Duration::from_picos(20));
        let found = until(60, &[&bins]);
        let expected = (0..60).map(|time| f64::from(u8::from(!(10..30).contains(&time))));
        assert_eq!((found.bin.as_picos(), &found.directions[0]), (1, &expected.collect()));
    }

    #[test]
    fn counting_begins_anew_with_what_is_still_to_come() {
        let mut bins = BusyBins::new(at(0));
        bins.extend(at(0), at(40));
        bins.restart(at(30));
        assert_eq!(busy(&until(50, &[&bins]), 0, 20), 10.0);
    }

    #[test]
    fn an_idle_link_has_the_bins_of_the_others() {
        let (mut used, idle) = (BusyBins::new(at(0)), BusyBins::new(at(0)));
        used.extend(at(0), at(1000));
        let found = until(1000, &[&used, &idle]);
        assert_eq!(found.directions[0].len(), found.directions[1].len());
        assert_eq!([busy(&found, 0, 1000), busy(&found, 1, 1000)], [1000.0, 0.0]);
    }

    proptest! {
        #[test]
        fn bins_hold_all_the_time_that_was_busy(spans in proptest::collection::vec((0_u64..1000, 0_u64..1000), 1..60)) {
            let mut bins = BusyBins::new(at(5));
            let (mut time, mut expected) = (5, 0);
            for (idle, length) in spans {
                bins.extend(at(time + idle), at(time + idle + length));
                time += idle + length;
                expected += length;
            }
            let found = until(time, &[&bins]);
            prop_assert!((busy(&found, 0, time - 5) - expected as f64).abs() < 0.001);
            prop_assert!(found.directions[0].len() <= BINS);
            prop_assert!(found.directions[0].iter().all(|share| (0.0..=1.0).contains(share)));
        }
    }
}
