//! Big-endian fields at fixed places of a header.

/// The `N` bytes at `at`.
///
/// # Panics
/// If they do not lie inside `bytes`: offsets are constants of a layout, so that would be a bug in this crate.
pub(crate) const fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    let mut i = 0;
    while i < N {
        field[i] = bytes[at + i];
        i += 1;
    }
    field
}

/// The 16-bit number at `at`.
pub(crate) const fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes_at(bytes, at))
}

/// The 24-bit number at `at`.
pub(crate) const fn u24_at(bytes: &[u8], at: usize) -> u32 {
    let [a, b, c] = bytes_at(bytes, at);
    u32::from_be_bytes([0, a, b, c])
}

/// The 32-bit number at `at`.
pub(crate) const fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes_at(bytes, at))
}

/// The 64-bit number at `at`.
pub(crate) const fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes_at(bytes, at))
}

/// The low 24 bits of `value`.
pub(crate) const fn low_24(value: u32) -> [u8; 3] {
    let [_, a, b, c] = value.to_be_bytes();
    [a, b, c]
}

/// Writes `field` at `at`.
#[inline]
pub(crate) fn put(out: &mut [u8], at: usize, field: &[u8]) {
    out[at..at + field.len()].copy_from_slice(field);
}

/// Copies a payload, a KiB at a time: what is longer the C library copies by the processor's instruction for strings, which takes twice as long
/// for 4 KiB (`benches/icrc.rs`).
///
/// # Panics
/// If the lengths differ.
#[inline]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "copying a payload to another length");
    for (to, from) in to.chunks_mut(1024).zip(from.chunks(1024)) {
        to.copy_from_slice(from);
    }
}
