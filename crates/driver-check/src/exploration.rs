//! What an exploration is told, and what it tells on its way.

use std::ops::ControlFlow;

use quincunx_units::ByteCount;

/// What may happen, and what is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exploration {
    /// Frames that may be lost.
    pub losses: u8,
    /// Frames of which a copy may arrive later, at any time.
    pub duplicates: u8,
    /// Frames that may be late: others overtake them, and time-outs expire meanwhile. All others keep their order.
    pub delays: u8,
    /// Timers that may fire while frames are on their way.
    pub early_timeouts: u8,
    /// Of each state, only a persistent set of its steps is looked at where one is known: frames that commute with whatever may come
    /// to their node before them. Needs `at_once`.
    pub persistent_sets: bool,
    /// Nodes take their slots, and owners ask again, as soon as they want to.
    pub at_once: bool,
    /// States that a symmetry turns into each other count once.
    pub symmetry: bool,
    /// Threads to use.
    pub threads: usize,
    /// The memory that the process may hold.
    pub memory: ByteCount,
}

impl Exploration {
    /// Whether persistent sets are in use: if a node acts on its own, or a timer fires, while frames are on their way, there are none.
    pub(crate) fn uses_persistent_sets(&self) -> bool {
        self.persistent_sets && self.at_once && self.early_timeouts == 0
    }

    /// Smaller explorations to make before, from which most of what is independent is learnt: some kinds of faults, once each, one
    /// kind before two.
    pub(crate) fn speculative(&self) -> Vec<Self> {
        if !self.uses_persistent_sets() {
            return Vec::new();
        }
        let smaller = |kinds: u8| {
            let once = |kind: u8, count: u8| count.min(kinds >> kind & 1);
            Self {
                losses: once(0, self.losses),
                duplicates: once(1, self.duplicates),
                delays: once(2, self.delays),
                ..*self
            }
        };
        let mut kinds: Vec<u8> = (1..8).collect();
        kinds.sort_by_key(|kinds| kinds.count_ones());
        let mut found: Vec<Self> = kinds.into_iter().map(smaller).collect();
        found.dedup();
        found.retain(|rules| rules != self && rules.losses + rules.duplicates + rules.delays > 0);
        found
    }
}

/// How far an exploration has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Steps taken, into known states and into those that are not kept, too.
    pub states: u64,
    /// States of the network that are kept: those that leave no choice are not.
    pub distinct: u64,
    /// From the beginning to the state that is farthest from it, by states that are kept.
    pub diameter: u32,
    /// States of nodes, over all nodes.
    pub node_states: u64,
    /// States that are not expanded yet.
    pub waiting: u64,
}

/// Told to the owner now and then.
pub type Progress<'a> = &'a mut dyn FnMut(&Statistics) -> ControlFlow<()>;

/// Why an exploration ended before it had seen everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfinished {
    /// The owner has had enough.
    Stopped,
    /// The memory was used up.
    Memory {
        /// What the process held.
        resident: ByteCount,
    },
}
