//! A group of EPIC or of a host ring as a system to explore: the manager's contexts on real nodes, and ranks that run
//! collectives one after the other.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use quincunx_collective::{Collective, Contributions, DataType, GroupId, Payload, Rank, ReduceOp, Reduction};
use quincunx_control::{GroupParameters, Peer, Retry, tree_contexts};
use quincunx_driver_check::{End, Member, NodeId, Renaming, System};
use quincunx_engine::verbs::{Outcome, QpIndex, UNLIMITED_RETRIES};
use quincunx_engine::{Engine, Frame, PortId, Sink};
use quincunx_epic::{Mutation, Timer};
use quincunx_fabric::{IncTree, Mode, TreeEnd, TreeNodeId, TreeRole, TreeShape};
use quincunx_nodes::{
    ContextError, HostCommand, HostEvent, NodeDrop, Station, StationCommand, StationEvent, StationKind,
    StationRejected, StationTimer, SwitchCommand, SwitchTimer, host_group, switch_group,
};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Endpoint, Psn, QpNumber, RoceHeader};

/// Bytes of a packet's payload: one counter.
const MTU: usize = 4;

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
const FIRST_QP: u32 = 0x10;

/// The first packet's number: numbers wrap within the run.
pub(crate) const FIRST_PSN: Psn = Psn::new(0xff_fffe);

const GROUP: GroupId = GroupId(1);

/// The operation; counts add whatever it is.
const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

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

/// Who uses a node. A switch has nobody.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// Collectives that it has started.
    pub started: u8,
    /// Collectives that have ended.
    pub done: u8,
}

/// A group to explore. Nodes are numbered as in the tree; port `i` of a node leads over its edge `i`.
#[derive(Clone, Debug)]
pub struct Group {
    setup: Setup,
    tree: IncTree,
    stations: Vec<Station<Contributions>>,
}

impl Group {
    /// The network of a set-up, with the group installed.
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
            let Ok(mut station) = Station::new(kind);
            station.handle_command(quincunx_units::Instant::ZERO, command, &mut Nobody)?;
            stations.push(station);
        }
        Ok(Self { setup, tree, stations })
    }

    /// A node's name.
    pub fn name(&self, node: NodeId) -> String {
        match self.role(node) {
            TreeRole::Rank(rank) => format!("rank {rank}"),
            TreeRole::Switch => format!("switch {}", node.0),
        }
    }

    /// The other end of a link.
    pub(crate) fn across(&self, end: End) -> End {
        let far = self.tree.across(TreeNodeId(end.node.0), end.port.0);
        End { node: NodeId(far.node.0), port: PortId(far.index) }
    }

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

    /// What a rank brings into a collective, and room for what it gets.
    fn buffers(&self, collective: Collective, rank: Rank) -> (Contributions, Contributions) {
        let (length, ranks) = (self.length(), usize::from(self.tree.ranks()));
        let (input, output) = match collective {
            Collective::AllReduce => (length, length),
            Collective::Reduce { root } => (length, if root == rank { length } else { 0 }),
            Collective::Broadcast { root } => (if root == rank { length } else { 0 }, length),
            Collective::Barrier => (0, 0),
            Collective::ReduceScatter => (length * ranks, length),
            Collective::AllGather => (length, length * ranks),
            // Every rank refuses it.
            Collective::Dispatch | Collective::Combine => (length, length),
        };
        (Contributions::of_rank(rank, input), Contributions::zeroed(output))
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

/// The address of a node, and its queue pair for an edge.
fn endpoint(end: TreeEnd) -> Endpoint {
    let [high, low] = end.node.0.to_be_bytes();
    Endpoint { ip: Ipv4Addr::new(10, 0, high, low), qp: QpNumber::new(FIRST_QP + u32::from(end.index)) }
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

/// Takes the answers to the installation of a group: there are none.
struct Nobody;

impl Sink<Station<Contributions>> for Nobody {
    fn transmit(&mut self, _: PortId, _: Frame<'_, RoceHeader, Contributions>) {
        unreachable!("a group that is installed sends nothing yet");
    }
    fn set_timer(&mut self, _: StationTimer, _: Duration) {
        unreachable!("a group that is installed waits for nothing yet");
    }
    fn cancel_timer(&mut self, _: StationTimer) {}
    fn emit(&mut self, _: StationEvent<Contributions>) {}
    fn drop_frame(&mut self, _: PortId, _: NodeDrop) {}
}

impl System for Group {
    type Engine = Station<Contributions>;
    type Owner = Owner;

    fn members(&self) -> Vec<Member<Self::Engine, Owner>> {
        let owner = Owner { started: 0, done: 0 };
        self.stations.iter().map(|engine| Member { engine: engine.clone(), owner }).collect()
    }

    fn links(&self) -> Vec<[End; 2]> {
        let end = |end: TreeEnd| End { node: NodeId(end.node.0), port: PortId(end.index) };
        self.tree.edges().iter().map(|edge| [end(edge.parent), end(edge.child)]).collect()
    }

    fn wants_command(&self, node: NodeId, owner: &Owner) -> bool {
        owner.started == owner.done
            && usize::from(owner.started) < self.setup.collectives.len()
            && self.rank(node).is_some()
    }

    fn command(&self, node: NodeId, owner: &mut Owner) -> StationCommand<Contributions> {
        let rank = self.rank(node).expect("only ranks want anything");
        let collective = self.setup.collectives[usize::from(owner.started)];
        owner.started += 1;
        let (input, output) = self.buffers(collective, rank);
        StationCommand::Host(HostCommand::Start { group: GROUP, collective, reduction: SUM, input, output })
    }

    fn observe(
        &self,
        node: NodeId,
        owner: &mut Owner,
        event: StationEvent<Contributions>,
    ) -> Result<(), String> {
        let name = self.name(node);
        match event {
            StationEvent::Host(HostEvent::Finished { outcome: Outcome::Done, input, output, .. }) => {
                let rank = self.rank(node).expect("a host is a rank");
                let collective = self.setup.collectives[usize::from(owner.done)];
                owner.done += 1;
                if input != self.buffers(collective, rank).0 {
                    return Err(format!("{name} finds its input changed: {input}"));
                }
                let expected = self.expected(collective, rank);
                if output != expected {
                    return Err(format!(
                        "{name} expects {expected} from its {collective}, and gets {output}"
                    ));
                }
                Ok(())
            }
            StationEvent::Host(HostEvent::Finished { outcome, .. }) => {
                Err(format!("{name} fails: {outcome:?}"))
            }
            StationEvent::Switch(event) => Err(format!("{name} gives up: {event:?}")),
        }
    }

    fn is_done(&self, node: NodeId, owner: &Owner) -> bool {
        self.rank(node).is_none() || usize::from(owner.done) == self.setup.collectives.len()
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
                let mut nodes: Vec<NodeId> = (0..self.stations.len() as u16).map(NodeId).collect();
                for (a, b) in pair[0].iter().zip(&pair[1]) {
                    nodes.swap(usize::from(a.0), usize::from(b.0));
                }
                renamings.push(nodes);
            }
        }
        renamings
    }

    fn rename_frame(
        &self,
        renaming: &Renaming,
        from: End,
        header: &RoceHeader,
        payload: &Contributions,
    ) -> (RoceHeader, Contributions) {
        let end = renaming.end(from);
        let near = TreeEnd { node: TreeNodeId(end.node.0), index: end.port.0 };
        let (local, remote) = (endpoint(near), endpoint(self.tree.across(near.node, near.index)));
        let mut header = *header;
        (header.source, header.destination) = (local.ip, remote.ip);
        header.destination_qp = remote.qp;
        let rename = |rank: Rank| {
            let node = renaming.node(NodeId(self.tree.leaf(rank).0));
            self.rank(node).expect("ranks are renamed to ranks")
        };
        (header, payload.renamed(self.tree.ranks(), rename))
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
}
