//! How a vector is cut into pieces, and what each of its packets carries.
//!
//! ```text
//! packet      0    1    2    3    4    5         of a pool of two slots
//! elements    -    -    A    B    C    D         the pieces of the vector
//! exponent    A    B    C    D    -    -         of the largest value there, so that a piece's is agreed on before it is sent
//! ```
//!
//! Integers, and numbers whose point is where the parameters say, need no packets before the first one with elements.

/// The packets of one vector.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pieces {
    /// Bytes of the vector.
    length: usize,
    /// Bytes of a full piece.
    piece: usize,
    /// Packets before the first one with elements.
    pub(crate) openings: u64,
}

impl Pieces {
    /// Of a vector of `length` bytes; `openings` is the most packets that go before it.
    pub(crate) fn new(length: usize, piece: usize, openings: u32) -> Self {
        let whole = Self { length, piece, openings: 0 };
        Self { openings: whole.count().min(openings.into()), ..whole }
    }

    /// Pieces of the vector. Of nothing there is one, for ranks must agree that there is nothing.
    pub(crate) fn count(&self) -> u64 {
        self.length.div_ceil(self.piece).max(1) as u64
    }

    /// Packets in all.
    pub(crate) fn packets(&self) -> u64 {
        self.openings + self.count()
    }

    /// The bytes of the vector in a packet: where, and how many.
    pub(crate) fn elements(&self, packet: u64) -> (usize, usize) {
        packet.checked_sub(self.openings).map_or((0, 0), |piece| self.bytes(piece))
    }

    /// The bytes of the vector whose exponent a packet carries, if there is something left to agree on.
    pub(crate) fn announced(&self, packet: u64) -> Option<(usize, usize)> {
        (self.openings > 0 && packet < self.count()).then(|| self.bytes(packet))
    }

    fn bytes(&self, piece: u64) -> (usize, usize) {
        let offset = piece as usize * self.piece;
        (offset, self.piece.min(self.length - offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_element_is_in_one_packet_and_announced_before(
            length in 0usize..200, words in 1usize..9, openings in 0u32..9,
        ) {
            let pieces = Pieces::new(length, 4 * words, openings);
            let mut end = 0;
            for packet in 0..pieces.packets() {
                let (offset, bytes) = pieces.elements(packet);
                if packet < pieces.openings {
                    prop_assert_eq!(bytes, 0);
                    continue;
                }
                prop_assert_eq!(offset, end);
                end += bytes;
                if openings > 0 {
                    let before = packet - pieces.openings;
                    prop_assert_eq!(pieces.announced(before), Some((offset, bytes)));
                } else {
                    prop_assert_eq!(pieces.announced(packet), None);
                }
            }
            prop_assert_eq!(end, length);
        }
    }

    #[test]
    fn nothing_is_a_piece_of_no_bytes() {
        let nothing = Pieces::new(0, 8, 4);
        assert_eq!((nothing.packets(), nothing.elements(1), nothing.announced(0)), (2, (0, 0), Some((0, 0))));
        assert_eq!(nothing.announced(1), None);
    }
}
