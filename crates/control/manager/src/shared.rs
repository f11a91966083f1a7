//! What groups that contend for switches' memory share.

use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_units::{Duration, Instant};

/// How often a switch has granted a group its memory, and refused it, and for how long it had it.
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
    /// How long this group has had it in all.
    pub held: Duration,
}

/// What a switch has told of the locks of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Measured {
    /// The last time.
    pub(crate) uses: LockUse,
    /// When it told it first, and how long the group had had the memory until then.
    first: (Instant, Duration),
}

impl Measured {
    /// Shorter than that nothing is measured: switches tell what has changed twice a second.
    const SHORTEST: Duration = Duration::from_secs(1);

    /// A switch tells something, after this if it is not the first.
    pub(crate) fn next(before: Option<&Self>, uses: LockUse, now: Instant) -> Self {
        // A switch that has started again counts from zero.
        let before = before.filter(|before| before.uses.held <= uses.held);
        Self { uses, first: before.map_or((now, uses.held), |before| before.first) }
    }

    /// Which share of the time since then the group has had the memory, in per cent; none if that is not long.
    pub(crate) fn duty(&self, now: Instant) -> Option<u8> {
        let (since, held) = (now.since(self.first.0), self.uses.held - self.first.1);
        let percent = 100.0 * held.as_secs_f64() / since.as_secs_f64();
        (since >= Self::SHORTEST).then(|| percent.round().min(100.0) as u8)
    }
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
    /// Which share of the time the block is in use, by all groups that have it, in per cent: as it is measured, or as their jobs have told. None if
    /// nothing is known of any.
    pub duty: Option<u8>,
}
