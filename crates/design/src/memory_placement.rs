//! Where streams of collectives run on a memory fabric, and what each of them has for itself.

use crate::{Form, Help, Refusal};
use quincunx_collective::{BlockQuantization, CodeType};
use quincunx_engine::shared_memory::{InPlaceRequest, Span, WordId};
use quincunx_wire::flit::{FlitFormat, NodeId};
use serde::{Deserialize, Serialize};

/// Where designs on the memory fabric run: accelerators with a link to each switch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemoryPlacement {
    /// Accelerators, each of them a rank; node n is accelerator n, at port n of each switch.
    pub accelerators: u16,
    /// Switches; their nodes follow those of the accelerators.
    pub switches: u16,
    /// How packets are cut.
    pub format: FlitFormat,
    /// Reduced loads that an accelerator keeps outstanding on a link.
    pub load_window: u16,
}

impl MemoryPlacement {
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
    /// A rule to break, by its name in [`mutations`](crate::MemoryDesign::mutations): for the checker alone.
    pub mutation: Option<&'static str>,
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
