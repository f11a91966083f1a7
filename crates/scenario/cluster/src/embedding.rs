//! A tree of switches embedded in a wiring that has many: found by the manager's own policies, each edge over links of its own.

use crate::{NodeIndex, Wiring, WiringEnd};
use quincunx_control::map::{Map, MapNode};
use quincunx_control::policy::{EdgeDisjoint, Policy};
use quincunx_control::tree::Ground;
use quincunx_control::{LinkReport, NodeDescription, Role};
use quincunx_fabric::{IncTree, NodeKind, TreeNodeId};
use quincunx_units::ByteCount;
use quincunx_wire::Gid;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Queue pairs that a node of a simulation may have.
const MOST_QUEUE_PAIRS: u32 = 1 << 20;

/// A tree, and where it lies.
pub(crate) struct EmbeddedTree {
    pub(crate) tree: IncTree,
    pub(crate) switches: BTreeMap<TreeNodeId, NodeIndex>,
    /// Pairs of nodes whose links its edges cross.
    pub(crate) pairs: Vec<[NodeIndex; 2]>,
}

impl EmbeddedTree {
    /// A tree over all hosts, of switches that can all take part.
    pub(crate) fn over_all(wiring: &Wiring, address: &dyn Fn(NodeIndex) -> Gid) -> Option<Self> {
        let nodes = descriptions(wiring, address, &BTreeSet::new(), ByteCount::new(0));
        let map = Map::new(nodes.iter());
        let ground = Ground {
            map: &map,
            able: &|node| !map.is_host(node),
            usable: &|_| true,
            memory: &|_| ByteCount::new(0),
        };
        let place = |node: NodeIndex| map.find(&wiring.nodes()[node].name).expect("every node is on the map");
        let members: Vec<MapNode> = wiring.hosts().iter().map(|&host| place(host)).collect();
        let levels = ground.levels(&members).ok()?;
        let found = EdgeDisjoint.candidates(&ground, &levels, &members).into_iter().next()?;
        let index = |name: &str| wiring.find(name).expect("every node of the map is of the wiring");
        Some(Self {
            switches: found.switches.iter().map(|(&node, &place)| (node, index(map.name(place)))).collect(),
            pairs: found.links.iter().map(|&link| map.ends(link).map(index)).collect(),
            tree: found.tree,
        })
    }
}

/// Nodes as they describe themselves to a manager: who they are, what switches can do, and the links of each.
pub(crate) fn descriptions(
    wiring: &Wiring,
    address: &dyn Fn(NodeIndex) -> Gid,
    designs: &BTreeSet<String>,
    memory: ByteCount,
) -> Vec<NodeDescription> {
    let describe = |(index, node): (NodeIndex, &crate::WiringNode)| {
        let mut reports: BTreeMap<NodeIndex, LinkReport> = BTreeMap::new();
        for (link, far) in wiring.neighbours_by_link(index) {
            let report = reports.entry(far.node).or_insert_with(|| LinkReport {
                interface: None,
                neighbour: wiring.nodes()[far.node].name.clone(),
                parallel_links: 0,
                rate: None,
            });
            let rate = wiring.links()[link].properties.rate;
            (report.parallel_links, report.rate) =
                (report.parallel_links + 1, Some(report.rate.map_or(rate, |other| other.min(rate))));
        }
        let links = reports.into_values().collect();
        let host = NodeDescription::host(node.name.clone(), address(index).address(), MOST_QUEUE_PAIRS);
        match node.kind {
            NodeKind::Host => NodeDescription { links, ..host },
            NodeKind::Switch => {
                NodeDescription { role: Role::Switch, designs: designs.clone(), memory, links, ..host }
            }
        }
    };
    wiring.nodes().iter().enumerate().map(describe).collect()
}

/// The way from a node to another over some links, which make a tree: of each link the nearer end and the farther one.
pub(crate) fn way(
    wiring: &Wiring,
    links: &BTreeSet<usize>,
    from: NodeIndex,
    to: NodeIndex,
) -> Option<Vec<[WiringEnd; 2]>> {
    // Back from the destination: of each node the ends of the link towards it.
    let mut toward: BTreeMap<NodeIndex, [WiringEnd; 2]> = BTreeMap::new();
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        for (link, far) in wiring.neighbours_by_link(node).filter(|(link, _)| links.contains(link)) {
            if far.node != to && !toward.contains_key(&far.node) {
                let near = wiring.links()[link].ends.into_iter().find(|end| end.node == node)?;
                toward.insert(far.node, [far, near]);
                queue.push_back(far.node);
            }
        }
    }
    let (mut at, mut way) = (from, Vec::new());
    while at != to {
        let step = *toward.get(&at)?;
        at = step[1].node;
        way.push(step);
    }
    Some(way)
}
