//! NetReduce's header, 20 bytes at the start of a message: it says that switches are to add the message up on its way.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                       Aggregation field                       |
//! |                          Message ID                           |
//! |             Rank              |       Frames of message       |
//! |                     Elements that count                       |
//! |                          Collective                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! AllReduce-Switch (III.A) says that it has 20 bytes, an aggregation field and a message ID; the rest is ours. Switches read the first
//! field alone. It lies in the payload of a Write First, before the elements.

use crate::ParseError;
use crate::field::{put, u16_at, u32_at};

/// Bytes of the header.
pub const LENGTH: usize = 20;
/// Bytes of layer-5 payload in every frame for aggregation, the header included (III.A).
pub const PAYLOAD: usize = 1024;
/// The flow label in the GRH of hosts' frames for aggregation, of all of them: only a message's first frame has a header. Ours, too.
pub const FLOW_LABEL: u32 = 0x4_e521;
/// The most frames that a message has.
pub const MAX_FRAMES: u16 = 128;

/// What the aggregation field says: "QNR1".
const AGGREGATE: u32 = 0x514e_5231;

/// The header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NetReduceHeader {
    /// Counts the group's messages.
    pub message: u32,
    /// Who sends it.
    pub rank: u16,
    /// Frames of the message.
    pub frames: u16,
    /// Elements of the message that count; the last frame is filled up with others.
    pub elements: u32,
    /// Counts the group's collectives.
    pub collective: u32,
}

/// Whether a payload begins with an aggregation field that matches (table VI).
pub fn is_for_aggregation(payload: &[u8]) -> bool {
    payload.first_chunk().is_some_and(|field| u32::from_be_bytes(*field) == AGGREGATE)
}

impl NetReduceHeader {
    /// Reads the start of a payload.
    pub fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let bytes: &[u8; LENGTH] = payload.first_chunk().ok_or(ParseError::Truncated)?;
        if !is_for_aggregation(bytes) {
            return Err(ParseError::NotRoce);
        }
        Ok(Self {
            message: u32_at(bytes, 4),
            rank: u16_at(bytes, 8),
            frames: u16_at(bytes, 10),
            elements: u32_at(bytes, 12),
            collective: u32_at(bytes, 16),
        })
    }

    /// The header as it lies in a payload.
    pub fn to_bytes(self) -> [u8; LENGTH] {
        let mut out = [0; LENGTH];
        put(&mut out, 0, &AGGREGATE.to_be_bytes());
        put(&mut out, 4, &self.message.to_be_bytes());
        put(&mut out, 8, &self.rank.to_be_bytes());
        put(&mut out, 10, &self.frames.to_be_bytes());
        put(&mut out, 12, &self.elements.to_be_bytes());
        put(&mut out, 16, &self.collective.to_be_bytes());
        out
    }
}
