//! SwitchML's header, 8 bytes before the integers of a packet.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Kind      |   Exponent    |            Reserved           |
//! |                            Digest                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The paper's packet (Sapio et al., NSDI 2021, algorithms 1 to 4) names its slot, which of the slot's two pools it is for, and the offset of
//! its piece of the vector. All three follow from the number of the piece, which is the packet's immediate. The largest exponent of the piece that
//! follows in the same slot travels with each piece. Digest and kind are ours: ranks that ask for different things hear of it.

use crate::ParseError;
use crate::field::{put, u32_at};

/// Bytes of the header.
pub const LENGTH: usize = 8;

const KIND: usize = 0;
const EXPONENT: usize = 1;
const DIGEST: usize = 4;

/// What a packet's integers are, and what has become of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Integers that wrap.
    Integers,
    /// Numbers in fixed point: integers that saturate.
    FixedPoint,
    /// No sum: ranks ask for different things. Switches alone say so.
    Disagreement,
}

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SwitchMlHeader {
    /// What the integers are.
    pub kind: Kind,
    /// The largest exponent of the values that follow in this slot; of a result, that of all ranks.
    pub exponent: u8,
    /// What ranks must agree on.
    pub digest: u32,
}

impl SwitchMlHeader {
    /// Reads the start of a payload.
    ///
    /// # Errors
    /// If it is shorter than the header, or of a kind that there is not. Reserved bits are ignored.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let bytes: &[u8; LENGTH] = payload.first_chunk().ok_or(ParseError::Truncated)?;
        let kind = match bytes[KIND] {
            0 => Kind::Integers,
            1 => Kind::FixedPoint,
            2 => Kind::Disagreement,
            _ => return Err(ParseError::NotRoce),
        };
        Ok(Self { kind, exponent: bytes[EXPONENT], digest: u32_at(bytes, DIGEST) })
    }

    /// The header as it lies in a payload.
    pub fn to_bytes(self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        out[KIND] = match self.kind {
            Kind::Integers => 0,
            Kind::FixedPoint => 1,
            Kind::Disagreement => 2,
        };
        out[EXPONENT] = self.exponent;
        put(&mut out, DIGEST, &self.digest.to_be_bytes());
        out
    }
}
