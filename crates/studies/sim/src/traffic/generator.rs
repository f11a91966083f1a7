//! When packets are made, from whom and for whom: decided by a seed and nothing else.

use super::{Offered, Pattern};
use quincunx_collective::SplitMix64;
use quincunx_units::{Duration, Instant};

/// Who sends, and what a packet costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Population {
    /// Hosts, two at least.
    pub(crate) hosts: u16,
    /// Links of a host, which share its packets.
    pub(crate) ways: u16,
    /// How long a packet is on a link.
    pub(crate) packet: Duration,
}

/// A packet that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival {
    /// When.
    pub(crate) at: Instant,
    /// By which host.
    pub(crate) from: u16,
    /// For which host.
    pub(crate) to: u16,
    /// By which of the host's links it goes.
    pub(crate) way: u16,
}

/// Makes packets for all hosts: a Poisson process for each link of each, independent of each other. Drawn as one process of
/// the whole rate, each packet of which belongs to any of the links, each as likely.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    pattern: Pattern,
    population: Population,
    /// Picoseconds between two packets, on average. Not a [`Duration`]: it would be rounded.
    interval: f64,
    /// When the next one is made, in picoseconds.
    next: f64,
    draws: SplitMix64,
}

impl Generator {
    /// Traffic from `start` on.
    pub(crate) fn new(offered: Offered, population: Population, start: Instant, seed: u64) -> Self {
        assert!(population.hosts > 1, "nobody sends to itself");
        let links = f64::from(senders(offered.pattern, population)) * f64::from(population.ways);
        let interval = population.packet.as_picos() as f64 / offered.load.value() / links;
        let next = start.as_picos() as f64;
        Self { pattern: offered.pattern, population, interval, next, draws: SplitMix64::new(seed) }
    }

    /// How long `packets` packets take to be made, on average.
    pub(crate) fn time_for(&self, packets: u64) -> Duration {
        Duration::from_picos((packets as f64 * self.interval) as u64)
    }

    /// The next packet.
    pub(crate) fn arrival(&mut self) -> Arrival {
        // Of 53 bits, and never 0: its logarithm is finite.
        let uniform = ((self.draws.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.next -= uniform.ln() * self.interval;
        let Population { hosts, ways, .. } = self.population;
        let (from, to) = match self.pattern {
            Pattern::Uniform => {
                let (from, other) = (self.below(hosts), self.below(hosts - 1));
                (from, other + u16::from(other >= from))
            }
            Pattern::Neighbor => {
                let from = self.below(hosts);
                (from, (from + 1) % hosts)
            }
            Pattern::Hotspot => (1 + self.below(hosts - 1), 0),
        };
        Arrival { at: Instant::from_picos(self.next as u64), from, to, way: self.below(ways) }
    }

    fn below(&mut self, bound: u16) -> u16 {
        ((u128::from(self.draws.draw()) * u128::from(bound)) >> 64) as u16
    }
}

/// Hosts that send.
pub(crate) fn senders(pattern: Pattern, population: Population) -> u16 {
    match pattern {
        Pattern::Uniform | Pattern::Neighbor => population.hosts,
        Pattern::Hotspot => population.hosts - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Load;

    const POPULATION: Population = Population { hosts: 5, ways: 2, packet: Duration::from_nanos(10) };

    fn generator(pattern: Pattern, load: f64, seed: u64) -> Generator {
        let offered = Offered { pattern, load: Load::new(load).unwrap() };
        Generator::new(offered, POPULATION, Instant::ZERO, seed)
    }

    fn arrivals(pattern: Pattern, load: f64, seed: u64, count: usize) -> Vec<Arrival> {
        let mut generator = generator(pattern, load, seed);
        (0..count).map(|_| generator.arrival()).collect()
    }

    #[test]
    fn one_seed_makes_one_sequence() {
        let [first, again, other] = [1, 1, 2].map(|seed| arrivals(Pattern::Uniform, 0.5, seed, 100));
        assert!(first == again && first != other);
    }

    #[test]
    fn packets_come_as_often_as_the_load_says_and_as_irregularly_as_a_poisson_process() {
        let (load, count) = (0.4, 200_000);
        let times: Vec<f64> = arrivals(Pattern::Uniform, load, 3, count)
            .iter()
            .map(|arrival| arrival.at.as_picos() as f64)
            .collect();
        let links = f64::from(POPULATION.hosts * POPULATION.ways);
        let expected = POPULATION.packet.as_picos() as f64 / load / links;
        let mean = times[count - 1] / count as f64;
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} against {expected}");
        let squares: f64 = times.windows(2).map(|pair| (pair[1] - pair[0] - mean).powi(2)).sum();
        let deviation = (squares / count as f64).sqrt();
        assert!((deviation / mean - 1.0).abs() < 0.01, "deviation {deviation} of mean {mean}");
    }

    #[test]
    fn uniform_traffic_goes_from_everybody_to_everybody_else_by_every_link() {
        let mut seen = std::collections::BTreeMap::new();
        for Arrival { from, to, way, .. } in arrivals(Pattern::Uniform, 1.0, 4, 40_000) {
            *seen.entry((from, to, way)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 5 * 4 * 2);
        assert!(
            seen.iter().all(|((from, to, _), &count)| from != to && (880..1120).contains(&count)),
            "{seen:?}"
        );
    }

    #[test]
    fn a_neighbour_is_the_next_and_a_hot_spot_the_first() {
        assert!(arrivals(Pattern::Neighbor, 1.0, 5, 1000).iter().all(|a| a.to == (a.from + 1) % 5));
        assert!(arrivals(Pattern::Hotspot, 1.0, 5, 1000).iter().all(|a| a.to == 0 && a.from != 0));
    }
}
