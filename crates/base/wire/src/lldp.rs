//! LLDP (IEEE 802.1AB): who is at the other end of a cable, said by each end in frames that no bridge passes on.
//!
//! ```text
//! +-------------------+--------+-----------+------------+------+-----+-------------+-----+
//! | 01-80-C2-00-00-0E | source | 0x88CC    | Chassis ID | Port | TTL | System Name | End |
//! +-------------------+--------+-----------+------------+------+-----+-------------+-----+
//! each of which is
//! +---------+-------------+---------------------+
//! | type, 7 | length, 9   | value               |
//! +---------+-------------+---------------------+
//! ```
//!
//! The first three stand first, once, in this order (802.1AB 8.2); what follows may be left out, and is passed over unless it is the name. A frame
//! that breaks one of these rules says nothing at all.

use crate::ethernet::{self, EthernetRepr, EthernetView, MacAddress};
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Its EtherType.
pub const ETHERTYPE: u16 = 0x88cc;

/// Whom frames are for: the bridge at the other end of the cable, and nobody behind it (802.1AB, table 7-1).
pub const NEAREST_BRIDGE: MacAddress = MacAddress([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// The longest identity or name.
pub const LONGEST_NAME: usize = 255;

/// Bytes of the longest frame that is written here.
pub const LONGEST_FRAME: usize = ethernet::LENGTH + 3 * (HEAD + 1 + LONGEST_NAME) + HEAD + 2 + HEAD;

/// Ethernet pads what is shorter, and so does [`LldpFrame::emit`]: a virtual cable would not.
const SHORTEST_FRAME: usize = 60;

/// Type and length.
const HEAD: usize = 2;

const END: u8 = 0;
const CHASSIS: u8 = 1;
const PORT: u8 = 2;
const TIME_TO_LIVE: u8 = 3;
const SYSTEM_NAME: u8 = 5;

/// What a chassis or a port is known by: bytes, and of which kind they are (802.1AB, tables 8-2 and 8-3).
///
/// Two are the same if their texts are: the kind stands in the text, and bytes that are no plain letters are escaped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LldpId<'a> {
    kind: IdKind,
    bytes: &'a [u8],
}

/// Kinds of identities, as far as anything is made of them here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum IdKind {
    /// A hardware address.
    Mac,
    /// An address of a family of IANA's.
    Network,
    /// What the machine calls an interface.
    Interface,
    /// Whatever the sender chose.
    Local,
    /// Any other, by the number that it has among those of a chassis, or of a port.
    Other(u8),
}

/// Why bytes are no LLDP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum LldpError {
    /// For another address, or of another type.
    #[error("expected a frame of type 0x88cc to 01:80:c2:00:00:0e, found other traffic")]
    NotLldp,
    /// An element is longer than the frame.
    #[error("expected all the bytes that an element announces, found fewer")]
    Truncated,
    /// The first three elements are not chassis, port and time to live, or one of them comes again.
    #[error("expected chassis, port and time to live first, in this order and once, found other elements")]
    WrongOrder,
    /// An identity without a byte, or with more than 255; a time of less than two bytes.
    #[error("expected an identity of 1 to 255 bytes and a time of 2, found another length")]
    WrongLength,
}

/// What a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LldpFrame<'a> {
    /// The machine that has sent it.
    pub chassis: LldpId<'a>,
    /// By which of its ports.
    pub port: LldpId<'a>,
    /// For how many seconds this holds; 0: not any more.
    pub time_to_live: u16,
    /// What people call the machine; empty: nothing is said.
    pub system_name: &'a [u8],
}

impl<'a> LldpId<'a> {
    /// What a machine chose to be called.
    pub const fn local(name: &'a str) -> Self {
        Self { kind: IdKind::Local, bytes: name.as_bytes() }
    }

    /// A port, by what the machine calls its interface.
    pub const fn interface(name: &'a str) -> Self {
        Self { kind: IdKind::Interface, bytes: name.as_bytes() }
    }

    /// Reads the value of an element: a byte for the kind, and the identity.
    fn parse(value: &'a [u8], kinds: &[(u8, IdKind)]) -> Result<Self, LldpError> {
        let Some((&number, bytes @ [_, ..])) = value.split_first() else {
            return Err(LldpError::WrongLength);
        };
        if bytes.len() > LONGEST_NAME {
            return Err(LldpError::WrongLength);
        }
        let known = kinds.iter().find(|(known, _)| *known == number);
        Ok(Self { kind: known.map_or(IdKind::Other(number), |(_, kind)| *kind), bytes })
    }

    fn number(&self, kinds: &[(u8, IdKind)]) -> u8 {
        match self.kind {
            IdKind::Other(number) => number,
            kind => kinds.iter().find(|(_, known)| *known == kind).map_or(0, |(number, _)| *number),
        }
    }
}

/// Kinds by their numbers, of a chassis and of a port.
const CHASSIS_KINDS: [(u8, IdKind); 4] =
    [(4, IdKind::Mac), (5, IdKind::Network), (6, IdKind::Interface), (7, IdKind::Local)];
const PORT_KINDS: [(u8, IdKind); 4] =
    [(3, IdKind::Mac), (4, IdKind::Network), (5, IdKind::Interface), (7, IdKind::Local)];

/// As `lldpcli` shows them: `local leaf1`, `ifname eth0`, `mac 02:00:00:00:00:01`, `ip 10.0.0.1`.
impl fmt::Display for LldpId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.bytes) {
            (IdKind::Mac, [a, b, c, d, e, g]) => {
                write!(f, "mac {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            (IdKind::Network, [1, a, b, c, d]) => write!(f, "ip {}", Ipv4Addr::new(*a, *b, *c, *d)),
            (IdKind::Network, [2, address @ ..]) if address.len() == 16 => {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(address);
                write!(f, "ip {}", Ipv6Addr::from(bytes))
            }
            (IdKind::Interface, name) => write!(f, "ifname {}", name.escape_ascii()),
            (IdKind::Local, name) => write!(f, "local {}", name.escape_ascii()),
            // Of a length that it should not have.
            (IdKind::Mac, bytes) => write!(f, "mac {}", bytes.escape_ascii()),
            (IdKind::Network, bytes) => write!(f, "network {}", bytes.escape_ascii()),
            (IdKind::Other(number), bytes) => write!(f, "kind-{number} {}", bytes.escape_ascii()),
        }
    }
}

impl<'a> LldpFrame<'a> {
    /// Reads a whole Ethernet frame.
    ///
    /// # Errors
    /// If it is none of LLDP, or breaks its rules.
    pub fn parse(frame: &'a [u8]) -> Result<Self, LldpError> {
        let (head, mut rest) = EthernetView::split(frame).map_err(|_| LldpError::NotLldp)?;
        if head.destination() != NEAREST_BRIDGE || head.ethertype() != ETHERTYPE {
            return Err(LldpError::NotLldp);
        }
        let mut element = || -> Result<(u8, &'a [u8]), LldpError> {
            // Whatever is behind the end fills the frame up; one that ends without it is whole, too.
            let Some((head, behind)) = rest.split_first_chunk() else {
                return if rest.is_empty() { Ok((END, &[])) } else { Err(LldpError::Truncated) };
            };
            let head = u16::from_be_bytes(*head);
            let length = usize::from(head & 0x1ff);
            let value = behind.get(..length).ok_or(LldpError::Truncated)?;
            rest = &behind[length..];
            Ok(((head >> 9) as u8, value))
        };
        let mut expect = |kind| match element()? {
            (found, value) if found == kind => Ok(value),
            _ => Err(LldpError::WrongOrder),
        };
        let chassis = LldpId::parse(expect(CHASSIS)?, &CHASSIS_KINDS)?;
        let port = LldpId::parse(expect(PORT)?, &PORT_KINDS)?;
        let time_to_live = expect(TIME_TO_LIVE)?.first_chunk().ok_or(LldpError::WrongLength)?;
        let mut read =
            Self { chassis, port, time_to_live: u16::from_be_bytes(*time_to_live), system_name: &[] };
        loop {
            match element()? {
                (END, []) => return Ok(read),
                (END, _) => return Err(LldpError::WrongLength),
                (CHASSIS | PORT | TIME_TO_LIVE, _) => return Err(LldpError::WrongOrder),
                // The first is as good as any.
                (SYSTEM_NAME, name) if read.system_name.is_empty() => {
                    read.system_name = &name[..name.len().min(LONGEST_NAME)];
                }
                _ => {}
            }
        }
    }

    /// Writes it to the start of `out` as a whole frame from `source`, and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`LONGEST_FRAME`], or a name longer than [`LONGEST_NAME`] or an identity empty.
    pub fn emit(&self, source: MacAddress, out: &mut [u8]) -> usize {
        let (head, body) = out.split_first_chunk_mut().expect("room for a header");
        EthernetRepr { destination: NEAREST_BRIDGE, source }.emit_with(ETHERTYPE, head);
        let mut at = 0;
        let mut put = |kind: u8, pieces: [&[u8]; 2]| {
            let length: usize = pieces.iter().map(|piece| piece.len()).sum();
            assert!(length <= 1 + LONGEST_NAME, "a name of {length} bytes");
            let head = (u16::from(kind) << 9 | length as u16).to_be_bytes();
            for piece in [&head[..], pieces[0], pieces[1]] {
                body[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
        };
        for (kind, id, kinds) in [(CHASSIS, self.chassis, &CHASSIS_KINDS), (PORT, self.port, &PORT_KINDS)] {
            assert!(!id.bytes.is_empty(), "an identity without a byte");
            put(kind, [&[id.number(kinds)], id.bytes]);
        }
        put(TIME_TO_LIVE, [&self.time_to_live.to_be_bytes(), &[]]);
        if !self.system_name.is_empty() {
            put(SYSTEM_NAME, [self.system_name, &[]]);
        }
        put(END, [&[], &[]]);
        let length = (ethernet::LENGTH + at).max(SHORTEST_FRAME);
        out[ethernet::LENGTH + at..length].fill(0);
        length
    }
}
