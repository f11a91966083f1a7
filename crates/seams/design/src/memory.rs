//! What designs on the memory fabric have of their own: accelerators around switches, and streams of collectives on them.
//!
//! Several streams may run side by side, each by a design of its own. Every stream has a kernel on each accelerator, synchronisation
//! words and memory of its own; what computes in a switch is shared by the streams that name the same unit.

use crate::{Help, Refusal, Role, Settings};
use quincunx_collective::{BlockQuantization, CodeType, Rank};
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_wire::flit::{FlitFormat, NodeId};
use serde::{Deserialize, Serialize};

/// What a design makes of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Form {
    /// Vectors are of the request's data type; the result is the collective's.
    #[default]
    Exact,
    /// Vectors are of codes, and right behind a vector lie their scale factors; the result is
    /// [`BlockQuantization::sum`], the quantised sum of what they stand for.
    Codes(BlockQuantization),
    /// Vectors are of binary32 values, which are quantised each time that they are sent; the result is
    /// [`BlockQuantization::rq_all_reduce`].
    Requantized(BlockQuantization),
    /// Vectors are of the request's data type. Integers give the collective's result; binary32 values are added up in
    /// [fixed point](quincunx_collective::FixedPoint), and the result is within its bound.
    FixedPoint,
}

/// What a stream must have for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MemoryNeeds {
    /// Synchronisation words of each accelerator.
    pub words: u16,
    /// Bytes of each accelerator's memory right behind the vector, which belong to it: scale factors.
    pub tail: usize,
    /// Bytes of each accelerator's memory to work in, behind all vectors.
    pub scratch: usize,
}

/// Accelerators with a link to each switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AcceleratorFabric {
    /// Accelerators, each of them a rank; node n is accelerator n, at port n of each switch.
    pub accelerators: u16,
    /// Switches; their nodes follow those of the accelerators.
    pub switches: u16,
    /// How packets are cut.
    pub format: FlitFormat,
    /// Reduced loads that an accelerator keeps outstanding on a link.
    pub load_window: u16,
}

impl AcceleratorFabric {
    /// The node number of a switch.
    pub const fn switch(&self, index: u16) -> NodeId {
        NodeId(self.accelerators + index)
    }
}

/// A stream of collectives and what it has for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryStream {
    /// What it does.
    pub request: InPlaceRequest,
    /// What its design makes of the numbers.
    pub form: Form,
    /// Its number among the streams that share its unit in the switches; zero if it has none.
    pub number: u16,
    /// The first of its words; the others follow.
    pub first_word: WordId,
    /// Memory right behind the vector that belongs to it.
    pub tail: Span,
    /// Memory to work in.
    pub scratch: Span,
    /// How often it runs, one time after the other: what switches run they are told beforehand.
    pub times: u16,
}

/// What a node of a memory fabric is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryNode {
    /// The accelerator of this rank.
    Accelerator(Rank),
    /// A switch, by its number.
    Switch(u16),
}

/// What a node of a memory fabric is told of streams: at an accelerator of one, at a switch of all that share its unit.
#[derive(Clone, Copy, Debug)]
pub struct MemoryContext<'a> {
    /// Where it is.
    pub fabric: AcceleratorFabric,
    /// What it is.
    pub node: MemoryNode,
    /// The parameters.
    pub settings: &'a Settings,
    /// What it is to do beside that.
    pub role: &'a Role,
    /// The streams, in the order of their numbers.
    pub streams: &'a [MemoryStream],
}

impl MemoryContext<'_> {
    /// The first of the streams, which an accelerator has alone.
    ///
    /// # Errors
    /// If there is none.
    pub fn stream(&self) -> Result<&MemoryStream, Refusal> {
        self.streams
            .first()
            .ok_or_else(|| Refusal::new("a stream at least", "none", "give the switch no unit"))
    }

    /// The rank of the accelerator.
    ///
    /// # Errors
    /// If this is a switch.
    pub fn rank(&self) -> Result<Rank, Refusal> {
        match self.node {
            MemoryNode::Accelerator(rank) => Ok(rank),
            MemoryNode::Switch(_) => Err(Refusal::new("an accelerator", "a switch", "ask for its unit")),
        }
    }

    /// The number of the switch.
    ///
    /// # Errors
    /// If this is an accelerator.
    pub fn switch(&self) -> Result<u16, Refusal> {
        match self.node {
            MemoryNode::Switch(index) => Ok(index),
            MemoryNode::Accelerator(_) => {
                Err(Refusal::new("a switch", "an accelerator", "ask for its kernel"))
            }
        }
    }
}

/// How vectors are quantised, as parameters. Its fields are keys below `quantization`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantization {
    /// Bits of a code: 8 or 4.
    pub bits: u8,
    /// Values that share a scale factor: a power of two from 32 to 512.
    pub block: usize,
}

impl Default for Quantization {
    /// What SCIN chooses (section 4.2): 8 bits, blocks of 64.
    fn default() -> Self {
        Self::from(BlockQuantization::INT8_BY_64)
    }
}

impl From<BlockQuantization> for Quantization {
    fn from(quantization: BlockQuantization) -> Self {
        let bits = match quantization.code() {
            CodeType::Int8 => 8,
            CodeType::Int4 => 4,
        };
        Self { bits, block: quantization.block() }
    }
}

impl Quantization {
    /// Its keys.
    pub const HELP: [Help; 2] = [
        ("quantization.bits", "bits of a code: 8 or 4"),
        ("quantization.block", "values that share a scale factor: a power of two from 32 to 512"),
    ];

    /// What it means.
    ///
    /// # Errors
    /// If no vector can be quantised so.
    pub fn scheme(&self) -> Result<BlockQuantization, Refusal> {
        let code = match self.bits {
            8 => CodeType::Int8,
            4 => CodeType::Int4,
            found => return Err(Refusal::new("`quantization.bits` of 8 or 4", found, "name one of them")),
        };
        BlockQuantization::new(code, self.block).map_err(|_| {
            Refusal::new(
                "`quantization.block` of 32, 64, 128, 256 or 512 values",
                self.block,
                "name one of them",
            )
        })
    }
}
