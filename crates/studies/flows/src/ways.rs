//! Which way a flow takes from host to host: a shortest one, pinned where it finds the fewest others, or by a hash.

use crate::fabric::Cluster;
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

    /// The links from a host to another. `flow` is what a hash is made of.
    ///
    /// # Panics
    /// If there is none: shapes are connected.
    pub(crate) fn way(&mut self, cluster: &Cluster, [from, to]: [MapNode; 2], flow: u64) -> Vec<LinkId> {
        let map = cluster.map();
        let &(down, last) = map.ports(to).first().expect("a host has a link");
        let distances = self.distances.entry(last).or_insert_with(|| distances(cluster, last));
        let (up, first) = map
            .ports(from)
            .iter()
            .copied()
            .min_by_key(|(_, next)| distances[next.0 as usize])
            .expect("a host has a link");
        let pinned = &self.pinned;
        let mut layer: BTreeMap<MapNode, Reached> = [(first, (0, 0, None))].into();
        let mut layers = vec![layer.clone()];
        while !layer.contains_key(&last) {
            let mut next: BTreeMap<MapNode, Reached> = BTreeMap::new();
            for (&node, &(fullest, all, _)) in &layer {
                let nearer = map.ports(node).iter().filter(|(_, to)| {
                    !map.is_host(*to) && distances[to.0 as usize] + 1 == distances[node.0 as usize]
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
        way
    }
}

/// How far each node is from a switch, over switches.
fn distances(cluster: &Cluster, from: MapNode) -> Vec<u16> {
    let map = cluster.map();
    let mut distances = vec![FAR; map.size()];
    distances[from.0 as usize] = 0;
    let mut level = vec![from];
    while !level.is_empty() {
        let mut next = Vec::new();
        for node in level {
            let further = distances[node.0 as usize] + 1;
            for &(_, to) in map.ports(node) {
                if distances[to.0 as usize] == FAR && !map.is_host(to) {
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
    use quincunx_scenario::Tenancy;

    #[test]
    fn a_way_is_as_full_as_its_fullest_link_wherever_that_is() {
        let link = Tenancy::find("epic-128", &[]).unwrap().link;
        let cluster = Cluster::new("clos-2x1x2x2x1", &link).unwrap();
        let mut ways = Ways::new(&cluster, Routing::Pinned);
        let ends = [0, 2].map(|host| cluster.host(host));
        let first = ways.way(&cluster, ends, 0);
        (0..3).for_each(|_| ways.pin(first[1]));
        let other = ways.way(&cluster, ends, 0);
        assert_ne!(first, other);
        // One flow on each of its links is more than the other way has on its last.
        other.iter().for_each(|link| ways.pin(*link));
        assert_eq!(ways.way(&cluster, ends, 0), other);
    }
}
