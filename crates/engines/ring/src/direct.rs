//! Direct: everybody sends to everybody concerned, in one hop. What is combined is combined in rank order.
//!
//! Each rank begins with the peer after it, so that not all send to one at once. Between two ranks, the pieces to be
//! summed come before the sums; the first wait for nobody, so nothing waits in a circle.

use crate::plan::{Own, Plan, part};
use quincunx_collective::{Collective, Rank};

/// Plans a collective; `length` is that of the whole vector (all ranks' parts), `element` an element's. A Broadcast or a Reduce is done when
/// all agree if it `confirms`: tokens go to the root behind the data, and back when it has all of them. A Barrier `at_root` is that alone,
/// around rank 0.
pub(crate) fn plan(
    plan: &mut Plan,
    collective: Collective,
    length: usize,
    element: usize,
    confirms: bool,
    at_root: bool,
) {
    let (me, ranks) = (plan.rank, plan.ranks);
    let of_rank = |rank: Rank| part(length, element, ranks, rank.0);
    let others = || (0..ranks).map(Rank).filter(move |rank| *rank != me);
    let from_next =
        || (1..ranks).map(move |step| Rank(((u32::from(me.0) + u32::from(step)) % u32::from(ranks)) as u16));
    let alone = |offset| Some(Own { offset, position: 0 });
    let in_order = |offset| Some(Own { offset, position: me.index() });
    let mine = of_rank(me);
    plan.cut(length / usize::from(ranks), 4);
    match collective {
        Collective::AllReduce | Collective::ReduceScatter => {
            let gather = collective == Collective::AllReduce;
            for peer in from_next() {
                let range = of_rank(peer);
                plan.push(range.len(), alone(range.start), None, None, Some(peer));
            }
            let keep = Some(if gather { mine.start } else { 0 });
            plan.push(mine.len(), in_order(mine.start), keep, others(), from_next().filter(|_| gather));
            for peer in from_next().filter(|_| gather) {
                let range = of_rank(peer);
                plan.push(range.len(), None, Some(range.start), Some(peer), None);
            }
        }
        Collective::AllGather => {
            plan.push(mine.len(), alone(0), Some(mine.start), None, from_next());
            for peer in from_next() {
                let range = of_rank(peer);
                plan.push(range.len(), None, Some(range.start), Some(peer), None);
            }
        }
        Collective::Reduce { root } if me == root => {
            plan.push(length, in_order(0), Some(0), others(), None);
        }
        Collective::Reduce { root } => plan.push(length, alone(0), None, None, Some(root)),
        Collective::Broadcast { root } if me == root => {
            plan.push(length, alone(0), Some(0), None, from_next());
        }
        Collective::Broadcast { root } => plan.push(length, None, Some(0), Some(root), None),
        Collective::Barrier if at_root => {}
        Collective::Barrier => {
            plan.push_token(alone(0), None, from_next());
            plan.push_token(None, others(), None);
        }
        Collective::Dispatch | Collective::Combine => unreachable!("refused at the door"),
    }
    let confirmed_at = match collective {
        Collective::Barrier => at_root.then_some(Rank(0)),
        _ => collective.root().filter(|_| confirms),
    };
    match confirmed_at {
        Some(root) if me == root => plan.push_token(alone(0), others(), from_next()),
        Some(root) => {
            plan.push_token(alone(0), None, Some(root));
            plan.push_token(None, Some(root), None);
        }
        None => {}
    }
}
