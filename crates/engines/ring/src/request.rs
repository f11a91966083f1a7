//! Checks a request at the door against the table of lengths on `CollectiveRequest`.

use quincunx_collective::{Collective, Payload, Rank};
use quincunx_engine::verbs::{CollectiveRequest, Memory, RequestError, Slice};

/// The length of the whole vector (all ranks' parts together), if the request is sound.
pub(crate) fn check<P: Payload>(
    request: &CollectiveRequest,
    rank: Rank,
    ranks: u16,
    memory: &Memory<P>,
) -> Result<usize, RequestError> {
    let (input, output) = (request.input, request.output);
    if let Some(root) = request.collective.root()
        && root.0 >= ranks
    {
        return Err(RequestError::NoSuchRoot { ranks, found: root.0 });
    }
    let group = usize::from(ranks);
    // What the input and the output must be, where it matters.
    let (length, expected_input, expected_output) = match request.collective {
        Collective::AllReduce => (input.length, Some(input.length), Some(input.length)),
        Collective::Reduce { root } => {
            (input.length, Some(input.length), (rank == root).then_some(input.length))
        }
        Collective::Broadcast { root } if rank == root => {
            (input.length, Some(input.length), Some(input.length))
        }
        Collective::Broadcast { .. } => (output.length, None, Some(output.length)),
        Collective::Barrier => (0, Some(0), Some(0)),
        Collective::ReduceScatter => {
            let whole = times(output.length, group, "an input", input.length)?;
            (whole, Some(whole), Some(output.length))
        }
        Collective::AllGather => {
            let whole = times(input.length, group, "an output", output.length)?;
            (whole, Some(input.length), Some(whole))
        }
        found @ (Collective::Dispatch | Collective::Combine) => {
            return Err(RequestError::NotOffered { found });
        }
    };
    let element = request.reduction.data_type.size();
    for (what, slice, expected) in
        [("an input", input, expected_input), ("an output", output, expected_output)]
    {
        let Some(expected) = expected else { continue };
        if slice.length != expected {
            return Err(RequestError::Length { what, expected, found: slice.length });
        }
        if !memory.contains(slice) {
            return Err(RequestError::Length { what, expected, found: 0 });
        }
        if !expected.is_multiple_of(element) {
            return Err(RequestError::Element { element, found: expected });
        }
    }
    if shared(input, output) && expected_input.is_some() && expected_output.is_some() {
        return Err(RequestError::SameRegion { region: input.region });
    }
    Ok(length)
}

fn times(part: usize, ranks: usize, what: &'static str, found: usize) -> Result<usize, RequestError> {
    part.checked_mul(ranks).ok_or(RequestError::Length { what, expected: usize::MAX, found })
}

fn shared(input: Slice, output: Slice) -> bool {
    input.length > 0 && output.length > 0 && input.region == output.region
}
