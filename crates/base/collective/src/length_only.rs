//! A payload without contents, for runs where only time and traffic are asked for.

use crate::{BlockQuantization, Payload, Quantized, Reduction, checksum};
use core::ops::Range;

/// A region of which only the length is kept. It checks ranges like the other kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LengthOnly(usize);

impl LengthOnly {
    /// A region of `length` bytes.
    pub const fn new(length: usize) -> Self {
        Self(length)
    }

    #[inline]
    fn check(self, offset: usize, length: usize) {
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= self.0),
            "{length} bytes at {offset} of {self:?}"
        );
    }
}

/// Bytes of a binary32 value.
const BINARY32: usize = 4;

/// How long the codes and scales of so many values are.
fn quantized_lengths(quantization: BlockQuantization, values: usize) -> Quantized<LengthOnly> {
    let codes = LengthOnly(quantization.code_bytes(values));
    Quantized { codes, scales: LengthOnly(quantization.scale_bytes(values)) }
}

impl Payload for LengthOnly {
    type View<'a> = Self;

    fn zeroed(length: usize) -> Self {
        Self(length)
    }

    fn length(&self) -> usize {
        self.0
    }

    fn empty<'a>() -> Self::View<'a> {
        Self(0)
    }

    #[inline]
    fn view(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.0, "bytes {range:?} of {self:?}");
        Self(range.end - range.start)
    }

    fn view_length(view: Self) -> usize {
        view.0
    }

    fn reborrow<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short> {
        view
    }

    fn subview(view: Self::View<'_>, range: Range<usize>) -> Self::View<'_> {
        view.view(range)
    }

    fn from_view(view: Self) -> Self {
        view
    }

    fn write(&mut self, offset: usize, view: Self) {
        self.check(offset, view.0);
    }

    fn reduce(&mut self, offset: usize, view: Self, _reduction: Reduction) {
        self.check(offset, view.0);
    }

    fn checksum(_vector: Self) -> Self {
        Self(checksum::LENGTH)
    }

    fn quantize(quantization: BlockQuantization, values: Self) -> Quantized<Self> {
        assert!(values.0.is_multiple_of(BINARY32), "whole values in {values:?}");
        quantized_lengths(quantization, values.0 / BINARY32)
    }

    fn dequantize(quantization: BlockQuantization, values: usize, quantized: Quantized<Self>) -> Self {
        assert_eq!(quantized, quantized_lengths(quantization, values), "codes and scales of {values} values");
        Self(values * BINARY32)
    }

    fn sum_quantized(
        quantization: BlockQuantization,
        values: usize,
        vectors: &[Quantized<Self>],
    ) -> Quantized<Self> {
        let sum = quantized_lengths(quantization, values);
        assert!(vectors.iter().all(|vector| *vector == sum), "codes and scales of {values} values");
        sum
    }
}
