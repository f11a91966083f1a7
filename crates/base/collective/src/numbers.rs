//! A payload of real numbers, as they lie in memory and on the wire.

use crate::{
    BlockQuantization, DataType, FixedPoint, Payload, Quantized, Reduction, checksum, fixed_point, simd,
};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A region of bytes. What they mean is said by whoever reduces them. Clones share them until one is written to, so a copy that is kept of what
/// nobody changes costs nothing.
///
/// # Panics
/// Reducing panics when the view is not whole elements: engines check lengths at their doors.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Numbers(Arc<Vec<u8>>);

impl Numbers {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.0).as_mut_slice()
    }

    /// Divides every element, as an average does a sum: integers lose what is behind the point, floating-point numbers are divided in
    /// binary32, or binary64 as they are.
    ///
    /// # Panics
    /// If these are not whole elements, or `by` is zero.
    pub fn divide(&mut self, by: u16, data_type: DataType) {
        simd::divide(self.bytes_mut(), by, data_type);
    }

    /// The bytes, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        Arc::unwrap_or_clone(self.0)
    }
}

impl From<Vec<u8>> for Numbers {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }
}

/// Copies as many bytes.
fn copy(target: &mut [u8], source: &[u8]) {
    // What is longer the C library copies by the processor's instruction for strings, which takes twice as long for 4 KiB.
    for (target, source) in target.chunks_mut(1024).zip(source.chunks(1024)) {
        target.copy_from_slice(source);
    }
}

/// The bytes at `offset` and as many in `source`, if none are both.
fn apart(bytes: &mut [u8], offset: usize, source: Range<usize>) -> Option<(&mut [u8], &[u8])> {
    let length = source.len();
    if offset + length <= source.start {
        let (lower, upper) = bytes.split_at_mut(source.start);
        Some((&mut lower[offset..offset + length], &upper[..length]))
    } else if source.end <= offset {
        let (lower, upper) = bytes.split_at_mut(offset);
        Some((&mut upper[..length], &lower[source]))
    } else {
        None
    }
}

impl Payload for Numbers {
    type View<'a> = &'a [u8];

    #[inline]
    fn zeroed(length: usize) -> Self {
        Self(Arc::new(vec![0; length]))
    }

    fn length(&self) -> usize {
        self.0.len()
    }

    fn empty<'a>() -> &'a [u8] {
        &[]
    }

    #[inline]
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

    #[inline]
    fn from_view(view: &[u8]) -> Self {
        Self(Arc::new(view.to_vec()))
    }

    fn write(&mut self, offset: usize, view: &[u8]) {
        copy(&mut self.bytes_mut()[offset..][..view.len()], view);
    }

    fn inscribe(&mut self, offset: usize, bytes: &[u8]) {
        self.write(offset, bytes);
    }

    fn contents<'a>(view: Self::View<'a>) -> Option<&'a [u8]> {
        Some(view)
    }

    fn reduce(&mut self, offset: usize, view: &[u8], reduction: Reduction) {
        simd::reduce(&mut self.bytes_mut()[offset..][..view.len()], view, reduction);
    }

    fn lengthen(&mut self, length: usize) {
        if length > self.0.len() {
            Arc::make_mut(&mut self.0).resize(length, 0);
        }
    }

    fn copy_within(&mut self, offset: usize, source: Range<usize>) {
        let bytes = self.bytes_mut();
        match apart(bytes, offset, source.clone()) {
            Some((target, source)) => copy(target, source),
            None => bytes.copy_within(source, offset),
        }
    }

    fn reduce_within(&mut self, offset: usize, source: Range<usize>, reduction: Reduction) {
        let Some((target, source)) = apart(self.bytes_mut(), offset, source.clone()) else {
            panic!("{source:?} into {:?}", offset..offset + source.len());
        };
        simd::reduce(target, source, reduction);
    }

    fn checksum(vector: &[u8]) -> Self {
        checksum::checksum(vector).into()
    }

    fn add_saturating(&mut self, offset: usize, view: &[u8]) {
        fixed_point::add_saturating(&mut self.bytes_mut()[offset..][..view.len()], view);
    }

    fn to_fixed_point(scale: FixedPoint, values: &[u8]) -> Self {
        scale.integers(values).into()
    }

    fn from_fixed_point(scale: FixedPoint, integers: &[u8]) -> Self {
        scale.values(integers).into()
    }

    fn quantize(quantization: BlockQuantization, values: &[u8]) -> Quantized<Self> {
        let (values, rest) = values.as_chunks::<4>();
        assert!(rest.is_empty(), "whole values, found {} bytes more", rest.len());
        let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let Quantized { codes, scales } = quantization.quantize(&values);
        Quantized { codes: codes.into(), scales: scales.into() }
    }

    fn dequantize(quantization: BlockQuantization, values: usize, quantized: Quantized<&[u8]>) -> Self {
        let values = quantization.dequantize(&quantized, values);
        values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().into()
    }

    fn sum_quantized(
        quantization: BlockQuantization,
        values: usize,
        vectors: &[Quantized<&[u8]>],
    ) -> Quantized<Self> {
        let Quantized { codes, scales } = quantization.sum(vectors, values);
        Quantized { codes: codes.into(), scales: scales.into() }
    }
}
