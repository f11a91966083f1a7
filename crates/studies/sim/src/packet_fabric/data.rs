//! Buffers of a collective: how long they are, what is in them, and whether the result is right.

use quincunx_collective::{
    BlockQuantization, Collective, DataType, LengthOnly, Numbers, Payload, Quantized, Rank, Reduction,
    pattern, reference, wrong_elements,
};
use quincunx_design::PayloadKind;

use std::borrow::Cow;

/// A kind of payload that simulations run with.
pub trait Data: PayloadKind {
    /// A rank's input of `length` bytes.
    fn input(rank: Rank, length: usize, data_type: DataType) -> Self;

    /// What a frame with this payload carries: zeroes if nobody knows.
    fn bytes(view: Self::View<'_>) -> Cow<'_, [u8]>;

    /// A rank's input of `values` values, quantised: codes, and behind them their scale factors.
    fn quantized(rank: Rank, values: usize, quantization: BlockQuantization) -> Self;

    /// What a ring that quantises at every hop makes of inputs of binary32 values: [`BlockQuantization::rq_all_reduce`].
    fn requantized(inputs: &[Self], quantization: BlockQuantization) -> Self;

    /// Elements that differ; `None` if nobody can tell.
    fn differing(expected: &Self, found: &Self, data_type: DataType) -> Option<u64>;

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

    fn quantized(_: Rank, values: usize, quantization: BlockQuantization) -> Self {
        Self::new(quantization.code_bytes(values) + quantization.scale_bytes(values))
    }

    fn requantized(inputs: &[Self], _: BlockQuantization) -> Self {
        inputs[0]
    }

    fn differing(_: &Self, _: &Self, _: DataType) -> Option<u64> {
        None
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

    fn quantized(rank: Rank, values: usize, quantization: BlockQuantization) -> Self {
        let Quantized { codes, scales } =
            quantization.quantize(&floats(&pattern(rank, 4 * values, DataType::F32)));
        Self::from([codes, scales].concat())
    }

    fn requantized(inputs: &[Self], quantization: BlockQuantization) -> Self {
        let inputs: Vec<Vec<f32>> = inputs.iter().map(floats).collect();
        let sum = quantization.rq_all_reduce(&inputs);
        Self::from(sum.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    fn differing(expected: &Self, found: &Self, data_type: DataType) -> Option<u64> {
        Some(wrong_elements(expected, found, data_type) as u64)
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

/// The binary32 values of a region.
fn floats(numbers: &Numbers) -> Vec<f32> {
    numbers.bytes().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Bytes of a rank's input and output, for a collective of `size` bytes as nccl-tests count them.
pub(crate) fn lengths(collective: Collective, ranks: usize, size: usize) -> [usize; 2] {
    match collective {
        Collective::AllReduce | Collective::Reduce { .. } | Collective::Broadcast { .. } => [size, size],
        // Whoever is asked refuses it.
        Collective::Dispatch | Collective::Combine => [size, size],
        Collective::Barrier => [0, 0],
        Collective::ReduceScatter => [size, size / ranks],
        Collective::AllGather => [size / ranks, size],
    }
}
