//! Groups on a wiring: who has which address, what each node is told, and which ways switches must know.

use crate::embedding::{EmbeddedTree, way};
use crate::{NodeIndex, Wiring};
use quincunx_collective::{Collective, GroupId, SplitMix64};
use quincunx_design::{
    AnyDesign, ConnectionContext, Demand, FabricKind, GroupContext, Member, Naming, Peer, Placement, Refusal,
    Settings,
};
use quincunx_fabric::{NodeKind, TreeNodeId};
use quincunx_nodes::way_of_flow;
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Framing, Gid, Psn, QpNumber};
use std::collections::{BTreeMap, BTreeSet};

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
const FIRST_QP: u32 = 0x10;

/// The address of a node where nobody says another: 10.x.x.x with its number, from one.
pub fn address(node: NodeIndex) -> Gid {
    let [_, high, middle, low] = (node as u32 + 1).to_be_bytes();
    Gid::from([10, high, middle, low])
}

/// A group of all hosts.
#[derive(Clone, Debug)]
pub struct GroupSpec {
    /// The design.
    pub design: &'static dyn AnyDesign,
    /// The values of its parameters.
    pub settings: Settings,
    /// What will be asked of it.
    pub demand: Demand,
    /// The group.
    pub group: GroupId,
    /// The first PSN of every connection, both ways.
    pub initial_psn: Psn,
    /// The number of each node's first queue pair: another one where nodes are in another group, too.
    pub first_qp: QpNumber,
}

impl GroupSpec {
    /// Group 1, with PSNs from zero.
    pub fn new(design: &'static dyn AnyDesign, settings: Settings, demand: Demand) -> Self {
        let (initial_psn, first_qp) = (Psn::new(0), QpNumber::new(FIRST_QP));
        Self { design, settings, demand, group: GroupId(1), initial_psn, first_qp }
    }
}

/// The ports of each node that lead to a destination.
type Ways = Vec<Vec<u16>>;

/// A flow that goes one way at a switch, whatever other ways there are: by its destination, from a port to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pin {
    pub(crate) destination: Endpoint,
    pub(crate) from: u16,
    pub(crate) to: u16,
}

/// A group.
#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) design: &'static dyn AnyDesign,
    /// What it runs among its hosts when others have locked its switches' memory; none: it has memory of its own.
    pub(crate) fallback: Option<&'static dyn AnyDesign>,
    /// By rank.
    hosts: Vec<NodeIndex>,
    contexts: BTreeMap<NodeIndex, GroupContext>,
    /// Links that its tree has, where there are others.
    links: BTreeSet<usize>,
    /// From a node to one that it is connected with over these.
    ports: BTreeMap<[NodeIndex; 2], u16>,
}

impl Installed {
    /// A group before there are ways to its nodes.
    pub(crate) fn new(
        design: &'static dyn AnyDesign,
        hosts: Vec<NodeIndex>,
        contexts: BTreeMap<NodeIndex, GroupContext>,
        links: BTreeSet<usize>,
    ) -> Self {
        Self { design, fallback: None, hosts, contexts, links, ports: BTreeMap::new() }
    }
}

/// Groups on a wiring.
#[derive(Clone, Debug)]
pub struct Cluster {
    wiring: Wiring,
    addresses: Vec<Gid>,
    by_address: BTreeMap<Gid, NodeIndex>,
    groups: Vec<Installed>,
    /// By destination, for those that somebody speaks to.
    ways: BTreeMap<NodeIndex, Ways>,
    /// By switch: destinations whose frames it forwards.
    routes: Vec<BTreeSet<NodeIndex>>,
    /// By switch.
    pins: Vec<Vec<Pin>>,
    hash_seed: u64,
    relayed: Option<f64>,
    in_steps: &'static [Collective],
}

impl Cluster {
    /// Nodes and addresses without a group.
    pub fn bare(wiring: Wiring, address: impl Fn(NodeIndex) -> Gid) -> Self {
        let nodes = wiring.nodes().len();
        let addresses: Vec<Gid> = (0..nodes).map(address).collect();
        Self {
            by_address: addresses.iter().copied().zip(0..).collect(),
            addresses,
            groups: Vec::new(),
            ways: BTreeMap::new(),
            routes: vec![BTreeSet::new(); nodes],
            pins: vec![Vec::new(); nodes],
            hash_seed: 0,
            relayed: None,
            in_steps: &[],
            wiring,
        }
    }

    /// A group of all hosts, as the design plans it. Where the wiring has several ways, its tree is one that the manager's policy finds,
    /// and has links of its own; what hosts send each other takes all ways of equal cost, flow by flow.
    ///
    /// # Errors
    /// If the design refuses the wiring or its parameters, or there is no way between two that are to be connected.
    pub fn new(
        wiring: Wiring,
        address: impl Fn(NodeIndex) -> Gid,
        group: &GroupSpec,
    ) -> Result<Self, Refusal> {
        let GroupSpec { design, settings, demand, group, initial_psn, first_qp } = group;
        let embedded = match (wiring.tree_of_switches(), wiring.kind()) {
            (None, FabricKind::Tree) => EmbeddedTree::over_all(&wiring, &address),
            _ => None,
        };
        let tree = embedded.as_ref().map(|embedded| &embedded.tree).or(wiring.tree_of_switches()).cloned();
        let placement = Placement {
            domains: wiring.domains(),
            rates: wiring.rates(),
            demand: *demand,
            ..Placement::new(wiring.ranks(), tree, ByteCount::new(0))
        };
        let plan = design.plan(settings, &placement)?;
        let naming = Naming {
            group: *group,
            design: design.name().to_owned(),
            fabric: wiring.kind(),
            version: design.about().version,
            settings: settings.clone(),
            domains: placement.domains,
            initial_psn: *initial_psn,
        };
        let mut cluster =
            Self { relayed: plan.relayed, in_steps: plan.in_steps, ..Self::bare(wiring, address) };
        let mut used: BTreeMap<Member, u32> = BTreeMap::new();
        let switch = |node: TreeNodeId| match &embedded {
            Some(embedded) => embedded.switches[&node],
            None => NodeIndex::from(node.0),
        };
        let node_of = |member| match member {
            Member::Rank(rank) => cluster.wiring.host(rank),
            Member::Switch(node) => switch(node),
        };
        let name = |node| cluster.wiring.nodes()[switch(node)].name.clone();
        let contexts = plan.contexts(&naming, name, |member| {
            let number = used.entry(member).or_insert(first_qp.value());
            let qp = QpNumber::new(*number);
            *number += 1;
            Endpoint { ip: cluster.addresses[node_of(member)], qp }
        });
        let contexts = contexts.into_iter().map(|(member, context)| (node_of(member), context)).collect();
        let first = |pair: &[NodeIndex; 2]| cluster.wiring.between(*pair).next();
        let links = embedded.iter().flat_map(|embedded| &embedded.pairs).filter_map(first).collect();
        let hosts = cluster.wiring.hosts().to_vec();
        cluster.install(Installed::new(*design, hosts, contexts, links))?;
        Ok(cluster)
    }

    /// Takes in a group.
    ///
    /// # Errors
    /// If there is no way between two that are to be connected.
    pub(crate) fn install(&mut self, mut group: Installed) -> Result<(), Refusal> {
        let Installed { design, contexts, links, ports, .. } = &mut group;
        let design = *design;
        let switches: Vec<bool> =
            self.wiring.nodes().iter().map(|node| node.kind == NodeKind::Switch).collect();
        let is_switch = |node: NodeIndex| switches[node];
        let passing: BTreeSet<[Endpoint; 2]> = contexts
            .iter()
            .filter(|(node, _)| is_switch(**node))
            .flat_map(|(&node, context)| context.connections.iter().map(move |connection| (node, connection)))
            .filter(|(node, connection)| connection.local.ip != self.addresses[*node])
            .flat_map(|(_, ConnectionContext { local, remote, .. })| [[*local, *remote], [*remote, *local]])
            .collect();
        for (&node, context) in &*contexts {
            for ConnectionContext { local, remote, .. } in context.all_connections() {
                let peer = self.by_address[&remote.ip];
                let passes = passing.contains(&[*local, *remote]);
                if passes || links.is_empty() || ![node, peer].into_iter().any(is_switch) {
                    self.connect(design, node, peer)?;
                }
                if links.is_empty() || !(passes || [node, peer].into_iter().any(is_switch)) {
                    continue;
                }
                let way = way(&self.wiring, links, node, peer).ok_or_else(|| no_way(design))?;
                ports.insert([node, peer], way[0][0].port);
                for hop in way.windows(2) {
                    let [from, to] = [hop[0][1], hop[1][0]];
                    // What passes a switch of the group is for that to judge.
                    if !(passes && contexts.contains_key(&from.node)) {
                        let pin = Pin { destination: *remote, from: from.port, to: to.port };
                        self.pins[from.node].push(pin);
                    }
                }
            }
        }
        self.groups.push(group);
        Ok(())
    }

    /// Finds the ways from a node to another, and has the switches on them forward.
    fn connect(
        &mut self,
        design: &'static dyn AnyDesign,
        from: NodeIndex,
        to: NodeIndex,
    ) -> Result<(), Refusal> {
        let ways = self.ways.entry(to).or_insert_with(|| self.wiring.ways_to(to));
        if from != to && ways[from].is_empty() {
            return Err(no_way(design));
        }
        if let (NodeKind::Host, [first, second, ..]) = (self.wiring.nodes()[from].kind, &ways[from][..]) {
            // A queue pair has one port, and drops what comes by another.
            let name = |node: NodeIndex| &self.wiring.nodes()[node].name;
            return Err(Refusal::new(
                format!("one way that costs least from host {} to {}", name(from), name(to)),
                format!("one by its port {first} and one by its port {second}"),
                "give a link another `cost`, or put a switch between",
            ));
        }
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for (port, far) in self.wiring.neighbours(at) {
                if far.node != to && ways[at].contains(&port) && self.routes[far.node].insert(to) {
                    open.push(far.node);
                }
            }
        }
        Ok(())
    }

    /// Has every switch forward to every host, for frames of others than the groups.
    pub fn forward_everything(&mut self) {
        for &host in self.wiring.hosts() {
            let ways = self.ways.entry(host).or_insert_with(|| self.wiring.ways_to(host));
            for (node, way) in ways.iter().enumerate() {
                if !way.is_empty() && self.wiring.nodes()[node].kind == NodeKind::Switch {
                    self.routes[node].insert(host);
                }
            }
        }
    }

    /// What switches spread flows over ways of equal cost by: each gets a seed of its own that follows from this one.
    pub fn set_hash_seed(&mut self, seed: u64) {
        self.hash_seed = seed;
    }

    /// A switch's own.
    pub(crate) fn hash_seed(&self, node: NodeIndex) -> u64 {
        SplitMix64::new(self.hash_seed ^ (node as u64 + 1).rotate_right(16)).draw()
    }

    /// Nodes and links.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// The design that planned the group, the first one if there are several; none if there is none.
    pub fn design(&self) -> Option<&'static dyn AnyDesign> {
        self.groups.first().map(|group| group.design)
    }

    /// What frames are on its links.
    pub fn framing(&self) -> Framing {
        self.design().map_or(Framing::default(), |design| design.about().framing)
    }

    /// What a node is told of the group, the first one if there are several; nothing if it takes no part.
    pub fn context(&self, node: NodeIndex) -> Option<&GroupContext> {
        self.groups.first().and_then(|group| group.contexts.get(&node))
    }

    /// The groups that a node is in, each with what it is told of it.
    pub(crate) fn groups_of(&self, node: NodeIndex) -> impl Iterator<Item = (&Installed, &GroupContext)> {
        self.groups.iter().filter_map(move |group| Some((group, group.contexts.get(&node)?)))
    }

    /// A node's connections in a group; none if it is not in it.
    pub fn connections(&self, node: NodeIndex, group: GroupId) -> impl Iterator<Item = &ConnectionContext> {
        let contexts = self.groups_of(node).map(|(_, context)| context);
        contexts.filter(move |context| context.group == group).flat_map(GroupContext::all_connections)
    }

    /// By group: the links that its tree has for itself; none if it has no tree, or there are no others.
    pub fn tree_links(&self) -> impl Iterator<Item = &BTreeSet<usize>> {
        self.groups.iter().map(|group| &group.links)
    }

    /// A node's address.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn address(&self, node: NodeIndex) -> Gid {
        self.addresses[node]
    }

    /// The node that has an address.
    pub fn node_at(&self, address: Gid) -> Option<NodeIndex> {
        self.by_address.get(&address).copied()
    }

    /// The share of the data that goes over ranks that relay, in a design where some does.
    pub fn relayed(&self) -> Option<f64> {
        self.relayed
    }

    /// Whether the group runs a collective as several others, one after the other.
    pub fn runs_in_steps(&self, collective: Collective) -> bool {
        self.in_steps.contains(&collective)
    }

    /// The node that a neighbour in a context is, of the group that has all hosts.
    ///
    /// # Panics
    /// If it is of another cluster.
    pub fn node_of(&self, peer: &Peer) -> NodeIndex {
        self.find(peer, self.wiring.hosts())
    }

    /// The same of a group.
    pub(crate) fn node_in(&self, group: &Installed, peer: &Peer) -> NodeIndex {
        self.find(peer, &group.hosts)
    }

    fn find(&self, peer: &Peer, hosts: &[NodeIndex]) -> NodeIndex {
        match peer {
            Peer::Rank(rank) => hosts[rank.index()],
            Peer::Switch(name) => self.wiring.find(name).expect("switches have their names"),
        }
    }

    /// The port of a node that leads to another one that it is connected with, or forwards to; of several the first.
    pub fn port(&self, from: NodeIndex, to: NodeIndex) -> Option<u16> {
        self.ways.get(&to).and_then(|ways| ways[from].first().copied())
    }

    /// The port of a node by which it speaks to another one of its group.
    pub(crate) fn port_in(&self, group: &Installed, from: NodeIndex, to: NodeIndex) -> Option<u16> {
        group.ports.get(&[from, to]).copied().or_else(|| self.port(from, to))
    }

    /// The destinations that a switch forwards to, each with the ports that lead there.
    pub(crate) fn routes(&self, node: NodeIndex) -> impl Iterator<Item = (NodeIndex, &[u16])> {
        self.routes[node].iter().map(move |&to| (to, &self.ways[&to][node][..]))
    }

    /// The nodes that a flow passes, its ends among them: from a node to a queue pair of another that somebody speaks to; none if nobody
    /// knows a way.
    pub fn path(&self, from: NodeIndex, destination: Endpoint) -> Option<Vec<NodeIndex>> {
        let to = self.node_at(destination.ip)?;
        let speaks = |context: &GroupContext| {
            context.all_connections().any(|connection| connection.remote == destination)
        };
        let mut own = self.groups_of(from).filter(|(_, context)| speaks(context));
        let first = own.find_map(|(group, _)| group.ports.get(&[from, to]).copied());
        let (mut at, mut path) = (from, vec![from]);
        while at != to {
            let pin = self.pins[at].iter().find(|pin| pin.destination == destination).map(|pin| pin.to);
            let pinned = if at == from { first } else { pin };
            let port = pinned.or_else(|| {
                let ports = self.ways.get(&to).map(|ways| &ways[at]).filter(|ports| !ports.is_empty())?;
                let seed = self.hash_seed(at);
                Some(ports[way_of_flow(seed, self.addresses[from], destination, ports.len())])
            })?;
            at = self.wiring.neighbours(at).find(|(near, _)| *near == port)?.1.node;
            path.push(at);
        }
        Some(path)
    }

    /// The flows that go one way at a switch.
    pub(crate) fn pins(&self, node: NodeIndex) -> &[Pin] {
        &self.pins[node]
    }
}

fn no_way(design: &dyn AnyDesign) -> Refusal {
    Refusal::new(
        format!("a fabric with switches for {}", design.name()),
        "hosts that are joined directly",
        "choose a tree such as star-8",
    )
}
