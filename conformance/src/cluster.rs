//! The nodes of a scenario: the same contexts for every driver. They differ only in where a node's neighbours are: each
//! at a port of its own, where there are links, or all at one, where there is a socket.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use quincunx_collective::{Numbers, Payload, Rank};
use quincunx_control::{Design, HostDesign, Peer, RankContext, host_contexts, mesh_contexts, tree_contexts};
use quincunx_engine::PortId;
use quincunx_fabric::{IncTree, Shape, TreeEnd, TreeNodeId, TreeRole};
use quincunx_nodes::{HostCommand, StationCommand, StationKind, SwitchCommand, host_group, switch_group};
use quincunx_wire::{Endpoint, QpNumber};

use crate::{RunError, Scenario};

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
const FIRST_QP: u32 = 0x10;

/// Where a node's neighbours are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wiring {
    /// Each at the far end of a link of its own.
    Links,
    /// All behind port 0.
    Socket,
}

/// A node to be.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) kind: StationKind,
    pub(crate) rank: Option<Rank>,
    /// Makes it part of the group, and has a rank start its part of the collective.
    pub(crate) orders: Vec<StationCommand<Numbers>>,
    /// The neighbours, by link port.
    pub(crate) neighbours: Vec<usize>,
}

pub(crate) struct Cluster {
    pub(crate) members: Vec<Member>,
}

/// An address of this process alone, so that what runs beside it does not interfere.
fn address(member: usize) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high, low, 1 + member as u8)
}

impl Cluster {
    pub(crate) fn new(scenario: &Scenario, wiring: Wiring) -> Result<Self, RunError> {
        let cluster = match scenario.design {
            Design::Epic(_) => Self::tree(scenario, wiring)?,
            Design::Host(HostDesign::Ring) => Self::ring(scenario, wiring)?,
            Design::Mesh(_) => Self::mesh(scenario, wiring)?,
            design @ Design::Host(_) => return Err(RunError::NoFabric { design }),
        };
        for losses in &scenario.losses {
            cluster.direction(losses.from, losses.to)?;
        }
        Ok(cluster)
    }

    pub(crate) fn position(&self, name: &str) -> Result<usize, RunError> {
        let found = self.members.iter().position(|member| member.name == name);
        found.ok_or_else(|| RunError::NoNode { found: name.to_owned() })
    }

    /// The members at the ends of a direction of a link.
    pub(crate) fn direction(&self, from: &str, to: &str) -> Result<[usize; 2], RunError> {
        let [from, to] = [self.position(from)?, self.position(to)?];
        if self.members[from].neighbours.contains(&to) {
            Ok([from, to])
        } else {
            let [from, to] = [from, to].map(|member| self.members[member].name.clone());
            Err(RunError::NoLink { from, to })
        }
    }

    /// Who has an address.
    pub(crate) fn name_of(&self, address: Ipv4Addr) -> &str {
        let found = self.members.iter().find(|member| member.address == address);
        &found.expect("frames go from member to member").name
    }

    /// The port of `member` that leads to `neighbour`.
    fn port(&self, wiring: Wiring, member: usize, neighbour: usize) -> PortId {
        let found = self.members[member].neighbours.iter().position(|&found| found == neighbour);
        let link = found.expect("queue pairs are between neighbours");
        PortId(if wiring == Wiring::Links { link as u16 } else { 0 })
    }

    fn rank(&self, rank: Rank) -> usize {
        let found = self.members.iter().position(|member| member.rank == Some(rank));
        found.expect("every rank is a member")
    }

    /// Members are numbered like the nodes of the tree, and their links like the edges of a node.
    fn tree(scenario: &Scenario, wiring: Wiring) -> Result<Self, RunError> {
        let (Design::Epic(mode), Shape::Tree(shape)) = (scenario.design, &scenario.shape) else {
            return Err(RunError::NoFabric { design: scenario.design });
        };
        let tree = IncTree::from_shape(shape);
        let names: BTreeMap<TreeNodeId, String> = tree
            .switches()
            .into_iter()
            .enumerate()
            .map(|(index, id)| (id, format!("switch-{index}")))
            .collect();
        let member = |(id, node): (TreeNodeId, &quincunx_fabric::TreeNode)| {
            let (name, kind, rank) = match node.role() {
                TreeRole::Rank(rank) => (format!("rank-{rank}"), StationKind::Host, Some(rank)),
                TreeRole::Switch => (names[&id].clone(), StationKind::Switch, None),
            };
            let edges = 0..node.edges().len() as u16;
            let neighbours = edges.map(|edge| usize::from(tree.across(id, edge).node.0)).collect();
            let address = address(usize::from(id.0));
            Member { name, address, kind, rank, orders: Vec::new(), neighbours }
        };
        let mut cluster = Self { members: tree.nodes().map(member).collect() };
        let endpoint = |end: TreeEnd| Endpoint {
            ip: address(usize::from(end.node.0)),
            qp: QpNumber::new(FIRST_QP + u32::from(end.index)),
        };
        let contexts = tree_contexts(&tree, mode, &scenario.parameters(), &names, endpoint);
        for (id, context) in &contexts.switches {
            let at = usize::from(id.0);
            let group = switch_group(context, |peer| {
                let neighbour = match peer {
                    Peer::Rank(rank) => cluster.rank(*rank),
                    Peer::Switch(name) => cluster.position(name).expect("switches have their names"),
                };
                cluster.port(wiring, at, neighbour)
            });
            cluster.members[at].orders.push(StationCommand::Switch(SwitchCommand::Install(Box::new(group))));
        }
        let root = tree.root();
        cluster.hosts(scenario, &contexts.ranks, |cluster, rank, peer| {
            let neighbour = match peer {
                Peer::Switch(name) => cluster.position(name).expect("switches have their names"),
                Peer::Rank(_) => usize::from(root.0),
            };
            cluster.port(wiring, cluster.rank(rank), neighbour)
        })?;
        Ok(cluster)
    }

    /// Each host's first link leads to the next one, its second to the one before.
    fn ring(scenario: &Scenario, wiring: Wiring) -> Result<Self, RunError> {
        let ranks = usize::from(scenario.shape.ranks());
        let member = |rank: usize| Member {
            name: format!("rank-{rank}"),
            address: address(rank),
            kind: StationKind::Host,
            rank: Some(Rank(rank as u16)),
            orders: Vec::new(),
            neighbours: Vec::from([(rank + 1) % ranks, (rank + ranks - 1) % ranks]),
        };
        let mut cluster = Self { members: (0..ranks).map(member).collect() };
        let mut used = vec![FIRST_QP; ranks];
        let contexts = host_contexts(HostDesign::Ring, &scenario.parameters(), |rank| {
            let number = &mut used[rank.index()];
            *number += 1;
            Endpoint { ip: address(rank.index()), qp: QpNumber::new(*number) }
        });
        cluster.hosts(scenario, &contexts, |cluster, rank, peer| match peer {
            Peer::Rank(peer) => cluster.port(wiring, rank.index(), peer.index()),
            Peer::Switch(_) => unreachable!("a ring has no switches"),
        })?;
        Ok(cluster)
    }

    /// Each host has a link to each other one, in rank order.
    fn mesh(scenario: &Scenario, wiring: Wiring) -> Result<Self, RunError> {
        let Shape::Mesh(shape) = scenario.shape else {
            return Err(RunError::NoFabric { design: scenario.design });
        };
        let ranks = usize::from(shape.ranks());
        let member = |rank: usize| Member {
            name: format!("rank-{rank}"),
            address: address(rank),
            kind: StationKind::Host,
            rank: Some(Rank(rank as u16)),
            orders: Vec::new(),
            neighbours: (0..ranks).filter(|peer| *peer != rank).collect(),
        };
        let mut cluster = Self { members: (0..ranks).map(member).collect() };
        let mut used = vec![FIRST_QP; ranks];
        let mesh = scenario.mesh(shape);
        let contexts = mesh_contexts(scenario.design, mesh, &scenario.parameters(), |rank| {
            let number = &mut used[rank.index()];
            *number += 1;
            Endpoint { ip: address(rank.index()), qp: QpNumber::new(*number) }
        });
        cluster.hosts(scenario, &contexts, |cluster, rank, peer| match peer {
            Peer::Rank(peer) => cluster.port(wiring, rank.index(), peer.index()),
            Peer::Switch(_) => unreachable!("a mesh has no switches"),
        })?;
        Ok(cluster)
    }

    /// Gives each rank its group and its part of the collective.
    fn hosts(
        &mut self,
        scenario: &Scenario,
        contexts: &[RankContext],
        port: impl Fn(&Self, Rank, &Peer) -> PortId,
    ) -> Result<(), RunError> {
        let buffers = scenario.inputs().into_iter().zip(scenario.expected());
        for (context, (input, expected)) in contexts.iter().zip(buffers) {
            let group = host_group(context, |peer| port(self, context.rank, peer))?;
            let start = HostCommand::Start {
                group: group.group,
                collective: scenario.collective,
                reduction: scenario.reduction(),
                output: Numbers::zeroed(expected.length()),
                input,
            };
            let orders = [HostCommand::Install(Box::new(group)), start].map(StationCommand::Host);
            let at = self.rank(context.rank);
            self.members[at].orders.extend(orders);
        }
        Ok(())
    }
}
