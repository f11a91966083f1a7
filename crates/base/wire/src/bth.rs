//! Base transport header, 12 bytes (InfiniBand Architecture 9.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |    Opcode     |S|M|Pad|  TVer |         Partition Key         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |F|B| Reserved  |              Destination QP                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |A|  Reserved   |            Packet Sequence Number             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! S: solicited event, M: migration, F and B: forward and backward congestion, A: acknowledge request. Switches may
//! change the byte with F and B on the way, so the invariant CRC does not see it.

use crate::field::{low_24, put, u16_at, u24_at};
use crate::{ParseError, Psn, QpNumber};

/// Bytes of the header.
pub const LENGTH: usize = 12;

const OPCODE: usize = 0;
const FLAGS: usize = 1;
const PARTITION_KEY: usize = 2;
pub(crate) const CONGESTION: usize = 4;
const DESTINATION_QP: usize = 5;
const ACKNOWLEDGE: usize = 8;
const PSN: usize = 9;

const SOLICITED: u8 = 0x80;
const MIGRATION: u8 = 0x40;
const PAD_SHIFT: u32 = 4;
const PAD: u8 = 0x30;
const VERSION: u8 = 0x0f;
const FORWARD: u8 = 0x80;
const BACKWARD: u8 = 0x40;
const ACKNOWLEDGE_REQUEST: u8 = 0x80;

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct BthView<'a>(&'a [u8; LENGTH]);

impl<'a> BthView<'a> {
    /// Views a header; any 12 bytes are one.
    pub const fn new(bytes: &'a [u8; LENGTH]) -> Self {
        Self(bytes)
    }

    /// What the packet does.
    pub const fn opcode(&self) -> u8 {
        self.0[OPCODE]
    }

    /// Solicited event.
    pub const fn solicited(&self) -> bool {
        self.0[FLAGS] & SOLICITED != 0
    }

    /// Migration state.
    pub const fn migration(&self) -> bool {
        self.0[FLAGS] & MIGRATION != 0
    }

    /// Bytes after the payload that fill its last word, 0 to 3.
    pub const fn pad_count(&self) -> u8 {
        (self.0[FLAGS] & PAD) >> PAD_SHIFT
    }

    /// Transport header version.
    pub const fn version(&self) -> u8 {
        self.0[FLAGS] & VERSION
    }

    /// Partition key.
    pub const fn partition_key(&self) -> u16 {
        u16_at(self.0, PARTITION_KEY)
    }

    /// A switch on the way saw congestion.
    pub const fn forward_congestion(&self) -> bool {
        self.0[CONGESTION] & FORWARD != 0
    }

    /// The receiver of an earlier packet saw congestion.
    pub const fn backward_congestion(&self) -> bool {
        self.0[CONGESTION] & BACKWARD != 0
    }

    /// Queue pair the packet is for.
    pub const fn destination_qp(&self) -> QpNumber {
        QpNumber::new(u24_at(self.0, DESTINATION_QP))
    }

    /// The sender asks for an acknowledge.
    pub const fn acknowledge_request(&self) -> bool {
        self.0[ACKNOWLEDGE] & ACKNOWLEDGE_REQUEST != 0
    }

    /// Packet sequence number.
    pub const fn psn(&self) -> Psn {
        Psn::new(u24_at(self.0, PSN))
    }
}

/// A header of version 0. Reserved bits are ignored when read and zero when written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BthRepr {
    /// What the packet does.
    pub opcode: u8,
    /// Solicited event.
    pub solicited: bool,
    /// Migration state.
    pub migration: bool,
    /// Bytes after the payload that fill its last word, 0 to 3.
    pub pad_count: u8,
    /// Partition key.
    pub partition_key: u16,
    /// A switch on the way saw congestion.
    pub forward_congestion: bool,
    /// The receiver of an earlier packet saw congestion.
    pub backward_congestion: bool,
    /// Queue pair the packet is for.
    pub destination_qp: QpNumber,
    /// The sender asks for an acknowledge.
    pub acknowledge_request: bool,
    /// Packet sequence number.
    pub psn: Psn,
}

impl BthRepr {
    /// What the view says; another version than 0 is refused.
    pub fn parse(view: &BthView<'_>) -> Result<Self, ParseError> {
        if view.version() != 0 {
            return Err(ParseError::BadVersion);
        }
        Ok(Self {
            opcode: view.opcode(),
            solicited: view.solicited(),
            migration: view.migration(),
            pad_count: view.pad_count(),
            partition_key: view.partition_key(),
            forward_congestion: view.forward_congestion(),
            backward_congestion: view.backward_congestion(),
            destination_qp: view.destination_qp(),
            acknowledge_request: view.acknowledge_request(),
            psn: view.psn(),
        })
    }

    /// Writes the header.
    pub fn emit(&self, out: &mut [u8; LENGTH]) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        out[OPCODE] = self.opcode;
        out[FLAGS] = flag(self.solicited, SOLICITED)
            | flag(self.migration, MIGRATION)
            | (self.pad_count << PAD_SHIFT) & PAD;
        put(out, PARTITION_KEY, &self.partition_key.to_be_bytes());
        out[CONGESTION] = flag(self.forward_congestion, FORWARD) | flag(self.backward_congestion, BACKWARD);
        put(out, DESTINATION_QP, &low_24(self.destination_qp.value()));
        out[ACKNOWLEDGE] = flag(self.acknowledge_request, ACKNOWLEDGE_REQUEST);
        put(out, PSN, &low_24(self.psn.value()));
    }
}
