//! What a run of a sub-layer looked like over time: samples at equal intervals, as many for a long run as for a short one.
//!
//! Nothing is counted for it that is not counted anyway: the owner of a run looks at it from time to time, and only if somebody asks.

use super::node::LayerNode;
use crate::memory_fabric::FlitMedium;
use quincunx_design::PayloadKind;
use quincunx_driver_des::Simulation;
use quincunx_units::{Duration, Instant};

/// What a series is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SeriesOf {
    /// The share of time in which bits were on a link's direction.
    Link {
        /// The accelerator at one end.
        rank: u16,
        /// The switch at the other.
        switch: u16,
        /// To the switch.
        up: bool,
    },
    /// Loads of an accelerator that have left and are not answered.
    Loads {
        /// Which.
        rank: u16,
    },
    /// SMs of an accelerator that compute for a kernel.
    Sms {
        /// The accelerator.
        rank: u16,
        /// The kernel, by its place in [`OverTime::kernels`].
        kernel: u16,
    },
    /// Blocks of a kernel that have a place.
    Blocks {
        /// The accelerator.
        rank: u16,
        /// The kernel.
        kernel: u16,
    },
    /// Entries of the table of a switch's port.
    Table {
        /// Which switch.
        switch: u16,
        /// Which port.
        port: u16,
    },
    /// Requests that wait in that table: loads for data, contributions for the others of their sum.
    Waiting {
        /// Which switch.
        switch: u16,
        /// Which port.
        port: u16,
    },
    /// Picoseconds from the first to the last request of entries that ended, in each picosecond; all tables together.
    Waited,
    /// Entries that ended in each picosecond.
    Ended,
}

/// A value in each interval.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Of what.
    pub of: SeriesOf,
    /// Its mean.
    pub means: Vec<f64>,
    /// The most that was seen.
    pub peaks: Vec<f64>,
}

/// All series of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct OverTime {
    /// The length of an interval; the last one may end earlier.
    pub interval: Duration,
    /// When the run ended.
    pub end: Duration,
    /// Names of the kernels of each accelerator.
    pub kernels: Vec<Vec<String>>,
    /// In an order that is the same for equal fabrics and programs.
    pub series: Vec<Series>,
}

impl OverTime {
    /// The same in at most so many intervals.
    ///
    /// # Panics
    /// If that is none.
    pub fn coarse(mut self, most: usize) -> Self {
        assert!(most > 0, "at least one interval");
        while self.intervals() > most {
            let lengths: Vec<f64> = (0..self.intervals()).map(|at| self.length(at)).collect();
            for Series { means, peaks, .. } in &mut self.series {
                let pairs = means.chunks(2).zip(lengths.chunks(2));
                *means = pairs.map(|(values, lengths)| weighed(values, lengths)).collect();
                *peaks = peaks.chunks(2).map(greatest).collect();
            }
            self.interval = self.interval + self.interval;
        }
        self
    }

    fn intervals(&self) -> usize {
        self.series.first().map_or(0, |series| series.means.len())
    }

    /// Picoseconds of an interval.
    fn length(&self, at: usize) -> f64 {
        let [interval, end] = [self.interval, self.end].map(Duration::as_picos);
        end.saturating_sub(at as u64 * interval).min(interval) as f64
    }

    fn wanted(&self, wanted: impl Fn(SeriesOf) -> bool) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(move |series| wanted(series.of))
    }

    /// The sum of some series' means, interval by interval.
    pub fn sum(&self, wanted: impl Fn(SeriesOf) -> bool) -> Vec<f64> {
        let mut sums = vec![0.0; self.intervals()];
        for series in self.wanted(wanted) {
            sums.iter_mut().zip(&series.means).for_each(|(sum, value)| *sum += value);
        }
        sums
    }

    /// The mean of some series' means, interval by interval; nothing if there are none.
    pub fn mean(&self, wanted: impl Fn(SeriesOf) -> bool + Copy) -> Vec<f64> {
        let count = self.wanted(wanted).count();
        if count == 0 { Vec::new() } else { self.sum(wanted).iter().map(|sum| sum / count as f64).collect() }
    }

    /// The greatest of some series' peaks, interval by interval; nothing if there are none.
    pub fn peak(&self, wanted: impl Fn(SeriesOf) -> bool + Copy) -> Vec<f64> {
        if self.wanted(wanted).next().is_none() {
            return Vec::new();
        }
        let at = |at: usize| self.wanted(wanted).map(|series| series.peaks[at]).fold(0.0, f64::max);
        (0..self.intervals()).map(at).collect()
    }

    /// The mean wait from the first to the last request for an address, of entries that ended in each interval; none where none did.
    pub fn waits(&self) -> Vec<Option<Duration>> {
        let [waited, ended] = [SeriesOf::Waited, SeriesOf::Ended].map(|wanted| self.sum(|of| of == wanted));
        let wait = |(waited, ended): (f64, f64)| {
            (ended > 0.0).then(|| Duration::from_picos((waited / ended).round() as u64))
        };
        waited.into_iter().zip(ended).map(wait).collect()
    }

    /// The mean over the whole run of what an interval's values are.
    pub fn over_all(&self, values: &[f64]) -> f64 {
        let lengths: Vec<f64> = (0..values.len()).map(|at| self.length(at)).collect();
        if values.is_empty() { 0.0 } else { weighed(values, &lengths) }
    }
}

fn weighed(values: &[f64], lengths: &[f64]) -> f64 {
    let sum: f64 = values.iter().zip(lengths).map(|(value, length)| value * length).sum();
    sum / lengths.iter().sum::<f64>()
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// The first interval: some packets.
const FIRST_INTERVAL: Duration = Duration::from_picos(1 << 12);

/// Takes samples. Whenever there are too many, neighbours are put together, and it goes on half as often.
pub(super) struct Sampler {
    /// Most intervals that are kept, an even number.
    most: usize,
    interval: Duration,
    /// When the interval that is under way began.
    since: Instant,
    series: Vec<Growing>,
}

/// A series that grows.
struct Growing {
    series: Series,
    /// What an amount that only grows was at the last sample.
    before: f64,
}

impl Sampler {
    /// At most `most` intervals, and at least half as many of a long run; rounded up to an even number.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(2).next_multiple_of(2);
        Self { most, interval: FIRST_INTERVAL, since: Instant::ZERO, series: Vec::new() }
    }

    /// When the next sample is due.
    pub(super) fn next(&self) -> Instant {
        self.since + self.interval
    }

    /// Looks at the run, now.
    pub(super) fn sample<P: PayloadKind>(
        &mut self,
        simulation: &Simulation<LayerNode<P>, FlitMedium>,
        switches: u16,
    ) {
        let now = simulation.now();
        let length = now.since(self.since).as_picos() as f64;
        if length == 0.0 {
            return;
        }
        let mut place = 0;
        visit(simulation, switches, |of, is_amount, value| {
            if place == self.series.len() {
                let series = Series { of, means: Vec::new(), peaks: Vec::new() };
                self.series.push(Growing { series, before: 0.0 });
            }
            let Growing { series, before } = &mut self.series[place];
            let value = if is_amount { (value - std::mem::replace(before, value)) / length } else { value };
            series.means.push(value);
            series.peaks.push(value);
            place += 1;
        });
        self.since = now;
        if self.series.first().is_some_and(|growing| growing.series.means.len() >= self.most) {
            self.interval = self.interval + self.interval;
            for Growing { series: Series { means, peaks, .. }, .. } in &mut self.series {
                *means = means.chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
                *peaks = peaks.chunks(2).map(greatest).collect();
            }
        }
    }

    /// The run has ended at `end`, at which the last sample was taken.
    pub(super) fn finish(self, end: Duration, kernels: &[Vec<String>]) -> OverTime {
        let series = self.series.into_iter().map(|growing| growing.series).collect();
        OverTime { interval: self.interval, end, kernels: kernels.to_vec(), series }
    }
}

/// Tells all values of this moment, always in the same order: of what, whether it is an amount that only grows, and the value.
fn visit<P: PayloadKind>(
    simulation: &Simulation<LayerNode<P>, FlitMedium>,
    switches: u16,
    mut tell: impl FnMut(SeriesOf, bool, f64),
) {
    for (direction, statistics) in simulation.statistics() {
        let number = direction.link.0 as u16;
        let (rank, switch, up) = (number / switches, number % switches, !direction.backward);
        tell(SeriesOf::Link { rank, switch, up }, true, statistics.busy.as_picos() as f64);
    }
    let (mut ranks, mut index) = (0.., 0..);
    let (mut waited, mut ended) = (0, 0);
    for (_, node) in simulation.engines() {
        match node {
            LayerNode::Gpu(gpu) => {
                let rank = ranks.next().expect("there is no end of numbers");
                tell(SeriesOf::Loads { rank }, false, gpu.loads().into());
                for (state, kernel) in gpu.kernels().zip(0..) {
                    tell(SeriesOf::Sms { rank, kernel }, true, state.busy.as_picos() as f64);
                    tell(SeriesOf::Blocks { rank, kernel }, false, state.resident.into());
                }
            }
            LayerNode::Switch(unit) => {
                let switch = index.next().expect("there is no end of numbers");
                unit.count(&mut |counter| {
                    let Some(port) = counter.port.map(|port| port.0) else { return };
                    match counter.name {
                        "entries" => tell(SeriesOf::Table { switch, port }, false, counter.value as f64),
                        "waiting requests" => {
                            tell(SeriesOf::Waiting { switch, port }, false, counter.value as f64);
                        }
                        "waited" => waited += counter.value,
                        "ended" => ended += counter.value,
                        _ => {}
                    }
                });
            }
        }
    }
    tell(SeriesOf::Waited, true, waited as f64);
    tell(SeriesOf::Ended, true, ended as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(means: &[f64], end: u64) -> OverTime {
        let peaks = means.iter().map(|value| value * 2.0).collect();
        let series = vec![Series { of: SeriesOf::Loads { rank: 0 }, means: means.to_vec(), peaks }];
        let [interval, end] = [10, end].map(Duration::from_picos);
        OverTime { interval, end, kernels: Vec::new(), series }
    }

    #[test]
    fn fewer_intervals_keep_the_mean_over_all_and_the_peaks() {
        let fine = of(&[1.0, 3.0, 5.0, 7.0, 8.0], 42);
        let mean = fine.over_all(&fine.series[0].means);
        let coarse = fine.coarse(3);
        assert_eq!(coarse.interval, Duration::from_picos(20));
        assert_eq!(coarse.series[0].means, [2.0, 6.0, 8.0]);
        assert_eq!(coarse.series[0].peaks, [6.0, 14.0, 16.0]);
        assert!((coarse.over_all(&coarse.series[0].means) - mean).abs() < 1e-12);
    }

    #[test]
    fn a_last_interval_that_ends_earlier_counts_for_less() {
        let coarse = of(&[0.0, 8.0], 12).coarse(1);
        assert_eq!(coarse.series[0].means, [8.0 * 2.0 / 12.0]);
    }

    #[test]
    fn nothing_that_is_wanted_is_nothing_over_time() {
        let found = of(&[1.0], 10);
        assert!(found.mean(|of| of == SeriesOf::Ended).is_empty());
        assert!(found.peak(|of| of == SeriesOf::Ended).is_empty());
    }
}
