//! The ring: every rank receives from the one before it and sends to the one after it.
//!
//! AllReduce moves each rank's part once around to be summed (reduce-scatter) and once more to be handed out
//! (all-gather). Long parts go in waves: a wave takes half a window of pieces of each part through all steps. That
//! bounds the slots that partial sums wait in, and half a window is what makes the ring free of circular waits: the
//! slot that a message waits for holds one of at least two steps earlier, which needs only messages of at least
//! one step earlier to leave.

use crate::plan::{Own, Plan, part};
use core::ops::Range;
use quincunx_collective::{Collective, Rank};

/// How a range of the whole vector maps to the rank's buffers.
struct Layout<'a> {
    /// The bytes of each part, from the start of the whole vector.
    part: &'a dyn Fn(u16) -> Range<usize>,
    /// Where the buffers begin in the whole vector.
    input: usize,
    output: usize,
}

/// Plans a collective; `length` is that of the whole vector (all ranks' parts), `element` an element's. A Broadcast or a Reduce is done when
/// all agree if it `confirms`.
pub(crate) fn plan(plan: &mut Plan, collective: Collective, length: usize, element: usize, confirms: bool) {
    let ranks = plan.ranks;
    let of_rank = |rank: u16| part(length, element, ranks, rank);
    let own_part = of_rank(plan.rank.0);
    match collective {
        Collective::AllReduce => waves(plan, Layout { part: &of_rank, input: 0, output: 0 }, true, true),
        Collective::ReduceScatter => {
            waves(plan, Layout { part: &of_rank, input: 0, output: own_part.start }, true, false);
        }
        Collective::AllGather => {
            waves(plan, Layout { part: &of_rank, input: own_part.start, output: 0 }, false, true);
        }
        Collective::Reduce { root } => {
            plan.cut(length, 8 * usize::from(ranks));
            chain_to(plan, root, length);
            if confirms {
                chain_back(plan, after(plan, root, 1));
            }
        }
        Collective::Broadcast { root } => {
            plan.cut(length, 8 * usize::from(ranks));
            chain_from(plan, root, length);
            if confirms {
                chain_back(plan, root);
            }
        }
        Collective::Barrier => token(plan),
        Collective::Dispatch | Collective::Combine => unreachable!("refused at the door"),
    }
}

fn after(plan: &Plan, rank: Rank, steps: u16) -> Rank {
    Rank(((u32::from(rank.0) + u32::from(steps)) % u32::from(plan.ranks)) as u16)
}

fn next(plan: &Plan) -> Rank {
    after(plan, plan.rank, 1)
}

fn previous(plan: &Plan) -> Rank {
    after(plan, plan.rank, plan.ranks - 1)
}

fn waves(plan: &mut Plan, layout: Layout<'_>, reduce: bool, gather: bool) {
    let longest = (0..plan.ranks).map(|rank| (layout.part)(rank).len()).max().unwrap_or(0);
    plan.cut(longest, 4);
    let stride = plan.slots / 2 * plan.piece;
    for wave in 0..longest.div_ceil(stride) {
        let of_rank = |rank: Rank| {
            let whole = (layout.part)(rank.0);
            let start = (whole.start + wave * stride).min(whole.end);
            start..(start + stride).min(whole.end)
        };
        if reduce {
            reduce_wave(plan, &layout, &of_rank, gather);
        }
        if gather {
            gather_wave(plan, &layout, &of_rank, reduce);
        }
    }
}

/// The part of rank r starts at rank r + 1 and comes home summed.
fn reduce_wave(plan: &mut Plan, layout: &Layout<'_>, of_rank: &dyn Fn(Rank) -> Range<usize>, pass_on: bool) {
    let (next, previous, ranks) = (next(plan), previous(plan), plan.ranks);
    let own = |range: &Range<usize>, position| Some(Own { offset: range.start - layout.input, position });
    let range = of_rank(previous);
    plan.push(range.len(), own(&range, 0), None, None, Some(next));
    for step in 2..ranks {
        let range = of_rank(after(plan, plan.rank, ranks - step));
        plan.push(range.len(), own(&range, 1), None, Some(previous), Some(next));
    }
    let range = of_rank(plan.rank);
    let keep = Some(range.start - layout.output);
    plan.push(range.len(), own(&range, 1), keep, Some(previous), pass_on.then_some(next));
}

/// Each rank's part goes around once; our own has gone out already if it was summed here.
fn gather_wave(plan: &mut Plan, layout: &Layout<'_>, of_rank: &dyn Fn(Rank) -> Range<usize>, summed: bool) {
    let (next, previous, ranks) = (next(plan), previous(plan), plan.ranks);
    if !summed {
        let range = of_rank(plan.rank);
        let own = Own { offset: range.start - layout.input, position: 0 };
        plan.push(range.len(), Some(own), Some(range.start - layout.output), None, Some(next));
    }
    for step in 1..ranks {
        let range = of_rank(after(plan, plan.rank, ranks - step));
        let to = (step < ranks - 1).then_some(next);
        plan.push(range.len(), None, Some(range.start - layout.output), Some(previous), to);
    }
}

/// From the rank after the root around to the root, each adding its own.
fn chain_to(plan: &mut Plan, root: Rank, length: usize) {
    let (next, previous) = (next(plan), previous(plan));
    let from = (previous != root).then_some(previous);
    let own = Some(Own { offset: 0, position: from.iter().count() });
    if plan.rank == root {
        plan.push(length, own, Some(0), Some(previous), None);
    } else {
        plan.push(length, own, None, from, Some(next));
    }
}

/// From the root around to the rank before it.
fn chain_from(plan: &mut Plan, root: Rank, length: usize) {
    let (next, previous) = (next(plan), previous(plan));
    if plan.rank == root {
        plan.push(length, Some(Own { offset: 0, position: 0 }), Some(0), None, Some(next));
    } else {
        plan.push(length, None, Some(0), Some(previous), (next != root).then_some(next));
    }
}

/// A token against the data, from the rank where that ends to `first`, where it begins: with the data a rank hears of all before it, with the
/// token of all behind it.
fn chain_back(plan: &mut Plan, first: Rank) {
    let (next, previous) = (next(plan), previous(plan));
    let from = (next != first).then_some(next);
    let to = (plan.rank != first).then_some(previous);
    plan.push_token(Some(Own { offset: 0, position: from.iter().count() }), from, to);
}

/// A token from rank 0 to the last rank, which then knows that all have come, and on around to the one before it.
fn token(plan: &mut Plan) {
    let (next, previous, last) = (next(plan), previous(plan), Rank(plan.ranks - 1));
    let from = (plan.rank != Rank(0)).then_some(previous);
    plan.push_token(Some(Own { offset: 0, position: from.iter().count() }), from, Some(next));
    if plan.rank != last {
        plan.push_token(None, Some(previous), (next != last).then_some(next));
    }
}
