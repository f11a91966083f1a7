//! Buffers of a collective: how long they are, what is in them, and whether the result is right.

use quincunx_collective::{
    Collective, DataType, LengthOnly, Numbers, Payload, Rank, Reduction, pattern, reference, wrong_elements,
};

use std::borrow::Cow;

/// A kind of payload that simulations run with.
pub trait Data: Payload {
    /// A rank's input of `length` bytes.
    fn input(rank: Rank, length: usize, data_type: DataType) -> Self;

    /// What a frame with this payload carries: zeroes if nobody knows.
    fn bytes(view: Self::View<'_>) -> Cow<'_, [u8]>;

    /// Wrong elements in all ranks' outputs; `None` if nobody can tell.
    fn wrong(collective: Collective, reduction: Reduction, inputs: &[Self], outputs: &[Self]) -> Option<u64>;
}

impl Data for LengthOnly {
    fn input(_: Rank, length: usize, _: DataType) -> Self {
        Self::new(length)
    }

    fn bytes(view: Self::View<'_>) -> Cow<'_, [u8]> {
        Cow::Owned(vec![0; Self::view_length(view)])
    }

    fn wrong(_: Collective, _: Reduction, _: &[Self], _: &[Self]) -> Option<u64> {
        None
    }
}

impl Data for Numbers {
    fn input(rank: Rank, length: usize, data_type: DataType) -> Self {
        pattern(rank, length, data_type)
    }

    fn bytes(view: Self::View<'_>) -> Cow<'_, [u8]> {
        Cow::Borrowed(view)
    }

    fn wrong(collective: Collective, reduction: Reduction, inputs: &[Self], outputs: &[Self]) -> Option<u64> {
        let expected = reference(collective, reduction, inputs);
        let of_rank = |(rank, (expected, found)): (usize, (&Self, &Self))| match collective {
            // What lies in the buffers of those who do not ask for a result is nobody's business.
            Collective::Reduce { root } if root.index() != rank => 0,
            _ => wrong_elements(expected, found, reduction.data_type) as u64,
        };
        Some(expected.iter().zip(outputs).enumerate().map(of_rank).sum())
    }
}

/// Bytes of a rank's input and output, for a collective of `size` bytes as nccl-tests count them.
pub(crate) fn lengths(collective: Collective, ranks: usize, size: usize) -> [usize; 2] {
    match collective {
        Collective::AllReduce | Collective::Reduce { .. } | Collective::Broadcast { .. } => [size, size],
        Collective::Barrier => [0, 0],
        Collective::ReduceScatter => [size, size / ranks],
        Collective::AllGather => [size / ranks, size],
    }
}
