//! What a group goes on from that was made anew.

use crate::GroupFailure;
use alloc::vec::Vec;
use quincunx_collective::GroupId;

/// What a group that was made anew goes on from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RecreatedGroup {
    /// The numbers that it has had, oldest first.
    pub earlier: Vec<GroupId>,
    /// The collective that all ranks run from, counted from one over all of its generations.
    pub first: u64,
    /// What the generation before was lost by.
    pub failure: GroupFailure,
}

impl RecreatedGroup {
    /// The number that it had before.
    pub fn from(&self) -> GroupId {
        *self.earlier.last().expect("it was made anew from something")
    }

    /// The how-manieth generation it is; one that was never made anew is the first.
    pub fn generation(&self) -> u32 {
        self.earlier.len() as u32 + 1
    }
}
