//! Who is connected with whom, and under which addresses and numbers: what a renaming of nodes makes of them.

use quincunx_collective::GroupId;
use quincunx_driver_check::{End, NodeId, Renaming};
use quincunx_wire::{Endpoint, Gid, QpNumber};

/// The group where there is one; others are numbered from it.
pub(crate) const GROUP: GroupId = GroupId(1);

/// Queue pairs are numbered from here; what is below is reserved (InfiniBand Architecture 3.5.1).
const FIRST_QP: u32 = 0x10;

/// The address of a node.
pub(crate) fn address(node: NodeId) -> Gid {
    quincunx_cluster::address(node.index())
}

/// The node that has an address.
pub(crate) fn node_at(address: Gid) -> NodeId {
    let [.., high, low] = address.octets();
    NodeId(u16::from_be_bytes([high, low]) - 1)
}

/// Where a node's queue pair for a port is, in networks where each port has one.
pub(crate) fn endpoint(end: End) -> Endpoint {
    Endpoint { ip: address(end.node), qp: QpNumber::new(FIRST_QP + u32::from(end.port.0)) }
}

/// A node's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Local {
    number: QpNumber,
    group: GroupId,
    peer: NodeId,
    /// How many queue pairs of the node with the same peer come before it.
    nth: usize,
}

/// A node's queue pairs in a group, from the local and the remote end of each.
fn locals(group: GroupId, ends: Vec<(Endpoint, Endpoint)>) -> impl Iterator<Item = Local> {
    let peers: Vec<NodeId> = ends.iter().map(|(_, remote)| node_at(remote.ip)).collect();
    ends.into_iter().enumerate().map(move |(index, (local, _))| {
        let peer = peers[index];
        let nth = peers[..index].iter().filter(|other| **other == peer).count();
        Local { number: local.qp, group, peer, nth }
    })
}

/// The queue pairs of all nodes, by index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Connections(Vec<Vec<Local>>);

impl Connections {
    /// The local and the remote end of each queue pair of each node.
    pub(crate) fn new(nodes: impl IntoIterator<Item = Vec<(Endpoint, Endpoint)>>) -> Self {
        let locals = |ends: Vec<(Endpoint, Endpoint)>| locals(GROUP, ends).collect();
        Self(nodes.into_iter().map(locals).collect())
    }

    /// With those of another group.
    pub(crate) fn and(
        mut self,
        group: GroupId,
        nodes: impl IntoIterator<Item = Vec<(Endpoint, Endpoint)>>,
    ) -> Self {
        for (node, ends) in self.0.iter_mut().zip(nodes) {
            node.extend(locals(group, ends));
        }
        self
    }

    /// The group of a queue pair.
    pub(crate) fn group(&self, ip: Gid, qp: QpNumber) -> GroupId {
        let local = self.0[node_at(ip).index()].iter().find(|local| local.number == qp);
        local.expect("frames are for queue pairs that there are").group
    }

    /// Whether a node has queue pairs of a group.
    pub(crate) fn has(&self, node: NodeId, group: GroupId) -> bool {
        self.0[node.index()].iter().any(|local| local.group == group)
    }

    /// The queue pairs of a node in a group, by index.
    fn of(&self, node: NodeId, group: GroupId) -> impl Iterator<Item = Local> {
        self.0[node.index()].iter().copied().filter(move |local| local.group == group)
    }

    fn at(&self, node: NodeId, group: GroupId, index: u16) -> Local {
        self.of(node, group).nth(index.into()).expect("a node names queue pairs that it has")
    }

    /// Who is at the other end of a node's queue pair.
    pub(crate) fn peer(&self, node: NodeId, group: GroupId, index: u16) -> NodeId {
        self.at(node, group, index).peer
    }

    /// The queue pair that a node's is renamed to, by index.
    fn image(&self, renaming: &Renaming, node: NodeId, Local { group, peer, nth, .. }: Local) -> usize {
        let peer = renaming.node(peer);
        let mut images = self.of(renaming.node(node), group);
        images
            .position(|local| local.peer == peer && local.nth == nth)
            .expect("a renaming maps connections to connections")
    }

    /// The index of a node's queue pair where nodes are renamed.
    pub(crate) fn renamed_index(&self, renaming: &Renaming, node: NodeId, group: GroupId, index: u16) -> u16 {
        self.image(renaming, node, self.at(node, group, index)) as u16
    }

    /// A queue pair where nodes are renamed.
    pub(crate) fn renamed(&self, renaming: &Renaming, ip: Gid, qp: QpNumber) -> Endpoint {
        let node = node_at(ip);
        let local = self.0[node.index()].iter().find(|local| local.number == qp);
        let local = *local.expect("frames are for queue pairs that there are");
        let image = renaming.node(node);
        let index = self.image(renaming, node, local) as u16;
        Endpoint { ip: address(image), qp: self.at(image, local.group, index).number }
    }
}
