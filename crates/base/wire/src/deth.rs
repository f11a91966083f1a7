//! Datagram extended transport header, 8 bytes (InfiniBand Architecture 9.3.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           Queue Key                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |   Reserved    |                  Source QP                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::field::{low_24, put, u24_at, u32_at};
use crate::{Deth, ParseError, QpNumber};

/// Bytes of the header.
pub const LENGTH: usize = 8;

/// The key of every queue of ours that collectives' datagrams are for. Keys of groups are those of words about locks.
pub const COLLECTIVE_QUEUE: u32 = 0x0051_4e58;

const QUEUE_KEY: usize = 0;
const RESERVED: usize = 4;
const SOURCE_QP: usize = 5;

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct DethView<'a>(&'a [u8; LENGTH]);

impl<'a> DethView<'a> {
    /// Views the start of `bytes`; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        Ok((Self(header), rest))
    }

    /// Key of the queue.
    pub const fn queue_key(&self) -> u32 {
        u32_at(self.0, QUEUE_KEY)
    }

    /// Queue pair the packet is from.
    pub const fn source_qp(&self) -> QpNumber {
        QpNumber::new(u24_at(self.0, SOURCE_QP))
    }
}

impl Deth {
    /// What the view says.
    pub const fn parse(view: &DethView<'_>) -> Self {
        Self { queue_key: view.queue_key(), source_qp: view.source_qp() }
    }

    /// Writes the header to the start of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than [`LENGTH`].
    pub fn emit(&self, out: &mut [u8]) {
        put(out, QUEUE_KEY, &self.queue_key.to_be_bytes());
        out[RESERVED] = 0;
        put(out, SOURCE_QP, &low_24(self.source_qp.value()));
    }
}
