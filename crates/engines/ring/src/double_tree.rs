//! Two binary trees, each for half of the vector, as NCCL has them (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth
//! broadcast, reduction and scan", Parallel Computing 35, 2009).
//!
//! In each tree about half of the ranks are leaves, and these are the inner ranks of the other tree. So a rank that passes half of the sum on
//! to two others has one to send its own half to: no link carries more than two vectors each way, and both ways are in use.
//!
//! All ranks go through the same turns: some pieces of each half up, and those of some turns before down. On a tree a piece waits only for itself
//! further out or, on its way down, for one of an earlier turn, so nothing waits in a circle.

use crate::plan::{Own, Plan, part};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Rank};

/// Stages take so many pieces of one half before it is the other one's turn.
const PIECES_IN_TURN: usize = 2;

/// Turns by which sums go up before they come down again, for each level of a tree: as many as are on their way meanwhile. With fewer, what goes up
/// to a rank that is below in the other tree waits for what comes down there; with more, the last of what comes down has its links alone.
const LEAD: usize = 2;

/// Pieces of a half for each level, if they are not too short: as many as it takes for the way up and down to be little beside them.
const PIECES: usize = 128;

/// One of the two trees.
#[derive(Clone, Copy)]
struct Tree {
    ranks: u16,
    is_second: bool,
}

impl Tree {
    fn both(ranks: u16) -> [Self; 2] {
        [false, true].map(|is_second| Self { ranks, is_second })
    }

    /// The rank at a place of the tree. The second has the ranks the other way round, or, for odd numbers, one further, so that leaves are at
    /// even places of the first and at odd ones of the second.
    fn rank(self, place: u32) -> Rank {
        let ranks = u32::from(self.ranks);
        Rank(match (self.is_second, ranks % 2) {
            (false, _) => place,
            (true, 0) => ranks - 1 - self.swap(place),
            (true, _) => (place + 1) % ranks,
        } as u16)
    }

    fn place(self, Rank(rank): Rank) -> u32 {
        let (rank, ranks) = (u32::from(rank), u32::from(self.ranks));
        match (self.is_second, ranks % 2) {
            (false, _) => rank,
            (true, 0) => self.swap(ranks - 1 - rank),
            (true, _) => (rank + ranks - 1) % ranks,
        }
    }

    /// Places change within their eight, where all have so many: then no two ranks are next to each other in both trees, and ranks of one
    /// switch stay together. 3 times 3 is 1 of 8: swapped twice, a place is itself.
    const fn swap(self, place: u32) -> u32 {
        if self.ranks.is_multiple_of(8) { place / 8 * 8 + 3 * place % 8 } else { place }
    }

    /// Who a rank sends its part of the sum to; none for the root. A place has as many levels of places below it as it has zeros at its end; those
    /// above a place that there is not take its place.
    fn parent(self, rank: Rank) -> Option<Rank> {
        let place = self.place(rank);
        if place == 0 {
            return None;
        }
        let lowest = place & place.wrapping_neg();
        let above = (place ^ lowest) | lowest << 1;
        Some(self.rank(if above < u32::from(self.ranks) { above } else { place ^ lowest }))
    }

    /// Whose parts a rank adds to its own, ascending.
    fn children(self, rank: Rank) -> Vec<Rank> {
        let (place, ranks) = (self.place(rank), u32::from(self.ranks));
        let mut children = Vec::new();
        let half = if place == 0 { ranks.next_power_of_two() } else { place & place.wrapping_neg() } / 2;
        if place > 0 && half > 0 {
            children.push(self.rank(place - half));
        }
        let mut right = half;
        while right > 0 {
            if place + right < ranks {
                children.push(self.rank(place + right));
                break;
            }
            right /= 2;
        }
        children.sort_unstable();
        children
    }
}

/// The ranks next to `rank` in either tree, ascending, each once.
pub(crate) fn neighbours(rank: Rank, ranks: u16) -> Vec<Rank> {
    let of_tree = |tree: Tree| tree.children(rank).into_iter().chain(tree.parent(rank));
    let mut found: Vec<Rank> = Tree::both(ranks).into_iter().flat_map(of_tree).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Plans an AllReduce of `length` bytes, whose elements have `element`, or a Barrier.
pub(crate) fn plan(plan: &mut Plan, collective: Collective, length: usize, element: usize) {
    let (rank, ranks) = (plan.rank, plan.ranks);
    let trees = Tree::both(ranks).map(|tree| (tree.children(rank), tree.parent(rank)));
    if collective == Collective::Barrier {
        let [(children, parent), _] = trees;
        let own = Some(Own { offset: 0, position: 0 });
        match parent {
            None => plan.push_token(own, children.clone(), children),
            Some(parent) => {
                plan.push_token(own, children.clone(), Some(parent));
                plan.push_token(None, Some(parent), children);
            }
        }
        return;
    }
    let levels = ranks.ilog2() as usize + 1;
    // A power of two, for pieces of whole packets where a vector's length is one.
    plan.cut(length / 2, (PIECES * levels).next_power_of_two());
    let turn = PIECES_IN_TURN * plan.piece;
    let halves = [0, 1].map(|half| part(length, element, 2, half));
    let turns = halves[0].len().div_ceil(turn);
    let range = |half: usize, number: usize| {
        let whole = &halves[half];
        let start = (whole.start + number * turn).min(whole.end);
        start..(start + turn).min(whole.end)
    };
    let lead = LEAD * levels;
    let mut sums = VecDeque::new();
    for position in 0..turns + lead {
        for (number, is_up) in [(Some(position), true), (position.checked_sub(lead), false)] {
            let Some(number) = number.filter(|number| *number < turns) else { continue };
            for (half, (children, parent)) in trees.iter().enumerate() {
                let range = range(half, number);
                let (own, children) =
                    (Some(Own { offset: range.start, position: 0 }), children.iter().copied());
                match (parent, is_up) {
                    _ if range.is_empty() => {}
                    (Some(parent), true) => plan.push(range.len(), own, None, children, Some(*parent)),
                    (Some(parent), false) => {
                        plan.push(range.len(), None, Some(range.start), Some(*parent), children)
                    }
                    // The root passes sums on where others do.
                    (None, true) => {
                        sums.push_back(plan.push_unsent(
                            range.len(),
                            own,
                            range.start,
                            children.clone(),
                            children,
                        ));
                    }
                    (None, false) => plan.send(sums.pop_front().expect("a sum for each turn")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_trees_have_all_ranks_and_each_is_an_inner_one_in_one_of_them() {
        for ranks in 2..=70 {
            for tree in Tree::both(ranks) {
                for rank in (0..ranks).map(Rank) {
                    assert_eq!(tree.rank(tree.place(rank)), rank);
                    let children = tree.children(rank);
                    assert!(children.len() <= 2);
                    assert!(children.iter().all(|child| tree.parent(*child) == Some(rank)));
                    if let Some(parent) = tree.parent(rank) {
                        assert!(tree.children(parent).contains(&rank), "{rank} below {parent} of {ranks}");
                    }
                    let way = core::iter::successors(Some(rank), |at| tree.parent(*at));
                    assert!(way.count() <= ranks.ilog2() as usize + 2, "from {rank} of {ranks}");
                }
            }
            let edges = Tree::both(ranks).map(|tree| {
                let edge = |rank: Rank| tree.parent(rank).map(|parent| (rank.min(parent), rank.max(parent)));
                (0..ranks).map(Rank).filter_map(edge).collect::<Vec<_>>()
            });
            let are_apart = edges[0].iter().all(|edge| !edges[1].contains(edge));
            assert!(are_apart || ranks % 8 > 0, "{ranks} ranks: nobody is next to another in both trees");
            for rank in (0..ranks).map(Rank) {
                let of_tree = |tree: Tree| (tree.children(rank).len(), tree.parent(rank).iter().count());
                let [(a, up), (b, other)] = Tree::both(ranks).map(of_tree);
                assert!(a + b + up + other <= 4, "{rank} of {ranks} sends two vectors at most");
            }
        }
    }
}
