//! One collective's vector as integers in packets.
//!
//! Binary32 values become integers by a power of two. Either the point is said beforehand, or ranks agree on it for each piece, by the largest
//! exponent of any of them, which travels so many packets ahead (SwitchML, "scaling factor"; [`FixedPoint`]).

use crate::cut::Pieces;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{
    Collective, DataType, FixedPoint, NOT_FINITE, Payload, Rank, ReduceOp, Reduction, largest_exponent,
};
use quincunx_engine::verbs::{CollectiveRequest, Memory, RequestError, Slice};

/// What a group's vectors have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VectorConfig {
    /// This rank.
    pub rank: Rank,
    /// Ranks in the group.
    pub ranks: u16,
    /// Bytes of elements in a full packet.
    pub piece: usize,
    /// Where the point of numbers is; ranks agree on it for each piece if it is not said.
    pub scale: Option<FixedPoint>,
    /// How many packets exponents travel ahead of their piece, where they do.
    pub ahead: u32,
}

/// A vector on its way through adders of integers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IntegerVector {
    request: CollectiveRequest,
    pieces: Pieces,
    ranks: u16,
    scale: Option<FixedPoint>,
    digest: u32,
    /// By piece: the largest exponent of all ranks, as far as it is known. None of integers, or where the point is said.
    exponents: Vec<u8>,
}

/// How the elements of a packet become integers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scale {
    /// They are.
    Integers,
    /// By a power of two.
    At(FixedPoint),
    /// Not at all: some rank has none that is finite, and all of the sum is NaN.
    NotFinite,
}

impl IntegerVector {
    /// The vector of a request.
    ///
    /// # Errors
    /// If it is no AllReduce of sums of binary32 values or 32-bit integers, nor a Barrier, or its memory is not fit for it.
    pub fn new<P: Payload>(
        config: &VectorConfig,
        mut request: CollectiveRequest,
        memory: &Memory<P>,
    ) -> Result<Self, RequestError> {
        let length = check(config.rank, &request, memory)?;
        let digest = request.digest(length, u32::BITS);
        if request.collective == Collective::Barrier {
            // An AllReduce of nothing, whatever type the ranks say that it has.
            request.reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
        }
        let agrees = request.reduction.data_type == DataType::F32 && config.scale.is_none();
        let pieces = Pieces::new(length, config.piece, if agrees { config.ahead } else { 0 });
        let exponents = if agrees { vec![0; pieces.count() as usize] } else { Vec::new() };
        Ok(Self { request, pieces, ranks: config.ranks, scale: config.scale, digest, exponents })
    }

    /// Packets in all.
    pub fn packets(&self) -> u64 {
        self.pieces.packets()
    }

    /// How many packets there are without elements, which is how far exponents are ahead: a packet can be made when the one that is so far before
    /// it has its result.
    pub const fn openings(&self) -> u64 {
        self.pieces.openings
    }

    /// What ranks must agree on.
    pub const fn digest(&self) -> u32 {
        self.digest
    }

    /// Whether integers are numbers in fixed point, which saturate; others wrap.
    pub fn is_fixed_point(&self) -> bool {
        self.request.reduction.data_type == DataType::F32
    }

    /// Bytes of elements in a packet.
    pub fn length(&self, packet: u64) -> usize {
        self.pieces.elements(packet).1
    }

    /// The integers of a packet.
    pub fn integers<P: Payload>(&self, packet: u64, memory: &Memory<P>) -> P {
        let (offset, length) = self.pieces.elements(packet);
        let values = memory.view(self.of_input(offset, length));
        match self.scale_of(packet) {
            Scale::Integers => P::from_view(values),
            Scale::At(scale) => P::to_fixed_point(scale, values),
            Scale::NotFinite => P::zeroed(length),
        }
    }

    /// The exponent that a packet carries: the largest of this rank's values behind it.
    pub fn exponent<P: Payload>(&self, packet: u64, memory: &Memory<P>) -> u8 {
        let announced = self.pieces.announced(packet);
        let values = announced.map(|(offset, length)| memory.view(self.of_input(offset, length)));
        values.and_then(P::contents).map_or(0, largest_exponent)
    }

    /// What a packet's sum means. It has as many bytes as the packet has elements.
    pub fn values<P: Payload>(&self, packet: u64, sum: P::View<'_>) -> P {
        match self.scale_of(packet) {
            Scale::Integers => P::from_view(sum),
            Scale::At(scale) => P::from_fixed_point(scale, sum),
            Scale::NotFinite => not_numbers(self.length(packet)),
        }
    }

    /// Takes the values of a packet, and the exponent that came with them.
    pub fn take<P: Payload>(&mut self, packet: u64, values: &P, exponent: u8, memory: &mut Memory<P>) {
        let (offset, length) = self.pieces.elements(packet);
        let output = self.request.output;
        let place = Slice { region: output.region, offset: output.offset + offset, length };
        memory.write(place, values.view(0..length));
        if self.pieces.announced(packet).is_some() {
            self.exponents[packet as usize] = exponent;
        }
    }

    const fn of_input(&self, offset: usize, length: usize) -> Slice {
        let input = self.request.input;
        Slice { region: input.region, offset: input.offset + offset, length }
    }

    fn scale_of(&self, packet: u64) -> Scale {
        if !self.is_fixed_point() {
            return Scale::Integers;
        }
        if let Some(scale) = self.scale {
            return Scale::At(scale);
        }
        let piece = packet.checked_sub(self.pieces.openings);
        match piece.map(|piece| self.exponents[piece as usize]) {
            // An opening has no elements.
            None => Scale::Integers,
            Some(NOT_FINITE) => Scale::NotFinite,
            Some(exponent) => Scale::At(FixedPoint::for_block(exponent, self.ranks)),
        }
    }
}

/// Refuses what adders of integers cannot add up.
fn check<P: Payload>(
    rank: Rank,
    request: &CollectiveRequest,
    memory: &Memory<P>,
) -> Result<usize, RequestError> {
    let CollectiveRequest { collective, reduction, .. } = *request;
    if !matches!(collective, Collective::AllReduce | Collective::Barrier) {
        return Err(RequestError::NotOffered { found: collective });
    }
    let is_sum = reduction.op == ReduceOp::Sum;
    let is_added = is_sum && matches!(reduction.data_type, DataType::F32 | DataType::I32);
    if collective == Collective::AllReduce && !is_added {
        let expected = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
        return Err(RequestError::Reduction { expected, found: reduction });
    }
    // How many ranks there are does not matter to it.
    request.check(rank, 1, memory)
}

fn not_numbers<P: Payload>(length: usize) -> P {
    let mut result = P::zeroed(length);
    let nan = f32::NAN.to_le_bytes();
    (0..length).step_by(nan.len()).for_each(|offset| result.inscribe(offset, &nan));
    result
}
