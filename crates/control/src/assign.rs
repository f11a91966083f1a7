//! From a tree, or a set of hosts, to the context of each node.

use crate::{
    Design, EdgeContext, GroupParameters, HostDesign, MeshSetup, Peer, QueuePairContext, RankContext,
    SwitchContext, slots,
};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_fabric::{IncTree, Mode, TreeEnd, TreeNodeId, TreeRole};
use quincunx_wire::Endpoint;

/// The contexts of all nodes of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeContexts {
    /// By tree node.
    pub switches: BTreeMap<TreeNodeId, SwitchContext>,
    /// By rank.
    pub ranks: Vec<RankContext>,
}

/// The contexts of an EPIC group on `tree`. `names` has the node name of each switch of the tree; `endpoint` is asked
/// once for each end of each edge, and must answer with a queue pair that the node does not use.
///
/// # Panics
/// If a switch of the tree has no name, or `parameters` has another number of ranks than the tree.
pub fn tree_contexts(
    tree: &IncTree,
    mode: Mode,
    parameters: &GroupParameters,
    names: &BTreeMap<TreeNodeId, String>,
    mut endpoint: impl FnMut(TreeEnd) -> Endpoint,
) -> TreeContexts {
    assert_eq!(tree.ranks(), parameters.ranks, "the tree has as many leaves as the group has ranks");
    let endpoints: BTreeMap<TreeEnd, Endpoint> = tree
        .edges()
        .iter()
        .flat_map(|edge| [edge.parent, edge.child])
        .map(|end| (end, endpoint(end)))
        .collect();
    let edges_of = |node: TreeNodeId| -> Vec<EdgeContext> {
        let edge = |index| {
            let far = tree.across(node, index);
            let peer = match tree.node(far.node).role() {
                TreeRole::Rank(rank) => Peer::Rank(rank),
                TreeRole::Switch => Peer::Switch(names[&far.node].clone()),
            };
            EdgeContext { local: endpoints[&TreeEnd { node, index }], remote: endpoints[&far], peer }
        };
        (0..tree.node(node).edges().len() as u16).map(edge).collect()
    };
    let switch = |id: TreeNodeId| {
        let node = tree.node(id);
        let toward = |rank| node.toward(Rank(rank)).expect("no rank is at a switch");
        let context = SwitchContext {
            parameters: parameters.clone(),
            mode,
            slots: slots(mode, parameters),
            parent: node.parent_index(),
            edges: edges_of(id),
            toward: (0..tree.ranks()).map(toward).collect(),
        };
        (id, context)
    };
    let rank = |rank| RankContext {
        parameters: parameters.clone(),
        design: Design::Epic(mode),
        rank: Rank(rank),
        mesh: None,
        queue_pairs: edges_of(tree.leaf(Rank(rank)))
            .into_iter()
            .map(|edge| queue_pair(parameters, edge.local, edge.remote, edge.peer))
            .collect(),
    };
    TreeContexts {
        switches: tree.switches().into_iter().map(switch).collect(),
        ranks: (0..tree.ranks()).map(rank).collect(),
    }
}

/// The contexts of a group among hosts, by rank. `endpoint` is asked once for each end of each connection, with the
/// rank where it is, and must answer with a queue pair that the host does not use.
pub fn host_contexts(
    design: HostDesign,
    parameters: &GroupParameters,
    mut endpoint: impl FnMut(Rank) -> Endpoint,
) -> Vec<RankContext> {
    let ranks = parameters.ranks;
    let context = |rank| RankContext {
        parameters: parameters.clone(),
        design: Design::Host(design),
        rank: Rank(rank),
        mesh: None,
        queue_pairs: Vec::new(),
    };
    let mut contexts: Vec<_> = (0..ranks).map(context).collect();
    let mut connect = |a: u16, b: u16| {
        let (at_a, at_b) = (endpoint(Rank(a)), endpoint(Rank(b)));
        let pair = |local, remote, peer| queue_pair(parameters, local, remote, Peer::Rank(Rank(peer)));
        contexts[usize::from(a)].queue_pairs.push(pair(at_a, at_b, b));
        contexts[usize::from(b)].queue_pairs.push(pair(at_b, at_a, a));
    };
    match design {
        // Two ranks are each other's next and previous: one connection, as for any pair.
        HostDesign::Ring if ranks == 2 => connect(0, 1),
        HostDesign::Ring if ranks > 2 => {
            for rank in 0..ranks {
                connect(rank, (rank + 1) % ranks);
            }
            // Every rank but 0 met its previous one first.
            for context in &mut contexts[1..] {
                context.queue_pairs.swap(0, 1);
            }
        }
        HostDesign::Ring => {}
        // In this order every rank meets the others in rank order: those below it first.
        HostDesign::Tree | HostDesign::Direct => {
            for a in 0..ranks {
                for b in a + 1..ranks {
                    connect(a, b);
                }
            }
        }
    }
    contexts
}

/// The contexts of a group on a mesh, by rank; `endpoint` as for [`host_contexts`].
pub fn mesh_contexts(
    design: Design,
    mesh: MeshSetup,
    parameters: &GroupParameters,
    endpoint: impl FnMut(Rank) -> Endpoint,
) -> Vec<RankContext> {
    let contexts = host_contexts(HostDesign::Direct, parameters, endpoint);
    contexts.into_iter().map(|context| RankContext { design, mesh: Some(mesh), ..context }).collect()
}

/// How many queue pairs each rank has in a group among hosts.
pub(crate) fn host_endpoints(design: HostDesign, ranks: u16) -> u32 {
    match design {
        HostDesign::Ring => (u32::from(ranks) - 1).min(2),
        HostDesign::Tree | HostDesign::Direct => u32::from(ranks) - 1,
    }
}

fn queue_pair(
    parameters: &GroupParameters,
    local: Endpoint,
    remote: Endpoint,
    peer: Peer,
) -> QueuePairContext {
    let psn = parameters.initial_psn;
    QueuePairContext { local, remote, peer, send_psn: psn, receive_psn: psn }
}
