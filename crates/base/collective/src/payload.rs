//! What frames carry and memory holds, as engines see it.

use crate::{BlockQuantization, DataType, FixedPoint, Quantized, ReduceOp, Reduction};
use alloc::fmt::Debug;
use core::hash::Hash;
use core::ops::Range;

/// A region of memory that frames are cut from and written into. Lengths and offsets are bytes in every kind, so an
/// engine does the same arithmetic over real numbers, over lengths alone and over whose elements are in each.
///
/// A frame borrows a [`View`](Payload::View) of its sender's memory: a driver that keeps frames copies it with
/// [`from_view`](Payload::from_view), one that writes to a socket copies it straight into the datagram.
///
/// # Panics
/// Methods panic when a range or an offset lies outside the region: engines check lengths at their doors.
pub trait Payload: Clone + Eq + Hash + Debug + Sized + Send + Sync + 'static {
    /// A borrowed piece of a region.
    type View<'a>: Copy + Debug;

    /// A region of `length` bytes, all zero (no contribution yet).
    fn zeroed(length: usize) -> Self;

    /// Length in bytes.
    fn length(&self) -> usize;

    /// A view of no bytes.
    fn empty<'a>() -> Self::View<'a>;

    /// The bytes in `range`.
    fn view(&self, range: Range<usize>) -> Self::View<'_>;

    /// Length of a view in bytes.
    fn view_length(view: Self::View<'_>) -> usize;

    /// The same view for a shorter time; a compiler that knows the kind would do it by itself.
    fn reborrow<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short>;

    /// The bytes of `view` in `range`.
    fn subview(view: Self::View<'_>, range: Range<usize>) -> Self::View<'_>;

    /// A region that holds a copy of `view`.
    fn from_view(view: Self::View<'_>) -> Self;

    /// Copies `view` over the bytes at `offset`.
    fn write(&mut self, offset: usize, view: Self::View<'_>);

    /// Writes what is not an element but says something about those, such as who they are for. A kind without contents keeps none
    /// of it.
    fn inscribe(&mut self, _offset: usize, _bytes: &[u8]) {}

    /// The bytes of a view, to read what was inscribed; `None` where there are no contents.
    fn contents<'a>(_view: Self::View<'a>) -> Option<&'a [u8]> {
        None
    }

    /// Combines `view` into the bytes at `offset`, element by element: `self = self op view`.
    fn reduce(&mut self, offset: usize, view: Self::View<'_>, reduction: Reduction);

    /// Makes it `length` bytes long, if it is shorter; what is new is zero.
    fn lengthen(&mut self, length: usize) {
        if length > self.length() {
            let before = core::mem::replace(self, Self::zeroed(length));
            self.write(0, before.view(0..before.length()));
        }
    }

    /// Copies the bytes in `source` over those at `offset`.
    fn copy_within(&mut self, offset: usize, source: Range<usize>) {
        let copy = Self::from_view(self.view(source));
        self.write(offset, copy.view(0..copy.length()));
    }

    /// Combines the bytes in `source` into those at `offset`, element by element.
    ///
    /// # Panics
    /// If the two overlap.
    fn reduce_within(&mut self, offset: usize, source: Range<usize>, reduction: Reduction) {
        let target = offset..offset + source.len();
        assert!(target.end <= source.start || source.end <= target.start, "{source:?} into {target:?}");
        let copy = Self::from_view(self.view(source));
        self.reduce(offset, copy.view(0..copy.length()), reduction);
    }

    /// What a vector can be known by: much shorter than it where that can be, and of equal length for vectors of equal length. What is moved keeps
    /// it; and where [`adds_up`](Self::adds_up) says so, that of a reduction's result is the sum of theirs as `i32`. The vector itself if
    /// the kind knows nothing shorter.
    fn checksum(vector: Self::View<'_>) -> Self {
        Self::from_view(vector)
    }

    /// Whether checksums add up under a reduction as the vectors do: sums of whole numbers alone, for others round or choose.
    fn adds_up(reduction: Reduction) -> bool {
        reduction.op == ReduceOp::Sum && reduction.data_type == DataType::I32
    }

    /// Adds the 32-bit integers of `view` to those at `offset`, each stopping at the largest and the smallest there is.
    fn add_saturating(&mut self, offset: usize, view: Self::View<'_>) {
        self.reduce(offset, view, Reduction { op: ReduceOp::Sum, data_type: DataType::I32 });
    }

    /// The integers that binary32 values become: [`FixedPoint::integers`]. Where there are no contents, what they are of stays as it is.
    ///
    /// # Panics
    /// If that are not whole values.
    fn to_fixed_point(_: FixedPoint, values: Self::View<'_>) -> Self {
        Self::from_view(values)
    }

    /// The binary32 values that integers stand for: [`FixedPoint::values`].
    ///
    /// # Panics
    /// If that are not whole integers.
    fn from_fixed_point(_: FixedPoint, integers: Self::View<'_>) -> Self {
        Self::from_view(integers)
    }

    /// A vector of binary32 values, quantised: [`BlockQuantization::quantize`].
    ///
    /// # Panics
    /// If that are not whole values.
    fn quantize(quantization: BlockQuantization, values: Self::View<'_>) -> Quantized<Self>;

    /// The `values` binary32 values that a quantised vector stands for: [`BlockQuantization::dequantize`].
    ///
    /// # Panics
    /// If the lengths do not fit.
    fn dequantize(
        quantization: BlockQuantization,
        values: usize,
        quantized: Quantized<Self::View<'_>>,
    ) -> Self;

    /// The quantised sum of quantised vectors of `values` values: [`BlockQuantization::sum`].
    ///
    /// # Panics
    /// If there is no vector, or the lengths do not fit.
    fn sum_quantized(
        quantization: BlockQuantization,
        values: usize,
        vectors: &[Quantized<Self::View<'_>>],
    ) -> Quantized<Self>;
}
