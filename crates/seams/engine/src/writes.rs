//! Writes that the application asks of a host, to one rank or to several at once (MultiWrite 4.3.2): what crosses the seam between
//! a host and a [`Program`](crate::verbs::Program) that offers them.

use crate::verbs::{Slice, Verbs, WorkId};
use quincunx_collective::{Payload, Rank};

/// A program that offers writes of the application's own.
pub trait OneSided<P: Payload> {
    /// Begins a write to `targets` by their way number `way`; its end is a [`Notice`].
    ///
    /// # Errors
    /// If it makes no sense. Nothing is sent then.
    fn write(
        &mut self,
        id: WorkId,
        to: (&[Target], usize),
        data: P::View<'_>,
        verbs: &mut dyn Verbs<P>,
    ) -> Result<(), WriteError>;

    /// The oldest notice of writes that is not taken; to be asked for after anything else that is called on the program.
    fn next_notice(&mut self) -> Option<Notice>;
}

/// A destination of a write: (D, B) of the paper's M.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The destination.
    pub rank: Rank,
    /// The slot there, of those that it keeps for the writer.
    pub slot: usize,
}

/// What became of writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Notice {
    /// Every destination has what this rank wrote, and the slots are free again.
    Written {
        /// The write, as its caller names it.
        id: WorkId,
    },
    /// Another rank has written something here. It is to be taken before the host does anything else: then the slot is the writer's.
    Delivered {
        /// Who.
        source: Rank,
        /// In which of its slots.
        slot: usize,
        /// What.
        data: Slice,
    },
}

/// Why a write is refused: nothing has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The group's program knows no writes.
    #[error("expected a group that offers writes, found one for collectives; make one of a design that does")]
    NotOffered,
    /// The group has failed before.
    #[error("expected a working group, found one that has failed; make a new group")]
    GroupFailed,
    /// A slot whose last write has not ended.
    #[error("expected a free slot, found slot {slot} with a write that has not ended; wait, or take another")]
    Busy {
        /// The slot.
        slot: usize,
    },
    /// For nobody.
    #[error("expected a destination, found none; name one rank at least")]
    NoDestination,
    /// For a rank that is not in the table.
    #[error("expected destinations below {ranks}, found rank {found}; name ranks of the table")]
    UnknownRank {
        /// Ranks in the table.
        ranks: u16,
        /// As given.
        found: u16,
    },
    /// For the node itself.
    #[error("expected destinations other than rank {rank}, which writes; copy its own data locally")]
    SelfAddressed {
        /// The node.
        rank: u16,
    },
    /// The same destination and slot twice.
    #[error("expected each destination once, found rank {rank} twice for slot {slot}; name it once")]
    Twice {
        /// The destination.
        rank: u16,
        /// The slot.
        slot: usize,
    },
    /// No way leads there.
    #[error("expected a way to rank {rank}, found none; give the table one")]
    NoRoute {
        /// The destination.
        rank: u16,
    },
    /// A slot that the window does not have.
    #[error("expected a slot below {slots}, found {found}; make the window larger")]
    NoSlot {
        /// Slots of a source.
        slots: usize,
        /// As given.
        found: usize,
    },
    /// More than a slot holds, or not all of it in registered memory.
    #[error(
        "expected at most {limit} bytes of registered memory, found {found}; cut the data, or register it"
    )]
    Source {
        /// Bytes of a slot.
        limit: usize,
        /// As given.
        found: usize,
    },
    /// The bitmap has to lie in memory that holds nothing.
    #[error("expected at most 32 ranks where memory has no contents, found {ranks}; simulate with numbers")]
    NoContents {
        /// Ranks in the table.
        ranks: u16,
    },
}
