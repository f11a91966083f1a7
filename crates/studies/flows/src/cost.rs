//! What a collective asks of links: by the plan of the design that a group runs, or as EPIC's tables count.

use quincunx_design::{AnyDesign, Catalog, FabricKind, Member, Placement, Refusal};
use quincunx_fabric::{IncTree, TreeNodeId, TreeShape};
use quincunx_scenario::{Tenancy, Volume};
use quincunx_units::ByteCount;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bits of a vector that EPIC's tables count on each link of a tree, and on each of a ring, for one bit of it.
const PUBLISHED: [f64; 2] = [2.0, 4.0];

/// Who sends to whom without switches.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Exchange {
    /// From which rank to which, and bits for a bit of the vector.
    pub(crate) hops: Vec<(u16, u16, f64)>,
    /// How often ranks wait for each other's data.
    pub(crate) steps: u32,
}

/// The designs that groups run.
pub(crate) struct Designs {
    volume: Volume,
    in_network: Option<&'static dyn AnyDesign>,
    fallback: Option<&'static dyn AnyDesign>,
    /// By ranks.
    exchanges: BTreeMap<u16, Rc<Exchange>>,
}

/// The longest vector that a group's buffers are made for; switches' do not depend on it.
const LONGEST: ByteCount = ByteCount::new(1 << 20);

impl Designs {
    pub(crate) fn new(tenancy: &Tenancy, catalog: Catalog) -> Result<Self, Refusal> {
        let find = |name: &Option<String>| {
            name.as_ref().map(|name| catalog.find(name, FabricKind::Tree)).transpose()
        };
        let designs = Self {
            volume: tenancy.volume,
            in_network: find(&tenancy.design)?,
            fallback: find(&tenancy.fallback)?,
            exchanges: BTreeMap::new(),
        };
        // A design that cannot be had is refused before anything runs.
        if let Some(design) = designs.in_network {
            let tree = IncTree::from_shape(&TreeShape::star(2).expect("two ranks"));
            let plan = design.plan(&design.defaults(), &Placement::new(2, Some(tree), LONGEST))?;
            if plan.switches.is_empty() {
                let expected = "a `design` with a part in switches";
                return Err(Refusal::new(expected, design.name(), "name another, or make it the `fallback`"));
            }
        }
        Ok(designs)
    }

    /// What a tree takes of its switches.
    pub(crate) fn memory(&self, tree: &IncTree) -> Option<Vec<(TreeNodeId, ByteCount)>> {
        let design = self.in_network?;
        let ranks = tree.ranks();
        let plan =
            design.plan(&design.defaults(), &Placement::new(ranks, Some(tree.clone()), LONGEST)).ok()?;
        Some(plan.switches.into_iter().map(|part| (part.node, part.memory)).collect())
    }

    /// Bits on each link of a tree, each way, for a bit of the vector: it goes up once and comes down once.
    pub(crate) const fn on_tree(&self) -> f64 {
        match self.volume {
            Volume::Plan => 1.0,
            Volume::Published => PUBLISHED[0],
        }
    }

    /// What so many ranks send each other.
    pub(crate) fn among_hosts(&mut self, ranks: u16) -> Result<Rc<Exchange>, Refusal> {
        if let Some(known) = self.exchanges.get(&ranks) {
            return Ok(Rc::clone(known));
        }
        let exchange = match (self.volume, self.fallback) {
            (Volume::Plan, Some(design)) => planned(design, ranks)?,
            _ => Exchange { hops: ring(ranks, PUBLISHED[1]), steps: 2 * u32::from(ranks - 1) },
        };
        let exchange = Rc::new(exchange);
        self.exchanges.insert(ranks, Rc::clone(&exchange));
        Ok(exchange)
    }
}

fn ring(ranks: u16, weight: f64) -> Vec<(u16, u16, f64)> {
    (0..ranks).map(|rank| (rank, (rank + 1) % ranks, weight)).collect()
}

/// What connections carry in an AllReduce that sends no more than it must: each rank 2 (n - 1) / n of the vector, evenly to all that it is
/// connected with; in a ring to the next one alone.
fn planned(design: &dyn AnyDesign, ranks: u16) -> Result<Exchange, Refusal> {
    let star = TreeShape::star(ranks)
        .ok_or_else(|| Refusal::new("at most 65534 ranks", ranks, "make smaller groups"))?;
    let placement = Placement::new(ranks, Some(IncTree::from_shape(&star)), LONGEST);
    let plan = design.plan(&design.defaults(), &placement)?;
    if !plan.switches.is_empty() {
        let expected = "a `fallback` that runs among hosts";
        return Err(Refusal::new(expected, design.name(), "name another, or make it the `design`"));
    }
    let sent = 2.0 * f64::from(ranks - 1) / f64::from(ranks);
    let mut degrees = vec![0_u32; usize::from(ranks)];
    let mut pairs = Vec::new();
    for connection in &plan.connections {
        if let [Member::Rank(a), Member::Rank(b)] = connection.ends.map(|end| end.member) {
            degrees[a.index()] += 1;
            degrees[b.index()] += 1;
            pairs.push((a.0, b.0));
        }
    }
    let follows = |&(a, b): &(u16, u16)| (a + 1) % ranks == b || (b + 1) % ranks == a;
    if pairs.iter().all(follows) && degrees.iter().all(|&degree| degree <= 2) {
        return Ok(Exchange { hops: ring(ranks, sent), steps: 2 * u32::from(ranks - 1) });
    }
    let hops = pairs.iter().flat_map(|&(a, b)| {
        let weight = |from: u16| sent / f64::from(degrees[usize::from(from)]);
        [(a, b, weight(a)), (b, a, weight(b))]
    });
    Ok(Exchange { hops: hops.collect(), steps: 2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_designs::CATALOG;

    fn exchange(design: &str, ranks: u16) -> Exchange {
        planned(CATALOG.named(design).unwrap(), ranks).unwrap()
    }

    #[test]
    fn a_ring_sends_to_the_next_alone() {
        let found = exchange("ring", 4);
        assert_eq!(found.hops, [(0, 1, 1.5), (1, 2, 1.5), (2, 3, 1.5), (3, 0, 1.5)]);
        assert_eq!(found.steps, 6);
    }

    #[test]
    fn who_is_connected_with_all_sends_each_as_much() {
        let found = exchange("direct", 4);
        assert_eq!((found.hops.len(), found.steps), (12, 2));
        assert!(found.hops.iter().all(|(_, _, weight)| *weight == 0.5));
    }

    #[test]
    fn a_design_in_switches_is_no_fallback() {
        let error = planned(CATALOG.named("epic-2").unwrap(), 4).unwrap_err().to_string();
        assert!(error.contains("`fallback`"), "{error}");
    }
}
