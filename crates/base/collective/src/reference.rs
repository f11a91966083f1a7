//! What each primitive must give (EPIC appendix A), to hold the real ones against.

use crate::{Collective, DataType, Numbers, Payload, Rank, Reduction};
use alloc::vec::Vec;

/// An order in which ranks' vectors are combined: floating-point sums depend on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fold {
    /// A rank's own vector.
    Rank(Rank),
    /// What the children give, combined from the first to the last: a switch of a tree that adds in a set order.
    Node(Vec<Fold>),
}

/// Every rank's output, in rank order, from every rank's input; ranks are combined in rank order. The lengths are
/// those of the table of collective requests; an output that nobody asks for (Reduce elsewhere than at the root,
/// Barrier) has no bytes.
///
/// # Panics
/// If there is no input, the root is no rank, the lengths do not fit the collective, or it is routed.
pub fn reference<P: Payload>(collective: Collective, reduction: Reduction, inputs: &[P]) -> Vec<P> {
    let ranks = inputs.len();
    if let Some(root) = collective.root() {
        assert!(root.index() < ranks, "expected a root below {ranks}, found {root}");
    }
    let in_rank_order = || {
        let order: Vec<Rank> = (0..ranks).map(|rank| Rank(rank as u16)).collect();
        reduce_in_order(&order, reduction, inputs)
    };
    let for_each = |output: &dyn Fn(usize) -> P| (0..ranks).map(output).collect();
    match collective {
        Collective::AllReduce => {
            let sum = in_rank_order();
            for_each(&|_| sum.clone())
        }
        Collective::Reduce { root } => {
            let sum = in_rank_order();
            for_each(&|rank| if rank == root.index() { sum.clone() } else { P::zeroed(0) })
        }
        Collective::Broadcast { root } => for_each(&|_| inputs[root.index()].clone()),
        Collective::Barrier => for_each(&|_| P::zeroed(0)),
        Collective::ReduceScatter => {
            let sum = in_rank_order();
            assert!(
                sum.length().is_multiple_of(ranks),
                "{} bytes do not split over {ranks} ranks",
                sum.length()
            );
            let part = sum.length() / ranks;
            for_each(&|rank| P::from_view(sum.view(rank * part..(rank + 1) * part)))
        }
        Collective::AllGather => {
            let part = inputs[0].length();
            let mut all = P::zeroed(part * ranks);
            for (rank, input) in inputs.iter().enumerate() {
                assert_eq!(input.length(), part, "expected inputs of one length");
                all.write(rank * part, input.view(0..part));
            }
            for_each(&|_| all.clone())
        }
        Collective::Dispatch | Collective::Combine => {
            panic!("what {collective} gives depends on the routing")
        }
    }
}

/// The vectors of the ranks in `order` combined one after the other: ((first op second) op third) and so on.
///
/// # Panics
/// If `order` is empty or names no rank, or the lengths differ.
pub fn reduce_in_order<P: Payload>(order: &[Rank], reduction: Reduction, inputs: &[P]) -> P {
    let (first, others) = order.split_first().expect("at least one rank");
    let mut result = inputs[first.index()].clone();
    for rank in others {
        combine(&mut result, &inputs[rank.index()], reduction);
    }
    result
}

/// The vectors combined as `fold` says: within each child first, then child after child.
///
/// # Panics
/// If a node has no child, a leaf names no rank, or the lengths differ.
pub fn reduce_in_tree<P: Payload>(fold: &Fold, reduction: Reduction, inputs: &[P]) -> P {
    match fold {
        Fold::Rank(rank) => inputs[rank.index()].clone(),
        Fold::Node(children) => {
            let (first, others) = children.split_first().expect("a node has children");
            let mut result = reduce_in_tree(first, reduction, inputs);
            for child in others {
                combine(&mut result, &reduce_in_tree(child, reduction, inputs), reduction);
            }
            result
        }
    }
}

fn combine<P: Payload>(target: &mut P, source: &P, reduction: Reduction) {
    assert_eq!(target.length(), source.length(), "expected inputs of one length");
    target.reduce(0, source.view(0..source.length()), reduction);
}

/// How many elements differ, to the bit (a NaN equals the same NaN); elements that only one of them has are wrong.
pub fn wrong_elements(expected: &Numbers, found: &Numbers, data_type: DataType) -> usize {
    let size = data_type.size();
    let (expected, found) = (expected.bytes(), found.bytes());
    let common = expected.chunks(size).zip(found.chunks(size)).filter(|(a, b)| a != b).count();
    common + expected.len().div_ceil(size).abs_diff(found.len().div_ceil(size))
}
