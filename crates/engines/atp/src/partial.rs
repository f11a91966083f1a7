//! What there is of a sum, at the switch and at the server, and what a packet says of its part.

use quincunx_collective::{DataType, Payload, ReduceOp, Reduction};
use quincunx_wire::atp::{AtpHeader, AtpTag, AtpTags, LENGTH};
use quincunx_wire::switchml::Kind;

pub(crate) const WRAPPING: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// What a packet says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Part {
    /// The sequence number, in whole.
    pub(crate) number: u32,
    /// Whose values are in it.
    pub(crate) workers: u32,
    pub(crate) is_resent: bool,
    pub(crate) header: AtpHeader,
}

impl Part {
    /// Of an immediate and a payload. Where payloads have no contents the number is the one nearest to `near`.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn read<P: Payload>(
        tags: AtpTags,
        immediate: u32,
        payload: P::View<'_>,
        near: u32,
    ) -> Result<Self, &'static str> {
        let AtpTag { low, workers, is_resent } = tags.read(immediate);
        let length = P::view_length(P::reborrow(payload));
        if length < LENGTH || !length.is_multiple_of(4) {
            return Err("no whole elements");
        }
        let header = match P::contents(payload) {
            Some(contents) => AtpHeader::parse(contents).map_err(|_| "no header")?,
            None => {
                AtpHeader { kind: Kind::Integers, exponent: 0, digest: 0, number: tags.nearest(low, near) }
            }
        };
        let number = header.number;
        if tags.read(tags.write(number, 0, false)).low != low {
            return Err("of two numbers");
        }
        if workers == 0 { Err("of nobody") } else { Ok(Self { number, workers, is_resent, header }) }
    }
}

/// What there is of a sum.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Partial<P> {
    /// The sequence number.
    pub(crate) number: u32,
    /// Whose values are in it.
    pub(crate) workers: u32,
    header: AtpHeader,
    /// A packet's payload, with room for the header before the sum.
    data: P,
}

impl<P: Payload> Partial<P> {
    /// Begins with the first part.
    pub(crate) fn new(part: Part, payload: P::View<'_>) -> Self {
        let Part { number, workers, header, .. } = part;
        Self { number, workers, header, data: P::from_view(payload) }
    }

    /// Adds another part. Ranks that ask for different things get no sum, and are told so.
    pub(crate) fn add(&mut self, part: Part, payload: P::View<'_>) {
        self.workers |= part.workers;
        self.header.exponent = self.header.exponent.max(part.header.exponent);
        let length = P::view_length(P::reborrow(payload));
        let agrees = (self.header.kind, self.header.digest, self.data.length())
            == (part.header.kind, part.header.digest, length);
        if !agrees {
            self.header.kind = Kind::Disagreement;
        }
        self.combine(P::subview(payload, LENGTH.min(length)..length));
    }

    fn combine(&mut self, elements: P::View<'_>) {
        match self.header.kind {
            Kind::Integers => self.data.reduce(LENGTH, elements, WRAPPING),
            Kind::FixedPoint => self.data.add_saturating(LENGTH, elements),
            Kind::Disagreement => {}
        }
    }

    /// Adds what is left of another sum, if they are of equal length: a rule is broken.
    pub(crate) fn keep(&mut self, before: &Self) {
        if before.data.length() == self.data.length() {
            self.combine(before.data.view(LENGTH..before.data.length()));
        }
    }

    /// The payload of the packet that it is sent in.
    pub(crate) fn payload(&mut self) -> P::View<'_> {
        self.data.inscribe(0, &self.header.to_bytes());
        self.data.view(0..self.data.length())
    }
}
