//! UDP header, 8 bytes (RFC 768), of a datagram to RoCEv2's port.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Source Port          |       Destination Port        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |            Length             |           Checksum            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! RoCE senders leave the checksum out (zero), over IPv6, too, as the invariant CRC protects more. One that is there is carried but not
//! checked: where an adapter is to complete it, a local capture or a virtual link shows it half made.

use crate::ParseError;
use crate::field::{put, u16_at};

/// Bytes of the header.
pub const LENGTH: usize = 8;
/// The destination port of every RoCEv2 datagram.
pub const ROCE_PORT: u16 = 4791;

const SOURCE_PORT: usize = 0;
const DESTINATION_PORT: usize = 2;
const LENGTH_FIELD: usize = 4;
pub(crate) const CHECKSUM: usize = 6;

/// A view of a header whose length field agrees with what surrounds it.
#[derive(Clone, Copy, Debug)]
pub struct UdpView<'a>(&'a [u8; LENGTH]);

impl<'a> UdpView<'a> {
    /// Views the start of `bytes`, an IP datagram's whole payload; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        let view = Self(header);
        if usize::from(view.length()) != bytes.len() {
            return Err(ParseError::WrongUdpLength);
        }
        Ok((view, rest))
    }

    /// Sender's port.
    pub const fn source_port(&self) -> u16 {
        u16_at(self.0, SOURCE_PORT)
    }

    /// Receiver's port.
    pub const fn destination_port(&self) -> u16 {
        u16_at(self.0, DESTINATION_PORT)
    }

    /// Bytes of header and payload.
    pub const fn length(&self) -> u16 {
        u16_at(self.0, LENGTH_FIELD)
    }

    /// Zero if there is none.
    pub const fn checksum(&self) -> u16 {
        u16_at(self.0, CHECKSUM)
    }
}

/// The header of a datagram to RoCEv2's port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UdpRepr {
    /// Sender's port.
    pub source_port: u16,
    /// Bytes of header and payload.
    pub length: u16,
    /// Zero if there is none.
    pub checksum: u16,
}

impl UdpRepr {
    /// What the view says; anything to another port is not for us.
    pub fn parse(view: &UdpView<'_>) -> Result<Self, ParseError> {
        match view.destination_port() {
            ROCE_PORT => {
                Ok(Self { source_port: view.source_port(), length: view.length(), checksum: view.checksum() })
            }
            _ => Err(ParseError::NotRoce),
        }
    }

    /// Writes the header, the checksum as it is.
    pub fn emit(&self, out: &mut [u8; LENGTH]) {
        put(out, SOURCE_PORT, &self.source_port.to_be_bytes());
        put(out, DESTINATION_PORT, &ROCE_PORT.to_be_bytes());
        put(out, LENGTH_FIELD, &self.length.to_be_bytes());
        put(out, CHECKSUM, &self.checksum.to_be_bytes());
    }
}
