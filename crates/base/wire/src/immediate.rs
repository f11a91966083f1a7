//! Immediate data, 4 bytes that go to the receiver's completion (InfiniBand Architecture 9.3.6).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                        Immediate Data                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::ParseError;
use crate::field::put;

/// Bytes of the header.
pub const LENGTH: usize = 4;

/// The immediate data at the start of `bytes`, and what follows.
pub fn split(bytes: &[u8]) -> Result<(u32, &[u8]), ParseError> {
    let (data, rest) = bytes.split_first_chunk::<LENGTH>().ok_or(ParseError::Truncated)?;
    Ok((u32::from_be_bytes(*data), rest))
}

/// Writes immediate data to the start of `out`.
///
/// # Panics
/// If `out` is shorter than [`LENGTH`].
pub fn emit(data: u32, out: &mut [u8]) {
    put(out, 0, &data.to_be_bytes());
}
