//! A group of EPIC or of a host ring: the manager's contexts on real nodes, on a tree.

use std::collections::BTreeMap;

use quincunx_collective::{Collective, Contributions, Payload, Rank};
use quincunx_control::{GroupParameters, Peer, Retry, tree_contexts};
use quincunx_driver_check::{End, NodeId, Renaming};
use quincunx_engine::PortId;
use quincunx_engine::verbs::{QpIndex, UNLIMITED_RETRIES};
use quincunx_epic::{Mutation, Timer};
use quincunx_fabric::{IncTree, Mode, TreeEnd, TreeNodeId, TreeRole, TreeShape};
use quincunx_nodes::{
    ContextError, HostCommand, Programs, StationCommand, StationKind, StationRejected, StationTimer,
    SwitchCommand, SwitchTimer, host_group, switch_group,
};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Operation, RoceHeader};

use crate::network::{Expected, FIRST_PSN, GROUP, MTU, Network, Protocol, Task, endpoint, station};

/// What to explore.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The tree.
    pub tree: TreeShape,
    /// The switches' mode.
    pub mode: Mode,
    /// What the ranks do, one after the other.
    pub collectives: Vec<Collective>,
    /// Packets of data in each; a control message goes before them.
    pub packets: u32,
    /// Packets that a rank may have in flight. Fewer than there are, so that buffers are used again.
    pub window: u32,
    /// A rule that the switches break.
    pub mutation: Option<Mutation>,
}

/// Why a set-up cannot be explored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GroupError {
    /// More ranks than can be told apart.
    #[error("expected a tree of at most {most} ranks, found {found}; choose a smaller one", most = Contributions::RANKS)]
    Ranks {
        /// Ranks of the tree.
        found: u16,
    },
    /// A node refuses its context.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// A node refuses its group.
    #[error(transparent)]
    Rejected(#[from] StationRejected),
}

/// A group to explore.
pub type Group = Network<Epic>;

/// EPIC on a tree. Nodes are numbered as in the tree; port `i` of a node leads over its edge `i`.
#[derive(Clone, Debug)]
pub struct Epic {
    setup: Setup,
    tree: IncTree,
}

impl Network<Epic> {
    /// The network of a set-up, with the group installed.
    ///
    /// # Errors
    /// If the group is too large, or a node refuses it.
    pub fn new(setup: Setup) -> Result<Self, GroupError> {
        let tree = IncTree::from_shape(&setup.tree);
        if tree.ranks() > Contributions::RANKS {
            return Err(GroupError::Ranks { found: tree.ranks() });
        }
        let parameters = GroupParameters {
            group: GROUP,
            ranks: tree.ranks(),
            mtu: ByteCount::new(MTU as u64),
            message_packets: 1,
            window_messages: setup.window,
            reproducible: false,
            initial_psn: FIRST_PSN,
            retry: Retry { timeout: Duration::from_micros(100), count: UNLIMITED_RETRIES },
        };
        let names = tree.switches().into_iter().map(|node| (node, format!("switch-{}", node.0))).collect();
        let endpoint = |tree_end: TreeEnd| endpoint(end(tree_end));
        let contexts = tree_contexts(&tree, setup.mode, &parameters, &names, endpoint);
        let mut stations = Vec::new();
        for (id, node) in tree.nodes() {
            let (kind, command) = match node.role() {
                TreeRole::Rank(rank) => {
                    let group = host_group(&contexts.ranks[rank.index()], |_| PortId(0))?;
                    (StationKind::Host, StationCommand::Host(HostCommand::Install(Box::new(group))))
                }
                TreeRole::Switch => {
                    let port = |peer: &Peer| port_to(&tree, &names, id, peer);
                    let mut group = switch_group(&contexts.switches[&id], port);
                    group.mutation = setup.mutation;
                    (StationKind::Switch, StationCommand::Switch(SwitchCommand::Install(Box::new(group))))
                }
            };
            stations.push(station(kind, [command])?);
        }
        let links = tree.edges().iter().map(|edge| [end(edge.parent), end(edge.child)]).collect();
        Ok(Self::on(links, stations, Epic { setup, tree }))
    }
}

impl Epic {
    fn role(&self, node: NodeId) -> TreeRole {
        self.tree.node(TreeNodeId(node.0)).role()
    }

    fn rank(&self, node: NodeId) -> Option<Rank> {
        match self.role(node) {
            TreeRole::Rank(rank) => Some(rank),
            TreeRole::Switch => None,
        }
    }

    /// Bytes of each collective's vector.
    fn length(&self) -> usize {
        self.setup.packets as usize * MTU
    }

    /// What a rank brings into a collective.
    fn input(&self, collective: Collective, rank: Rank) -> Contributions {
        let (length, ranks) = (self.length(), usize::from(self.tree.ranks()));
        let length = match collective {
            Collective::Broadcast { root } if root != rank => 0,
            Collective::Barrier => 0,
            Collective::ReduceScatter => length * ranks,
            _ => length,
        };
        Contributions::of_rank(rank, length)
    }

    /// What a rank must get.
    fn expected(&self, collective: Collective, rank: Rank) -> Contributions {
        let (length, ranks) = (self.length(), self.tree.ranks());
        match collective {
            Collective::Reduce { root } if root != rank => Contributions::zeroed(0),
            Collective::AllReduce | Collective::Reduce { .. } | Collective::ReduceScatter => {
                Contributions::of_all(ranks, length)
            }
            Collective::Broadcast { root } => Contributions::of_rank(root, length),
            // Every rank refuses the last two.
            Collective::Barrier | Collective::Dispatch | Collective::Combine => Contributions::zeroed(0),
            Collective::AllGather => {
                let mut all = Contributions::zeroed(length * usize::from(ranks));
                for rank in 0..ranks {
                    let part = Contributions::of_rank(Rank(rank), length);
                    all.write(usize::from(rank) * length, part.view(0..length));
                }
                all
            }
        }
    }

    /// The subtree below a node, itself first, in an order that is the same for all subtrees of one shape.
    fn below(&self, node: TreeNodeId) -> Vec<TreeNodeId> {
        let mut nodes = vec![node];
        for index in 0..self.tree.node(node).child_edges().len() as u16 {
            nodes.extend(self.below(self.tree.across(node, index).node));
        }
        nodes
    }

    /// Ranks that are not like the others.
    fn roots(&self) -> impl Iterator<Item = TreeNodeId> {
        let roots = self.setup.collectives.iter().flat_map(|collective| match collective {
            Collective::Reduce { root } | Collective::Broadcast { root } => vec![*root],
            // A step for each rank, in the order of the ranks.
            Collective::ReduceScatter | Collective::AllGather => (0..self.tree.ranks()).map(Rank).collect(),
            Collective::AllReduce | Collective::Barrier => Vec::new(),
            Collective::Dispatch | Collective::Combine => Vec::new(),
        });
        roots.map(|root| self.tree.leaf(root))
    }
}

fn end(end: TreeEnd) -> End {
    End { node: NodeId(end.node.0), port: PortId(end.index) }
}

/// The port of a switch that leads to a neighbour.
fn port_to(tree: &IncTree, names: &BTreeMap<TreeNodeId, String>, node: TreeNodeId, peer: &Peer) -> PortId {
    let is_peer = |far: TreeNodeId| match peer {
        Peer::Rank(rank) => tree.leaf(*rank) == far,
        Peer::Switch(name) => names.get(&far) == Some(name),
    };
    let mut edges = 0..tree.node(node).edges().len() as u16;
    PortId(edges.find(|&edge| is_peer(tree.across(node, edge).node)).expect("a peer is a neighbour"))
}

impl Protocol for Epic {
    type Program = Programs;

    fn name(&self, node: NodeId) -> String {
        match self.role(node) {
            TreeRole::Rank(rank) => format!("rank {rank}"),
            TreeRole::Switch => format!("switch {}", node.0),
        }
    }

    /// A switch in Mode-II has no order between what it sends itself and the acknowledges that it passes on, and none is needed:
    /// without it, most of what arrives there commutes.
    fn answers_overtake(&self) -> bool {
        self.setup.mode == Mode::II
    }

    fn tasks(&self, node: NodeId) -> usize {
        if self.rank(node).is_some() { self.setup.collectives.len() } else { 0 }
    }

    fn task(&self, node: NodeId, number: usize) -> Task {
        let rank = self.rank(node).expect("only ranks run anything");
        let collective = self.setup.collectives[number];
        let (input, expected) = (self.input(collective, rank), self.expected(collective, rank));
        Task { collective, input, expected: Expected::Result(expected) }
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        if self.setup.mode == Mode::I {
            // A Mode-I switch serves its queue pairs in turn, and whose turn it is tells them apart.
            return Vec::new();
        }
        let mut renamings = Vec::new();
        let is_free = |nodes: &[TreeNodeId]| !self.roots().any(|root| nodes.contains(&root));
        for switch in self.tree.switches() {
            let children: Vec<_> = (0..self.tree.node(switch).child_edges().len() as u16)
                .map(|index| self.below(self.tree.across(switch, index).node))
                .filter(|nodes| is_free(nodes))
                .collect();
            for pair in children.windows(2) {
                let mut nodes: Vec<NodeId> = (0..self.tree.nodes().count() as u16).map(NodeId).collect();
                for (a, b) in pair[0].iter().zip(&pair[1]) {
                    nodes.swap(usize::from(a.0), usize::from(b.0));
                }
                renamings.push(nodes);
            }
        }
        renamings
    }

    fn rename_contents(
        &self,
        renaming: &Renaming,
        header: &RoceHeader,
        payload: &Contributions,
    ) -> (RoceHeader, Contributions) {
        let rename = |rank: Rank| {
            let node = renaming.node(NodeId(self.tree.leaf(rank).0));
            self.rank(node).expect("ranks are renamed to ranks")
        };
        (*header, payload.renamed(self.tree.ranks(), rename))
    }

    fn rename_timer(&self, renaming: &Renaming, node: NodeId, timer: StationTimer) -> StationTimer {
        let rename = |edge: u16| renaming.port(node, PortId(edge)).0;
        match timer {
            StationTimer::Switch(SwitchTimer::IncEngine(Timer::Resend { group, edge })) => {
                let timer = Timer::Resend { group, edge: rename(edge) };
                StationTimer::Switch(SwitchTimer::IncEngine(timer))
            }
            StationTimer::Switch(SwitchTimer::QueuePair(group, index, timer)) => {
                let index = QpIndex(rename(index.0));
                StationTimer::Switch(SwitchTimer::QueuePair(group, index, timer))
            }
            StationTimer::Switch(SwitchTimer::IncEngine(Timer::Acknowledge { .. }))
            | StationTimer::Host(_) => timer,
        }
    }

    fn request(&self, header: &RoceHeader, number: i32, payload: &Contributions) -> String {
        match header.operation {
            Operation::SendOnlyImmediate(_) => format!("control {number}"),
            _ => format!("data {number} {payload}"),
        }
    }

    fn switch_timer(&self, timer: SwitchTimer, toward: &dyn Fn(u16) -> String) -> String {
        match timer {
            SwitchTimer::IncEngine(Timer::Resend { edge, .. }) => {
                format!("its retransmission timer toward {}", toward(edge))
            }
            SwitchTimer::IncEngine(Timer::Acknowledge { .. }) => "its acknowledge timer".to_owned(),
            SwitchTimer::QueuePair(_, index, _) => {
                format!("a timer of its queue pair with {}", toward(index.0))
            }
        }
    }
}
