//! What an exploration is told, and what it tells on its way.

use std::ops::ControlFlow;

use quincunx_units::{ByteCount, Duration};

/// How often each kind of thing may happen at most.
pub const MOST: u8 = 31;

/// How far the clock moves on: longer than any time-out, so that whatever depends on a time that has passed sees it pass, or not at all.
pub const JUMP: Duration = Duration::from_secs(3600);

/// What may happen, and what is left out. Of each kind of thing that may happen there are [`MOST`] at most.
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
    /// How often the clock of all nodes may move on, at any time, by [`JUMP`]. It stands still otherwise: also while timers expire.
    pub jumps: u8,
    /// Frames that a congested link may mark ([`System::marked`](crate::System::marked)).
    pub marks: u8,
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

    /// Smaller explorations to make before, from which most of what is independent is learnt, and which find what needs few faults: no
    /// faults, then some kinds of them, once each, one kind before two.
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
                jumps: once(3, self.jumps),
                marks: once(4, self.marks),
                ..*self
            }
        };
        let mut kinds: Vec<u8> = (0..32).collect();
        kinds.sort_by_key(|kinds| kinds.count_ones());
        let mut found: Vec<Self> = Vec::new();
        for rules in kinds.into_iter().map(smaller) {
            if rules != *self && !found.contains(&rules) {
                found.push(rules);
            }
        }
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
