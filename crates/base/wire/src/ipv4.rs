//! IPv4 header without options, 20 bytes, of a datagram that is no fragment and carries UDP (RFC 791).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Version|  IHL  |  DSCP     |ECN|         Total Length          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Identification         |0|D|M|     Fragment Offset     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Time to Live  |   Protocol    |        Header Checksum        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                            Source                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Destination                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::ParseError;
use crate::field::{bytes_at, put, u16_at};
use core::net::Ipv4Addr;

/// Bytes of the header.
pub const LENGTH: usize = 20;
/// Protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

const VERSION_IHL: usize = 0;
pub(crate) const TRAFFIC_CLASS: usize = 1;
const TOTAL_LENGTH: usize = 2;
const IDENTIFICATION: usize = 4;
const FLAGS_OFFSET: usize = 6;
pub(crate) const TIME_TO_LIVE: usize = 8;
const PROTOCOL: usize = 9;
pub(crate) const CHECKSUM: usize = 10;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;

/// Version 4, five words.
const VERSION_4_IHL_5: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;

/// A view of a header whose version, length, flags and checksum are right.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a>(&'a [u8; LENGTH]);

impl<'a> Ipv4View<'a> {
    /// Views the start of `bytes` and checks it; returns the datagram's payload, too, without any trailer.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, _) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        let view = Self(header);
        match header[VERSION_IHL] {
            VERSION_4_IHL_5 => {}
            0x46..=0x4f => return Err(ParseError::Ipv4Options),
            _ => return Err(ParseError::NotRoce),
        }
        if checksum(header) != 0 {
            return Err(ParseError::WrongIpv4Checksum);
        }
        if u16_at(header, FLAGS_OFFSET) & !DONT_FRAGMENT != 0 {
            return Err(ParseError::Fragment);
        }
        let payload = bytes.get(LENGTH..usize::from(view.total_length())).ok_or(ParseError::Truncated)?;
        Ok((view, payload))
    }

    /// DSCP and ECN.
    pub const fn traffic_class(&self) -> u8 {
        self.0[TRAFFIC_CLASS]
    }

    /// Bytes of header and payload.
    pub const fn total_length(&self) -> u16 {
        u16_at(self.0, TOTAL_LENGTH)
    }

    /// Names the datagram among its sender's.
    pub const fn identification(&self) -> u16 {
        u16_at(self.0, IDENTIFICATION)
    }

    /// Routers must not cut it.
    pub const fn dont_fragment(&self) -> bool {
        u16_at(self.0, FLAGS_OFFSET) & DONT_FRAGMENT != 0
    }

    /// Hops left.
    pub const fn time_to_live(&self) -> u8 {
        self.0[TIME_TO_LIVE]
    }

    /// What follows.
    pub const fn protocol(&self) -> u8 {
        self.0[PROTOCOL]
    }

    /// Sender.
    pub const fn source(&self) -> Ipv4Addr {
        let [a, b, c, d] = bytes_at(self.0, SOURCE);
        Ipv4Addr::new(a, b, c, d)
    }

    /// Receiver.
    pub const fn destination(&self) -> Ipv4Addr {
        let [a, b, c, d] = bytes_at(self.0, DESTINATION);
        Ipv4Addr::new(a, b, c, d)
    }
}

/// The header of a whole datagram that carries UDP. The checksum follows from the rest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ipv4Repr {
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Names the datagram among its sender's; protected by the invariant CRC.
    pub identification: u16,
    /// Routers must not cut it.
    pub dont_fragment: bool,
    /// Hops left.
    pub time_to_live: u8,
    /// Bytes of header and payload.
    pub total_length: u16,
}

impl Ipv4Repr {
    /// What the view says; anything but UDP is not for us.
    pub fn parse(view: &Ipv4View<'_>) -> Result<Self, ParseError> {
        match view.protocol() {
            PROTOCOL_UDP => Ok(Self {
                source: view.source(),
                destination: view.destination(),
                traffic_class: view.traffic_class(),
                identification: view.identification(),
                dont_fragment: view.dont_fragment(),
                time_to_live: view.time_to_live(),
                total_length: view.total_length(),
            }),
            _ => Err(ParseError::NotRoce),
        }
    }

    /// Writes the header with its checksum.
    pub fn emit(&self, out: &mut [u8; LENGTH]) {
        *out = self.to_bytes([0; 2]);
        let checksum = checksum(out);
        put(out, CHECKSUM, &checksum.to_be_bytes());
    }

    /// The header with something in place of the checksum.
    #[inline]
    pub(crate) fn to_bytes(self, checksum: [u8; 2]) -> [u8; LENGTH] {
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 };
        let mut out = [0; LENGTH];
        out[VERSION_IHL] = VERSION_4_IHL_5;
        out[TRAFFIC_CLASS] = self.traffic_class;
        put(&mut out, TOTAL_LENGTH, &self.total_length.to_be_bytes());
        put(&mut out, IDENTIFICATION, &self.identification.to_be_bytes());
        put(&mut out, FLAGS_OFFSET, &flags.to_be_bytes());
        out[TIME_TO_LIVE] = self.time_to_live;
        out[PROTOCOL] = PROTOCOL_UDP;
        put(&mut out, CHECKSUM, &checksum);
        put(&mut out, SOURCE, &self.source.octets());
        put(&mut out, DESTINATION, &self.destination.octets());
        out
    }
}

/// The one's complement of the one's complement sum of the 16-bit words: zero over a header whose own matches.
fn checksum(header: &[u8; LENGTH]) -> u16 {
    let (words, _) = header.as_chunks::<2>();
    let sum: u32 = words.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    // Ten words carry less than 16 times, and what the first fold carries once more the second takes in.
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}
