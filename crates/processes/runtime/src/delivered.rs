//! What other ranks write.

use quincunx_collective::{Numbers, Rank as RankNumber};

/// Something that another rank has written here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// Who.
    pub source: RankNumber,
    /// In which of the slots that this rank keeps for it.
    pub slot: usize,
    /// What.
    pub data: Numbers,
}
