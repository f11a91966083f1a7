//! Global route header, 40 bytes: what lies between Ethernet and the BTH in RoCE v1. It has the layout of an IPv6 header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version| Traffic class |              Flow label               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Payload length         |  Next header  |   Hop limit   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                    Source GID (16 bytes)                      |
//! |                  Destination GID (16 bytes)                   |
//! ```

use crate::field::{bytes_at, put, u16_at, u32_at};
use crate::{Gid, ParseError};

/// Bytes of the header.
pub const LENGTH: usize = 40;
/// The next header: a BTH follows.
pub const NEXT_HEADER_BTH: u8 = 0x1b;

/// Up to the flow label.
pub(crate) const FIRST_WORD: usize = 0;
const PAYLOAD_LENGTH: usize = 4;
const NEXT_HEADER: usize = 6;
pub(crate) const HOP_LIMIT: usize = 7;
const SOURCE: usize = 8;
const DESTINATION: usize = 24;

const VERSION: u32 = 6;

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct GrhView<'a>(&'a [u8; LENGTH]);

impl<'a> GrhView<'a> {
    /// Views the start of `bytes`; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        Ok((Self(header), rest))
    }

    /// Version 6, and a BTH follows.
    pub const fn is_before_bth(&self) -> bool {
        self.version() == VERSION as u8 && self.next_header() == NEXT_HEADER_BTH
    }

    /// Version: 6.
    pub const fn version(&self) -> u8 {
        (u32_at(self.0, FIRST_WORD) >> 28) as u8
    }

    /// What follows.
    pub const fn next_header(&self) -> u8 {
        self.0[NEXT_HEADER]
    }

    /// Hops left.
    pub const fn hop_limit(&self) -> u8 {
        self.0[HOP_LIMIT]
    }

    /// Traffic class: DSCP and ECN.
    pub const fn traffic_class(&self) -> u8 {
        (u32_at(self.0, FIRST_WORD) >> 20) as u8
    }

    /// Flow label, 20 bits.
    pub const fn flow_label(&self) -> u32 {
        u32_at(self.0, FIRST_WORD) & 0xf_ffff
    }

    /// Bytes that follow, to the end of the ICRC.
    pub const fn payload_length(&self) -> u16 {
        u16_at(self.0, PAYLOAD_LENGTH)
    }

    /// Sender.
    pub const fn source(&self) -> [u8; 16] {
        bytes_at(self.0, SOURCE)
    }

    /// Receiver.
    pub const fn destination(&self) -> [u8; 16] {
        bytes_at(self.0, DESTINATION)
    }
}

/// The header as this project writes it: 64 hops.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GrhRepr {
    /// Sender.
    pub source: Gid,
    /// Receiver.
    pub destination: Gid,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// What way the frame is to take: 20 bits.
    pub flow_label: u32,
    /// Bytes that follow, to the end of the ICRC.
    pub payload_length: u16,
}

impl GrhRepr {
    /// What the view says, for what begins where the header ends; both GIDs are addresses of one family.
    pub fn parse(view: &GrhView<'_>) -> Result<Self, ParseError> {
        if !view.is_before_bth() {
            return Err(ParseError::NotRoce);
        }
        let [source, destination] = [view.source(), view.destination()].map(Gid::from);
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(ParseError::TwoFamilies);
        }
        Ok(Self {
            source,
            destination,
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_length: view.payload_length(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; LENGTH]) {
        const HOPS: u8 = 64;
        let gids = [self.source, self.destination].map(Gid::octets);
        write(out, gids, (self.traffic_class, self.flow_label), self.payload_length, (NEXT_HEADER_BTH, HOPS));
    }
}

/// Writes a header of this layout: sender and receiver, traffic class and flow label, length, next header and hop limit.
pub(crate) fn write(
    out: &mut [u8; LENGTH],
    [source, destination]: [[u8; 16]; 2],
    (traffic_class, flow_label): (u8, u32),
    payload_length: u16,
    (next_header, hop_limit): (u8, u8),
) {
    let first = VERSION << 28 | u32::from(traffic_class) << 20 | flow_label & 0xf_ffff;
    put(out, FIRST_WORD, &first.to_be_bytes());
    put(out, PAYLOAD_LENGTH, &payload_length.to_be_bytes());
    out[NEXT_HEADER] = next_header;
    out[HOP_LIMIT] = hop_limit;
    put(out, SOURCE, &source);
    put(out, DESTINATION, &destination);
}
