//! Two binary trees, each for half of the vector, as NCCL has them (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth
//! broadcast, reduction and scan", Parallel Computing 35, 2009).
//!
//! In each tree about half of the ranks are leaves, and these are the inner ranks of the other tree (`two_trees`). So a rank that passes half of
//! the sum on to two others has one to send its own half to: no link carries more than two vectors each way, and both ways are in use.
//!
//! All ranks go through the same turns: some pieces of each half up, and those of some turns before down. On a tree a piece waits only for itself
//! further out or, on its way down, for one of an earlier turn, so nothing waits in a circle.

use crate::plan::{Own, Plan, part};
use crate::two_trees::TwoTrees;
use alloc::collections::VecDeque;
use quincunx_collective::Collective;

/// Stages take so many pieces of one half before it is the other one's turn.
const PIECES_IN_TURN: usize = 2;

/// Turns by which sums go up before they come down again, for each level of a tree: as many as are on their way meanwhile. With fewer, what goes up
/// to a rank that is below in the other tree waits for what comes down there; with more, the last of what comes down has its links alone.
const LEAD: usize = 3;

/// Pieces of a half for each level, if they are not too short: as many as it takes for the way up and down to be little beside them.
const PIECES: usize = 128;

/// Plans an AllReduce of `length` bytes, whose elements have `element`, or a Barrier.
pub(crate) fn plan(plan: &mut Plan, trees: &TwoTrees, collective: Collective, length: usize, element: usize) {
    if collective == Collective::Barrier {
        let [place, _] = trees.places();
        let own = Some(Own { offset: 0, position: 0 });
        match place.parent() {
            None => plan.push_token(own, place.children(), place.children()),
            Some(parent) => {
                plan.push_token(own, place.children(), Some(parent));
                plan.push_token(None, Some(parent), place.children());
            }
        }
        return;
    }
    let levels = trees.levels();
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
            for (half, place) in trees.places().iter().enumerate() {
                let range = range(half, number);
                let (own, children) = (Some(Own { offset: range.start, position: 0 }), place.children());
                match (place.parent(), is_up) {
                    _ if range.is_empty() => {}
                    (Some(parent), true) => plan.push(range.len(), own, None, children, Some(parent)),
                    (Some(parent), false) => {
                        plan.push(range.len(), None, Some(range.start), Some(parent), children)
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
