//! The dimensions of the pool, which ranks and switch must agree on.

use quincunx_wire::switchml;

/// The longest packet of a queue pair, in bytes of payload.
const LONGEST: usize = 4096;

/// The most slots: half the numbers that there are tell two uses of one apart.
const MOST_SLOTS: u32 = 1 << 22;

/// The dimensions of the pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolShape {
    /// Slots, a power of two: pieces take turns in them, and their numbers wrap.
    pub slots: u32,
    /// Bytes of elements in a full packet.
    pub piece: usize,
}

/// Why there is no such pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PoolShapeError {
    /// Slots whose numbers do not wrap where pieces' do.
    #[error("expected slots of a power of two up to {MOST_SLOTS}, found {0}; choose 256")]
    Slots(u32),
    /// Packets of no whole elements, or too long with their header.
    #[error(
        "expected packets of whole 4-byte elements up to {most} bytes, found {0}; choose 1024",
        most = LONGEST - switchml::LENGTH
    )]
    Piece(usize),
}

impl PoolShape {
    /// Refuses what is no pool.
    ///
    /// # Errors
    /// If it is none.
    pub const fn check(&self) -> Result<(), PoolShapeError> {
        if !self.slots.is_power_of_two() || self.slots > MOST_SLOTS {
            return Err(PoolShapeError::Slots(self.slots));
        }
        let is_whole = self.piece > 0 && self.piece.is_multiple_of(4);
        if !is_whole || self.piece > LONGEST - switchml::LENGTH {
            return Err(PoolShapeError::Piece(self.piece));
        }
        Ok(())
    }

    /// The slot that a piece takes its turn in.
    pub(crate) const fn slot(&self, number: u32) -> usize {
        (number & (self.slots - 1)) as usize
    }

    /// Which of the slot's two pools it is added up in: they take turns, too.
    pub(crate) const fn version(&self, number: u32) -> usize {
        (number / self.slots % 2) as usize
    }

    /// Bytes of a full packet's payload.
    pub(crate) const fn packet(&self) -> usize {
        switchml::LENGTH + self.piece
    }
}
