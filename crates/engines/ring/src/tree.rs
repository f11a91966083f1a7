//! The tree: ranks as the nodes of a binary heap, each with its parent and up to two children as neighbours.
//!
//! A collective with another root runs over the same edges, turned towards that root. All ranks go through parts and
//! pieces in the same order, and on a tree a piece waits only for itself further out, so nothing waits in a circle.

use crate::plan::{Own, Plan, part};
use quincunx_collective::{Collective, Rank};

/// The ranks next to `rank` in a tree of `ranks`, ascending.
pub fn neighbours(rank: Rank, ranks: u16) -> impl Iterator<Item = Rank> {
    let parent = (rank.0 > 0).then(|| Rank((rank.0 - 1) / 2));
    let first = 2 * u32::from(rank.0) + 1;
    let children = (first..first + 2).filter(move |child| *child < u32::from(ranks));
    parent.into_iter().chain(children.map(|child| Rank(child as u16)))
}

/// Plans a collective; `length` is that of the whole vector (all ranks' parts), `element` an element's. A Broadcast or a Reduce is done when
/// all agree if it `confirms`: a Barrier around its root follows the data.
pub(crate) fn plan(plan: &mut Plan, collective: Collective, length: usize, element: usize, confirms: bool) {
    let own = |offset| Some(Own { offset, position: 0 });
    let (rank, ranks) = (plan.rank, plan.ranks);
    plan.cut(length, 8 * (ranks.ilog2() as usize + 1));
    match collective {
        Collective::AllReduce => {
            let (children, parent) = around(plan, Rank(0));
            if parent.is_none() {
                plan.push(length, own(0), Some(0), children.clone(), children);
            } else {
                plan.push(length, own(0), None, children.clone(), parent);
                plan.push(length, None, Some(0), parent, children);
            }
        }
        Collective::Barrier => barrier(plan, Rank(0)),
        Collective::Reduce { root } => {
            let (children, parent) = around(plan, root);
            plan.push(length, own(0), (rank == root).then_some(0), children, parent);
            if confirms {
                barrier(plan, root);
            }
        }
        Collective::ReduceScatter => {
            for root in (0..ranks).map(Rank) {
                let range = part(length, element, ranks, root.0);
                let (children, parent) = around(plan, root);
                plan.push(range.len(), own(range.start), (rank == root).then_some(0), children, parent);
            }
        }
        Collective::Broadcast { root } => {
            let (children, parent) = around(plan, root);
            plan.push(length, own(0).filter(|_| rank == root), Some(0), parent, children);
            if confirms {
                barrier(plan, root);
            }
        }
        Collective::AllGather => {
            for root in (0..ranks).map(Rank) {
                let range = part(length, element, ranks, root.0);
                let (children, parent) = around(plan, root);
                let own = own(0).filter(|_| rank == root);
                plan.push(range.len(), own, Some(range.start), parent, children);
            }
        }
        Collective::Dispatch | Collective::Combine => unreachable!("refused at the door"),
    }
}

/// Tokens to the root, and back from there when it has all of them.
fn barrier(plan: &mut Plan, root: Rank) {
    let own = Some(Own { offset: 0, position: 0 });
    let (children, parent) = around(plan, root);
    if parent.is_none() {
        plan.push_token(own, children.clone(), children);
    } else {
        plan.push_token(own, children.clone(), parent);
        plan.push_token(None, parent, children);
    }
}

/// Our neighbours when the tree hangs from `root`: those below us and the one above, if any.
fn around(plan: &Plan, root: Rank) -> (impl Iterator<Item = Rank> + Clone + use<>, Option<Rank>) {
    let parent = towards(plan.rank, root);
    let (rank, ranks) = (plan.rank, plan.ranks);
    let below = (0..3).filter_map(move |index| neighbours(rank, ranks).nth(index));
    (below.filter(move |neighbour| Some(*neighbour) != parent), parent)
}

/// The neighbour of `rank` on the way to `root`.
fn towards(rank: Rank, root: Rank) -> Option<Rank> {
    if rank == root {
        return None;
    }
    // Climb from the root: a root below us is reached through the child on its way up.
    let mut below = root.0;
    while below > rank.0 {
        let above = (below - 1) / 2;
        if above == rank.0 {
            return Some(Rank(below));
        }
        below = above;
    }
    Some(Rank((rank.0 - 1) / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn neighbours_are_mutual() {
        for rank in 0..9 {
            for neighbour in neighbours(Rank(rank), 9) {
                assert!(neighbours(neighbour, 9).any(|back| back == Rank(rank)));
            }
        }
    }

    #[test]
    fn every_rank_finds_the_way_to_every_root_along_edges() {
        for root in (0..9).map(Rank) {
            for start in (0..9).map(Rank) {
                let (mut at, mut hops) = (start, Vec::new());
                while let Some(step) = towards(at, root) {
                    assert!(neighbours(at, 9).any(|neighbour| neighbour == step));
                    hops.push(step);
                    assert!(hops.len() < 9, "from {start} to {root}: {hops:?}");
                    at = step;
                }
                assert_eq!(at, root);
            }
        }
    }
}
