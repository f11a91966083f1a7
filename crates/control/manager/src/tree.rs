//! From a root and members to a tree on the map (EPIC 3.1, 6.2): an edge of the tree may cross several links and switches that only
//! forward.

use crate::map::{Map, MapLink, MapNode};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_fabric::{IncTree, TreeNodeId, TreeRole};
use quincunx_units::{BitRate, ByteCount};

/// What a tree's narrowest place has (EPIC 6.2, "path width").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Width {
    /// Of a link, shared by all trees on it; none if no link's rate is known.
    pub rate: Option<BitRate>,
    /// That a group may get at each switch of the tree, in one piece.
    pub memory: ByteCount,
}

/// A tree that a group might get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// What the group sees.
    pub tree: IncTree,
    /// The switches of the tree, and where they are.
    pub switches: BTreeMap<TreeNodeId, MapNode>,
    /// All links that its edges cross.
    pub links: BTreeSet<MapLink>,
    /// How often an edge crosses a link that another edge of the tree crosses, too.
    pub conflicts: u32,
    /// Links from the root to the member that is farthest.
    pub depth: u16,
    /// Its narrowest place.
    pub width: Width,
}

/// What trees are grown on.
pub struct Ground<'a> {
    /// Who is joined with whom.
    pub map: &'a Map,
    /// Switches that can take part.
    pub able: &'a dyn Fn(MapNode) -> bool,
    /// Links that may be used.
    pub usable: &'a dyn Fn(MapLink) -> bool,
    /// What a group may get of a switch's memory, in one piece.
    pub memory: &'a dyn Fn(MapNode) -> ByteCount,
}

/// Roots that reach all members, by how far the farthest member is: the nearest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Levels(pub BTreeMap<u16, Vec<MapNode>>);

/// Where members are joined: the switches next to them.
type Place = Vec<MapNode>;

/// From switch to switch, over links that may be used.
struct Ways(Vec<Vec<usize>>);

impl Ways {
    fn on(ground: &Ground<'_>) -> Self {
        let from = |node| match ground.map.is_host(node) {
            // Nobody comes by.
            true => Vec::new(),
            false => Self::next_to(ground, node).map(|to| to.0 as usize).collect(),
        };
        Self((0..ground.map.size() as u32).map(MapNode).map(from).collect())
    }

    /// The switches that a node is next to; nothing leads through a host.
    fn next_to(ground: &Ground<'_>, node: MapNode) -> impl Iterator<Item = MapNode> {
        let ports = ground.map.ports(node).iter();
        ports.filter(|(link, to)| !ground.map.is_host(*to) && (ground.usable)(*link)).map(|(_, to)| *to)
    }

    /// How far the farthest of these places is from each node; none if one does not reach it. Each place is a bit, so that a step from switch to
    /// switch is one of 64 places: fabrics have thousands.
    fn farthest(&self, places: &[&Place]) -> Vec<Option<u16>> {
        let mut farthest = vec![Some(0); self.0.len()];
        for places in places.chunks(u64::BITS as usize) {
            let mut seen = vec![0_u64; self.0.len()];
            let mut coming = seen.clone();
            for (place, bit) in places.iter().zip(0..) {
                place.iter().for_each(|switch| coming[switch.0 as usize] |= 1 << bit);
            }
            for distance in 1.. {
                let mut next = vec![0; self.0.len()];
                for (node, bits) in coming.into_iter().enumerate() {
                    let fresh = bits & !seen[node];
                    if fresh != 0 {
                        seen[node] |= fresh;
                        farthest[node] = farthest[node].map(|far: u16| far.max(distance));
                        self.0[node].iter().for_each(|&to| next[to] |= fresh);
                    }
                }
                if next.iter().all(|&bits| bits == 0) {
                    break;
                }
                coming = next;
            }
            let all = u64::MAX >> (u64::BITS as usize - places.len());
            for (far, seen) in farthest.iter_mut().zip(seen) {
                *far = far.filter(|_| seen == all);
            }
        }
        farthest
    }

    /// Members of places that no node of those `together` reaches with all places before them.
    fn lost(&self, mut together: Vec<bool>, places: BTreeMap<Place, Vec<MapNode>>) -> Vec<MapNode> {
        let mut lost = Vec::new();
        for (place, members) in places {
            let near = self.farthest(&[&place]);
            let reached: Vec<bool> =
                together.iter().zip(near).map(|(all, near)| *all && near.is_some()).collect();
            if reached.contains(&true) { together = reached } else { lost.extend(members) }
        }
        lost
    }
}

impl Ground<'_> {
    /// The scan of 6.2, on any fabric: the distance of the farthest member takes the place of a Clos network's tier.
    ///
    /// # Errors
    /// Members that no able switch reaches together with all before them.
    pub fn levels(&self, members: &[MapNode]) -> Result<Levels, Vec<MapNode>> {
        let able: Vec<bool> = (0..self.map.size() as u32).map(|node| (self.able)(MapNode(node))).collect();
        if !able.contains(&true) {
            return Err(Vec::new());
        }
        let ways = Ways::on(self);
        // Hosts at the same switches are equally far from everywhere.
        let mut places: BTreeMap<Place, Vec<MapNode>> = BTreeMap::new();
        for &member in members {
            places.entry(Ways::next_to(self, member).collect()).or_default().push(member);
        }
        let mut together = ways.farthest(&places.keys().collect::<Vec<_>>());
        for (far, able) in together.iter_mut().zip(&able) {
            *far = far.filter(|_| *able);
        }
        if together.iter().all(Option::is_none) {
            return Err(ways.lost(able, places));
        }
        let mut levels: BTreeMap<u16, Vec<MapNode>> = BTreeMap::new();
        for (node, far) in (0..).map(MapNode).zip(together) {
            if let Some(far) = far {
                levels.entry(far).or_default().push(node);
            }
        }
        Ok(Levels(levels))
    }

    /// The tree from `root` to the members, by shortest ways; of those, by links with the fewest trees, then the most memory behind them.
    /// Only switches with at least so much free memory add up; others on the way forward. None if it does not reach a member.
    pub fn grow(&self, root: MapNode, members: &[MapNode], memory: ByteCount) -> Option<Candidate> {
        let able = |node: MapNode| (self.able)(node) && (self.memory)(node) >= memory;
        let distances = self.map.distances_to(root, members, self.usable);
        let toward_root = |node: MapNode| -> Option<(MapLink, MapNode)> {
            let distance = distances[node.0 as usize]?;
            let nearer = |&&(link, next): &&(MapLink, MapNode)| {
                (self.usable)(link)
                    && (next == root || !self.map.is_host(next))
                    && distances[next.0 as usize] == Some(distance - 1)
            };
            let ports = self.map.ports(node).iter().filter(nearer);
            let order = |&&(link, next): &&(MapLink, MapNode)| {
                (self.map.trees(link).len(), core::cmp::Reverse((self.memory)(next)), next)
            };
            ports.min_by_key(order).copied()
        };
        // Up from each member, until the way of an earlier one.
        let mut parents: BTreeMap<MapNode, (MapLink, MapNode)> = BTreeMap::new();
        let mut children: BTreeMap<MapNode, Vec<MapNode>> = BTreeMap::new();
        for &member in members {
            let mut node = member;
            while node != root && !parents.contains_key(&node) {
                let (link, next) = toward_root(node)?;
                parents.insert(node, (link, next));
                children.entry(next).or_default().push(node);
                node = next;
            }
        }
        let branches = |node: MapNode| children.get(&node).map_or(0, Vec::len);
        let joins = |node: MapNode| able(node) && branches(node) > 1;
        // The root is where ways part, unless there is but one member.
        let mut top = root;
        while branches(top) == 1 && !joins(top) {
            let below = children[&top][0];
            if self.map.is_host(below) || !reaches(below, &able, &children) {
                break;
            }
            top = below;
        }
        self.tree(top, members, &parents, &children, &joins)
    }

    fn tree(
        &self,
        top: MapNode,
        members: &[MapNode],
        parents: &BTreeMap<MapNode, (MapLink, MapNode)>,
        children: &BTreeMap<MapNode, Vec<MapNode>>,
        joins: &dyn Fn(MapNode) -> bool,
    ) -> Option<Candidate> {
        let ranks: BTreeMap<MapNode, Rank> = members.iter().copied().zip((0..).map(Rank)).collect();
        // Level by level, siblings in the order of their first rank; a switch that only forwards hands its children up.
        let mut nodes = vec![(TreeRole::Switch, None)];
        let mut switches = BTreeMap::from([(TreeNodeId(0), top)]);
        let mut leaves = vec![None; members.len()];
        let (mut used, mut depth) = (BTreeMap::new(), 0);
        let mut level = vec![(TreeNodeId(0), top, 0)];
        while !level.is_empty() {
            let mut next = Vec::new();
            for (number, switch, above) in level {
                let mut below: Vec<(MapNode, u16)> = Vec::new();
                let mut open: Vec<(MapNode, u16)> =
                    children.get(&switch).into_iter().flatten().map(|&child| (child, above + 1)).collect();
                while let Some((node, far)) = open.pop() {
                    if self.map.is_host(node) || joins(node) {
                        below.push((node, far));
                    } else {
                        open.extend(children.get(&node).into_iter().flatten().map(|&child| (child, far + 1)));
                    }
                }
                below.sort_by_key(|(node, _)| first_rank(*node, children, &ranks));
                for (node, far) in below {
                    let mut at = node;
                    while at != switch {
                        let (link, up) = parents[&at];
                        *used.entry(link).or_insert(0) += 1;
                        at = up;
                    }
                    if let Some(&rank) = ranks.get(&node) {
                        leaves[rank.index()] = Some(number);
                        depth = depth.max(far);
                    } else {
                        let own = TreeNodeId(nodes.len() as u16);
                        nodes.push((TreeRole::Switch, Some(number)));
                        switches.insert(own, node);
                        next.push((own, node, far));
                    }
                }
            }
            level = next;
        }
        for (rank, parent) in (0..).map(Rank).zip(leaves) {
            nodes.push((TreeRole::Rank(rank), Some(parent?)));
        }
        let conflicts = used.values().map(|crossed| crossed - 1).sum();
        let width = self.width(&used, switches.values().copied());
        let tree = IncTree::new(&nodes).ok()?;
        Some(Candidate { tree, switches, links: used.into_keys().collect(), conflicts, depth, width })
    }

    /// What a tree gets of a link that so many of its edges cross, beside the trees that are there; none: nobody has said its rate.
    pub(crate) fn share(&self, link: MapLink, crossed: u32) -> Option<BitRate> {
        let trees = self.map.trees(link).len() as u64 + u64::from(crossed);
        BitRate::new(self.map.rate(link)?.bits_per_second() / trees)
    }

    /// Of links with how often an edge crosses each, and of switches.
    fn width(&self, links: &BTreeMap<MapLink, u32>, switches: impl Iterator<Item = MapNode>) -> Width {
        let share = |(&link, &crossed): (&MapLink, &u32)| self.share(link, crossed);
        let memory = switches.map(|switch| (self.memory)(switch)).min().unwrap_or_default();
        Width { rate: links.iter().filter_map(share).min(), memory }
    }
}

/// Whether a switch that takes part is at `node` or where all ways from it lead.
fn reaches(
    mut node: MapNode,
    able: &dyn Fn(MapNode) -> bool,
    children: &BTreeMap<MapNode, Vec<MapNode>>,
) -> bool {
    loop {
        if able(node) {
            return true;
        }
        match children.get(&node).map(Vec::as_slice) {
            Some(&[only]) => node = only,
            _ => return false,
        }
    }
}

/// The lowest rank at or below a node.
fn first_rank(
    node: MapNode,
    children: &BTreeMap<MapNode, Vec<MapNode>>,
    ranks: &BTreeMap<MapNode, Rank>,
) -> Option<Rank> {
    // Children are in the order of the ranks that came by first.
    let mut at = node;
    loop {
        match children.get(&at).and_then(|below| below.first()) {
            Some(&first) => at = first,
            None => return ranks.get(&at).copied(),
        }
    }
}
