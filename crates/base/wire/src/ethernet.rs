//! Ethernet II header, 14 bytes, without a VLAN tag. The frame check sequence is the adapter's matter.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Destination                          |
//! +                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                               |            Source             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |           EtherType           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::field::{bytes_at, put, u16_at};
use crate::{Gid, ParseError};

/// Bytes of the header.
pub const LENGTH: usize = 14;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;

const DESTINATION: usize = 0;
const SOURCE: usize = 6;
const ETHERTYPE: usize = 12;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MacAddress(pub [u8; 6]);

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'a>(&'a [u8; LENGTH]);

impl MacAddress {
    /// A locally administered address that shows the last four bytes of an IP address: for who does not know the real one.
    pub const fn showing(address: Gid) -> Self {
        let [.., a, b, c, d] = address.octets();
        Self([0x02, 0, a, b, c, d])
    }

    /// Whether it is the address of several: the lowest bit of its first byte.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

impl<'a> EthernetView<'a> {
    /// Views the start of `bytes`; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        Ok((Self(header), rest))
    }

    /// Receiver.
    pub const fn destination(&self) -> MacAddress {
        MacAddress(bytes_at(self.0, DESTINATION))
    }

    /// Sender.
    pub const fn source(&self) -> MacAddress {
        MacAddress(bytes_at(self.0, SOURCE))
    }

    /// What follows.
    pub const fn ethertype(&self) -> u16 {
        u16_at(self.0, ETHERTYPE)
    }
}

/// The header of a frame that carries IP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EthernetRepr {
    /// Receiver.
    pub destination: MacAddress,
    /// Sender.
    pub source: MacAddress,
}

impl EthernetRepr {
    /// What the view says; anything but IP is not for us.
    pub fn parse(view: &EthernetView<'_>) -> Result<Self, ParseError> {
        match view.ethertype() {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => {
                Ok(Self { destination: view.destination(), source: view.source() })
            }
            _ => Err(ParseError::NotRoce),
        }
    }

    /// Writes the header of a frame that carries IPv4.
    pub fn emit(&self, out: &mut [u8; LENGTH]) {
        self.emit_with(ETHERTYPE_IPV4, out);
    }

    /// Writes the header of a frame that carries something else.
    pub fn emit_with(&self, ethertype: u16, out: &mut [u8; LENGTH]) {
        put(out, DESTINATION, &self.destination.0);
        put(out, SOURCE, &self.source.0);
        put(out, ETHERTYPE, &ethertype.to_be_bytes());
    }
}
