//! ATP's header, 12 bytes before the integers of a packet, and its immediate.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |R|     Workers, N bits     |     Number, the low 31 - N bits     |   immediate
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |     Kind      |   Exponent    |            Reserved           |
//! |                            Digest                             |
//! |                            Number                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The paper's packet (Lao et al., NSDI 2021, section 3) has a bitmap of the workers whose values are in it, a resend flag, and the sequence number
//! that aggregators are hashed by. All three are in the immediate, so that runs whose payloads have no contents have them, too. Of a sequence
//! number there are as many bits as N ranks leave; the payload has it in whole. Digest and kind are ours, as in [`switchml`](crate::switchml).

use crate::ParseError;
use crate::field::{put, u32_at};
use crate::switchml::{Kind, SwitchMlHeader};

/// Bytes of the header.
pub const LENGTH: usize = 12;

const NUMBER: usize = 8;

/// The flag of what is sent again.
const RESENT: u32 = 1 << 31;

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtpHeader {
    /// What the integers are.
    pub kind: Kind,
    /// The largest exponent of the values that are announced with this packet; of a sum, that of its workers.
    pub exponent: u8,
    /// What ranks must agree on.
    pub digest: u32,
    /// The sequence number.
    pub number: u32,
}

impl AtpHeader {
    /// Reads the start of a payload.
    ///
    /// # Errors
    /// If it is shorter than the header, or of a kind that there is not. Reserved bits are ignored.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let bytes: &[u8; LENGTH] = payload.first_chunk().ok_or(ParseError::Truncated)?;
        let SwitchMlHeader { kind, exponent, digest } = SwitchMlHeader::parse(bytes)?;
        Ok(Self { kind, exponent, digest, number: u32_at(bytes, NUMBER) })
    }

    /// The header as it lies in a payload.
    pub fn to_bytes(self) -> [u8; LENGTH] {
        let Self { kind, exponent, digest, number } = self;
        let mut out = [0; LENGTH];
        put(&mut out, 0, &SwitchMlHeader { kind, exponent, digest }.to_bytes());
        put(&mut out, NUMBER, &number.to_be_bytes());
        out
    }
}

/// How immediates are divided in a group: a bit for each rank, the rest but one for numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtpTags {
    ranks: u16,
}

/// What an immediate says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtpTag {
    /// The low bits of the sequence number.
    pub low: u32,
    /// Whose values are in it: bit r is rank r.
    pub workers: u32,
    /// It was sent before.
    pub is_resent: bool,
}

impl AtpTags {
    /// Of a group of so many ranks, 30 at most.
    pub const fn new(ranks: u16) -> Option<Self> {
        if ranks <= 30 { Some(Self { ranks }) } else { None }
    }

    /// How many bits of a number there are.
    pub const fn number_bits(self) -> u32 {
        31 - self.ranks as u32
    }

    /// All ranks.
    pub const fn all(self) -> u32 {
        (1 << self.ranks) - 1
    }

    /// What an immediate says. Any says something.
    pub const fn read(self, immediate: u32) -> AtpTag {
        let bits = self.number_bits();
        let low = immediate & ((1 << bits) - 1);
        AtpTag { low, workers: immediate >> bits & self.all(), is_resent: immediate & RESENT != 0 }
    }

    /// The immediate of a packet.
    pub const fn write(self, number: u32, workers: u32, is_resent: bool) -> u32 {
        let bits = self.number_bits();
        let resent = if is_resent { RESENT } else { 0 };
        resent | (workers & self.all()) << bits | number & ((1 << bits) - 1)
    }

    /// The number with these low bits that is nearest to another one.
    pub const fn nearest(self, low: u32, to: u32) -> u32 {
        let unused = 32 - self.number_bits();
        let distance = (low.wrapping_sub(to) << unused) as i32 >> unused;
        to.wrapping_add(distance as u32)
    }
}
