//! Which way a flow takes from host to host: a shortest one, pinned where it finds the fewest others, or by a hash.

use crate::fabric::Cluster;
use crate::outages::Outages;
use quincunx_control::map::MapNode;
use quincunx_driver_flow::LinkId;
use quincunx_scenario::Routing;
use std::collections::BTreeMap;

/// A place on the way that is reached: what the fullest link before it carries, what all carry, and the link that leads there from where.
type Reached = (u32, u32, Option<(LinkId, MapNode)>);

/// Ways, and what is pinned to links.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    routing: Routing,
    /// By link and way: flows and trees.
    pinned: Vec<u32>,
    /// By switch that a way ends at: how far each node is, over switches.
    distances: BTreeMap<MapNode, Vec<u16>>,
}

const FAR: u16 = u16::MAX;

impl Ways {
    pub(crate) fn new(cluster: &Cluster, routing: Routing) -> Self {
        Self { routing, pinned: vec![0; cluster.rates().count()], distances: BTreeMap::new() }
    }

    pub(crate) fn pin(&mut self, link: LinkId) {
        self.pinned[link.0 as usize] += 1;
    }

    pub(crate) fn unpin(&mut self, link: LinkId) {
        self.pinned[link.0 as usize] -= 1;
    }

    /// Whether nothing is pinned anywhere.
    pub(crate) fn are_free(&self) -> bool {
        self.pinned.iter().all(|&pinned| pinned == 0)
    }

    /// Something has failed, or is whole again.
    pub(crate) fn forget_distances(&mut self) {
        self.distances.clear();
    }

    /// The links from a host to another; none if there is no way. `flow` is what a hash is made of.
    pub(crate) fn way(
        &mut self,
        cluster: &Cluster,
        outages: &Outages,
        [from, to]: [MapNode; 2],
        flow: u64,
    ) -> Option<Vec<LinkId>> {
        let map = cluster.map();
        let carries = |link| outages.carries(link);
        let links = |host: MapNode| {
            map.ports(host).iter().copied().filter(|&(link, to)| !map.is_host(to) && carries(link))
        };
        // Of hosts with several links those on the shortest way, and of these the emptiest.
        let mut best = None;
        for (down, last) in links(to) {
            let distances = self.distances.entry(last).or_insert_with(|| distances(cluster, outages, last));
            for (up, first) in links(from).filter(|(_, first)| distances[first.0 as usize] != FAR) {
                let load = [cluster.from(from, up), cluster.from(last, down)]
                    .map(|link| self.pinned[link.0 as usize]);
                let order = (distances[first.0 as usize], load.iter().max().copied());
                if best.is_none_or(|(found, _)| order < found) {
                    best = Some((order, (up, first, last, down)));
                }
            }
        }
        let (_, (up, first, last, down)) = best?;
        let distances = &self.distances[&last];
        let pinned = &self.pinned;
        let mut layer: BTreeMap<MapNode, Reached> = [(first, (0, 0, None))].into();
        let mut layers = vec![layer.clone()];
        while !layer.contains_key(&last) {
            assert!(!layer.is_empty(), "a way leads where distances do");
            let mut next: BTreeMap<MapNode, Reached> = BTreeMap::new();
            for (&node, &(fullest, all, _)) in &layer {
                let nearer = map.ports(node).iter().filter(|(link, to)| {
                    let is_nearer =
                        distances[to.0 as usize].checked_add(1) == Some(distances[node.0 as usize]);
                    is_nearer && !map.is_host(*to) && carries(*link)
                });
                match self.routing {
                    Routing::Pinned => {
                        for &(link, to) in nearer {
                            let link = cluster.from(node, link);
                            let load = pinned[link.0 as usize];
                            let reached = (fullest.max(load), all + load, Some((link, node)));
                            let best = next.entry(to).or_insert(reached);
                            if (reached.0, reached.1) < (best.0, best.1) {
                                *best = reached;
                            }
                        }
                    }
                    Routing::Hashed => {
                        let ways: Vec<_> = nearer.collect();
                        let seed = flow ^ (u64::from(node.0) << 40);
                        let drawn = quincunx_collective::SplitMix64::new(seed).draw();
                        let &&(link, to) = &ways[(drawn % ways.len() as u64) as usize];
                        next.insert(to, (0, 0, Some((cluster.from(node, link), node))));
                    }
                }
            }
            layers.push(next.clone());
            layer = next;
        }
        let mut way = vec![cluster.from(last, down)];
        let mut at = last;
        while let Some((_, _, Some((link, before)))) = layers.pop().map(|layer| layer[&at]) {
            way.push(link);
            at = before;
        }
        way.push(cluster.from(from, up));
        way.reverse();
        Some(way)
    }
}

/// How far each node is from a switch, over switches.
fn distances(cluster: &Cluster, outages: &Outages, from: MapNode) -> Vec<u16> {
    let map = cluster.map();
    let mut distances = vec![FAR; map.size()];
    distances[from.0 as usize] = 0;
    let mut level = vec![from];
    while !level.is_empty() {
        let mut next = Vec::new();
        for node in level {
            let further = distances[node.0 as usize] + 1;
            for &(link, to) in map.ports(node) {
                if distances[to.0 as usize] == FAR && !map.is_host(to) && outages.carries(link) {
                    distances[to.0 as usize] = further;
                    next.push(to);
                }
            }
        }
        level = next;
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outages::Thing;
    use quincunx_control::map::MapLink;
    use quincunx_scenario::Tenancy;

    #[test]
    fn a_way_is_as_full_as_its_fullest_link_wherever_that_is() {
        let link = Tenancy::find("epic-128", &[]).unwrap().link.unwrap();
        let cluster = Cluster::new("clos-2x1x2x2x1", &link).unwrap();
        let whole = Outages::new(&cluster, None, None, 1);
        let mut ways = Ways::new(&cluster, Routing::Pinned);
        let ends = [0, 2].map(|host| cluster.host(host));
        let way = |ways: &mut Ways| ways.way(&cluster, &whole, ends, 0).unwrap();
        let first = way(&mut ways);
        (0..3).for_each(|_| ways.pin(first[1]));
        let other = way(&mut ways);
        assert_ne!(first, other);
        // One flow on each of its links is more than the other way has on its last.
        other.iter().for_each(|link| ways.pin(*link));
        assert_eq!(way(&mut ways), other);
    }

    #[test]
    fn a_way_leads_around_what_has_failed_and_there_is_none_where_all_have() {
        let tenancy = Tenancy::find("epic-128", &[]).unwrap();
        let cluster = Cluster::new("leaf-spine-2x2x2", &tenancy.link.unwrap()).unwrap();
        let failures = quincunx_scenario::Failures {
            link: Some("1h".parse().unwrap()),
            switch: Some("1h".parse().unwrap()),
            server: None,
            repair: "1h".parse().unwrap(),
            recovery: quincunx_units::Duration::ZERO,
            restart: quincunx_units::Duration::ZERO,
            adaptive: true,
        };
        let mut outages = Outages::new(&cluster, Some(&failures), None, 1);
        let mut ways = Ways::new(&cluster, Routing::Pinned);
        let ends = [0, 2].map(|host| cluster.host(host));
        let spines: Vec<u32> = outages
            .numbers()
            .filter(|&number| match outages.thing(number) {
                Thing::Switch(switch) => cluster.map().name(*switch).contains("spine"),
                _ => false,
            })
            .collect();
        let names = |way: Option<Vec<LinkId>>| way.map(|way| cluster.name(way[1]));
        let mut after = |number: u32, is_down: bool| {
            outages.set(&cluster, number, is_down);
            ways.forget_distances();
            names(ways.way(&cluster, &outages, ends, 0))
        };
        let [one, other] = spines[..] else { panic!("two spines") };
        let around = after(one, true);
        assert!(around.is_some());
        assert_eq!(after(other, true), None);
        assert_ne!(after(one, false), around);
        after(other, false);
        // A link alone: who is behind it is still as near, by another.
        let free = ways.way(&cluster, &outages, ends, 0).unwrap();
        let broken = Thing::Link(MapLink(free[1].0 / 2));
        let number = outages.numbers().find(|&number| *outages.thing(number) == broken).unwrap();
        outages.set(&cluster, number, true);
        ways.forget_distances();
        let other = ways.way(&cluster, &outages, ends, 0).unwrap();
        other.iter().for_each(|link| ways.pin(*link));
        assert_eq!(ways.way(&cluster, &outages, ends, 0).unwrap(), other, "though it is fuller");
    }
}
