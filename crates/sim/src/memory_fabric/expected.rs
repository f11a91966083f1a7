//! What a collective in place must leave in an accelerator's memory.

use quincunx_collective::{Collective, Payload, reference};
use quincunx_engine::shared_memory::{InPlaceRequest, Span};

/// Where in the memory of accelerator `rank` something is defined at the end, and what: from what all held before. `None` if
/// nothing is. Sums are in rank order.
///
/// # Panics
/// If the vector is not inside the memories, or does not split over the ranks where the collective has parts.
pub fn expected<P: Payload>(request: &InPlaceRequest, rank: usize, inputs: &[P]) -> Option<(Span, P)> {
    let InPlaceRequest { collective, reduction, span } = *request;
    let part = Span { length: span.length / inputs.len(), ..span };
    let own = |rank: usize| Span { offset: part.offset + rank * part.length, ..part };
    let cut = |input: &P, span: Span| P::from_view(input.view(span.offset..span.offset + span.length));
    let of = |spans: &dyn Fn(usize) -> Span| {
        let cuts: Vec<P> = inputs.iter().enumerate().map(|(rank, input)| cut(input, spans(rank))).collect();
        reference(collective, reduction, &cuts).swap_remove(rank)
    };
    match collective {
        Collective::Barrier | Collective::Dispatch | Collective::Combine => None,
        Collective::Reduce { root } if rank != root.index() => None,
        Collective::AllGather => Some((span, of(&own))),
        Collective::ReduceScatter => Some((own(rank), of(&|_| span))),
        Collective::AllReduce | Collective::Reduce { .. } | Collective::Broadcast { .. } => {
            Some((span, of(&|_| span)))
        }
    }
}
