//! What groups that contend for switches' memory share.

use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;

/// How often a switch has granted a group its memory, and refused it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LockUse {
    /// Invocations that it granted.
    pub granted: u64,
    /// Invocations that it refused: another group had the memory.
    pub refused: u64,
    /// Of those, how often the other group made nothing of it, because another switch refused that one.
    pub in_vain: u64,
    /// Who had it the last time.
    pub held_by: Option<GroupId>,
}

/// What a group shares at a switch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SharedMemory {
    /// The switch.
    pub switch: String,
    /// Groups with the same block.
    pub with: Vec<GroupId>,
    /// As the switch has told.
    pub uses: LockUse,
}
