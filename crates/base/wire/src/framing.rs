//! How frames travel below the base transport header.

use crate::{Operation, frame, v1};
use core::fmt;
use core::str::FromStr;

/// What lies between Ethernet and the BTH.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Framing {
    /// RoCEv2: IP and UDP port 4791. Any network carries it.
    #[default]
    RoceV2,
    /// RoCE v1: a global route header, straight above Ethernet ([`v1`](crate::v1)).
    RoceV1,
}

/// A name that no framing has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoFraming;

impl Framing {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::RoceV2, Self::RoceV1];

    /// Bytes of an Ethernet frame (of RoCEv2 over IPv4) for `operation` with `payload_length` bytes, without the frame check sequence.
    #[inline]
    pub const fn frame_length(self, operation: &Operation, payload_length: usize) -> usize {
        match self {
            Self::RoceV2 => frame::frame_length(operation, payload_length),
            Self::RoceV1 => v1::frame_length(operation, payload_length),
        }
    }

    /// Its name: `roce-v2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoceV2 => "roce-v2",
            Self::RoceV1 => "roce-v1",
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Framing {
    type Err = NoFraming;

    fn from_str(text: &str) -> Result<Self, NoFraming> {
        Self::ALL.into_iter().find(|framing| framing.name() == text).ok_or(NoFraming)
    }
}

impl fmt::Display for NoFraming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected roce-v2 or roce-v1, found something else; name one of the two")
    }
}

impl core::error::Error for NoFraming {}
