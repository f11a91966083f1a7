//! A payload that counts whose data is in each element, for proving that a protocol neither loses nor doubles any.

use crate::{BlockQuantization, DataType, Payload, Quantized, Rank, ReduceOp, Reduction};
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::ops::Range;

/// Bytes that one counter stands for.
const ELEMENT: usize = 4;

/// How often each of up to 16 ranks has contributed to each 4-byte element: four bits a rank, which stay at 15 when
/// they get there, so that a wrong count never comes round to a right one. Whatever the operation, reducing adds.
///
/// # Panics
/// Offsets and starts of ranges must be multiples of four bytes; lengths may be anything and are kept, and a
/// beginning of an element has a counter of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Contributions {
    counts: Vec<Counts>,
    length: usize,
}

/// A borrowed piece of [`Contributions`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContributionView<'a> {
    counts: &'a [Counts],
    length: usize,
}

/// The counts of one element, a word with the least byte first: bytes that lie in a frame are counts as they are.
type Counts = [u8; 8];

impl Hash for Contributions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_view().hash(state);
    }
}

impl Hash for ContributionView<'_> {
    /// All bytes at once: one by one an element costs a call each.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.counts.len());
        state.write(self.counts.as_flattened());
        state.write_usize(self.length);
    }
}

impl<'a> ContributionView<'a> {
    /// The counts as bytes, eight for each element.
    pub fn as_bytes(self) -> &'a [u8] {
        self.counts.as_flattened()
    }

    /// A piece of `length` bytes whose counts are given as bytes: what [`as_bytes`](Self::as_bytes) says of it. None if these are not
    /// eight bytes for each element.
    pub fn from_bytes(length: usize, counts: &'a [u8]) -> Option<Self> {
        let (counts, rest) = counts.as_chunks();
        let is_whole = rest.is_empty() && counts.len() == length.div_ceil(ELEMENT);
        is_whole.then_some(Self { counts, length })
    }
}

impl Contributions {
    /// Ranks that can be told apart.
    pub const RANKS: u16 = 16;

    /// What `rank` brings in: `length` bytes to which it, and nobody else, has contributed once.
    ///
    /// # Panics
    /// If `rank` is not below [`Self::RANKS`].
    pub fn of_rank(rank: Rank, length: usize) -> Self {
        assert!(rank.0 < Self::RANKS, "expected a rank below {}, found {rank}", Self::RANKS);
        Self { counts: vec![(1_u64 << (4 * rank.0)).to_le_bytes(); length.div_ceil(ELEMENT)], length }
    }

    /// `length` bytes to which each of the ranks below `ranks` has contributed once.
    ///
    /// # Panics
    /// If there are more than [`Self::RANKS`].
    pub fn of_all(ranks: u16, length: usize) -> Self {
        assert!(ranks <= Self::RANKS, "expected at most {} ranks, found {ranks}", Self::RANKS);
        let count: u64 = (0..ranks).map(|rank| 1 << (4 * rank)).sum();
        Self { counts: vec![count.to_le_bytes(); length.div_ceil(ELEMENT)], length }
    }

    /// How often `rank` has contributed to the element at byte `offset`; 15 means that or more.
    ///
    /// # Panics
    /// If `offset` is not inside, or `rank` not below [`Self::RANKS`].
    pub fn count(&self, offset: usize, rank: Rank) -> u8 {
        assert!(rank.0 < Self::RANKS, "expected a rank below {}, found {rank}", Self::RANKS);
        (u64::from_le_bytes(self.counts[offset / ELEMENT]) >> (4 * rank.0)) as u8 & 15
    }

    /// The same with other names for the ranks below `ranks`.
    ///
    /// # Panics
    /// If a name is not below [`Self::RANKS`].
    pub fn renamed(&self, ranks: u16, rename: impl Fn(Rank) -> Rank) -> Self {
        let mut renamed = Self::zeroed(self.length);
        for rank in 0..ranks {
            let name = rename(Rank(rank)).0;
            assert!(name < Self::RANKS, "expected a rank below {}, found {name}", Self::RANKS);
            for (to, from) in renamed.counts.iter_mut().zip(&self.counts) {
                let count = u64::from_le_bytes(*from) >> (4 * rank) & 15;
                *to = (u64::from_le_bytes(*to) | count << (4 * name)).to_le_bytes();
            }
        }
        renamed
    }

    fn as_view(&self) -> ContributionView<'_> {
        ContributionView { counts: &self.counts, length: self.length }
    }

    fn counts_at(&mut self, offset: usize, length: usize) -> &mut [Counts] {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        assert!(inside, "{length} bytes at {offset} of {}", self.length);
        if length == 0 {
            return &mut [];
        }
        assert!(offset.is_multiple_of(ELEMENT), "offset {offset} is within an element");
        &mut self.counts[offset / ELEMENT..][..length.div_ceil(ELEMENT)]
    }
}

/// Adds sixteen counters of four bits each, every one stopping at 15.
fn add_counts(a: u64, b: u64) -> u64 {
    const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    let add = |a: u64, b: u64| {
        let sum = (a & LOW) + (b & LOW);
        let carry = (sum >> 4) & (LOW / 15);
        (sum | ((carry << 4) - carry)) & LOW
    };
    add(a, b) | add(a >> 4, b >> 4) << 4
}

/// Each element as the ranks that have contributed to it, with their number of times if that is not one: `0+1+2x2`.
impl core::fmt::Display for Contributions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("[")?;
        for (index, counts) in self.counts.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " " })?;
            let counts = u64::from_le_bytes(*counts);
            let ranks = (0..Self::RANKS).map(|rank| (rank, counts >> (4 * rank) & 15));
            let mut separator = "";
            for (rank, count) in ranks.filter(|(_, count)| *count > 0) {
                write!(f, "{separator}{rank}")?;
                if count > 1 {
                    write!(f, "x{count}")?;
                }
                separator = "+";
            }
            if separator.is_empty() {
                f.write_str("-")?;
            }
        }
        f.write_str("]")
    }
}

impl Payload for Contributions {
    type View<'a> = ContributionView<'a>;

    fn zeroed(length: usize) -> Self {
        Self { counts: vec![[0; 8]; length.div_ceil(ELEMENT)], length }
    }

    fn length(&self) -> usize {
        self.length
    }

    fn empty<'a>() -> ContributionView<'a> {
        ContributionView { counts: &[], length: 0 }
    }

    fn view(&self, range: Range<usize>) -> ContributionView<'_> {
        Self::subview(self.as_view(), range)
    }

    fn view_length(view: ContributionView<'_>) -> usize {
        view.length
    }

    fn reborrow<'short, 'long: 'short>(view: Self::View<'long>) -> Self::View<'short> {
        view
    }

    fn subview(view: Self::View<'_>, range: Range<usize>) -> Self::View<'_> {
        assert!(range.start <= range.end && range.end <= view.length, "bytes {range:?} of {}", view.length);
        if range.is_empty() {
            return Self::empty();
        }
        assert!(range.start.is_multiple_of(ELEMENT), "offset {} is within an element", range.start);
        let counts = &view.counts[range.start / ELEMENT..range.end.div_ceil(ELEMENT)];
        ContributionView { counts, length: range.len() }
    }

    fn from_view(view: ContributionView<'_>) -> Self {
        Self { counts: view.counts.to_vec(), length: view.length }
    }

    fn write(&mut self, offset: usize, view: ContributionView<'_>) {
        self.counts_at(offset, view.length).copy_from_slice(view.counts);
    }

    fn reduce(&mut self, offset: usize, view: ContributionView<'_>, _reduction: Reduction) {
        for (a, b) in self.counts_at(offset, view.length).iter_mut().zip(view.counts) {
            *a = add_counts(u64::from_le_bytes(*a), u64::from_le_bytes(*b)).to_le_bytes();
        }
    }

    /// Whoever has contributed to the first of the values that a counter of codes or scales stands for has contributed to it.
    fn quantize(quantization: BlockQuantization, values: ContributionView<'_>) -> Quantized<Self> {
        let count = values.length / ELEMENT;
        let counters = |length, values_each| {
            let counts = values.counts[..count].chunks(values_each).map(|values| values[0]).collect();
            Self { counts, length }
        };
        let scales_each = ELEMENT / quantization.scale_bytes(1) * quantization.block();
        Quantized {
            codes: counters(quantization.code_bytes(count), quantization.values(ELEMENT)),
            scales: counters(quantization.scale_bytes(count), scales_each),
        }
    }

    /// Whoever has contributed to a counter of codes has contributed to all values that it stands for.
    fn dequantize(
        quantization: BlockQuantization,
        values: usize,
        quantized: Quantized<ContributionView<'_>>,
    ) -> Self {
        let Quantized { codes, scales } = quantized;
        let expected = (quantization.code_bytes(values), quantization.scale_bytes(values));
        assert_eq!((codes.length, scales.length), expected, "codes and scales of {values} values");
        let values_each = quantization.values(ELEMENT);
        let counts = (0..values).map(|value| codes.counts[value / values_each]).collect();
        Self { counts, length: values * ELEMENT }
    }

    /// Whoever has contributed to a code or a scale has contributed to that of the sum.
    fn sum_quantized(
        quantization: BlockQuantization,
        values: usize,
        vectors: &[Quantized<ContributionView<'_>>],
    ) -> Quantized<Self> {
        const ADD: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        let codes = Self::zeroed(quantization.code_bytes(values));
        let mut sum = Quantized { codes, scales: Self::zeroed(quantization.scale_bytes(values)) };
        for vector in vectors {
            sum.codes.reduce(0, vector.codes, ADD);
            sum.scales.reduce(0, vector.scales, ADD);
        }
        sum
    }
}
