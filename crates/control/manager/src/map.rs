//! The fabric as the manager sees it (EPIC 6.1): who is joined with whom, by what nodes report of their links and what machines hear at their
//! ports, and which groups' trees use which link.
//!
//! Attached nodes of which no link is known are taken to be joined by one network that forwards and does not compute. So are those that have a
//! port of which nobody knows where it leads.

use crate::cables::LocatedCables;
use crate::{LinkReport, NodeDescription, Role};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_units::BitRate;

/// What people read of the network that joins nodes without known links.
const NETWORK: &str = "the network";

/// A node of a [`Map`], numbered from zero in the order of names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MapNode(pub u32);

/// A link of a [`Map`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MapLink(pub u32);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct MapVertex {
    /// None: the network that joins nodes without known links.
    name: Option<String>,
    is_host: bool,
    ports: Vec<(MapLink, MapNode)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ParallelLinks {
    ends: [MapNode; 2],
    /// Cables side by side.
    count: u16,
    rate: Option<BitRate>,
    /// Groups whose trees lead over it.
    trees: BTreeSet<GroupId>,
}

/// Nodes, links, and the trees on them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Map {
    vertices: Vec<MapVertex>,
    numbers: BTreeMap<String, MapNode>,
    links: Vec<ParallelLinks>,
    denials: Vec<DeniedLink>,
}

/// A link that a node says to have, and that cables deny.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeniedLink {
    /// The node that says so, and the other one.
    pub ends: [String; 2],
    /// Why not, in words with names and ports.
    pub reason: String,
}

impl Map {
    /// The map of these nodes, without trees.
    ///
    /// A link is there if both ends report it, or one does and the other reports no links at all. What an attached node says of one that
    /// is not attached leads nowhere.
    pub fn new<'a>(nodes: impl Iterator<Item = &'a NodeDescription> + Clone) -> Self {
        Self::with_cables(nodes, &LocatedCables::default())
    }

    /// The same where cables are known, too: they are links, and what nodes report that they deny is none.
    pub(crate) fn with_cables<'a>(
        nodes: impl Iterator<Item = &'a NodeDescription> + Clone,
        cables: &LocatedCables<'_>,
    ) -> Self {
        let mut map = Self::default();
        for node in nodes.clone() {
            let number = map.add(Some(node.name.clone()), node.role == Role::Host);
            map.numbers.insert(node.name.clone(), number);
        }
        let by_name: BTreeMap<&str, &NodeDescription> =
            nodes.clone().map(|node| (node.name.as_str(), node)).collect();
        // What a node says of another first: by numbers, as names are long and large switches have many neighbours.
        let mut said: BTreeMap<[MapNode; 2], &LinkReport> = BTreeMap::new();
        for node in nodes.clone() {
            for link in &node.links {
                if let Some(&neighbour) = map.numbers.get(&link.neighbour) {
                    said.entry([map.numbers[&node.name], neighbour]).or_insert(link);
                }
            }
        }
        for node in nodes.clone() {
            for link in &node.links {
                if let Some(reason) = cables.denial(&node.name, &node.links, link) {
                    map.denials
                        .push(DeniedLink { ends: [node.name.clone(), link.neighbour.clone()], reason });
                }
            }
        }
        let denied: BTreeSet<[MapNode; 2]> = map
            .denials
            .iter()
            .flat_map(|denial| {
                let [a, b] = denial.ends.each_ref().map(|end| map.numbers.get(end).copied());
                a.zip(b).into_iter().flat_map(|(a, b)| [[a, b], [b, a]])
            })
            .collect();
        for node in nodes {
            for link in &node.links {
                let Some(other) = by_name.get(link.neighbour.as_str()) else { continue };
                let ends = [&node.name, &other.name].map(|name| map.numbers[name]);
                let back = said.get(&[ends[1], ends[0]]);
                // A cable that is there is joined below.
                if denied.contains(&ends) || cables.between(&node.name, &other.name) > 0 {
                    continue;
                }
                let (count, rate) = match back {
                    // Once for both ends, and what both say is there.
                    Some(_) if other.name < node.name => continue,
                    Some(back) => {
                        (link.parallel_links.min(back.parallel_links), slower(link.rate, back.rate))
                    }
                    None if other.links.is_empty() => (link.parallel_links, link.rate),
                    None => continue,
                };
                if other.name != node.name && count > 0 {
                    map.join(ends, count, rate);
                }
            }
        }
        for (ends, count) in cables.joined() {
            let (Some(a), Some(b)) = (map.find(ends[0]), map.find(ends[1])) else { continue };
            let rate = [[a, b], [b, a]].into_iter().filter_map(|ends| said.get(&ends)?.rate).min();
            map.join([a, b], count, rate);
        }
        // Whose links are down is in no network instead.
        let links = by_name.values().flat_map(|node| node.links.iter().map(|link| (&*node.name, link)));
        let down = links.filter(|(_, link)| link.parallel_links == 0);
        let cut_off: BTreeSet<&str> = down.flat_map(|(node, link)| [node, &*link.neighbour]).collect();
        let is_alone = |(name, node): (&String, &MapNode)| {
            let is_alone =
                map.ports(*node).is_empty() && !cut_off.contains(&**name) && !cables.is_cut_off(name);
            let has_said = by_name[&**name].links.is_empty();
            (is_alone || (has_said && cables.leads_somewhere(name))).then_some(*node)
        };
        let alone: Vec<MapNode> = map.numbers.iter().filter_map(is_alone).collect();
        if !alone.is_empty() {
            let network = map.add(None, false);
            for node in alone {
                map.join([node, network], u16::MAX, None);
            }
        }
        map
    }

    /// Links that nodes say to have and that cables deny.
    pub fn denials(&self) -> &[DeniedLink] {
        &self.denials
    }

    fn add(&mut self, name: Option<String>, is_host: bool) -> MapNode {
        self.vertices.push(MapVertex { name, is_host, ports: Vec::new() });
        MapNode((self.vertices.len() - 1) as u32)
    }

    fn join(&mut self, ends: [MapNode; 2], count: u16, rate: Option<BitRate>) {
        let link = MapLink(self.links.len() as u32);
        self.links.push(ParallelLinks { ends, count, rate, trees: BTreeSet::new() });
        let [a, b] = ends;
        self.vertices[a.0 as usize].ports.push((link, b));
        self.vertices[b.0 as usize].ports.push((link, a));
    }

    fn between(&self, a: MapNode, b: MapNode) -> Option<MapLink> {
        self.ports(a).iter().find(|(_, to)| *to == b).map(|(link, _)| *link)
    }

    /// The link between two nodes by name.
    pub fn link(&self, a: &str, b: &str) -> Option<MapLink> {
        let network = || self.vertices.iter().position(|place| place.name.is_none());
        let node = |name: &str| match self.find(name) {
            None if name == NETWORK => network().map(|place| MapNode(place as u32)),
            found => found,
        };
        self.between(node(a)?, node(b)?)
    }

    /// The node of that name.
    pub fn find(&self, name: &str) -> Option<MapNode> {
        self.numbers.get(name).copied()
    }

    /// Its name, for people.
    pub fn name(&self, node: MapNode) -> &str {
        self.vertices[node.0 as usize].name.as_deref().unwrap_or(NETWORK)
    }

    /// How many nodes there are.
    pub fn size(&self) -> usize {
        self.vertices.len()
    }

    /// Whether it is a host: nothing leads through it.
    pub fn is_host(&self, node: MapNode) -> bool {
        self.vertices[node.0 as usize].is_host
    }

    /// Its links, and who is at their other ends.
    pub fn ports(&self, node: MapNode) -> &[(MapLink, MapNode)] {
        &self.vertices[node.0 as usize].ports
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = MapLink> {
        (0..self.links.len() as u32).map(MapLink)
    }

    /// Both ends of a link, by name.
    pub fn ends(&self, link: MapLink) -> [&str; 2] {
        self.links[link.0 as usize].ends.map(|end| self.name(end))
    }

    /// What a link carries each way; none if nobody has said.
    pub fn rate(&self, link: MapLink) -> Option<BitRate> {
        self.links[link.0 as usize].rate
    }

    /// The groups whose trees lead over a link.
    pub fn trees(&self, link: MapLink) -> &BTreeSet<GroupId> {
        &self.links[link.0 as usize].trees
    }

    /// Whether each tree on the link can have a cable of its own, with another one on it.
    pub fn has_free_link(&self, link: MapLink) -> bool {
        let links = &self.links[link.0 as usize];
        links.trees.len() < usize::from(links.count)
    }

    /// A group's tree leads over these links from now on.
    pub fn plant(&mut self, group: GroupId, links: &[MapLink]) {
        for link in links {
            self.links[link.0 as usize].trees.insert(group);
        }
    }

    /// A group's tree is gone.
    pub fn fell(&mut self, group: GroupId) {
        for links in &mut self.links {
            links.trees.remove(&group);
        }
    }

    /// The same of one that leads over no other links than these.
    pub fn uproot(&mut self, group: GroupId, links: &[MapLink]) {
        for link in links {
            self.links[link.0 as usize].trees.remove(&group);
        }
    }

    /// Links from `from` to every node, hosts being ends only, over links that `may` be used; none where there is no way.
    pub fn distances(&self, from: MapNode, may: &dyn Fn(MapLink) -> bool) -> Vec<Option<u16>> {
        self.distances_until(from, may, |_| false)
    }

    /// The same as far as these members: of what is farther than all of them nothing is said.
    pub(crate) fn distances_to(
        &self,
        from: MapNode,
        members: &[MapNode],
        may: &dyn Fn(MapLink) -> bool,
    ) -> Vec<Option<u16>> {
        // Who was not reached last time is asked first.
        let mut reached = 0;
        self.distances_until(from, may, |distances| {
            reached +=
                members[reached..].iter().take_while(|node| distances[node.0 as usize].is_some()).count();
            reached == members.len()
        })
    }

    fn distances_until(
        &self,
        from: MapNode,
        may: &dyn Fn(MapLink) -> bool,
        mut is_enough: impl FnMut(&[Option<u16>]) -> bool,
    ) -> Vec<Option<u16>> {
        let mut distances = vec![None; self.vertices.len()];
        distances[from.0 as usize] = Some(0);
        let mut level = vec![from];
        let mut distance = 0;
        while !level.is_empty() && !is_enough(&distances) {
            distance += 1;
            let mut next = Vec::new();
            for &node in &level {
                for &(link, to) in self.ports(node) {
                    let place = &mut distances[to.0 as usize];
                    if place.is_none() && may(link) {
                        *place = Some(distance);
                        if !self.is_host(to) {
                            next.push(to);
                        }
                    }
                }
            }
            level = next;
        }
        distances
    }
}

fn slower(a: Option<BitRate>, b: Option<BitRate>) -> Option<BitRate> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (rate, None) | (None, rate) => rate,
    }
}

/// A link for people: `leaf0 - spine1`.
pub(crate) fn between(ends: [&str; 2]) -> String {
    let [a, b] = ends;
    [a, " - ", b].concat().to_string()
}
