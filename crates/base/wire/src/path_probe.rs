//! Frames by which two nodes find out what the path between them carries.
//!
//! They look like RoCE's to what lies between, and have an opcode that is left to manufacturers (InfiniBand Architecture 9.2.1, from 0xC0 on), so
//! that a NIC drops them. Behind the BTH: kind, the sender's share of its address, the size's number and a zero; sequence number (4 bytes), run
//! (8), sender and target by their numbers in the run (4 each), the sender's clock in nanoseconds (8); then zeros up to the length that is asked
//! for, and a CRC-32 over all before it, least significant byte first. Numbers are big-endian.

use crate::ParseError;
use crate::bth;

/// The first byte of such a frame.
pub const OPCODE: u8 = 0xc0;

/// The shortest.
pub const LEAST_LENGTH: usize = BODY + 4 + 4 + 8 + 4 + 4 + 8 + CRC;

const BODY: usize = bth::LENGTH;
const CRC: usize = 4;

/// Where the upper byte of the queue pair is that a frame is for: the share of its address.
const SHARE: usize = 5;

/// What a frame wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// To be counted.
    Count,
    /// An answer, too.
    Ask,
    /// It is one.
    Answer,
}

/// What a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathProbe {
    /// What it wants.
    pub kind: Kind,
    /// Which of the processes at its destination it is for.
    pub share: u8,
    /// Which of those at its source has sent it.
    pub from_share: u8,
    /// Which of the sizes that are tried it has; an answer has that of the question.
    pub size: u8,
    /// Its number among those of its kind and size.
    pub sequence: u32,
    /// Which round of questions it is of.
    pub run: u64,
    /// Who sends it, by number.
    pub sender: u32,
    /// Whom it is for.
    pub target: u32,
    /// What the clock showed of who asks.
    pub sent: u64,
}

/// Whether a datagram is such a frame, or none at all.
pub fn is_path_probe(bytes: &[u8]) -> bool {
    bytes.first() == Some(&OPCODE)
}

/// The bytes of a datagram as long as that of a RoCE write of so many bytes.
pub const fn length_of_write(payload: usize) -> usize {
    bth::LENGTH + crate::reth::LENGTH + payload + CRC
}

impl PathProbe {
    /// Writes it to the start of `out`, so long, or as long as it must be.
    ///
    /// # Panics
    /// If `out` is shorter.
    pub fn emit(&self, length: usize, out: &mut [u8]) -> usize {
        let length = length.max(LEAST_LENGTH);
        let (bytes, crc) = out[..length].split_at_mut(length - CRC);
        bytes.fill(0);
        bytes[0] = OPCODE;
        bytes[SHARE] = self.share;
        let kind = match self.kind {
            Kind::Count => 0,
            Kind::Ask => 1,
            Kind::Answer => 2,
        };
        let mut at = BODY;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&[kind, self.from_share, self.size, 0]);
        put(&self.sequence.to_be_bytes());
        put(&self.run.to_be_bytes());
        put(&self.sender.to_be_bytes());
        put(&self.target.to_be_bytes());
        put(&self.sent.to_be_bytes());
        crc.copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
        length
    }

    /// Reads one.
    ///
    /// # Errors
    /// If it is too short, was changed on its way, or is of a kind that nobody knows.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        if bytes.len() < LEAST_LENGTH {
            return Err(ParseError::Truncated);
        }
        let (body, crc) = bytes.split_at(bytes.len() - CRC);
        if crc32fast::hash(body).to_le_bytes() != crc {
            return Err(ParseError::WrongIcrc);
        }
        let word = |at: usize| u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let kind = match body[BODY] {
            0 => Kind::Count,
            1 => Kind::Ask,
            2 => Kind::Answer,
            _ => return Err(ParseError::UnknownOpcode),
        };
        Ok(Self {
            kind,
            share: body[SHARE],
            from_share: body[BODY + 1],
            size: body[BODY + 2],
            sequence: word(BODY + 4),
            run: long(BODY + 8),
            sender: word(BODY + 16),
            target: word(BODY + 20),
            sent: long(BODY + 24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: PathProbe = PathProbe {
        kind: Kind::Ask,
        share: 3,
        from_share: 4,
        size: 2,
        sequence: 17,
        run: 0x0102_0304_0506_0708,
        sender: 5,
        target: 6,
        sent: 1 << 40,
    };

    #[test]
    fn a_frame_is_read_as_it_was_written_at_any_length() {
        for length in [0, LEAST_LENGTH, 1056, 4128] {
            let mut bytes = [0xff; 4200];
            let written = PROBE.emit(length, &mut bytes);
            assert_eq!(written, length.max(LEAST_LENGTH));
            assert!(is_path_probe(&bytes));
            assert_eq!(PathProbe::parse(&bytes[..written]), Ok(PROBE));
        }
    }

    #[test]
    fn what_was_cut_off_or_changed_is_none() {
        let mut bytes = [0; 100];
        let length = PROBE.emit(100, &mut bytes);
        for end in 0..length {
            assert!(PathProbe::parse(&bytes[..end]).is_err(), "{end} bytes");
        }
        for at in 0..length {
            bytes[at] ^= 1;
            assert_eq!(PathProbe::parse(&bytes), Err(ParseError::WrongIcrc), "byte {at}");
            bytes[at] ^= 1;
        }
    }

    #[test]
    fn it_is_as_long_as_a_write_of_that_size() {
        let header = crate::Reth { virtual_address: 0, remote_key: 0, dma_length: 1024 };
        let write = crate::Operation::WriteOnly(header);
        assert_eq!(length_of_write(1024), crate::datagram_length(&write, 1024));
    }
}
