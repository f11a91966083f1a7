//! What follows the BTH of a congestion notification packet: 16 reserved bytes (InfiniBand Architecture, annex A17.9.3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                                                               |
//! +                                                               +
//! |                                                               |
//! +                           Reserved                            +
//! |                                                               |
//! +                                                               +
//! |                                                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::ParseError;

/// Reserved bytes after the BTH.
pub const LENGTH: usize = 16;

/// Skips the reserved bytes, whatever they hold.
pub fn split(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let (_, rest) = bytes.split_first_chunk::<LENGTH>().ok_or(ParseError::Truncated)?;
    Ok(rest)
}

/// Writes the reserved bytes to the start of `out`.
///
/// # Panics
/// If `out` is shorter than [`LENGTH`].
pub fn emit(out: &mut [u8]) {
    out[..LENGTH].fill(0);
}
