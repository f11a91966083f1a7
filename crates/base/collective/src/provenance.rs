//! A payload that knows where the data in each element comes from, for proving that a protocol neither loses nor doubles any,
//! nor takes one packet's for another's.

use crate::{BlockQuantization, DataType, Payload, Quantized, Rank, ReduceOp, Reduction};
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::ops::Range;

/// Bytes that one element stands for.
const ELEMENT: usize = 4;

/// For each 4-byte element, whose elements are in it: which of up to 16 ranks has contributed which of its elements, and how often.
/// Whatever the operation, reducing adds.
///
/// A rank's elements have numbers below [`NUMBERS`](Self::NUMBERS). In a right sum all have the same number, so that an element is kept
/// as one number, with a count of up to 15 for each rank, and up to three contributions that have other numbers. What is more
/// than that is kept as "many", which no right result is and which stays as it is.
///
/// # Panics
/// Offsets and starts of ranges must be multiples of four bytes; lengths may be anything and are kept, and a
/// beginning of an element is an element of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    elements: Vec<Bytes>,
    length: usize,
}

/// A borrowed piece of a [`Provenance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProvenanceView<'a> {
    elements: &'a [Bytes],
    length: usize,
}

/// An [`Element`] as it lies in a frame: the least byte of the counts first, then that of the rest.
type Bytes = [u8; 16];

/// What is in one element. Whoever has contributed it, what is equal is kept in equal words.
///
/// ```text
///  rest: 63..62 | 61 .. 60 | 59 .. 48 | 47 .. 32 | 31 .. 16 | 15 .. 0
///        many   | strangers|  number  | the strangers, in order, the greatest last
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct Element {
    /// How often each rank has contributed its element of this number: four bits a rank, which stay at 15 when they get there, so
    /// that a wrong count never comes round to a right one.
    counts: u64,
    /// The number that most contributions have, the least of those if there are several; and the contributions of other numbers, the
    /// strangers.
    rest: u64,
}

/// A contribution with another number than most: the rank in four bits, the number in twelve.
type Stranger = u16;

const NUMBER_BITS: u32 = 12;
/// The number of a stranger.
const LOW: Stranger = (1 << NUMBER_BITS) - 1;
const NUMBER_SHIFT: u32 = 48;
const STRANGERS_SHIFT: u32 = 60;
const MOST_STRANGERS: usize = 3;

impl Element {
    const NOTHING: Self = Self { counts: 0, rest: 0 };
    const MANY: Self = Self { counts: 0, rest: 1 << 62 };

    fn of(counts: u64, number: usize) -> Self {
        Self { counts, rest: ((number % Provenance::NUMBERS) as u64) << NUMBER_SHIFT }
    }

    fn from_bytes(bytes: Bytes) -> Self {
        let word = u128::from_le_bytes(bytes);
        Self { counts: word as u64, rest: (word >> 64) as u64 }
    }

    fn to_bytes(self) -> Bytes {
        (u128::from(self.rest) << 64 | u128::from(self.counts)).to_le_bytes()
    }

    fn number(self) -> u16 {
        (self.rest >> NUMBER_SHIFT) as u16 & LOW
    }

    fn strangers(self) -> impl Iterator<Item = Stranger> + Clone {
        let count = (self.rest >> STRANGERS_SHIFT & 3) as usize;
        (0..count).map(move |index| (self.rest >> (16 * index)) as Stranger)
    }

    /// How often a rank has contributed its element of the number that most have.
    fn count(self, rank: u16) -> u64 {
        self.counts >> (4 * rank) & 15
    }

    fn plus(self, other: Self) -> Self {
        // Nearly always: one element of several ranks.
        if self.rest == other.rest && self.rest >> STRANGERS_SHIFT == 0 {
            return Self { counts: add_counts(self.counts, other.counts), ..self };
        }
        match (self, other) {
            (Self::NOTHING, sum) | (sum, Self::NOTHING) => sum,
            (Self::MANY, _) | (_, Self::MANY) => Self::MANY,
            (a, b) => a.mixed_with(b),
        }
    }

    /// The sum of elements with contributions of more than one number.
    fn mixed_with(self, other: Self) -> Self {
        let mut parts: Vec<(u16, u64)> = Vec::new();
        let mut add = |number: u16, counts: u64| match parts.iter_mut().find(|part| part.0 == number) {
            Some(part) => part.1 = add_counts(part.1, counts),
            None => parts.push((number, counts)),
        };
        for element in [self, other] {
            add(element.number(), element.counts);
            for stranger in element.strangers() {
                add(stranger & LOW, 1 << (4 * (stranger >> NUMBER_BITS)));
            }
        }
        Self::of_parts(parts)
    }

    /// The element with these counts of each number.
    fn of_parts(mut parts: Vec<(u16, u64)>) -> Self {
        let total = |counts: u64| (0..16).map(|rank| counts >> (4 * rank) & 15).sum::<u64>();
        // The number that most have comes first, and of those the least.
        parts.sort_unstable_by_key(|&(number, counts)| (core::cmp::Reverse(total(counts)), number));
        let (&(number, counts), others) = parts.split_first().expect("there is something to add");
        if others.iter().map(|(_, counts)| total(*counts)).sum::<u64>() > MOST_STRANGERS as u64 {
            return Self::MANY;
        }
        let mut strangers: Vec<Stranger> = Vec::new();
        for &(number, of_number) in others {
            for rank in 0..Provenance::RANKS {
                let times = of_number >> (4 * rank) & 15;
                strangers.extend((0..times).map(|_| rank << NUMBER_BITS | number));
            }
        }
        Self::with_strangers(counts, number, strangers)
    }

    fn with_strangers(counts: u64, number: u16, mut strangers: Vec<Stranger>) -> Self {
        strangers.sort_unstable();
        let mut rest = u64::from(number) << NUMBER_SHIFT | (strangers.len() as u64) << STRANGERS_SHIFT;
        for (index, stranger) in strangers.into_iter().enumerate() {
            rest |= u64::from(stranger) << (16 * index);
        }
        Self { counts, rest }
    }

    fn renamed(self, ranks: u16, rename: impl Fn(u16) -> u16) -> Self {
        let rename = |rank: u16| if rank < ranks { rename(rank) } else { rank };
        let counts = (0..Provenance::RANKS).map(|rank| self.count(rank) << (4 * rename(rank)));
        let counts = counts.fold(0, |all, count| all | count);
        if self.rest >> STRANGERS_SHIFT == 0 {
            return Self { counts, ..self };
        }
        if self == Self::MANY {
            return self;
        }
        let strangers = self.strangers();
        let strangers =
            strangers.map(|stranger| rename(stranger >> NUMBER_BITS) << NUMBER_BITS | stranger & LOW);
        Self::with_strangers(counts, self.number(), strangers.collect())
    }

    /// The same of elements that come so many after.
    fn moved(self, by: usize) -> Self {
        let number = |number: u16| ((usize::from(number) + by) % Provenance::NUMBERS) as u16;
        if self == Self::NOTHING || self == Self::MANY {
            return self;
        }
        let strangers = self.strangers();
        let strangers = strangers.map(|stranger| stranger & !LOW | number(stranger & LOW));
        Self::with_strangers(self.counts, number(self.number()), strangers.collect())
    }
}

impl Hash for Provenance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_view().hash(state);
    }
}

impl Hash for ProvenanceView<'_> {
    /// All bytes at once: one by one an element costs a call each.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.elements.len());
        state.write(self.elements.as_flattened());
        state.write_usize(self.length);
    }
}

impl<'a> ProvenanceView<'a> {
    /// The elements as bytes, sixteen for each.
    pub fn as_bytes(self) -> &'a [u8] {
        self.elements.as_flattened()
    }

    /// A piece of `length` bytes whose elements are given as bytes: what [`as_bytes`](Self::as_bytes) says of it. None if these are not
    /// sixteen bytes for each element.
    pub fn from_bytes(length: usize, elements: &'a [u8]) -> Option<Self> {
        let (elements, rest) = elements.as_chunks();
        let is_whole = rest.is_empty() && elements.len() == length.div_ceil(ELEMENT);
        is_whole.then_some(Self { elements, length })
    }
}

impl Provenance {
    /// Ranks that can be told apart.
    pub const RANKS: u16 = 16;

    /// Elements of a rank that can be told apart: numbers begin again from zero after so many.
    pub const NUMBERS: usize = 1 << NUMBER_BITS;

    /// What `rank` brings in: `length` bytes to which it, and nobody else, has contributed once, its elements numbered from zero.
    ///
    /// # Panics
    /// If `rank` is not below [`Self::RANKS`].
    pub fn of_rank(rank: Rank, length: usize) -> Self {
        assert!(rank.0 < Self::RANKS, "expected a rank below {}, found {rank}", Self::RANKS);
        Self::numbered(1 << (4 * rank.0), length)
    }

    /// `length` bytes to which each of the ranks below `ranks` has contributed once, with elements numbered from zero.
    ///
    /// # Panics
    /// If there are more than [`Self::RANKS`].
    pub fn of_all(ranks: u16, length: usize) -> Self {
        assert!(ranks <= Self::RANKS, "expected at most {} ranks, found {ranks}", Self::RANKS);
        Self::numbered((0..ranks).map(|rank| 1 << (4 * rank)).sum(), length)
    }

    fn numbered(counts: u64, length: usize) -> Self {
        let element = |number| if counts == 0 { Element::NOTHING } else { Element::of(counts, number) };
        let elements = (0..length.div_ceil(ELEMENT)).map(|number| element(number).to_bytes());
        Self { elements: elements.collect(), length }
    }

    /// The same of elements that come `by` elements later.
    pub fn moved(&self, by: usize) -> Self {
        self.each(|element| element.moved(by))
    }

    /// How often `rank` has contributed to the element at byte `offset`, whichever of its elements; 15 means that or more. Of what
    /// is too mixed to be told, zero.
    ///
    /// # Panics
    /// If `offset` is not inside, or `rank` not below [`Self::RANKS`].
    pub fn count(&self, offset: usize, rank: Rank) -> u8 {
        assert!(rank.0 < Self::RANKS, "expected a rank below {}, found {rank}", Self::RANKS);
        let element = Element::from_bytes(self.elements[offset / ELEMENT]);
        let strangers = element.strangers().filter(|stranger| stranger >> NUMBER_BITS == rank.0).count();
        (element.count(rank.0) + strangers as u64).min(15) as u8
    }

    /// Whether each element may be part of a sum to which each rank contributes its element of one number once: nothing is in it twice, and
    /// no two numbers are. What is added to one that is not does not make it one.
    pub fn may_be_part_of_a_sum(&self) -> bool {
        const TWICE: u64 = 0xeeee_eeee_eeee_eeee;
        self.elements.iter().all(|bytes| {
            let element = Element::from_bytes(*bytes);
            element.counts & TWICE == 0 && element.rest >> STRANGERS_SHIFT == 0
        })
    }

    /// The number of the elements that are in the one at byte `offset`; none if there are none, or of several numbers.
    ///
    /// # Panics
    /// If `offset` is not inside.
    pub fn number(&self, offset: usize) -> Option<usize> {
        let element = Element::from_bytes(self.elements[offset / ELEMENT]);
        let is_one = element.counts != 0 && element.rest >> STRANGERS_SHIFT == 0;
        is_one.then(|| usize::from(element.number()))
    }

    /// The same with other names for the ranks below `ranks`.
    ///
    /// # Panics
    /// If a name is not below [`Self::RANKS`].
    pub fn renamed(&self, ranks: u16, rename: impl Fn(Rank) -> Rank) -> Self {
        let rename = |rank| {
            let name = rename(Rank(rank)).0;
            assert!(name < Self::RANKS, "expected a rank below {}, found {name}", Self::RANKS);
            name
        };
        self.each(|element| element.renamed(ranks, rename))
    }

    fn each(&self, change: impl Fn(Element) -> Element) -> Self {
        let elements = self.elements.iter().map(|bytes| change(Element::from_bytes(*bytes)).to_bytes());
        Self { elements: elements.collect(), length: self.length }
    }

    fn as_view(&self) -> ProvenanceView<'_> {
        ProvenanceView { elements: &self.elements, length: self.length }
    }

    fn elements_at(&mut self, offset: usize, length: usize) -> &mut [Bytes] {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        assert!(inside, "{length} bytes at {offset} of {}", self.length);
        if length == 0 {
            return &mut [];
        }
        assert!(offset.is_multiple_of(ELEMENT), "offset {offset} is within an element");
        &mut self.elements[offset / ELEMENT..][..length.div_ceil(ELEMENT)]
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

/// Each element as the number of what is in it and the ranks that have contributed that, with their number of times if that is not
/// one, and then other numbers: `4:0+1+2x2`, `4:0+1,5:2`.
impl core::fmt::Display for Provenance {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("[")?;
        for (index, bytes) in self.elements.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " " })?;
            match Element::from_bytes(*bytes) {
                Element::NOTHING => f.write_str("-")?,
                Element::MANY => f.write_str("many")?,
                element => element.fmt(f)?,
            }
        }
        f.write_str("]")
    }
}

impl core::fmt::Display for Element {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:", self.number())?;
        let mut separator = "";
        for rank in 0..Provenance::RANKS {
            let count = self.count(rank);
            if count > 0 {
                write!(f, "{separator}{rank}")?;
                separator = "+";
            }
            if count > 1 {
                write!(f, "x{count}")?;
            }
        }
        for stranger in self.strangers() {
            write!(f, ",{}:{}", stranger & LOW, stranger >> NUMBER_BITS)?;
        }
        Ok(())
    }
}

impl Payload for Provenance {
    type View<'a> = ProvenanceView<'a>;

    fn zeroed(length: usize) -> Self {
        Self { elements: vec![Element::NOTHING.to_bytes(); length.div_ceil(ELEMENT)], length }
    }

    fn length(&self) -> usize {
        self.length
    }

    fn empty<'a>() -> ProvenanceView<'a> {
        ProvenanceView { elements: &[], length: 0 }
    }

    fn view(&self, range: Range<usize>) -> ProvenanceView<'_> {
        Self::subview(self.as_view(), range)
    }

    fn view_length(view: ProvenanceView<'_>) -> usize {
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
        let elements = &view.elements[range.start / ELEMENT..range.end.div_ceil(ELEMENT)];
        ProvenanceView { elements, length: range.len() }
    }

    fn from_view(view: ProvenanceView<'_>) -> Self {
        Self { elements: view.elements.to_vec(), length: view.length }
    }

    fn write(&mut self, offset: usize, view: ProvenanceView<'_>) {
        self.elements_at(offset, view.length).copy_from_slice(view.elements);
    }

    fn reduce(&mut self, offset: usize, view: ProvenanceView<'_>, _reduction: Reduction) {
        for (a, b) in self.elements_at(offset, view.length).iter_mut().zip(view.elements) {
            *a = Element::from_bytes(*a).plus(Element::from_bytes(*b)).to_bytes();
        }
    }

    /// An element of codes or scales has what the first of its values has, if the others have what follows that.
    /// Whatever the operation, reducing adds, and the whole vector is its own checksum.
    fn adds_up(_reduction: Reduction) -> bool {
        true
    }

    fn quantize(quantization: BlockQuantization, values: ProvenanceView<'_>) -> Quantized<Self> {
        let count = values.length / ELEMENT;
        let elements = |length, values_each| {
            let in_order = |values: &[Bytes]| {
                let first = Element::from_bytes(values[0]);
                let follow = |(by, value): (usize, &Bytes)| first.moved(by).to_bytes() == *value;
                if values.iter().enumerate().all(follow) { first } else { Element::MANY }.to_bytes()
            };
            let elements = values.elements[..count].chunks(values_each).map(in_order).collect();
            Self { elements, length }
        };
        let scales_each = ELEMENT / quantization.scale_bytes(1) * quantization.block();
        Quantized {
            codes: elements(quantization.code_bytes(count), quantization.values(ELEMENT)),
            scales: elements(quantization.scale_bytes(count), scales_each),
        }
    }

    /// What is in an element of codes is in the first value that it stands for, and what follows that in the others.
    fn dequantize(
        quantization: BlockQuantization,
        values: usize,
        quantized: Quantized<ProvenanceView<'_>>,
    ) -> Self {
        let Quantized { codes, scales } = quantized;
        let expected = (quantization.code_bytes(values), quantization.scale_bytes(values));
        assert_eq!((codes.length, scales.length), expected, "codes and scales of {values} values");
        let each = quantization.values(ELEMENT);
        let value = |value: usize| Element::from_bytes(codes.elements[value / each]).moved(value % each);
        let elements = (0..values).map(|number| value(number).to_bytes()).collect();
        Self { elements, length: values * ELEMENT }
    }

    /// What is in a code or a scale is in that of the sum.
    fn sum_quantized(
        quantization: BlockQuantization,
        values: usize,
        vectors: &[Quantized<ProvenanceView<'_>>],
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
