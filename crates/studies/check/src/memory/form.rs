//! What vectors look like by what a design makes of the numbers, and what a collective leaves of them.
//!
//! Of a vector that is quantised a scale is two bytes, and provenance is told of four: so it is cut at every second block, and a packet
//! holds the codes of two. The reference is that of the simulator: the quantised sum of what ranks bring, taken of provenance.

use quincunx_cluster::expected;
use quincunx_collective::{DataType, Payload, Provenance, Quantized, Rank, Reduction};
use quincunx_design::Form;
use quincunx_engine::shared_memory::{InPlaceRequest, Span};

use crate::network::SUM;

/// Bytes of a packet's payload where nothing is quantised: two elements.
pub(crate) const PACKET: usize = 8;

/// Bytes of an element.
const ELEMENT: usize = 4;

/// Blocks whose scale factors are an element together.
const BLOCKS: usize = 2;

/// How a vector lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape(Form);

impl Shape {
    /// Elements as they are.
    pub(super) const EXACT: Self = Self(Form::Exact);

    pub(super) const fn of(form: Form) -> Self {
        Self(form)
    }

    /// What is added up, integers where the point is fixed. Provenance takes all sums alike, what is quantised is of floating-point numbers.
    pub(super) const fn reduction(self) -> Reduction {
        match self.0 {
            Form::Exact | Form::FixedPoint | Form::Codes(_) => SUM,
            Form::Requantized(_) => Reduction { data_type: DataType::F32, ..SUM },
        }
    }

    /// Bytes of a packet's payload.
    pub(super) const fn payload(self) -> usize {
        match self.0 {
            Form::Exact | Form::FixedPoint => PACKET,
            Form::Codes(scheme) | Form::Requantized(scheme) => BLOCKS * scheme.code_bytes(scheme.block()),
        }
    }

    /// Bytes of the least piece that a vector is made of: a packet, or what is a packet of codes at each rank in turn.
    pub(super) const fn piece(self, ranks: u16) -> usize {
        match self.0 {
            Form::Exact | Form::FixedPoint | Form::Codes(_) => self.payload(),
            Form::Requantized(scheme) => BLOCKS * scheme.block() * ELEMENT * ranks as usize,
        }
    }

    /// The values of a vector, which have numbers of their own.
    pub(super) const fn values(self, span: Span) -> usize {
        match self.0 {
            Form::Codes(scheme) => scheme.values(span.length),
            Form::Exact | Form::FixedPoint | Form::Requantized(_) => span.length / ELEMENT,
        }
    }

    /// The vector with what lies right behind it and belongs to it.
    pub(super) const fn extent(self, span: Span) -> Span {
        let tail = match self.0 {
            Form::Codes(scheme) => scheme.scale_bytes(scheme.values(span.length)),
            Form::Exact | Form::FixedPoint | Form::Requantized(_) => 0,
        };
        Span { offset: span.offset, length: span.length + tail }
    }

    /// What a rank's memory would be if it were its own input alone, in the collective of that number. No value of a rank is in two
    /// collectives.
    pub(super) fn memory(self, span: Span, rank: Rank, number: usize) -> Provenance {
        self.filled(span, number, |length| Provenance::of_rank(rank, length))
    }

    fn filled(self, span: Span, number: usize, values: impl Fn(usize) -> Provenance) -> Provenance {
        let count = self.values(span);
        let values = values(count * ELEMENT).moved(number * count);
        let Span { offset, length } = self.extent(span);
        let mut memory = Provenance::zeroed(offset + length);
        match self.0 {
            Form::Codes(scheme) => {
                let Quantized { codes, scales } =
                    Provenance::quantize(scheme, values.view(0..values.length()));
                memory.write(offset, codes.view(0..codes.length()));
                memory.write(offset + span.length, scales.view(0..scales.length()));
            }
            Form::Exact | Form::FixedPoint | Form::Requantized(_) => {
                memory.write(offset, values.view(0..values.length()))
            }
        }
        memory
    }

    /// Where a rank has a result of the collective of that number, and which.
    pub(super) fn expected(
        self,
        request: &InPlaceRequest,
        rank: Rank,
        ranks: u16,
        number: usize,
    ) -> Option<(Span, Provenance)> {
        let span = self.extent(request.span);
        match self.0 {
            // Vectors of codes are summed everywhere, or not at all.
            Form::Codes(_) if span.length > 0 => {
                let all = self.filled(request.span, number, |length| Provenance::of_all(ranks, length));
                Some((span, Provenance::from_view(all.view(span.offset..span.offset + span.length))))
            }
            _ => {
                let inputs: Vec<_> =
                    (0..ranks).map(|rank| self.memory(request.span, Rank(rank), number)).collect();
                expected(request, rank.index(), &inputs)
            }
        }
    }
}
