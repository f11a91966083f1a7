//! RDMA extended transport header, 16 bytes (InfiniBand Architecture 9.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! +                        Virtual Address                        +
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Remote Key                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          DMA Length                           |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::field::{put, u32_at, u64_at};
use crate::{ParseError, Reth};

/// Bytes of the header.
pub const LENGTH: usize = 16;

const VIRTUAL_ADDRESS: usize = 0;
const REMOTE_KEY: usize = 8;
const DMA_LENGTH: usize = 12;

/// A view of a header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct RethView<'a>(&'a [u8; LENGTH]);

impl<'a> RethView<'a> {
    /// Views the start of `bytes`; returns what follows, too.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), ParseError> {
        let (header, rest) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        Ok((Self(header), rest))
    }

    /// Virtual address at the responder.
    pub const fn virtual_address(&self) -> u64 {
        u64_at(self.0, VIRTUAL_ADDRESS)
    }

    /// Key of the memory region at the responder.
    pub const fn remote_key(&self) -> u32 {
        u32_at(self.0, REMOTE_KEY)
    }

    /// Bytes of the whole message.
    pub const fn dma_length(&self) -> u32 {
        u32_at(self.0, DMA_LENGTH)
    }
}

impl Reth {
    /// What the view says.
    pub const fn parse(view: &RethView<'_>) -> Self {
        Self {
            virtual_address: view.virtual_address(),
            remote_key: view.remote_key(),
            dma_length: view.dma_length(),
        }
    }

    /// Writes the header to the start of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than [`LENGTH`].
    pub fn emit(&self, out: &mut [u8]) {
        put(out, VIRTUAL_ADDRESS, &self.virtual_address.to_be_bytes());
        put(out, REMOTE_KEY, &self.remote_key.to_be_bytes());
        put(out, DMA_LENGTH, &self.dma_length.to_be_bytes());
    }
}
