//! Acknowledge extended transport header, 4 bytes (InfiniBand Architecture 9.3.4, syndromes in 9.7.5.2.8).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0|Ty.|  Value  |            Message Sequence Number            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Type 0 is ACK with a credit count, 1 is receiver not ready with a coded time, 3 is NAK with a code.

use crate::field::{low_24, put, u24_at};
use crate::{Aeth, NakCode, ParseError, Syndrome};
use quincunx_units::Duration;

/// Bytes of the header.
pub const LENGTH: usize = 4;

const SYNDROME: usize = 0;
const MESSAGE_SEQUENCE: usize = 1;

const VALUE: u8 = 0x1f;
const TYPE_SHIFT: u32 = 5;
const ACK: u8 = 0b000;
const RECEIVER_NOT_READY: u8 = 0b001;
const NAK: u8 = 0b011;

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct AethView<'a>(&'a [u8; LENGTH]);

impl<'a> AethView<'a> {
    /// Views the start of `bytes`; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        Ok((Self(header), rest))
    }

    /// Type and value.
    pub const fn syndrome(&self) -> u8 {
        self.0[SYNDROME]
    }

    /// Message sequence number, 24 bits.
    pub const fn message_sequence(&self) -> u32 {
        u24_at(self.0, MESSAGE_SEQUENCE)
    }
}

impl Aeth {
    /// What the view says; a syndrome without a meaning is refused.
    pub const fn parse(view: &AethView<'_>) -> Result<Self, ParseError> {
        let value = view.syndrome() & VALUE;
        let syndrome = match (view.syndrome() >> TYPE_SHIFT, value) {
            (ACK, credits) => Syndrome::Ack(credits),
            (RECEIVER_NOT_READY, time) => Syndrome::ReceiverNotReady(time),
            (NAK, 0) => Syndrome::Nak(NakCode::SequenceError),
            (NAK, 1) => Syndrome::Nak(NakCode::InvalidRequest),
            (NAK, 2) => Syndrome::Nak(NakCode::RemoteAccess),
            (NAK, 3) => Syndrome::Nak(NakCode::RemoteOperational),
            _ => return Err(ParseError::UnknownSyndrome),
        };
        Ok(Self { syndrome, message_sequence: view.message_sequence() })
    }

    /// Writes the header to the start of `out`. Of credits and times the low 5 bits are written, of the message
    /// sequence number the low 24.
    ///
    /// # Panics
    /// If `out` is shorter than [`LENGTH`].
    pub fn emit(&self, out: &mut [u8]) {
        let (kind, value) = match self.syndrome {
            Syndrome::Ack(credits) => (ACK, credits),
            Syndrome::ReceiverNotReady(time) => (RECEIVER_NOT_READY, time),
            Syndrome::Nak(NakCode::SequenceError) => (NAK, 0),
            Syndrome::Nak(NakCode::InvalidRequest) => (NAK, 1),
            Syndrome::Nak(NakCode::RemoteAccess) => (NAK, 2),
            Syndrome::Nak(NakCode::RemoteOperational) => (NAK, 3),
        };
        out[SYNDROME] = kind << TYPE_SHIFT | value & VALUE;
        put(out, MESSAGE_SEQUENCE, &low_24(self.message_sequence));
    }
}

/// The credit count that says that none is kept.
pub const NO_CREDITS: u8 = 31;

/// The receive requests that a credit count stands for; nothing where none is kept (InfiniBand Architecture 9.7.7.2.4, table "End-to-End
/// Flow Control Credit Encoding"). Only the low 5 bits count.
pub const fn credits(code: u8) -> Option<u32> {
    match code & VALUE {
        NO_CREDITS => None,
        code @ 0..=1 => Some(code as u32),
        code if code.is_multiple_of(2) => Some(1 << (code / 2)),
        code => Some(3 << ((code - 3) / 2)),
    }
}

/// The credit count for so many receive requests: that of the most that it can say and that there are.
pub const fn credit_code(requests: usize) -> u8 {
    let mut code = NO_CREDITS - 1;
    while let Some(said) = credits(code)
        && said as usize > requests
    {
        code -= 1;
    }
    code
}

/// How long a requester waits after a receiver-not-ready answer with `code`; only the low 5 bits count. The 32 codes come
/// in pairs that grow by half and by a third (InfiniBand Architecture, table 45 "Encoding for RNR NAK Timer Field").
pub const fn receiver_not_ready_delay(code: u8) -> Duration {
    /// In units of 10 us, by code.
    const DELAYS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
        2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Duration::from_micros(DELAYS[(code & VALUE) as usize] * 10)
}

/// The longest delay that is no longer than that one, as a code.
pub const fn receiver_not_ready_code(delay: Duration) -> u8 {
    let mut code = VALUE;
    while code > 1 && receiver_not_ready_delay(code).as_picos() > delay.as_picos() {
        code -= 1;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_count_says_what_the_architecture_has_it_say() {
        const TABLE: [u32; 31] = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536,
            2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
        ];
        for (code, requests) in (0..).zip(TABLE) {
            assert_eq!(credits(code), Some(requests));
            assert_eq!(credit_code(requests as usize), code);
        }
        assert_eq!(credits(NO_CREDITS), None);
    }

    #[test]
    fn a_count_that_cannot_be_said_is_told_as_less() {
        assert_eq!(credits(credit_code(31)), Some(24));
        assert_eq!(credits(credit_code(usize::MAX)), Some(32_768));
    }
}
