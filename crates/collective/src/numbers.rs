//! A payload of real numbers, as they lie in memory and on the wire.

use crate::{BlockQuantization, DataType, Payload, Quantized, Reduction, checksum, simd};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A region of bytes. What they mean is said by whoever reduces them.
///
/// # Panics
/// Reducing panics when the view is not whole elements: engines check lengths at their doors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Numbers(Vec<u8>);

impl Numbers {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Divides every element, as an average does a sum: integers lose what is behind the point, floating-point numbers are divided in
    /// binary32, or binary64 as they are.
    ///
    /// # Panics
    /// If these are not whole elements, or `by` is zero.
    pub fn divide(&mut self, by: u16, data_type: DataType) {
        simd::divide(&mut self.0, by, data_type);
    }

    /// The bytes, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl From<Vec<u8>> for Numbers {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Payload for Numbers {
    type View<'a> = &'a [u8];

    fn zeroed(length: usize) -> Self {
        Self(vec![0; length])
    }

    fn length(&self) -> usize {
        self.0.len()
    }

    fn empty<'a>() -> &'a [u8] {
        &[]
    }

    fn view(&self, range: Range<usize>) -> &[u8] {
        &self.0[range]
    }

    fn view_length(view: &[u8]) -> usize {
        view.len()
    }

    fn reborrow<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short> {
        view
    }

    fn subview(view: Self::View<'_>, range: Range<usize>) -> Self::View<'_> {
        &view[range]
    }

    fn from_view(view: &[u8]) -> Self {
        Self(view.to_vec())
    }

    fn write(&mut self, offset: usize, view: &[u8]) {
        self.0[offset..][..view.len()].copy_from_slice(view);
    }

    fn inscribe(&mut self, offset: usize, bytes: &[u8]) {
        self.write(offset, bytes);
    }

    fn contents<'a>(view: Self::View<'a>) -> Option<&'a [u8]> {
        Some(view)
    }

    fn reduce(&mut self, offset: usize, view: &[u8], reduction: Reduction) {
        simd::reduce(&mut self.0[offset..][..view.len()], view, reduction);
    }

    fn checksum(vector: &[u8]) -> Self {
        Self(checksum::checksum(vector))
    }

    fn quantize(quantization: BlockQuantization, values: &[u8]) -> Quantized<Self> {
        let (values, rest) = values.as_chunks::<4>();
        assert!(rest.is_empty(), "whole values, found {} bytes more", rest.len());
        let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let Quantized { codes, scales } = quantization.quantize(&values);
        Quantized { codes: Self(codes), scales: Self(scales) }
    }

    fn dequantize(quantization: BlockQuantization, values: usize, quantized: Quantized<&[u8]>) -> Self {
        let values = quantization.dequantize(&quantized, values);
        Self(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    fn sum_quantized(
        quantization: BlockQuantization,
        values: usize,
        vectors: &[Quantized<&[u8]>],
    ) -> Quantized<Self> {
        let Quantized { codes, scales } = quantization.sum(vectors, values);
        Quantized { codes: Self(codes), scales: Self(scales) }
    }
}
