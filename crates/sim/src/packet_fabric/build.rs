//! From a setup to nodes on links with a group installed: what the manager would assign, on nodes that this makes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use quincunx_collective::{GroupId, Rank};
use quincunx_control::{
    self as control, GroupParameters, HostDesign, Peer, RankContext, host_contexts, tree_contexts,
};
use quincunx_driver_des::{LinkConfig, LinkIndex, NodeIndex, Observer, Simulation};
use quincunx_engine::{Engine, PortId};
use quincunx_epic::{CommLib, CommLibConfig};
use quincunx_fabric::{IncTree, Mode, NodeId, PortRef, Topology, TreeNodeId, TreeRole, TreeShape};
use quincunx_network::FaultPlan;
use quincunx_nodes::{
    ContextError, HostCommand, Programs, Station, StationCommand, StationKind, SwitchCommand,
    comm_lib_config, host_config, host_group, switch_group,
};
use quincunx_ring::{Config, HostProgram};
use quincunx_roce::Reliability;
use quincunx_wire::{Endpoint, Psn, QpNumber};

use super::data::Data;
use super::{
    Background, Congestion, Design, Fabric, HostPieces, LossyLinks, RoceMedium, Setup, SimulationError,
};

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
pub(super) const FIRST_QP: u32 = 0x10;

/// Nodes on links, a group installed.
pub(crate) struct Built<P: Data, O> {
    pub(crate) simulation: Simulation<Station<P>, RoceMedium, O>,
    /// By node.
    pub(crate) names: Vec<String>,
    /// By rank.
    pub(crate) ranks: Vec<NodeIndex>,
    /// By link: the nodes at its ends.
    pub(crate) links: Vec<[NodeIndex; 2]>,
    /// How long frames are, and how fast links.
    pub(crate) medium: RoceMedium,
    pub(crate) link: LinkConfig,
    /// What packets of traffic carry.
    pub(crate) filling: P,
}

/// An address for each node.
pub(super) fn address(node: NodeIndex) -> Ipv4Addr {
    let [_, high, middle, low] = (node.0 + 1).to_be_bytes();
    Ipv4Addr::new(10, high, middle, low)
}

impl<P: Data, O: Observer<Station<P>>> Built<P, O> {
    pub(crate) fn new(
        setup: &Setup,
        design: Design,
        seed: u64,
        observer: O,
    ) -> Result<Self, SimulationError> {
        let medium = RoceMedium { framing: setup.framing };
        let mut built = Self {
            simulation: Simulation::with_observer(medium, seed, observer),
            names: Vec::new(),
            ranks: Vec::new(),
            links: Vec::new(),
            medium,
            link: LinkConfig { rate: setup.link.rate, latency: setup.link.latency },
            filling: P::zeroed(setup.mtu.as_usize()),
        };
        let parameters = GroupParameters {
            group: GroupId(1),
            ranks: setup.fabric.ranks(),
            mtu: setup.mtu,
            message_packets: setup.message,
            window_messages: setup.window,
            reproducible: setup.reproducible,
            initial_psn: Psn::new(0),
            retry: setup.retry,
        };
        let rank_links = match (&setup.fabric, design) {
            (Fabric::Tree(shape), _) => built.tree(setup, shape, design, &parameters)?,
            (Fabric::Ring(_), _) if setup.traffic.is_some() => return Err(SimulationError::NoWay),
            (Fabric::Ring(ranks), Design::Managed(control::Design::Host(HostDesign::Ring))) => {
                built.ring(setup, *ranks, &parameters)?
            }
            (Fabric::Ring(_), _) => return Err(SimulationError::Fabric { design }),
        };
        built.disturb(setup, &rank_links);
        Ok(built)
    }

    /// Loss, background traffic, limits of queues, and pauses.
    fn disturb(&mut self, setup: &Setup, rank_links: &[LinkIndex]) {
        let both_ways = |links: u16| {
            let links = rank_links.iter().take(usize::from(links));
            links.flat_map(|link| [link.forward(), link.backward()])
        };
        if let Some(LossyLinks { links, loss }) = setup.lossy {
            for direction in both_ways(links) {
                self.simulation.set_faults(direction, FaultPlan::losing(loss));
            }
        }
        let Congestion { queue, background, pause, .. } = setup.congestion;
        if let Some(Background { links, rate }) = background {
            for direction in both_ways(links) {
                self.simulation.set_background(direction, Some(rate));
            }
        }
        for link in 0..self.links.len() as u32 {
            for direction in [LinkIndex(link).forward(), LinkIndex(link).backward()] {
                self.simulation.set_queue(direction, queue);
                let [first, second] = self.links[link as usize];
                let to = if direction.backward { first } else { second };
                if let Some(pause) = pause
                    && self.simulation.engine(to).kind() == StationKind::Switch
                {
                    self.simulation.set_pause(direction, pause);
                }
            }
        }
    }

    pub(super) fn add(&mut self, name: String, kind: StationKind) -> NodeIndex {
        self.names.push(name);
        let Ok(station) = Station::new(kind);
        self.simulation.add_node(station)
    }

    fn connect(&mut self, a: (NodeIndex, PortId), b: (NodeIndex, PortId)) -> LinkIndex {
        self.links.push([a.0, b.0]);
        self.simulation.connect((a.0, &[a.1]), (b.0, &[b.1]), self.link)
    }

    /// Switches and hosts as the shape says; returns each rank's link.
    fn tree(
        &mut self,
        setup: &Setup,
        shape: &TreeShape,
        design: Design,
        parameters: &GroupParameters,
    ) -> Result<Vec<LinkIndex>, SimulationError> {
        // Nodes of the two are numbered alike.
        let (topology, tree) = (Topology::from_shape(shape, setup.link), IncTree::from_shape(shape));
        for (node, (_, in_tree)) in topology.nodes().iter().zip(tree.nodes()) {
            let kind = match in_tree.role() {
                TreeRole::Rank(_) => StationKind::Host,
                TreeRole::Switch => StationKind::Switch,
            };
            self.add(node.name.clone(), kind);
        }
        let end = |end: PortRef| (NodeIndex(u32::from(end.node.0)), PortId(end.port));
        for link in topology.links() {
            self.connect(end(link.ends[0]), end(link.ends[1]));
        }
        let leaf = |rank| NodeId(tree.leaf(Rank(rank)).0);
        self.ranks = (0..tree.ranks()).map(|rank| NodeIndex(u32::from(leaf(rank).0))).collect();

        let port_to = |node: NodeId, far: NodeId| {
            let ports = 0..topology.node(node).ports.len() as u16;
            let mut ports = ports.filter(|&port| topology.across(PortRef { node, port }).node == far);
            PortId(ports.next().expect("edges of the tree are links of the fabric"))
        };
        let in_network = matches!(design, Design::Managed(control::Design::Epic(_)));
        if !in_network || setup.traffic.is_some() {
            for node in tree.switches() {
                self.add_routes(&tree, node, |far| port_to(NodeId(node.0), NodeId(far.0)))?;
            }
        }
        match design {
            Design::Managed(control::Design::Epic(mode)) => {
                let names =
                    tree.switches().into_iter().map(|node| (node, self.names[usize::from(node.0)].clone()));
                let endpoint = |end: quincunx_fabric::TreeEnd| Endpoint {
                    ip: address(NodeIndex(u32::from(end.node.0))),
                    qp: QpNumber::new(FIRST_QP + u32::from(end.index)),
                };
                let contexts = tree_contexts(&tree, mode, parameters, &names.collect(), endpoint);
                for (node, context) in &contexts.switches {
                    let id = NodeId(node.0);
                    let mut group = switch_group(context, |peer| {
                        let far = match peer {
                            Peer::Rank(rank) => leaf(rank.0),
                            Peer::Switch(name) => topology.find(name).expect("switches have their names"),
                        };
                        port_to(id, far)
                    });
                    group.selective = setup.selective;
                    if mode == Mode::III {
                        group.run_ahead = setup.run_ahead;
                        group.window = setup.slots.unwrap_or(group.window);
                        if !setup.synchronize_rates {
                            group.notification_interval = None;
                        }
                    }
                    let install = SwitchCommand::Install(Box::new(group));
                    let node = NodeIndex(u32::from(node.0));
                    self.simulation.command(node, StationCommand::Switch(install))?;
                }
                self.install(setup, &contexts.ranks, |_, _| PortId(0))?;
            }
            Design::Managed(control::Design::Host(design)) => {
                let contexts = self.host_contexts(design, parameters);
                self.install(setup, &contexts, |_, _| PortId(0))?;
            }
            Design::MultiWrite => self.relays(setup, shape)?,
            Design::Managed(control::Design::Mesh(_)) => return Err(SimulationError::NoMesh { design }),
        }
        let links = |rank: u16| {
            let node = topology.node(leaf(rank));
            LinkIndex(node.ports[0].0)
        };
        Ok((0..tree.ranks()).map(links).collect())
    }

    /// Tells a switch where each rank is.
    fn add_routes(
        &mut self,
        tree: &IncTree,
        node: TreeNodeId,
        port_to: impl Fn(TreeNodeId) -> PortId,
    ) -> Result<(), SimulationError> {
        for rank in 0..tree.ranks() {
            let edge = tree.node(node).toward(Rank(rank)).expect("no rank is at a switch");
            let route = SwitchCommand::Route {
                destination: address(self.ranks[usize::from(rank)]),
                port: port_to(tree.across(node, edge).node),
            };
            self.simulation.command(NodeIndex(u32::from(node.0)), StationCommand::Switch(route))?;
        }
        Ok(())
    }

    /// Hosts alone, each with a link to the one before and the one after it; returns each rank's link to the next.
    fn ring(
        &mut self,
        setup: &Setup,
        ranks: u16,
        parameters: &GroupParameters,
    ) -> Result<Vec<LinkIndex>, SimulationError> {
        self.ranks = (0..ranks).map(|rank| self.add(format!("host-{rank}"), StationKind::Host)).collect();
        let (next_port, previous_port) = (PortId(0), PortId(1));
        // Two ranks are each other's next and previous: one link, as there is one connection.
        let links = if ranks == 2 { 1 } else { ranks };
        let links = (0..links)
            .map(|rank| {
                let ends = [rank, (rank + 1) % ranks].map(|rank| self.ranks[usize::from(rank)]);
                self.connect((ends[0], next_port), (ends[1], previous_port))
            })
            .collect();
        let contexts = self.host_contexts(HostDesign::Ring, parameters);
        self.install(setup, &contexts, |rank, peer| {
            let is_next = *peer == Peer::Rank(Rank((rank.0 + 1) % ranks));
            if is_next && (ranks > 2 || rank == Rank(0)) { next_port } else { previous_port }
        })?;
        Ok(links)
    }

    fn host_contexts(&self, design: HostDesign, parameters: &GroupParameters) -> Vec<RankContext> {
        let mut used: BTreeMap<Rank, u32> = BTreeMap::new();
        host_contexts(design, parameters, |rank| {
            let number = used.entry(rank).or_insert(FIRST_QP);
            *number += 1;
            Endpoint { ip: address(self.ranks[rank.index()]), qp: QpNumber::new(*number) }
        })
    }

    /// Installs the group on the hosts.
    fn install(
        &mut self,
        setup: &Setup,
        contexts: &[RankContext],
        port: impl Fn(Rank, &Peer) -> PortId,
    ) -> Result<(), SimulationError> {
        for context in contexts {
            let mut group = host_group(context, |peer| port(context.rank, peer))?;
            for (_, queue_pair) in &mut group.queue_pairs {
                queue_pair.acknowledge_every = setup.acknowledge_every;
                queue_pair.rate = setup.congestion.control;
                if setup.selective {
                    queue_pair.reliability = Reliability::Selective;
                }
            }
            match context.design {
                control::Design::Epic(mode) => {
                    let run_ahead = setup.run_ahead && mode == Mode::III;
                    let config = CommLibConfig { run_ahead, ..comm_lib_config(context, mode) };
                    group.program = Programs::CommLib(CommLib::new(config).map_err(ContextError::from)?);
                }
                control::Design::Host(design) => {
                    let HostPieces { chunk, window, pace } = setup.hosts;
                    let config = Config { chunk, window, pace, ..host_config(context, design) };
                    group.program = Programs::Host(HostProgram::new(&config).map_err(ContextError::from)?);
                }
                // As the context has it.
                control::Design::Mesh(_) => {}
            }
            let install = StationCommand::Host(HostCommand::Install(Box::new(group)));
            self.simulation.command(self.ranks[context.rank.index()], install)?;
        }
        Ok(())
    }
}
