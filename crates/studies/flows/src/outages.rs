//! What of the network is out of order, and when things fail and are whole again: each thing draws from a stream of its own, so that the same
//! things fail at the same times whatever jobs and policies do.

use crate::fabric::Cluster;
use quincunx_collective::SplitMix64;
use quincunx_control::map::{MapLink, MapNode};
use quincunx_scenario::{Failures, ScaleUp};
use quincunx_units::{Duration, MeanTime};
use std::ops::Range;

/// Something that fails as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Thing {
    Link(MapLink),
    Switch(MapNode),
    /// Its accelerators.
    Server(Range<u32>),
}

#[derive(Clone, Debug)]
struct Fallible {
    thing: Thing,
    mean: MeanTime,
    random: SplitMix64,
}

/// What may fail, and what is out of order.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    things: Vec<Fallible>,
    repair: Option<MeanTime>,
    /// By node and by link of the map.
    nodes: Vec<bool>,
    links: Vec<bool>,
    /// By link: whether it, or what is at one of its ends, is out of order.
    broken: Vec<bool>,
}

impl Outages {
    /// Everything is whole.
    pub(crate) fn new(
        cluster: &Cluster,
        failures: Option<&Failures>,
        servers: Option<ScaleUp>,
        seed: u64,
    ) -> Self {
        let map = cluster.map();
        let mut things = Vec::new();
        if let Some(failures) = failures {
            // A kind's streams do not depend on which others there are.
            let mut add = |kind: u64, number: u32, mean: Option<MeanTime>, thing: Thing| {
                let stream = SplitMix64::new(seed ^ (kind << 56)).draw() ^ u64::from(number);
                things.extend(mean.map(|mean| Fallible { thing, mean, random: SplitMix64::new(stream) }));
            };
            map.links().for_each(|link| add(1, link.0, failures.link, Thing::Link(link)));
            let switches = (0..map.size() as u32).map(MapNode).filter(|&node| !map.is_host(node));
            switches.for_each(|switch| add(2, switch.0, failures.switch, Thing::Switch(switch)));
            let (hosts, members) = (cluster.hosts(), servers.map_or(1, |servers| servers.members.into()));
            for (number, first) in (0..).zip((0..hosts).step_by(members as usize)) {
                let accelerators = first..hosts.min(first + members);
                add(3, number, failures.server, Thing::Server(accelerators));
            }
        }
        Self {
            things,
            repair: failures.map(|failures| failures.repair),
            nodes: vec![false; map.size()],
            links: vec![false; map.links().count()],
            broken: vec![false; map.links().count()],
        }
    }

    /// The numbers of all that may fail.
    pub(crate) fn numbers(&self) -> Range<u32> {
        0..self.things.len() as u32
    }

    /// What has that number.
    pub(crate) fn thing(&self, number: u32) -> &Thing {
        &self.things[number as usize].thing
    }

    /// How long it is whole from now on; none: longer than there is time.
    pub(crate) fn time_to_failure(&mut self, number: u32) -> Option<Duration> {
        let Fallible { mean, random, .. } = &mut self.things[number as usize];
        drawn(random, *mean)
    }

    /// How long it is out of order from now on.
    pub(crate) fn time_to_repair(&mut self, number: u32) -> Option<Duration> {
        drawn(&mut self.things[number as usize].random, self.repair.expect("it fails, and is mended"))
    }

    /// It is out of order from now on, or whole.
    pub(crate) fn set(&mut self, cluster: &Cluster, number: u32, is_down: bool) {
        let nodes: Vec<MapNode> = match &self.things[number as usize].thing {
            Thing::Link(link) => {
                self.links[link.0 as usize] = is_down;
                cluster.ends(*link).into()
            }
            Thing::Switch(switch) => vec![*switch],
            Thing::Server(hosts) => hosts.clone().map(|host| cluster.host(host)).collect(),
        };
        if !matches!(self.things[number as usize].thing, Thing::Link(_)) {
            nodes.iter().for_each(|node| self.nodes[node.0 as usize] = is_down);
        }
        for &(link, _) in nodes.iter().flat_map(|&node| cluster.map().ports(node)) {
            let is_up = cluster.ends(link).into_iter().all(|end| self.is_up(end));
            self.broken[link.0 as usize] = self.links[link.0 as usize] || !is_up;
        }
    }

    /// Whether a node works.
    fn is_up(&self, node: MapNode) -> bool {
        !self.nodes[node.0 as usize]
    }

    /// Whether a link does, and what is at its ends.
    pub(crate) fn carries(&self, link: MapLink) -> bool {
        !self.broken[link.0 as usize]
    }

    /// Whether an accelerator works and reaches a switch.
    pub(crate) fn is_reached(&self, cluster: &Cluster, host: u32) -> bool {
        let ports = cluster.map().ports(cluster.host(host));
        ports.iter().any(|&(link, _)| self.carries(link))
    }
}

/// A number above zero, and at most one.
pub(crate) const fn share(random: &mut SplitMix64) -> f64 {
    ((random.draw() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// A time of that mean, exponentially distributed.
fn drawn(random: &mut SplitMix64, mean: MeanTime) -> Option<Duration> {
    let picos = -share(random).ln() * mean.as_secs_f64() * 1e12;
    (picos < u64::MAX as f64).then(|| Duration::from_picos(picos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_scenario::Tenancy;
    use quincunx_units::BitRate;

    fn failures(kinds: &str) -> Failures {
        let every = |kind: char| kinds.contains(kind).then(|| "100h".parse().unwrap());
        Failures {
            link: every('l'),
            switch: every('s'),
            server: every('h'),
            repair: "1h".parse().unwrap(),
            recovery: Duration::ZERO,
            restart: Duration::ZERO,
            adaptive: true,
        }
    }

    fn cluster() -> Cluster {
        Cluster::new("leaf-spine-2x2x6", &Tenancy::find("epic-128", &[]).unwrap().link.unwrap()).unwrap()
    }

    #[test]
    fn a_thing_fails_when_it_does_whatever_else_may() {
        let cluster = cluster();
        let times = |kinds: &str, is_meant: fn(&Thing) -> bool| -> Vec<_> {
            let mut outages = Outages::new(&cluster, Some(&failures(kinds)), None, 7);
            let meant: Vec<u32> =
                outages.numbers().filter(|&number| is_meant(outages.thing(number))).collect();
            meant.into_iter().map(|number| outages.time_to_failure(number)).collect()
        };
        let is_switch = |thing: &Thing| matches!(thing, Thing::Switch(_));
        let is_server = |thing: &Thing| matches!(thing, Thing::Server(_));
        assert_eq!(times("s", is_switch), times("lsh", is_switch));
        assert_eq!(times("h", is_server), times("lsh", is_server));
        assert_eq!((times("s", is_switch).len(), times("h", is_server).len()), (4, 12));
        assert_ne!(times("lsh", is_switch)[..4], times("lsh", is_server)[..4]);
    }

    #[test]
    fn times_have_the_mean_that_was_asked_for() {
        let mut outages = Outages::new(&cluster(), Some(&failures("h")), None, 1);
        let all: Vec<f64> =
            (0..10_000).filter_map(|_| outages.time_to_failure(0)).map(Duration::as_secs_f64).collect();
        let mean = all.iter().sum::<f64>() / 10_000.0;
        assert!((mean / 360_000.0 - 1.0).abs() < 0.03, "{mean} s");
        assert!(outages.time_to_repair(0).is_some());
    }

    #[test]
    fn a_server_fails_with_all_its_accelerators_and_a_switch_with_its_links() {
        let cluster = cluster();
        let servers = ScaleUp { members: 8, rate: BitRate::new(1).unwrap() };
        let mut outages = Outages::new(&cluster, Some(&failures("sh")), Some(servers), 1);
        let number = |outages: &Outages, thing: &Thing| {
            outages.numbers().find(|&number| outages.thing(number) == thing).unwrap()
        };
        let second = number(&outages, &Thing::Server(8..12));
        outages.set(&cluster, second, true);
        let reached = |outages: &Outages| {
            (0..12).filter(|&host| outages.is_reached(&cluster, host)).collect::<Vec<_>>()
        };
        assert_eq!(reached(&outages), (0..8).collect::<Vec<_>>());
        outages.set(&cluster, second, false);
        let leaf = cluster.map().ports(cluster.host(0))[0].1;
        let leaf = number(&outages, &Thing::Switch(leaf));
        outages.set(&cluster, leaf, true);
        assert_eq!(reached(&outages), (6..12).collect::<Vec<_>>());
    }
}
