//! What switches and links were used for, over a run: sums over equal parts of its time. How long that is, nobody knows before its end: when time
//! passes the last part, parts become twice as long, two by two, so that a run of any length has as many.

use crate::fabric::Cluster;
use quincunx_control::map::{MapLink, MapNode};
use quincunx_driver_flow::LinkId;
use quincunx_units::{ByteCount, Duration, Instant};
use std::collections::BTreeMap;

/// The most parts that a run's time has; it has at least half of them, unless it is shorter than so many nanoseconds.
pub const PARTS: usize = 64;

/// A switch or a link.
#[derive(Clone, PartialEq, Debug)]
pub struct Used {
    /// Its name.
    pub name: String,
    /// The share of it, between 0 and 1, in each part of the run: of a switch's memory what groups held, of a link's bits those that it carried.
    pub shares: Vec<f64>,
}

impl Used {
    fn sum(&self) -> f64 {
        self.shares.iter().sum()
    }
}

/// A switch that a job's groups held without a rest that is longer than a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The switch.
    pub switch: String,
    /// The job, by its place in the file.
    pub job: u32,
    /// Since when.
    pub from: Instant,
    /// Until when.
    pub to: Instant,
}

/// A run, part by part.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Usage {
    /// How long a part is; the last one ends with the run.
    pub part: Duration,
    /// Switches that groups held, the fullest first.
    pub switches: Vec<Used>,
    /// Links between switches that carried something, each way, the busiest first. A collective's bits are spread evenly over its time.
    pub links: Vec<Used>,
    /// Those of hosts.
    pub access: Vec<Used>,
    /// Who held switches, in the order of switches' names, jobs and times.
    pub held: Vec<Held>,
}

/// Sums over parts of time, a row for each key.
#[derive(Clone, Debug)]
struct Parts<K> {
    width: Duration,
    rows: BTreeMap<K, Vec<f64>>,
}

impl<K: Ord + Copy> Parts<K> {
    const fn new() -> Self {
        Self { width: Duration::from_picos(1000), rows: BTreeMap::new() }
    }

    /// So much a second from then to then.
    fn add(&mut self, key: K, [from, to]: [Instant; 2], rate: f64) {
        let [from, to] = [from, to].map(|time| time.since(Instant::ZERO).as_picos());
        while to > self.width.as_picos() * PARTS as u64 {
            self.width = self.width * 2;
            for row in self.rows.values_mut() {
                *row = row.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        let width = self.width.as_picos();
        let row = self.rows.entry(key).or_default();
        if row.len() < to.div_ceil(width) as usize {
            row.resize(to.div_ceil(width) as usize, 0.0);
        }
        for part in from / width..to.div_ceil(width) {
            let within = to.min((part + 1) * width).saturating_sub(from.max(part * width));
            row[part as usize] += rate * within as f64 / 1e12;
        }
    }

    /// Shares of what each could have had: `most` a second.
    fn shares(
        self,
        end: Instant,
        width: Duration,
        name: impl Fn(K) -> String,
        most: impl Fn(K) -> f64,
    ) -> Vec<Used> {
        let end = end.since(Instant::ZERO).as_picos();
        let (own, width) = (self.width.as_picos(), width.as_picos());
        let share = |(key, row): (K, Vec<f64>)| {
            // Rows of the one are as fine as those of the other, or finer.
            let row = row.chunks((width / own) as usize).map(|parts| parts.iter().sum::<f64>());
            let long = |part: usize| end.min((part as u64 + 1) * width).saturating_sub(part as u64 * width);
            let mut shares: Vec<f64> =
                row.enumerate().map(|(part, sum)| sum / (most(key) * long(part) as f64 / 1e12)).collect();
            shares.resize(end.div_ceil(width) as usize, 0.0);
            Used { name: name(key), shares }
        };
        let mut used: Vec<Used> = self.rows.into_iter().map(share).filter(|used| used.sum() > 0.0).collect();
        used.sort_by(|a, b| b.sum().total_cmp(&a.sum()));
        used
    }
}

/// Notes who holds and carries what.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    switches: Parts<MapNode>,
    links: Parts<LinkId>,
    /// By switch and job: from when to when.
    held: BTreeMap<(MapNode, u32), Vec<[Instant; 2]>>,
}

impl Watch {
    pub(crate) const fn new() -> Self {
        Self { switches: Parts::new(), links: Parts::new(), held: BTreeMap::new() }
    }

    /// A job's group has held so much of a switch.
    pub(crate) fn held(&mut self, switch: MapNode, memory: ByteCount, job: u32, span: [Instant; 2]) {
        self.switches.add(switch, span, memory.bytes() as f64);
        let spans = self.held.entry((switch, job)).or_default();
        spans.push(span);
        if spans.len() > 2 * PARTS {
            *spans = joined(std::mem::take(spans), self.switches.width);
        }
    }

    /// A link has carried so many bits.
    pub(crate) fn carried(&mut self, link: LinkId, bits: f64, span @ [from, to]: [Instant; 2]) {
        if to > from {
            self.links.add(link, span, bits / to.since(from).as_secs_f64());
        }
    }

    /// What came of it, where each switch has so much memory.
    pub(crate) fn finish(self, cluster: &Cluster, memory: ByteCount, end: Instant) -> Usage {
        let mut part = self.switches.width.max(self.links.width);
        while end.since(Instant::ZERO) > part * PARTS as u64 {
            part = part * 2;
        }
        let rates: Vec<f64> = cluster.rates().map(|rate| rate.bits_per_second() as f64).collect();
        let name = |switch| cluster.map().name(switch).to_owned();
        let mut held = Vec::new();
        for ((switch, job), spans) in self.held {
            let spans = joined(spans, part).into_iter();
            held.extend(spans.map(|[from, to]| Held { switch: name(switch), job, from, to }));
        }
        held.sort_by(|a, b| (&a.switch, a.job, a.from).cmp(&(&b.switch, b.job, b.from)));
        let of_host =
            |link: &LinkId| cluster.ends(MapLink(link.0 / 2)).iter().any(|&end| cluster.map().is_host(end));
        let mut access = self.links;
        let between = access.rows.extract_if(.., |link, _| !of_host(link)).collect();
        let links = Parts { width: access.width, rows: between };
        let shares = |links: Parts<LinkId>| {
            links.shares(end, part, |link| cluster.name(link), |link| rates[link.0 as usize])
        };
        Usage {
            part,
            switches: self.switches.shares(end, part, name, |_| memory.bytes() as f64),
            links: shares(links),
            access: shares(access),
            held,
        }
    }
}

/// Spans without those rests between them that are no longer than `rest`.
fn joined(mut spans: Vec<[Instant; 2]>, rest: Duration) -> Vec<[Instant; 2]> {
    spans.sort();
    let mut all: Vec<[Instant; 2]> = Vec::new();
    for [from, to] in spans {
        match all.last_mut() {
            Some([_, end]) if from <= *end + rest => *end = to.max(*end),
            _ => all.push([from, to]),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(picos: u64) -> Instant {
        Instant::ZERO + Duration::from_picos(picos)
    }

    #[test]
    fn parts_become_longer_with_time_and_nothing_is_lost() {
        let mut parts = Parts::new();
        parts.add('a', [at(500), at(2500)], 1e12);
        assert_eq!(parts.rows[&'a'], [500.0, 1000.0, 500.0]);
        parts.add('b', [at(0), at(100_000)], 1e12);
        assert_eq!(parts.width, Duration::from_picos(2000));
        assert_eq!(parts.rows[&'a'], [1500.0, 500.0]);
        assert_eq!(parts.rows[&'b'], [2000.0; 50]);
    }

    #[test]
    fn the_last_part_ends_with_the_run() {
        let mut parts = Parts::new();
        parts.add('a', [at(0), at(1500)], 3e12);
        let [used] = &parts.shares(at(1500), Duration::from_picos(1000), String::from, |_| 4e12)[..] else {
            panic!("one key has one row")
        };
        assert_eq!(used.shares, [0.75, 0.75]);
    }

    #[test]
    fn short_rests_do_not_count() {
        let spans = [[0, 10], [40, 50], [12, 30], [13, 14]].map(|span| span.map(at));
        let rest = Duration::from_picos(5);
        assert_eq!(joined(spans.to_vec(), rest), [[0, 30], [40, 50]].map(|span| span.map(at)));
    }

    proptest! {
        #[test]
        fn sums_are_those_of_what_was_added(spans in prop::collection::vec((0_u64..1 << 40, 1_u64..1 << 38), 1..20)) {
            let mut parts = Parts::new();
            for &(from, length) in &spans {
                parts.add((), [at(from), at(from + length)], 1e12);
            }
            let sum: f64 = parts.rows[&()].iter().sum();
            let expected = spans.iter().map(|&(_, length)| length as f64).sum::<f64>();
            prop_assert!((sum - expected).abs() < expected * 1e-9);
            prop_assert!(parts.rows[&()].len() <= PARTS);
        }
    }
}
