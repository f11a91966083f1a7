//! The fabric as the manager sees it (EPIC 6.1): who is joined with whom, by what nodes report of their links, and which groups' trees
//! use which link.
//!
//! Attached nodes of which no link is known are taken to be joined by one network that forwards and does not compute.

use crate::{NodeDescription, Role};
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
struct Place {
    /// None: the network that joins nodes without known links.
    name: Option<String>,
    is_host: bool,
    ports: Vec<(MapLink, MapNode)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Lanes {
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
    places: Vec<Place>,
    numbers: BTreeMap<String, MapNode>,
    links: Vec<Lanes>,
}

impl Map {
    /// The map of these nodes, without trees.
    ///
    /// A link is there if both ends report it, or one does and the other reports no links at all. What an attached node says of one that
    /// is not attached leads nowhere.
    pub fn new<'a>(nodes: impl Iterator<Item = &'a NodeDescription> + Clone) -> Self {
        let mut map = Self::default();
        for node in nodes.clone() {
            let number = map.add(Some(node.name.clone()), node.role == Role::Host);
            map.numbers.insert(node.name.clone(), number);
        }
        let by_name: BTreeMap<&str, &NodeDescription> =
            nodes.clone().map(|node| (node.name.as_str(), node)).collect();
        for node in nodes {
            for link in &node.links {
                let Some(other) = by_name.get(link.neighbour.as_str()) else { continue };
                let back = other.links.iter().find(|back| back.neighbour == node.name);
                let (count, rate) = match back {
                    // Once for both ends, and what both say is there.
                    Some(_) if other.name < node.name => continue,
                    Some(back) => (link.lanes.min(back.lanes), slower(link.rate, back.rate)),
                    None if other.links.is_empty() => (link.lanes, link.rate),
                    None => continue,
                };
                if other.name != node.name && count > 0 {
                    let ends = [map.numbers[&node.name], map.numbers[&other.name]];
                    map.join(ends, count, rate);
                }
            }
        }
        // Whose links are down is in no network instead.
        let links = by_name.values().flat_map(|node| node.links.iter().map(|link| (&*node.name, link)));
        let down = links.filter(|(_, link)| link.lanes == 0);
        let cut_off: BTreeSet<&str> = down.flat_map(|(node, link)| [node, &*link.neighbour]).collect();
        let is_alone = |(name, node): (&String, &MapNode)| {
            (map.ports(*node).is_empty() && !cut_off.contains(&**name)).then_some(*node)
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

    fn add(&mut self, name: Option<String>, is_host: bool) -> MapNode {
        self.places.push(Place { name, is_host, ports: Vec::new() });
        MapNode((self.places.len() - 1) as u32)
    }

    fn join(&mut self, ends: [MapNode; 2], count: u16, rate: Option<BitRate>) {
        let link = MapLink(self.links.len() as u32);
        self.links.push(Lanes { ends, count, rate, trees: BTreeSet::new() });
        let [a, b] = ends;
        self.places[a.0 as usize].ports.push((link, b));
        self.places[b.0 as usize].ports.push((link, a));
    }

    fn between(&self, a: MapNode, b: MapNode) -> Option<MapLink> {
        self.ports(a).iter().find(|(_, to)| *to == b).map(|(link, _)| *link)
    }

    /// The link between two nodes by name.
    pub fn link(&self, a: &str, b: &str) -> Option<MapLink> {
        let network = || self.places.iter().position(|place| place.name.is_none());
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
        self.places[node.0 as usize].name.as_deref().unwrap_or(NETWORK)
    }

    /// How many nodes there are.
    pub fn size(&self) -> usize {
        self.places.len()
    }

    /// Whether it is a host: nothing leads through it.
    pub fn is_host(&self, node: MapNode) -> bool {
        self.places[node.0 as usize].is_host
    }

    /// Its links, and who is at their other ends.
    pub fn ports(&self, node: MapNode) -> &[(MapLink, MapNode)] {
        &self.places[node.0 as usize].ports
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
    pub fn has_lane(&self, link: MapLink) -> bool {
        let lanes = &self.links[link.0 as usize];
        lanes.trees.len() < usize::from(lanes.count)
    }

    /// A group's tree leads over these links from now on.
    pub fn plant(&mut self, group: GroupId, links: &[MapLink]) {
        for link in links {
            self.links[link.0 as usize].trees.insert(group);
        }
    }

    /// A group's tree is gone.
    pub fn fell(&mut self, group: GroupId) {
        for lanes in &mut self.links {
            lanes.trees.remove(&group);
        }
    }

    /// Links from `from` to every node, hosts being ends only, over links that `may` be used; none where there is no way.
    pub fn distances(&self, from: MapNode, may: &dyn Fn(MapLink) -> bool) -> Vec<Option<u16>> {
        let mut distances = vec![None; self.places.len()];
        distances[from.0 as usize] = Some(0);
        let mut level = vec![from];
        let mut distance = 0;
        while !level.is_empty() {
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
