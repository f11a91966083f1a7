//! Holds a request against the table of lengths on [`CollectiveRequest`], once for all that take one.

use crate::verbs::{CollectiveRequest, Memory, RequestError, Slice};
use quincunx_collective::{Collective, Payload, Rank};

impl CollectiveRequest {
    /// The length of the whole vector (all ranks' parts together) in bytes, if `rank` of `ranks` may ask for this with its buffers in `memory`.
    ///
    /// # Errors
    /// If the root is no rank, or the operation is not defined for the type; if a buffer that matters is not as long as the table says, not in registered memory or not of whole elements;
    /// if input and output share a region; or if tokens are to be routed, whose lengths follow from more than this.
    pub fn check<P: Payload>(
        &self,
        rank: Rank,
        ranks: u16,
        memory: &Memory<P>,
    ) -> Result<usize, RequestError> {
        let (input, output) = (self.input, self.output);
        if let Some(root) = self.collective.root()
            && root.0 >= ranks
        {
            return Err(RequestError::NoSuchRoot { ranks, found: root.0 });
        }
        if self.collective.reduces() && !self.reduction.is_defined() {
            return Err(RequestError::Undefined { found: self.reduction });
        }
        let group = usize::from(ranks);
        // What the input and the output must be, where it matters.
        let (length, expected_input, expected_output) = match self.collective {
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
        let element = self.reduction.data_type.size();
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

    /// Whether pieces of so many bytes, as `key` says, can be combined one by one.
    ///
    /// # Errors
    /// If elements would lie across them.
    pub fn check_pieces(&self, key: &'static str, bytes: usize) -> Result<(), RequestError> {
        let element = self.reduction.data_type.size();
        match self.collective.reduces() && !bytes.is_multiple_of(element) {
            true => Err(RequestError::Piece { element, key, found: bytes }),
            false => Ok(()),
        }
    }
}

fn times(part: usize, ranks: usize, what: &'static str, found: usize) -> Result<usize, RequestError> {
    part.checked_mul(ranks).ok_or(RequestError::Length { what, expected: usize::MAX, found })
}

fn shared(input: Slice, output: Slice) -> bool {
    input.length > 0 && output.length > 0 && input.region == output.region
}
