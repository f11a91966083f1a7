//! The dimensions that ranks and switch must agree on.

use quincunx_wire::atp::{self, AtpTags};

/// The longest packet of a queue pair, in bytes of payload.
const LONGEST: usize = 4096;

/// The most aggregators, and the largest window.
const MOST: u32 = 1 << 22;

/// Windows that the numbers in immediates tell apart: two that the server keeps, and as much for what is late.
const WINDOWS: u32 = 4;

/// The dimensions of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtpShape {
    /// Ranks, the server's among them.
    pub ranks: u16,
    /// Whether the server's rank sends its part to the switch as others do (EPIC's "8-to-1"); else the server adds it itself ("7-to-1").
    pub server_sends: bool,
    /// Packets that a rank may have without a result, a power of two: numbers wrap.
    pub window: u32,
    /// Aggregators in the switch.
    pub aggregators: u32,
    /// Bytes of elements in a full packet.
    pub piece: usize,
}

/// Why there is no such group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AtpShapeError {
    /// A window whose numbers do not wrap where packets' do.
    #[error("expected a window of a power of two up to {MOST}, found {0}; choose 256")]
    Window(u32),
    /// No aggregator, or too many.
    #[error("expected 1 to {MOST} aggregators, found {0}; choose 1024")]
    Aggregators(u32),
    /// Packets of no whole elements, or too long with their header.
    #[error(
        "expected packets of whole 4-byte elements up to {most} bytes, found {0}; choose 1024",
        most = LONGEST - atp::LENGTH
    )]
    Piece(usize),
    /// No room for a bit for each rank beside the numbers.
    #[error("expected at most {most} ranks with a window of {window}, found {found}; choose fewer of either")]
    Ranks {
        /// How many there may be.
        most: u32,
        /// With this window.
        window: u32,
        /// How many there are.
        found: u16,
    },
}

impl AtpShape {
    /// How its immediates are divided.
    ///
    /// # Errors
    /// If it is no group.
    pub fn tags(&self) -> Result<AtpTags, AtpShapeError> {
        if !self.window.is_power_of_two() || self.window > MOST {
            return Err(AtpShapeError::Window(self.window));
        }
        if self.aggregators == 0 || self.aggregators > MOST {
            return Err(AtpShapeError::Aggregators(self.aggregators));
        }
        let is_whole = self.piece > 0 && self.piece.is_multiple_of(4);
        if !is_whole || self.piece > LONGEST - atp::LENGTH {
            return Err(AtpShapeError::Piece(self.piece));
        }
        let number_bits = (WINDOWS * self.window).trailing_zeros();
        let fits = AtpTags::new(self.ranks).filter(|tags| tags.number_bits() >= number_bits);
        let (most, window) = (31 - number_bits, self.window);
        fits.ok_or(AtpShapeError::Ranks { most, window, found: self.ranks })
    }

    /// The aggregator that a packet is hashed to. By the golden ratio numbers that follow each other are far apart (Knuth, *The Art of
    /// Computer Programming*, 6.4): no two of a window meet in four times as many aggregators. The paper's hash is of the job, too; here each group has
    /// aggregators of its own.
    pub(crate) const fn aggregator(&self, number: u32) -> usize {
        let hash = number.wrapping_mul(0x9e37_79b1);
        ((hash as u64 * self.aggregators as u64) >> 32) as usize
    }

    /// Bytes of a full packet's payload.
    pub(crate) const fn packet(&self) -> usize {
        atp::LENGTH + self.piece
    }
}
