//! Two binary trees of ranks, laid switch by switch: who is above and below whom.
//!
//! A rank has two ranks below it at most in both trees together, so that it sends and receives no more than four halves of a vector. The same
//! holds, of what crosses its edge, for all ranks below a switch together: a switch with one link up is no narrower a place than a rank. Ranks at
//! one switch form a part of each tree. Its root is the first of them in one and the last in the other, and other switches' parts hang near it.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_fabric::{IncTree, TreeNodeId, TreeRole};
use serde::{Deserialize, Serialize};

/// What may hang below a rank, or below all ranks of a switch, in both trees.
const MOST_BELOW: usize = 2;

/// Orders of a switch's parts that are tried.
const MOST_TURNS: usize = 64;

/// A rank in one of the trees.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TreePlace {
    /// Who it sends its part of the sum to; none for the root.
    parent: Option<u16>,
    /// Whose parts it adds to its own, ascending.
    children: Vec<u16>,
}

/// A rank in both trees.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TwoTrees {
    /// Steps from the root of a tree to the rank that is furthest from it, in the deeper one.
    depth: u16,
    places: [TreePlace; 2],
}

impl TreePlace {
    /// Who it sends its part of the sum to; none for the root.
    pub(crate) fn parent(&self) -> Option<Rank> {
        self.parent.map(Rank)
    }

    /// Whose parts it adds to its own, ascending.
    pub(crate) fn children(&self) -> impl Iterator<Item = Rank> + Clone {
        self.children.iter().copied().map(Rank)
    }
}

impl TwoTrees {
    /// By rank, on the tree of switches that they hang on, or at one switch if there is none.
    pub(crate) fn over(ranks: u16, tree: Option<&IncTree>) -> Vec<Self> {
        let all = match tree.filter(|tree| tree.ranks() == ranks) {
            Some(tree) => Part::below(tree, tree.root()),
            None => Part::Switch((0..ranks).map(Rank).map(Part::Rank).collect()),
        };
        let mut below = vec![[Vec::new(), Vec::new()]; usize::from(ranks)];
        all.lay([Vec::new(), Vec::new()], &mut below);
        let mut parents = vec![[None; 2]; usize::from(ranks)];
        for (rank, trees) in (0..ranks).zip(&below) {
            for (tree, children) in trees.iter().enumerate() {
                children.iter().for_each(|child| parents[child.index()][tree] = Some(rank));
            }
        }
        let from_root = |tree: usize, rank: u16| {
            core::iter::successors(Some(rank), |at| parents[usize::from(*at)][tree]).count() - 1
        };
        let depth =
            (0..ranks).flat_map(|rank| [0, 1].map(|tree| from_root(tree, rank))).max().unwrap_or(0) as u16;
        let places = below.into_iter().zip(&parents).map(|(trees, parents)| {
            let mut trees = trees.into_iter().zip(parents).map(|(children, parent)| {
                let mut children: Vec<u16> = children.into_iter().map(|Rank(child)| child).collect();
                children.sort_unstable();
                TreePlace { parent: *parent, children }
            });
            let mut next = || trees.next().expect("there are two trees");
            [next(), next()]
        });
        places.map(|places| Self { depth, places }).collect()
    }

    /// Ranks on the longest way to a root.
    pub(crate) fn levels(&self) -> usize {
        usize::from(self.depth) + 1
    }

    /// The rank in the tree of each half of a vector.
    pub(crate) const fn places(&self) -> &[TreePlace; 2] {
        &self.places
    }

    /// The ranks next to this one in either tree, ascending, each once.
    pub(crate) fn neighbours(&self) -> Vec<Rank> {
        let mut found: Vec<Rank> =
            self.places.iter().flat_map(|place| place.children().chain(place.parent())).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Ranks that are next to each other on the fabric: a rank, or what hangs on a switch.
#[derive(Debug)]
enum Part {
    Rank(Rank),
    Switch(Vec<Part>),
}

impl Part {
    /// What hangs on a node. A switch with one child is no place of its own.
    fn below(tree: &IncTree, mut node: TreeNodeId) -> Self {
        loop {
            if let TreeRole::Rank(rank) = tree.node(node).role() {
                return Self::Rank(rank);
            }
            let children = || tree.node(node).child_edges().iter().map(|edge| tree.edge(*edge).child.node);
            if children().len() > 1 {
                return Self::Switch(children().map(|child| Self::below(tree, child)).collect());
            }
            node = children().next().expect("a switch has children");
        }
    }

    /// The one of its ranks that is nearest to the root of a tree.
    fn root(&self, tree: usize) -> Rank {
        match self {
            Self::Rank(rank) => *rank,
            Self::Switch(parts) => {
                let part = if tree == 0 { parts.first() } else { parts.last() };
                part.expect("a switch has children").root(tree)
            }
        }
    }

    /// Lays its part of both trees, with `outer` ranks of other parts below it in each.
    fn lay(&self, outer: [Vec<Rank>; 2], below: &mut [[Vec<Rank>; 2]]) {
        let parts = match self {
            Self::Rank(rank) => {
                below[rank.index()] = outer;
                return;
            }
            Self::Switch(parts) => parts,
        };
        // Both trees together need all that parts may have below them, or two less where nothing is outside: what one tree takes from the first
        // part on, the other leaves, from the last one on.
        let rooms = vec![MOST_BELOW; parts.len()];
        let mut order: Vec<usize> = (0..parts.len()).collect();
        let first = Level::lay(parts, 0, &order, &rooms, &outer[0]);
        order.reverse();
        // Those that nothing is below in the second tree may have any order there, and so may one that has room which nobody needs. Best is an order
        // with hardly any two parts next to each other in both trees: what one tree sends there would wait for the other.
        let inner = first.rooms.iter().filter(|room| **room > 0).count();
        let needed = (parts.len() - 1 + outer[1].len()).div_ceil(MOST_BELOW);
        // Without anything outside a third of the leaves is nearly always far enough.
        let turns = [inner, needed.min(inner)].into_iter().flat_map(|inner| {
            let leaves = parts.len() - inner;
            let steps = core::iter::once(leaves.div_ceil(3)).chain(0..leaves.min(MOST_TURNS));
            steps.map(move |steps| (inner, steps))
        });
        let mut best: Option<(usize, Level)> = None;
        for (inner, steps) in turns {
            let mut order = order.clone();
            order[inner..].rotate_left(steps.min(parts.len() - inner));
            let second = Level::lay(parts, 1, &order, &first.rooms, &outer[1]);
            let twice = first.edges.intersection(&second.edges).count();
            if best.as_ref().is_none_or(|(least, _)| twice < *least) {
                best = Some((twice, second));
            }
            if twice == 0 {
                break;
            }
        }
        let (_, second) = best.expect("an order was tried");
        for ((part, first), second) in parts.iter().zip(first.below).zip(second.below) {
            part.lay([first, second], below);
        }
    }
}

/// The parts of a switch in one of the trees.
struct Level {
    /// By part: what hangs below it.
    below: Vec<Vec<Rank>>,
    /// By part: what more may.
    rooms: Vec<usize>,
    /// Parts that are next to each other.
    edges: BTreeSet<[usize; 2]>,
}

impl Level {
    /// Has parts hang below each other in an order, from the root on, and `outer` ranks below them.
    fn lay(parts: &[Part], tree: usize, order: &[usize], rooms: &[usize], outer: &[Rank]) -> Self {
        let (mut below, mut rooms) = (vec![Vec::new(); parts.len()], rooms.to_vec());
        let mut edges = BTreeSet::new();
        let (mut outer, mut parts_left) = (outer.iter(), order.iter().skip(1).peekable());
        for &part in order {
            while rooms[part] > 0 {
                // What is outside is deep, so it hangs high, but it does not take the place of all that is here.
                let is_last = rooms[part] == 1 && parts_left.peek().is_some();
                let outside = if is_last { None } else { outer.next() };
                let child = match outside {
                    Some(rank) => *rank,
                    None => {
                        let Some(&child) = parts_left.next() else { break };
                        edges.insert([part.min(child), part.max(child)]);
                        parts[child].root(tree)
                    }
                };
                below[part].push(child);
                rooms[part] -= 1;
            }
        }
        Self { below, rooms, edges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quincunx_fabric::TreeShape;

    fn shapes() -> Vec<(u16, Option<IncTree>)> {
        let flat = (2..=70).map(|ranks| (ranks, None));
        let shaped = ["tree-2x4", "tree-3-2", "tree-4-2", "tree-8x8", "tree-2x3", "tree-3-3", "tree-2x2x2x3"]
            .map(|name| {
                let tree = IncTree::from_shape(&name.parse::<TreeShape>().unwrap());
                (tree.ranks(), Some(tree))
            });
        flat.chain(shaped).collect()
    }

    fn children(places: &[TwoTrees], tree: usize, rank: Rank) -> Vec<Rank> {
        places[rank.index()].places()[tree].children().collect()
    }

    #[test]
    fn both_trees_have_all_ranks_each_below_the_one_that_knows_it() {
        for (ranks, tree) in shapes() {
            let places = TwoTrees::over(ranks, tree.as_ref());
            for tree in 0..2 {
                let all = || (0..ranks).map(Rank);
                let parent = |rank: Rank| places[rank.index()].places()[tree].parent();
                assert_eq!(
                    all().filter(|rank| parent(*rank).is_none()).count(),
                    1,
                    "{ranks} ranks have a root"
                );
                for rank in all() {
                    assert!(children(&places, tree, rank).iter().all(|child| parent(*child) == Some(rank)));
                    let way =
                        core::iter::successors(Some(rank), |at| parent(*at)).take(usize::from(ranks) + 1);
                    assert!(way.count() <= places[0].levels(), "from {rank} of {ranks}");
                }
            }
        }
    }

    #[test]
    fn a_rank_sends_and_receives_two_vectors_at_most() {
        for (ranks, tree) in shapes() {
            let places = TwoTrees::over(ranks, tree.as_ref());
            for rank in (0..ranks).map(Rank) {
                let below: usize = [0, 1].map(|tree| children(&places, tree, rank).len()).iter().sum();
                assert!(below <= 2, "{rank} of {ranks} has {below} below it");
            }
        }
    }

    /// As many edges as there are parts less one in each tree, and at each part four at most.
    #[test]
    fn two_vectors_at_most_leave_a_switch() {
        for (ranks, tree) in shapes() {
            let Some(tree) = tree else { continue };
            let places = TwoTrees::over(ranks, Some(&tree));
            for switch in tree.switches().into_iter().filter(|switch| *switch != tree.root()) {
                let mut inside = BTreeSet::new();
                let mut open = vec![switch];
                while let Some(node) = open.pop() {
                    match tree.node(node).role() {
                        TreeRole::Rank(rank) => drop(inside.insert(rank)),
                        TreeRole::Switch => {
                            let edges = tree.node(node).child_edges();
                            open.extend(edges.iter().map(|edge| tree.edge(*edge).child.node));
                        }
                    }
                }
                let crossing: usize = [0, 1]
                    .map(|tree| {
                        let edges = |rank: Rank| {
                            children(&places, tree, rank).into_iter().map(move |child| (rank, child))
                        };
                        (0..ranks)
                            .map(Rank)
                            .flat_map(edges)
                            .filter(|(a, b)| inside.contains(a) != inside.contains(b))
                            .count()
                    })
                    .iter()
                    .sum();
                assert!(crossing <= 4, "{crossing} halves leave switch {switch:?}");
            }
        }
    }

    #[test]
    fn at_one_switch_nobody_is_next_to_another_in_both_trees() {
        for ranks in 10..=70 {
            let places = TwoTrees::over(ranks, None);
            for rank in (0..ranks).map(Rank) {
                let [first, second] = [0, 1].map(|tree| places[rank.index()].places()[tree].parent());
                let next_to = |other: Rank, tree: usize| {
                    let place = &places[rank.index()].places()[tree];
                    place.parent() == Some(other) || place.children().any(|child| child == other)
                };
                let are_apart = !first.is_some_and(|other| next_to(other, 1))
                    && !second.is_some_and(|other| next_to(other, 0));
                assert!(are_apart, "{rank} of {ranks}");
            }
        }
    }

    #[test]
    fn trees_at_one_switch_have_as_few_levels_as_there_can_be() {
        for (ranks, levels) in [(2, 2), (3, 2), (7, 3), (8, 4), (64, 7)] {
            assert_eq!(TwoTrees::over(ranks, None)[0].levels(), levels, "{ranks} ranks");
        }
    }
}
