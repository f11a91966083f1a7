//! Nodes, and the links between their ports. Hosts run ranks, numbered in the order in which hosts are added; they forward nothing.

use quincunx_collective::Rank;
use quincunx_design::{FabricKind, LinkRates};
use quincunx_fabric::{IncTree, LinkProperties, NodeKind, Topology, TreeShape};
use quincunx_scenario::NodeDelays;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A node, numbered from zero in the order in which they are added.
pub type NodeIndex = usize;

/// A node of a [`Wiring`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WiringNode {
    /// Its name, which no other one has.
    pub name: String,
    /// Whether it runs a rank, or forwards.
    pub kind: NodeKind,
    /// The links that are plugged in, by port.
    links: BTreeMap<u16, usize>,
}

/// A port of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WiringEnd {
    /// The node.
    pub node: NodeIndex,
    /// The number of the port there.
    pub port: u16,
}

/// A link between two ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WiringLink {
    /// Both ends.
    pub ends: [WiringEnd; 2],
    /// What it can do, each way.
    pub properties: LinkProperties,
    /// What ways over it cost.
    cost: u16,
}

/// Nodes and links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wiring {
    nodes: Vec<WiringNode>,
    links: Vec<WiringLink>,
    /// By rank.
    hosts: Vec<NodeIndex>,
    /// By rank: the links that count as the host's own, for loss and for traffic of others.
    access: Vec<Vec<usize>>,
    domains: u16,
    rates: LinkRates,
    tree: Option<IncTree>,
    kind: FabricKind,
}

impl Default for Wiring {
    /// No nodes, and all hosts to come in one domain, for designs of a mesh.
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            links: Vec::new(),
            hosts: Vec::new(),
            access: Vec::new(),
            domains: 1,
            rates: LinkRates::ALIKE,
            tree: None,
            kind: FabricKind::Mesh,
        }
    }
}

impl Wiring {
    /// The same with the time in hosts and switches in their links' latencies: a frame passes one end of each, and both of two in a switch.
    #[must_use]
    pub fn with_delays(mut self, delays: NodeDelays) -> Self {
        for link in &mut self.links {
            for end in link.ends {
                link.properties.latency += match self.nodes[end.node].kind {
                    NodeKind::Host => delays.nic,
                    NodeKind::Switch => delays.switch / 2,
                };
            }
        }
        self
    }

    /// Hosts at the leaves of a tree of switches: `switch-0` (the root), `switch-1`, ..., `host-0`, `host-1`, ... Groups may use all of
    /// the tree; its nodes are numbered alike.
    pub fn tree(shape: &TreeShape, link: LinkProperties) -> Self {
        let tree = Some(IncTree::from_shape(shape));
        Self { tree, ..Self::switched(&Topology::from_shape(shape, link)) }
    }

    /// Hosts at switches, numbered as there, with whatever ways between them. Which of the switches a group uses, a policy finds.
    pub fn switched(topology: &Topology) -> Self {
        let mut wiring = Self { kind: FabricKind::Tree, ..Self::default() };
        for node in topology.nodes() {
            wiring.add(&node.name, node.kind);
        }
        for link in topology.links() {
            let ends = link.ends.map(|end| WiringEnd { node: NodeIndex::from(end.node.0), port: end.port });
            let joined = wiring.join(ends, link.properties);
            wiring.links[joined].cost = link.cost;
        }
        for (host, access) in wiring.hosts.iter().zip(&mut wiring.access) {
            *access = wiring.nodes[*host].links.values().copied().collect();
        }
        wiring
    }

    /// Hosts in a ring: port 0 of each leads to port 1 of the next. Two hosts have one link.
    pub fn ring(hosts: u16, link: LinkProperties) -> Self {
        let mut wiring = Self { kind: FabricKind::Ring, ..Self::default() };
        let nodes = wiring.add_hosts("host-", hosts);
        let links = if hosts == 2 { 1 } else { nodes.len() };
        for at in 0..links {
            let ends = [(at, 0), ((at + 1) % nodes.len(), 1)];
            let ends = ends.map(|(at, port)| WiringEnd { node: nodes[at], port });
            let joined = wiring.join(ends, link);
            wiring.access[at].push(joined);
        }
        wiring
    }

    /// Hosts joined each with each, in domains of so many members: port `i` of a host leads to the `i`th of the others. `name` is what
    /// the numbers of hosts are put behind.
    pub fn mesh(domains: u16, members: u16, link: LinkProperties, name: &str) -> Self {
        let rates = LinkRates { direct: link.rate, cross: link.rate };
        let mut wiring = Self { domains, rates, ..Self::default() };
        let nodes = wiring.add_hosts(name, domains.saturating_mul(members));
        for a in 0..nodes.len() {
            for b in a + 1..nodes.len() {
                let joined = wiring.join_next([nodes[a], nodes[b]], link);
                wiring.access[a].push(joined);
            }
        }
        wiring
    }

    /// Hosts in servers of so many members: joined each with each within a server by `link`, and each by `network` with one switch,
    /// which is added last. The port of a host that leads to the switch comes after those that lead to others of its server.
    pub fn servers(servers: u16, members: u16, link: LinkProperties, network: LinkProperties) -> Self {
        let rates = LinkRates { direct: link.rate, cross: network.rate };
        let kind = FabricKind::Servers;
        let mut wiring = Self { domains: servers, rates, kind, ..Self::default() };
        let nodes = wiring.add_hosts("host-", servers.saturating_mul(members));
        let switch = wiring.add("network", NodeKind::Switch);
        let members = usize::from(members);
        for a in 0..nodes.len() {
            for b in a + 1..(a / members + 1) * members {
                wiring.join_next([nodes[a], nodes[b]], link);
            }
            let joined = wiring.join_next([nodes[a], switch], network);
            wiring.access[a].push(joined);
        }
        wiring
    }

    /// Adds a node without links. A host runs the next rank.
    ///
    /// # Panics
    /// If there is a node of that name.
    pub fn add(&mut self, name: &str, kind: NodeKind) -> NodeIndex {
        assert!(self.find(name).is_none(), "two nodes are called {name}");
        if kind == NodeKind::Host {
            self.hosts.push(self.nodes.len());
            self.access.push(Vec::new());
        }
        self.nodes.push(WiringNode { name: name.to_owned(), kind, links: BTreeMap::new() });
        self.nodes.len() - 1
    }

    fn add_hosts(&mut self, name: &str, hosts: u16) -> Vec<NodeIndex> {
        (0..hosts).map(|host| self.add(&format!("{name}{host}"), NodeKind::Host)).collect()
    }

    /// Plugs a link into a port at either end; returns its number.
    ///
    /// # Panics
    /// If a port is taken, or there is no such node.
    pub fn join(&mut self, ends: [WiringEnd; 2], properties: LinkProperties) -> usize {
        let number = self.links.len();
        for end in ends {
            let taken = self.nodes[end.node].links.insert(end.port, number);
            assert_eq!(taken, None, "port {} of {} is free", end.port, self.nodes[end.node].name);
        }
        self.links.push(WiringLink { ends, properties, cost: 1 });
        number
    }

    /// Plugs a link into the port after the last one at either end.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn join_next(&mut self, nodes: [NodeIndex; 2], properties: LinkProperties) -> usize {
        let ends = nodes.map(|node| {
            let last = self.nodes[node].links.keys().next_back();
            WiringEnd { node, port: last.map_or(0, |last| last + 1) }
        });
        self.join(ends, properties)
    }

    /// The same for designs of another kind of fabric.
    #[must_use]
    pub fn of_kind(self, kind: FabricKind) -> Self {
        Self { kind, ..self }
    }

    /// The kind of fabric whose designs run on it.
    pub fn kind(&self) -> FabricKind {
        self.kind
    }

    /// All nodes.
    pub fn nodes(&self) -> &[WiringNode] {
        &self.nodes
    }

    /// All links.
    pub fn links(&self) -> &[WiringLink] {
        &self.links
    }

    /// The same with ranks on these of its hosts, in this order. A tree of switches has its ranks in the order of hosts, so that another one
    /// is to be found.
    pub(crate) fn with_hosts(self, order: &[usize]) -> Self {
        let hosts = order.iter().map(|&host| self.hosts[host]).collect();
        let access = order.iter().map(|&host| self.access[host].clone()).collect();
        Self { hosts, access, tree: None, ..self }
    }

    /// What ways over a link cost.
    pub(crate) fn cost(&self, link: usize) -> u16 {
        self.links[link].cost
    }

    /// The hosts by rank.
    pub fn hosts(&self) -> &[NodeIndex] {
        &self.hosts
    }

    /// Ranks, one on each host.
    ///
    /// # Panics
    /// If there are more than numbers of ranks.
    pub fn ranks(&self) -> u16 {
        u16::try_from(self.hosts.len()).expect("ranks have 16 bits")
    }

    /// The host that runs a rank.
    ///
    /// # Panics
    /// If there is none.
    pub fn host(&self, rank: Rank) -> NodeIndex {
        self.hosts[rank.index()]
    }

    /// The rank that a node runs, if it is a host.
    pub fn rank_at(&self, node: NodeIndex) -> Option<Rank> {
        self.hosts.iter().position(|host| *host == node).map(|rank| Rank(rank as u16))
    }

    /// The links that count as a host's own, where "the links of the first hosts" lose frames or carry traffic of others: the one to its
    /// switch, to the next host of a ring, to the network of servers; on a mesh those to all hosts after it.
    pub fn access(&self, rank: Rank) -> &[usize] {
        &self.access[rank.index()]
    }

    /// Domains of hosts.
    pub fn domains(&self) -> u16 {
        self.domains
    }

    /// What links carry within a domain and between two.
    pub fn rates(&self) -> LinkRates {
        self.rates
    }

    /// The tree of switches that groups may use. Its nodes have the numbers of those here.
    pub fn tree_of_switches(&self) -> Option<&IncTree> {
        self.tree.as_ref()
    }

    /// A node by name.
    pub fn find(&self, name: &str) -> Option<NodeIndex> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The other ends of a node's links, by port.
    pub fn neighbours(&self, node: NodeIndex) -> impl Iterator<Item = (u16, WiringEnd)> {
        self.nodes[node].links.keys().copied().zip(self.neighbours_by_link(node).map(|(_, far)| far))
    }

    /// The links of a node, and their other ends.
    pub(crate) fn neighbours_by_link(&self, node: NodeIndex) -> impl Iterator<Item = (usize, WiringEnd)> {
        self.nodes[node].links.iter().map(move |(&port, &link)| {
            let [a, b] = self.links[link].ends;
            (link, if a == (WiringEnd { node, port }) { b } else { a })
        })
    }

    /// By node: the ports that lead to `destination` by a way through switches that costs as little as any, in order; none if there is no
    /// way. Hosts are ends and not ways; nothing leads on from the destination.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn ways_to(&self, destination: NodeIndex) -> Vec<Vec<u16>> {
        let mut ways = vec![Vec::new(); self.nodes.len()];
        let mut costs = vec![None; self.nodes.len()];
        costs[destination] = Some(0_u32);
        // The nearest first (Dijkstra).
        let mut open = BinaryHeap::from([Reverse((0, destination))]);
        while let Some(Reverse((cost, node))) = open.pop() {
            let forwards = node == destination || self.nodes[node].kind == NodeKind::Switch;
            if !forwards || costs[node] != Some(cost) {
                continue;
            }
            for (link, far) in self.neighbours_by_link(node) {
                let next = cost + u32::from(self.links[link].cost);
                if costs[far.node].is_none_or(|known| next < known) {
                    costs[far.node] = Some(next);
                    ways[far.node].clear();
                    open.push(Reverse((next, far.node)));
                }
                if costs[far.node] == Some(next) {
                    ways[far.node].push(far.port);
                }
            }
        }
        ways.iter_mut().for_each(|ports| ports.sort_unstable());
        ways
    }

    /// The links between two nodes, in order.
    pub fn between(&self, [a, b]: [NodeIndex; 2]) -> impl Iterator<Item = usize> {
        let [small, other] =
            if self.nodes[a].links.len() <= self.nodes[b].links.len() { [a, b] } else { [b, a] };
        let links = self.nodes[small].links.values().copied();
        links.filter(move |&link| self.links[link].ends.iter().any(|end| end.node == other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_units::{BitRate, Duration};

    fn link() -> LinkProperties {
        LinkProperties { rate: BitRate::new(1_000_000_000).unwrap(), latency: Duration::from_micros(1) }
    }

    fn ports(wiring: &Wiring, from: &str, to: &str) -> Vec<u16> {
        let [from, to] = [from, to].map(|name| wiring.find(name).unwrap());
        wiring.ways_to(to)[from].clone()
    }

    fn port(wiring: &Wiring, from: &str, to: &str) -> Option<u16> {
        let ports = ports(wiring, from, to);
        assert!(ports.len() < 2, "several ways from {from} to {to}");
        ports.first().copied()
    }

    #[test]
    fn ways_of_a_tree_lead_through_its_switches() {
        let wiring = Wiring::tree(&"tree-3-2".parse().unwrap(), link());
        assert_eq!(wiring.ranks(), 4);
        assert_eq!(port(&wiring, "host-0", "host-3"), Some(0));
        assert_eq!(port(&wiring, "switch-0", "host-3"), Some(1));
        assert_eq!(port(&wiring, "switch-1", "host-1"), Some(2));
        assert_eq!(port(&wiring, "switch-1", "host-2"), Some(0));
    }

    #[test]
    fn a_leaf_has_a_way_of_equal_cost_by_each_spine_and_each_link_to_it() {
        let shape: quincunx_fabric::SwitchedShape = "leaf-spine-2x2x2x2".parse().unwrap();
        let wiring = Wiring::switched(&shape.topology(link()));
        assert_eq!((wiring.ranks(), wiring.links().len(), wiring.access(Rank(3)).len()), (4, 12, 1));
        assert_eq!(ports(&wiring, "leaf-0", "host-3"), [0, 1, 2, 3]);
        assert_eq!(ports(&wiring, "leaf-0", "host-1"), [5]);
        assert_eq!(ports(&wiring, "spine-1", "host-3"), [2, 3]);
        assert_eq!(ports(&wiring, "spine-1", "leaf-0"), [0, 1]);
        let [leaf, spine] = ["leaf-1", "spine-0"].map(|name| wiring.find(name).unwrap());
        assert_eq!(wiring.between([leaf, spine]).count(), 2);
    }

    #[test]
    fn hosts_of_a_ring_forward_nothing() {
        let wiring = Wiring::ring(4, link());
        assert_eq!(port(&wiring, "host-3", "host-0"), Some(0));
        assert_eq!(port(&wiring, "host-0", "host-3"), Some(1));
        assert_eq!(port(&wiring, "host-0", "host-2"), None);
        let two = Wiring::ring(2, link());
        assert_eq!([port(&two, "host-0", "host-1"), port(&two, "host-1", "host-0")], [Some(0), Some(1)]);
        assert_eq!(two.links().len(), 1);
    }

    #[test]
    fn hosts_of_a_mesh_meet_the_others_in_rank_order() {
        let wiring = Wiring::mesh(2, 2, link(), "host-");
        let ports = |from: usize| [0, 1, 2, 3].map(|to| wiring.ways_to(to)[from].first().copied());
        assert_eq!(ports(0), [None, Some(0), Some(1), Some(2)]);
        assert_eq!(ports(2), [Some(0), Some(1), None, Some(2)]);
        assert_eq!(wiring.access(Rank(1)).len(), 2);
    }

    #[test]
    fn hosts_of_servers_reach_other_servers_over_the_network_behind_their_last_port() {
        let wiring = Wiring::servers(2, 3, link(), link());
        let ports = |from: usize| [0, 1, 2, 3, 4, 5].map(|to| wiring.ways_to(to)[from].first().copied());
        assert_eq!(ports(1), [Some(0), None, Some(1), Some(2), Some(2), Some(2)]);
        assert_eq!(ports(6), [0, 1, 2, 3, 4, 5].map(Some));
    }
}
