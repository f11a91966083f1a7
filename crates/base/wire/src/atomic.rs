//! The headers of atomic operations: AtomicETH, 28 bytes, on the request, and AtomicAckETH, 8 bytes, on the answer
//! (InfiniBand Architecture 9.3.3 and 9.3.5).
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
//! |                                                               |
//! +                          Swap or Add                          +
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! +                            Compare                            +
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//!
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! +                        Original Value                         +
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::field::{put, u32_at, u64_at};
use crate::{AtomicEth, ParseError};

/// Bytes of the request's header.
pub const LENGTH: usize = 28;
/// Bytes of the answer's header.
pub const ACKNOWLEDGE_LENGTH: usize = 8;

const VIRTUAL_ADDRESS: usize = 0;
const REMOTE_KEY: usize = 8;
const SWAP_OR_ADD: usize = 12;
const COMPARE: usize = 20;

/// A view of a request's header that is all there.
#[derive(Clone, Copy, Debug)]
pub struct AtomicEthView<'a>(&'a [u8; LENGTH]);

impl<'a> AtomicEthView<'a> {
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

    /// What to swap in, or to add.
    pub const fn swap_or_add(&self) -> u64 {
        u64_at(self.0, SWAP_OR_ADD)
    }

    /// What to compare with.
    pub const fn compare(&self) -> u64 {
        u64_at(self.0, COMPARE)
    }
}

impl AtomicEth {
    /// What the view says.
    pub const fn parse(view: &AtomicEthView<'_>) -> Self {
        Self {
            virtual_address: view.virtual_address(),
            remote_key: view.remote_key(),
            swap_or_add: view.swap_or_add(),
            compare: view.compare(),
        }
    }

    /// Writes the header to the start of `out`.
    ///
    /// # Panics
    /// If `out` is shorter than [`LENGTH`].
    pub fn emit(&self, out: &mut [u8]) {
        put(out, VIRTUAL_ADDRESS, &self.virtual_address.to_be_bytes());
        put(out, REMOTE_KEY, &self.remote_key.to_be_bytes());
        put(out, SWAP_OR_ADD, &self.swap_or_add.to_be_bytes());
        put(out, COMPARE, &self.compare.to_be_bytes());
    }
}

/// The original value at the start of `bytes`, and what follows.
pub fn split_original_value(bytes: &[u8]) -> Result<(u64, &[u8]), ParseError> {
    let (value, rest) = bytes.split_first_chunk::<ACKNOWLEDGE_LENGTH>().ok_or(ParseError::Truncated)?;
    Ok((u64::from_be_bytes(*value), rest))
}

/// Writes the original value to the start of `out`.
///
/// # Panics
/// If `out` is shorter than [`ACKNOWLEDGE_LENGTH`].
pub fn emit_original_value(value: u64, out: &mut [u8]) {
    put(out, 0, &value.to_be_bytes());
}
