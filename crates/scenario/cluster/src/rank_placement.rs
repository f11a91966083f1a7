//! Which host each rank is on.

use crate::{NodeIndex, Wiring};
use quincunx_collective::SplitMix64;
use quincunx_fabric::NodeKind;
use quincunx_scenario::RankPlacement;
use std::cmp::Reverse;
use std::collections::BTreeMap;

impl Wiring {
    /// The same with its ranks where a placement has them.
    ///
    /// # Panics
    /// If it names a host that there is not.
    #[must_use]
    pub fn with_placement(self, placement: &RankPlacement) -> Self {
        let order = match placement {
            RankPlacement::Packed => return self,
            RankPlacement::Spread => self.spread(),
            RankPlacement::Random(seed) => shuffled(self.hosts().len(), *seed),
            RankPlacement::Listed(hosts) => hosts.numbers().iter().copied().map(usize::from).collect(),
        };
        self.with_hosts(&order)
    }

    /// A host of each switch, then the next host of each.
    fn spread(&self) -> Vec<usize> {
        let mut groups: Vec<(NodeIndex, Vec<usize>)> = Vec::new();
        for (host, &node) in self.hosts().iter().enumerate() {
            let switch = self.switch_of(node);
            match groups.iter_mut().find(|(other, _)| *other == switch) {
                Some((_, hosts)) => hosts.push(host),
                None => groups.push((switch, vec![host])),
            }
        }
        let most = groups.iter().map(|(_, hosts)| hosts.len()).max().unwrap_or(0);
        let turn = |place: usize| groups.iter().filter_map(move |(_, hosts)| hosts.get(place).copied());
        (0..most).flat_map(turn).collect()
    }

    /// The switch that a host shares with most others, of those that it has at the lowest cost: of a server's NVSwitch and a network the
    /// first. Without a switch it is by itself.
    fn switch_of(&self, host: NodeIndex) -> NodeIndex {
        let mut hosts_at: BTreeMap<NodeIndex, usize> = BTreeMap::new();
        let is_switch = |node: NodeIndex| self.nodes()[node].kind == NodeKind::Switch;
        let switches = self.neighbours_by_link(host).filter(|(_, far)| is_switch(far.node));
        let best = switches.min_by_key(|(link, far)| {
            let sharing = *hosts_at
                .entry(far.node)
                .or_insert_with(|| self.neighbours(far.node).filter(|(_, end)| !is_switch(end.node)).count());
            (self.cost(*link), Reverse(sharing), far.node)
        });
        best.map_or(host, |(_, far)| far.node)
    }
}

/// The numbers below `count` in an order that a seed decides (Fisher and Yates).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut draws = SplitMix64::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let other = ((u128::from(draws.draw()) * (last as u128 + 1)) >> 64) as usize;
        order.swap(last, other);
    }
    order
}
