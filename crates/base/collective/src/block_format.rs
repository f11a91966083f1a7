//! Which block formats there are, and how large their tiles; `blocks` has their arithmetic.

/// Rows of a tile, and bytes of a row.
pub(crate) const MXFP8_ROWS: usize = 32;
pub(crate) const NVFP4_ROWS: usize = 8;

/// A format whose elements share scales.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BlockFormat {
    /// [`DataType::Mxfp8`](crate::DataType::Mxfp8).
    Mxfp8,
    /// [`DataType::Nvfp4`](crate::DataType::Nvfp4).
    Nvfp4,
}

impl BlockFormat {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Mxfp8, Self::Nvfp4];

    /// Bytes of a tile.
    pub const fn tile(self) -> usize {
        match self {
            Self::Mxfp8 => MXFP8_ROWS * MXFP8_ROWS,
            Self::Nvfp4 => NVFP4_ROWS * NVFP4_ROWS,
        }
    }

    /// Values that share a scale.
    pub const fn block(self) -> usize {
        match self {
            Self::Mxfp8 => MXFP8_ROWS,
            Self::Nvfp4 => 2 * NVFP4_ROWS,
        }
    }

    /// Values in a tile.
    pub const fn values(self) -> usize {
        match self {
            Self::Mxfp8 => (MXFP8_ROWS - 1) * self.block(),
            Self::Nvfp4 => (NVFP4_ROWS - 1) * self.block(),
        }
    }

    /// Bytes that so many values take: whole tiles.
    pub const fn bytes(self, values: usize) -> usize {
        values.div_ceil(self.values()) * self.tile()
    }
}
