//! Adding up as a tree of adders does: neighbours first, then neighbours of these.

use crate::{Payload, Reduction};
use core::ops::Range;

/// Most vectors that a tree adds up: a port each.
const MOST: usize = 64;

/// Combines the bytes in `range` of the vectors that `members` name, in their order: the first with the second, the
/// third with the fourth and so on, then these results in the same way. It works in place; the index of the vector
/// that holds the result is returned, and the others hold something in between.
///
/// # Panics
/// If there is no member or more than 64, one is named twice, or one is shorter.
pub fn accumulate_in_tree<P: Payload>(
    vectors: &mut [P],
    members: impl IntoIterator<Item = usize>,
    range: Range<usize>,
    reduction: Reduction,
) -> usize {
    let mut level = [0; MOST];
    let mut count = 0;
    for member in members {
        level[count] = member;
        count += 1;
    }
    assert!(count > 0, "at least one vector");
    while count > 1 {
        for pair in 0..count / 2 {
            let (left, right) = (level[2 * pair], level[2 * pair + 1]);
            let [target, source] =
                vectors.get_disjoint_mut([left, right]).expect("two vectors that are there");
            target.reduce(range.start, source.view(range.clone()), reduction);
            level[pair] = left;
        }
        if count % 2 == 1 {
            level[count / 2] = level[count - 1];
        }
        count = count.div_ceil(2);
    }
    level[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Fold, Numbers, Rank, ReduceOp, noise, reduce_in_tree};
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn neighbours_are_added_first_and_an_odd_one_later() {
        let sum = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        let leaf = |rank| Fold::Rank(Rank(rank));
        let pair = |a, b| Fold::Node(vec![a, b]);
        let fold = pair(pair(pair(leaf(1), leaf(2)), pair(leaf(3), leaf(5))), leaf(6));
        let inputs: Vec<Numbers> = (0..7).map(|rank| noise(rank, 64, DataType::F32)).collect();
        let mut vectors = inputs.clone();
        let at = accumulate_in_tree(&mut vectors, [1, 2, 3, 5, 6], 0..64, sum);
        assert_eq!(vectors[at], reduce_in_tree(&fold, sum, &inputs));
    }
}
