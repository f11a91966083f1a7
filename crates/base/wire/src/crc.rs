//! CRC-32 (the polynomial of IEEE 802.3) of a head of some tens of bytes and a body that lies elsewhere, as an invariant CRC needs it:
//! read once, 256 bytes at a time where the processor multiplies without carries in vectors of 512 bits, else by `crc32fast`.
//!
//! It begins with eight bytes of ones (InfiniBand Architecture 7.8.1). A CRC starts from ones, too, so that the first four of them
//! leave nothing, and zeros may stand before a message from there on. So the head, and as much of the body as is no multiple of 64
//! bytes, stands at the end of a buffer of whole blocks, and no byte is handled by itself.
//!
//! The method is Gopal and others', "Fast CRC computation for generic polynomials using PCLMULQDQ instruction" (Intel, 2009): what has been
//! read is moved towards what follows it by multiplications modulo the polynomial, and added there.

use multiversion::multiversion;
use multiversion::target::match_target;

/// Bytes of a block.
const BLOCK: usize = 64;

/// Where the message begins: the second half of the eight bytes of ones.
const ONES: usize = 4;

/// Bytes at most of extension headers and the beginning of a body.
const MAX_PARTS: usize = 28 + BLOCK - 1;

/// Bytes of the longest head: IPv6, UDP and BTH.
const MAX_HEAD: usize = 40 + 8 + 12;

/// Bytes of a start at most.
const MAX_START: usize = (ONES + MAX_HEAD + MAX_PARTS).next_multiple_of(BLOCK);

/// A head, and what follows it at once, in whole blocks, with zeros before it.
struct Start {
    bytes: [u8; MAX_START],
    blocks: usize,
}

impl Start {
    const EMPTY: Self = Self { bytes: [0; MAX_START], blocks: 0 };

    /// To an empty one. `write` writes a head of `N` bytes, where it is read: the processor waits for what it has written in pieces and reads as a whole.
    #[inline]
    fn fill<const N: usize>(&mut self, write: impl FnOnce(&mut [u8; N]), parts: [&[u8]; 2]) {
        const { assert!(N <= MAX_HEAD) };
        let length = ONES + N + parts[0].len() + parts[1].len();
        self.blocks = length.div_ceil(BLOCK);
        let (ones, after) = self.bytes[self.blocks * BLOCK - length..].split_at_mut(ONES);
        ones.fill(0xff);
        let (head, mut after) = after.split_first_chunk_mut().expect("a start has room for any head");
        write(head);
        for part in parts {
            if !part.is_empty() {
                let (out, rest) = after.split_at_mut(part.len());
                out.copy_from_slice(part);
                after = rest;
            }
        }
    }

    #[inline]
    fn blocks(&self) -> &[[u8; BLOCK]] {
        &self.bytes.as_chunks().0[..self.blocks]
    }
}

/// The CRC of eight bytes of ones, the `N` bytes of a head that `write` writes, extension headers, and a body.
///
/// # Panics
/// If the extension is longer than that of any frame.
#[inline]
pub(crate) fn after_ones<const N: usize>(
    write: impl FnOnce(&mut [u8; N]),
    extension: &[u8],
    body: &[u8],
) -> u32 {
    let (beginning, rest) = body.split_at(body.len() % BLOCK);
    let mut start = Start::EMPTY;
    start.fill(write, [extension, beginning]);
    !remainder(start.blocks(), rest.as_chunks().0)
}

/// A body's part of a CRC, to be joined to several heads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BodyCrc {
    remainder: u32,
    /// How far a head is from the end.
    distance: &'static Distance,
}

impl BodyCrc {
    /// Reads `body` once, or nothing if it has no usual length: then reading it for each head is as good.
    pub(crate) fn new(body: &[u8]) -> Option<Self> {
        let distance = DISTANCES.iter().find(|distance| distance.bytes == body.len())?;
        Some(Self { remainder: remainder(&[], body.as_chunks().0), distance })
    }

    /// [`after_ones`] with the body that this is of.
    #[inline]
    pub(crate) fn after_ones<const N: usize>(
        &self,
        write: impl FnOnce(&mut [u8; N]),
        extension: &[u8],
    ) -> u32 {
        let mut start = Start::EMPTY;
        start.fill(write, [extension, &[]]);
        let (blocks, last) = match start.blocks() {
            [blocks @ .., last] => (blocks, last),
            [] => unreachable!("ones are before every head"),
        };
        let head = match blocks {
            [] => moved(last, self.distance),
            // Long extensions, any of them over IPv6: rare where frames are replicated.
            _ => shifted(remainder(start.blocks(), &[]), self.distance),
        };
        !(head ^ self.remainder)
    }
}

/// What moves a block by a number of bytes.
#[derive(PartialEq, Eq, Debug)]
struct Distance {
    bytes: usize,
    /// For each 64 bits of a block.
    factors: [i64; 8],
    /// For a remainder.
    factor: u32,
}

impl Distance {
    const fn new(bytes: usize) -> Self {
        let mut factors = [0; 8];
        let mut lane = 0;
        while lane < 4 {
            [factors[2 * lane], factors[2 * lane + 1]] = by(8 * bytes + 128 * (3 - lane));
            lane += 1;
        }
        Self { bytes, factors, factor: power(8 * bytes) }
    }
}

/// Payloads of full packets, by RoCE's path MTUs.
static DISTANCES: [Distance; 5] =
    [Distance::new(1024), Distance::new(4096), Distance::new(2048), Distance::new(512), Distance::new(256)];

/// CRC-32's polynomial without its first term, the lowest power in the highest bit.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// The product of two remainders.
const fn product(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product ^= b & (a >> bit & 1).wrapping_neg();
        b = b >> 1 ^ (b & 1).wrapping_neg() & POLYNOMIAL;
    }
    product
}

/// The remainder of x to the power of `exponent`.
const fn power(mut exponent: usize) -> u32 {
    let (mut power, mut square) = (1 << 31, 1 << 30);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = product(square, power);
        }
        square = product(square, square);
        exponent >>= 1;
    }
    power
}

/// Factors that move the lower and the higher half of 128 bits by `bits` further bits. The lower half is 64 bits further from the end; and a
/// product without carries, of numbers whose lowest power is in the highest bit, is one bit off.
const fn by(bits: usize) -> [i64; 2] {
    [(power(bits + 32) as i64) << 1, (power(bits - 32) as i64) << 1]
}

/// The remainder of what has this one, with zeros behind it.
fn shifted(remainder: u32, distance: &Distance) -> u32 {
    product(distance.factor, remainder)
}

/// The remainder of blocks, and of more of them elsewhere.
#[multiversion(targets("x86_64+avx512f+avx512dq+vpclmulqdq+pclmulqdq+sse4.1"))]
fn remainder(start: &[[u8; BLOCK]], body: &[[u8; BLOCK]]) -> u32 {
    match_target! {
        "x86_64+avx512f+avx512dq+vpclmulqdq+pclmulqdq+sse4.1" => {
            use core::arch::x86_64::*;
            let next = by_each(const { by(512) });
            let mut x = _mm512_setzero_si512();
            let (ones, fours) = body.split_at(body.len() % 4);
            for block in start.iter().chain(ones) {
                x = fold(x, next, load(block));
            }
            if let [first, fours @ ..] = fours.as_chunks::<4>().0 {
                let further = by_each(const { by(2048) });
                let mut a = fold(x, next, load(&first[0]));
                let [mut b, mut c, mut d] = [load(&first[1]), load(&first[2]), load(&first[3])];
                for [p, q, r, s] in fours {
                    a = fold(a, further, load(p));
                    b = fold(b, further, load(q));
                    c = fold(c, further, load(r));
                    d = fold(d, further, load(s));
                }
                let a = fold(a, by_each(const { by(1536) }), d);
                let b = fold(b, by_each(const { by(1024) }), a);
                x = fold(c, next, b);
            }
            let [[a, b], [c, d], [e, f]] = const { [by(384), by(256), by(128)] };
            let last = _mm512_maskz_mov_epi64(0b1100_0000, x);
            ended(fold(x, _mm512_set_epi64(0, 0, f, e, d, c, b, a), last))
        },
        _ => remainder_in_any_way(start, body),
    }
}

/// The same on any processor.
fn remainder_in_any_way(start: &[[u8; BLOCK]], body: &[[u8; BLOCK]]) -> u32 {
    let mut crc = crc32fast::Hasher::new_with_initial(!0);
    crc.update(start.as_flattened());
    crc.update(body.as_flattened());
    !crc.finalize()
}

/// The remainder of a block with zeros behind it.
#[multiversion(targets("x86_64+avx512f+avx512dq+vpclmulqdq+pclmulqdq+sse4.1"))]
fn moved(block: &[u8; BLOCK], distance: &Distance) -> u32 {
    match_target! {
        "x86_64+avx512f+avx512dq+vpclmulqdq+pclmulqdq+sse4.1" => {
            use core::arch::x86_64::*;
            let [a, b, c, d, e, f, g, h] = distance.factors;
            ended(fold(load(block), _mm512_set_epi64(h, g, f, e, d, c, b, a), _mm512_setzero_si512()))
        },
        _ => moved_in_any_way(block, distance),
    }
}

/// The same on any processor.
fn moved_in_any_way(block: &[u8; BLOCK], distance: &Distance) -> u32 {
    shifted(remainder_in_any_way(&[*block], &[]), distance)
}

#[cfg(target_arch = "x86_64")]
use vectors::{by_each, ended, fold, load};

/// Steps that all need vectors of 512 bits.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use super::{BLOCK, POLYNOMIAL, power};
    use core::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn load(block: &[u8; BLOCK]) -> __m512i {
        let (words, _) = block.as_chunks::<8>();
        let [a, b, c, d, e, f, g, h] = core::array::from_fn(|at| i64::from_le_bytes(words[at]));
        _mm512_set_epi64(h, g, f, e, d, c, b, a)
    }

    /// The same factors for each 128 bits.
    #[target_feature(enable = "avx512f")]
    #[inline]
    pub(super) fn by_each([low, high]: [i64; 2]) -> __m512i {
        _mm512_set_epi64(high, low, high, low, high, low, high, low)
    }

    /// `x`, moved by `factors`, and `next`.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    #[inline]
    pub(super) fn fold(x: __m512i, factors: __m512i, next: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(x, factors);
        let high = _mm512_clmulepi64_epi128::<0x11>(x, factors);
        _mm512_ternarylogic_epi64::<0x96>(low, high, next)
    }

    /// The remainder of four times 128 bits, each of which has been moved to where the last is.
    #[target_feature(enable = "avx512f,avx512dq,pclmulqdq,sse4.1")]
    #[inline]
    pub(super) fn ended(x: __m512i) -> u32 {
        let x = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
        let x = _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        // From 128 bits to 96 and to 64, with 32 zeros behind them, which a CRC has.
        let factors = const { [(power(96) as i64) << 1, (power(64) as i64) << 1] };
        let factors = _mm_set_epi64x(factors[1], factors[0]);
        let low = _mm_set_epi32(0, 0, 0, !0);
        let x = _mm_xor_si128(_mm_clmulepi64_si128::<0x00>(x, factors), _mm_srli_si128::<8>(x));
        let x = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x10>(_mm_and_si128(x, low), factors),
            _mm_srli_si128::<4>(x),
        );
        // Barrett's reduction: how often the polynomial is in it, by the quotient of x^64 and the polynomial.
        let barrett = const { [(POLYNOMIAL as i64) << 1 | 1, QUOTIENT] };
        let barrett = _mm_set_epi64x(barrett[1], barrett[0]);
        let times = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(x, low), barrett);
        let whole = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(times, low), barrett);
        _mm_extract_epi32::<1>(_mm_xor_si128(x, whole)) as u32
    }

    /// x^64 divided by the polynomial, the lowest power in the highest of 33 bits.
    const QUOTIENT: i64 = 0x1_f701_1641;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const HEAD: [u8; MAX_HEAD] = [0x5a; MAX_HEAD];

    fn plainly(parts: [&[u8]; 3]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&[0xff; 8]);
        parts.iter().for_each(|part| crc.update(part));
        crc.finalize()
    }

    fn write<const N: usize>(head: &mut [u8; N]) {
        head.copy_from_slice(&HEAD[..N]);
    }

    #[test]
    fn the_quotient_is_that_of_a_long_division() {
        // The polynomial with its first term and x^64, the highest power in the highest bit.
        let polynomial = u128::from(POLYNOMIAL.reverse_bits()) | 1 << 32;
        let (mut rest, mut quotient) = (1_u128 << 64, 0_u64);
        for bit in (0..=32).rev() {
            if rest >> (bit + 32) & 1 == 1 {
                rest ^= polynomial << bit;
                quotient |= 1 << bit;
            }
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(quotient.reverse_bits() >> 31, 0x1_f701_1641);
    }

    #[test]
    fn bodies_of_every_length_have_the_crc_of_their_bytes() {
        let bytes: Vec<u8> = (0..4200_u32).map(|at| ((at * at) >> 3) as u8).collect();
        for length in (0..700).chain([1023, 1024, 1025, 2048, 4095, 4096, 4097, 4200]) {
            let body = &bytes[..length];
            for extension in [&bytes[..0], &bytes[90..94], &bytes[90..106], &bytes[90..118]] {
                let found = [
                    (after_ones(write::<40>, extension, body), 40),
                    (after_ones(write::<52>, extension, body), 52),
                    (after_ones(write::<60>, extension, body), 60),
                ];
                for (found, head) in found {
                    let expected = plainly([&HEAD[..head], extension, body]);
                    assert_eq!(found, expected, "{head}, {} and {length}", extension.len());
                }
            }
        }
    }

    proptest! {
        #[test]
        fn a_body_joins_whatever_head_is_before_it(
            head in any::<[u8; 40]>(),
            longer in proptest::collection::vec(any::<u8>(), MAX_HEAD),
            extension in proptest::collection::vec(any::<u8>(), 0..=28),
            body in proptest::collection::vec(any::<u8>(), 4096),
            usual in 0..5_usize,
        ) {
            let body = &body[..DISTANCES[usual].bytes];
            let shared = BodyCrc::new(body).expect("a usual length");
            let expected = plainly([&head, &extension, body]);
            prop_assert_eq!(shared.after_ones(|out| *out = head, &extension), expected);
            prop_assert_eq!(after_ones(|out| *out = head, &extension, body), expected);
            let expected = plainly([&longer, &extension, body]);
            let write = |out: &mut [u8; MAX_HEAD]| out.copy_from_slice(&longer);
            prop_assert_eq!(shared.after_ones(write, &extension), expected);
        }
    }

    #[test]
    fn processors_with_and_without_wide_vectors_find_the_same() {
        let blocks: Vec<[u8; BLOCK]> = (0..70_u8).map(|at| [at.wrapping_mul(77); BLOCK]).collect();
        for (start, body) in (0..4).flat_map(|start| (0..66).map(move |body| (start, body))) {
            let (start, body) = (&blocks[..start], &blocks[4..4 + body]);
            assert_eq!(remainder(start, body), remainder_in_any_way(start, body));
        }
        for (block, distance) in blocks.iter().zip(DISTANCES.iter().cycle()) {
            assert_eq!(moved(block, distance), moved_in_any_way(block, distance));
        }
    }

    #[test]
    fn only_bodies_of_usual_lengths_are_read_ahead() {
        let bytes = [7; 4097];
        for length in [0, 1, 64, 255, 1023, 1025, 3072, 4097] {
            assert_eq!(BodyCrc::new(&bytes[..length]), None, "{length}");
        }
    }
}
