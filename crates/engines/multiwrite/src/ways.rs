//! Which connections lead from each rank to each other one, and who is connected with whom (MultiWrite 3.1, 3.2).
//!
//! - On a full mesh the usual way is the direct one; within a domain others lead over the ranks of the next domain, the partner
//!   first; to another domain there is one over the rank of the same index there.
//! - For tokens between servers the usual way leads to the rank of the same index there, if ranks relay, and the second one is
//!   direct ("same-index", 3.2). Each rank begins with another one in every server, so that not all send to the same rank first.
//! - Under switches, what is for several hosts under another one goes there once, to the host in the sender's place, level by level from
//!   the root; that host passes it on. On a star there is no other switch, and nothing that relays could spare: then all goes to the
//!   next host, which passes it on to the others, as section 2.3.1 has it of multicast.

use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_design::{Connection, Member, Placement};
use quincunx_fabric::{IncTree, TreeNodeId};

/// Connections, and ways over them.
pub(crate) struct Ways {
    pub(crate) connections: Vec<Connection>,
    /// By rank and destination: the connections of that rank that lead there, the usual one first.
    pub(crate) by_rank: Vec<Vec<Vec<u16>>>,
}

/// The ways on a placement.
pub(crate) fn ways(placement: &Placement, relays: bool, tokens: bool) -> Ways {
    let ranks = placement.ranks;
    let peers: Vec<Vec<u16>> = (0..ranks).map(|rank| peers(placement, rank, tokens)).collect();
    let index = |rank: u16, peer: u16| {
        let found = peers[usize::from(rank)].iter().position(|other| *other == peer);
        found.expect("every rank is a peer of every other one") as u16
    };
    let end = |rank: u16, peer| (Member::Rank(Rank(rank)), index(rank, peer));
    let connections = (0..ranks).flat_map(|a| (a + 1..ranks).map(move |b| (a, b)));
    let connections = connections.map(|(a, b)| Connection::new(end(a, b), end(b, a))).collect();
    let to = |rank: u16, to: u16| -> Vec<u16> {
        if rank == to {
            return Vec::new();
        }
        let hops = match &placement.tree {
            Some(tree) => under_switches(tree, rank, to),
            None if tokens => between_servers(placement, relays, rank, to),
            None => hops_on_mesh((placement.domains, placement.members()), rank, to),
        };
        hops.into_iter().map(|hop| index(rank, hop)).collect()
    };
    let by_rank = (0..ranks).map(|rank| (0..ranks).map(|other| to(rank, other)).collect()).collect();
    Ways { connections, by_rank }
}

/// The others, in the order of a rank's connections.
fn peers(placement: &Placement, rank: u16, tokens: bool) -> Vec<u16> {
    let (domains, members) = (placement.domains, placement.members());
    if !tokens {
        return (0..placement.ranks).filter(|peer| *peer != rank).collect();
    }
    let at = |step| {
        let index = (rank + step) % members;
        (0..domains).map(move |server| server * members + index)
    };
    (0..members).flat_map(at).filter(|peer| *peer != rank).collect()
}

/// The ranks to which `rank` can send what is for `to`, on a full mesh of `domains` with `members` each: `to` itself, and within a domain
/// the ranks of the next one, the partner first (3.1); for another domain the rank of the same index there, so that what is for several
/// of its ranks goes there once (3.2).
pub(crate) fn hops_on_mesh((domains, members): (u16, u16), rank: u16, to: u16) -> Vec<u16> {
    let is_near = rank / members == to / members;
    let next = (rank / members + 1) % domains * members;
    let relays = (0..members).map(|step| next + (rank % members + step) % members);
    let near = relays.filter(|_| is_near && domains > 1);
    let partner = to / members * members + rank % members;
    let far = Some(partner).filter(|partner| !is_near && *partner != to);
    core::iter::once(to).chain(near).chain(far).collect()
}

fn between_servers(placement: &Placement, relays: bool, rank: u16, to: u16) -> Vec<u16> {
    let domain = placement.domain(Rank(to));
    let relay = domain.start + rank % placement.members();
    // Itself for those that are near; a destination that is its own relay has but one way.
    let relay = Some(relay).filter(|relay| relays && *relay != rank);
    relay.into_iter().filter(|_| !domain.contains(&rank)).chain([to]).collect()
}

fn under_switches(tree: &IncTree, rank: u16, to: u16) -> Vec<u16> {
    let hop = toward(tree, rank, to);
    if tree.switches().len() == 1 { Vec::from([hop, (rank + 1) % tree.ranks()]) } else { Vec::from([hop]) }
}

/// The rank in the place of `rank` under the switch, of those that have no `rank` under them, that is nearest to the root and has `to`
/// under it; `to` itself where subtrees are not alike.
fn toward(tree: &IncTree, rank: u16, to: u16) -> u16 {
    let (own, other) = (path(tree, rank), path(tree, to));
    let Some(parted) = own.iter().zip(&other).position(|(a, b)| a != b) else { return to };
    let (own, other) = (below(tree, own[parted]), below(tree, other[parted]));
    if own.len() != other.len() {
        return to;
    }
    let place = own.iter().position(|found| *found == rank).expect("a rank is below its ancestors");
    other[place]
}

/// From the root down to a rank's leaf.
fn path(tree: &IncTree, rank: u16) -> Vec<TreeNodeId> {
    let mut node = tree.leaf(Rank(rank));
    let mut path = Vec::from([node]);
    while let Some(edge) = tree.node(node).parent_edge() {
        node = tree.edge(edge).parent.node;
        path.push(node);
    }
    path.reverse();
    path
}

/// The ranks at and below a node, in the order of their places.
fn below(tree: &IncTree, node: TreeNodeId) -> Vec<u16> {
    let children = tree.node(node).child_edges();
    match tree.node(node).role() {
        quincunx_fabric::TreeRole::Rank(rank) => Vec::from([rank.0]),
        quincunx_fabric::TreeRole::Switch => {
            children.iter().flat_map(|&edge| below(tree, tree.edge(edge).child.node)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_fabric::TreeShape;
    use quincunx_units::ByteCount;

    fn tree(name: &str) -> IncTree {
        IncTree::from_shape(&name.parse::<TreeShape>().unwrap())
    }

    fn mesh(domains: u16, members: u16) -> Placement {
        Placement { domains, ..Placement::new(domains * members, None, ByteCount::new(1)) }
    }

    #[test]
    fn what_is_for_another_switch_goes_to_the_host_in_the_same_place_there() {
        let tree = tree("tree-2x2x3");
        let toward = |rank, to| toward(&tree, rank, to);
        // From host 1 to the other half, to the other switch of its half, and under its switch.
        assert_eq!([6, 8, 9, 11].map(|to| toward(1, to)), [7, 7, 7, 7]);
        assert_eq!([3, 5].map(|to| toward(1, to)), [4, 4]);
        assert_eq!([0, 2].map(|to| toward(1, to)), [0, 2]);
    }

    #[test]
    fn on_a_star_all_goes_to_the_next_host() {
        let last = |rank, to| under_switches(&tree("star-4"), rank, to).last().copied();
        assert_eq!([1, 2, 3].map(|to| last(0, to)), [Some(1); 3]);
        assert_eq!(last(3, 1), Some(0));
    }

    #[test]
    fn within_a_domain_of_a_mesh_other_ways_lead_over_the_next_domain_the_partner_first() {
        assert_eq!(hops_on_mesh((2, 2), 0, 1), [1, 2, 3]);
        assert_eq!(hops_on_mesh((2, 2), 3, 2), [2, 1, 0]);
        assert_eq!(hops_on_mesh((2, 2), 0, 2), [2]);
        assert_eq!(hops_on_mesh((2, 4), 1, 0), [0, 5, 6, 7, 4]);
        assert_eq!(hops_on_mesh((2, 4), 7, 4), [4, 3, 0, 1, 2]);
        assert_eq!(hops_on_mesh((3, 2), 5, 4), [4, 1, 0]);
        assert_eq!(hops_on_mesh((1, 4), 1, 0), [0]);
    }

    #[test]
    fn to_another_domain_of_a_mesh_there_is_a_way_over_the_rank_of_the_same_index_there() {
        assert_eq!(hops_on_mesh((2, 2), 0, 3), [3, 2]);
        assert_eq!(
            [4, 5, 6, 7].map(|to| hops_on_mesh((2, 4), 1, to)),
            [Vec::from([4, 5]), Vec::from([5]), Vec::from([6, 5]), Vec::from([7, 5])]
        );
    }

    #[test]
    fn tokens_for_another_server_go_by_way_of_the_rank_of_the_same_index() {
        assert_eq!(between_servers(&mesh(2, 4), true, 1, 6), [5, 6]);
        assert_eq!(between_servers(&mesh(2, 4), true, 1, 3), [3]);
        assert_eq!(between_servers(&mesh(2, 4), false, 1, 6), [6]);
        assert_eq!(peers(&mesh(2, 2), 0, true), [2, 1, 3]);
    }
}
