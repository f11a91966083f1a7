//! Checksums of vectors that add up: the checksum of a sum of vectors is the sum of their checksums, word by word, as the vectors themselves
//! add up modulo 2^32.
//!
//! A vector is words of four bytes, dealt out to lanes in turn. For each lane there are Fletcher's two sums: of its words, and of all sums on
//! the way there, which weigh a word by its place. So whatever changes one word is seen, and two words of one lane unless they are a multiple
//! of a power of two of places apart that makes up for their difference. Against one who chooses changes that leave both sums alone they are no
//! help: that takes a key, as MACsec has one.

use alloc::vec::Vec;

/// Words that are summed up side by side.
const LANES: usize = 16;

/// Bytes of a checksum.
pub(crate) const LENGTH: usize = 2 * LANES * 4;

/// The checksum of a vector; what is missing to its last words counts as zeroes.
pub(crate) fn checksum(vector: &[u8]) -> Vec<u8> {
    let mut sums = [0_u32; LANES];
    let mut weighted = [0_u32; LANES];
    let mut add = |block: &[u8; LANES * 4]| {
        let (words, _) = block.as_chunks::<4>();
        for lane in 0..LANES {
            sums[lane] = sums[lane].wrapping_add(u32::from_le_bytes(words[lane]));
            weighted[lane] = weighted[lane].wrapping_add(sums[lane]);
        }
    };
    let (blocks, rest) = vector.as_chunks();
    blocks.iter().for_each(&mut add);
    if !rest.is_empty() {
        let mut last = [0; LANES * 4];
        last[..rest.len()].copy_from_slice(rest);
        add(&last);
    }
    sums.into_iter().chain(weighted).flat_map(u32::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("a word"));
        words(a.chunks(4).zip(b.chunks(4)).map(|(a, b)| word(a).wrapping_add(word(b))))
    }

    #[test]
    fn checksums_add_up_as_vectors_do() {
        for length in [0, 1, 15, 16, 17, 100] {
            let a = words((0..length).map(|n: u32| n.wrapping_mul(0x9e37_79b9)));
            let b = words((0..length).map(|n: u32| !n.wrapping_mul(0x85eb_ca6b)));
            assert_eq!(checksum(&sum(&a, &b)), sum(&checksum(&a), &checksum(&b)), "{length} words");
        }
    }

    #[test]
    fn a_change_of_one_word_and_an_exchange_of_two_are_seen() {
        let vector = words((0..100_u32).map(|n| n * n));
        for (place, bit) in [(0, 0), (17, 31), (99, 12)] {
            let mut changed = vector.clone();
            changed[4 * place + bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&changed), checksum(&vector), "bit {bit} of word {place}");
        }
        let exchanged = words((0..100_u32).map(|n| match n {
            3 => 19 * 19,
            19 => 3 * 3,
            _ => n * n,
        }));
        assert_ne!(checksum(&exchanged), checksum(&vector));
    }

    #[test]
    fn what_is_missing_to_a_last_word_counts_as_zeroes() {
        assert_eq!(checksum(&[7]), checksum(&[7, 0, 0, 0]));
        assert_eq!(checksum(&[]).len(), LENGTH);
    }
}
