//! A group on a wiring: who has which address, what each node is told, and which ways switches must know.

use crate::{NodeIndex, Wiring};
use quincunx_collective::GroupId;
use quincunx_design::{
    AnyDesign, ConnectionContext, Demand, GroupContext, Member, Naming, Peer, Placement, Refusal, Settings,
};
use quincunx_fabric::NodeKind;
use quincunx_wire::{Endpoint, Framing, Psn, QpNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
const FIRST_QP: u32 = 0x10;

/// The address of a node where nobody says another: 10.x.x.x with its number, from one.
pub fn address(node: NodeIndex) -> Ipv4Addr {
    let [_, high, middle, low] = (node as u32 + 1).to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

/// The group that a cluster is set up with: all hosts are in it.
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

/// Which port of each node leads to a destination.
type Ways = Vec<Option<u16>>;

/// A group on a wiring.
#[derive(Clone, Debug)]
pub struct Cluster {
    wiring: Wiring,
    addresses: Vec<Ipv4Addr>,
    design: Option<&'static dyn AnyDesign>,
    /// By node.
    contexts: Vec<Option<GroupContext>>,
    /// By destination, for those that somebody speaks to.
    ways: BTreeMap<NodeIndex, Ways>,
    /// By switch: destinations whose frames it forwards.
    routes: Vec<BTreeSet<NodeIndex>>,
    relayed: Option<f64>,
}

impl Cluster {
    /// Nodes and addresses without a group.
    pub fn bare(wiring: Wiring, address: impl Fn(NodeIndex) -> Ipv4Addr) -> Self {
        let nodes = wiring.nodes().len();
        Self {
            addresses: (0..nodes).map(address).collect(),
            design: None,
            contexts: vec![None; nodes],
            ways: BTreeMap::new(),
            routes: vec![BTreeSet::new(); nodes],
            relayed: None,
            wiring,
        }
    }

    /// A group of all hosts, as the design plans it.
    ///
    /// # Errors
    /// If the design refuses the wiring or its parameters, or there is no way between two that are to be connected.
    pub fn new(
        wiring: Wiring,
        address: impl Fn(NodeIndex) -> Ipv4Addr,
        group: &GroupSpec,
    ) -> Result<Self, Refusal> {
        let GroupSpec { design, settings, demand, group, initial_psn, first_qp } = group;
        let placement = Placement {
            ranks: wiring.ranks(),
            domains: wiring.domains(),
            tree: wiring.tree_of_switches().cloned(),
            offers: BTreeMap::new(),
            rates: wiring.rates(),
            demand: *demand,
        };
        let plan = design.plan(settings, &placement)?;
        let naming = Naming {
            group: *group,
            design: design.name().to_owned(),
            fabric: wiring.kind(),
            version: design.version(),
            settings: settings.clone(),
            domains: placement.domains,
            initial_psn: *initial_psn,
        };
        let mut cluster =
            Self { design: Some(*design), relayed: plan.relayed, ..Self::bare(wiring, address) };
        let mut used: BTreeMap<Member, u32> = BTreeMap::new();
        let node_of = |member| match member {
            Member::Rank(rank) => cluster.wiring.host(rank),
            Member::Switch(node) => NodeIndex::from(node.0),
        };
        let name =
            |node: quincunx_fabric::TreeNodeId| cluster.wiring.nodes()[usize::from(node.0)].name.clone();
        let contexts = plan.contexts(&naming, name, |member| {
            let number = used.entry(member).or_insert(first_qp.value());
            let qp = QpNumber::new(*number);
            *number += 1;
            Endpoint { ip: cluster.addresses[node_of(member)], qp }
        });
        let contexts: Vec<_> =
            contexts.into_iter().map(|(member, context)| (node_of(member), context)).collect();
        for (node, context) in contexts {
            for ConnectionContext { peer, .. } in &context.connections {
                cluster.connect(node, peer)?;
            }
            cluster.contexts[node] = Some(context);
        }
        Ok(cluster)
    }

    /// Finds the way from a node to a peer, and has the switches on it forward.
    fn connect(&mut self, from: NodeIndex, peer: &Peer) -> Result<(), Refusal> {
        let to = self.node_of(peer);
        let ways = self.ways.entry(to).or_insert_with(|| self.wiring.ways_to(to));
        let mut at = from;
        while at != to {
            let Some(port) = ways[at] else {
                let name = self.design.map_or("the group", |design| design.name());
                return Err(Refusal::new(
                    format!("a fabric with switches for {name}"),
                    "hosts that are joined directly",
                    "choose a tree such as star-8",
                ));
            };
            if at != from {
                self.routes[at].insert(to);
            }
            let next = self.wiring.neighbours(at).find(|(at_port, _)| *at_port == port);
            at = next.expect("ways lead over links").1.node;
        }
        Ok(())
    }

    /// Has every switch forward to every host, for frames of others than the group.
    pub fn forward_everything(&mut self) {
        for &host in self.wiring.hosts() {
            let ways = self.ways.entry(host).or_insert_with(|| self.wiring.ways_to(host));
            for (node, way) in ways.iter().enumerate() {
                if way.is_some() && self.wiring.nodes()[node].kind == NodeKind::Switch {
                    self.routes[node].insert(host);
                }
            }
        }
    }

    /// Nodes and links.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// The design that planned the group, if there is one.
    pub fn design(&self) -> Option<&'static dyn AnyDesign> {
        self.design
    }

    /// What frames are on its links.
    pub fn framing(&self) -> Framing {
        self.design.map_or(Framing::default(), AnyDesign::framing)
    }

    /// What a node is told of the group; nothing if it takes no part.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn context(&self, node: NodeIndex) -> Option<&GroupContext> {
        self.contexts[node].as_ref()
    }

    /// A node's address.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn address(&self, node: NodeIndex) -> Ipv4Addr {
        self.addresses[node]
    }

    /// The node that has an address.
    pub fn node_at(&self, address: Ipv4Addr) -> Option<NodeIndex> {
        self.addresses.iter().position(|other| *other == address)
    }

    /// The share of the data that goes over ranks that relay, in a design where some does.
    pub fn relayed(&self) -> Option<f64> {
        self.relayed
    }

    /// The node that a neighbour in a context is.
    ///
    /// # Panics
    /// If it is of another cluster.
    pub fn node_of(&self, peer: &Peer) -> NodeIndex {
        match peer {
            Peer::Rank(rank) => self.wiring.host(*rank),
            Peer::Switch(name) => self.wiring.find(name).expect("switches have their names"),
        }
    }

    /// The port of a node that leads to another one that it is connected with, or forwards to.
    pub fn port(&self, from: NodeIndex, to: NodeIndex) -> Option<u16> {
        self.ways.get(&to).and_then(|ways| ways[from])
    }

    /// The destinations that a switch forwards to.
    pub(crate) fn routes(&self, node: NodeIndex) -> impl Iterator<Item = NodeIndex> {
        self.routes[node].iter().copied()
    }
}
