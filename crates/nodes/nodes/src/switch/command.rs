//! What the control plane and a switch say to each other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::{GroupId, Payload};
use quincunx_design::SwitchPart;
use quincunx_engine::PortId;
use quincunx_engine::verbs::{Completion, QpIndex};
use quincunx_roce::QueuePairConfig;
use quincunx_units::{ByteCount, Instant};
use quincunx_wire::{Endpoint, Gid, QpNumber};

use crate::locks::LockEdge;

/// What a switch needs for one group.
#[derive(Clone, Debug)]
pub struct SwitchGroup<P: Payload> {
    /// The group's name here.
    pub group: GroupId,
    /// Its edges, each with the port that leads over it; where connections end here, the queue pair is set up so.
    pub edges: Vec<(PortId, QueuePairConfig)>,
    /// Somebody else executes the work of its queue pairs, which [`take_work`](crate::Offloadable::take_work) hands out, and says by
    /// [`SwitchCommand::Complete`] what became of it. Connections must end here then.
    pub are_offloaded: bool,
    /// What the switch does.
    pub part: SwitchPart<P>,
    /// Its part of the switch's memory: the pointer and the length of EPIC 6.1.
    pub memory: MemoryPart,
    /// If its memory is locked for each of the group's invocations.
    pub locks: Option<SwitchLocks>,
    /// Somebody wants to hear when neighbours begin collectives ([`SwitchEvent::Begun`]).
    pub tells_beginnings: bool,
}

/// A part of a switch's memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MemoryPart {
    /// Where it begins.
    pub offset: ByteCount,
    /// Its bytes.
    pub length: ByteCount,
}

impl MemoryPart {
    /// Whether all of it is in another one.
    pub(super) fn is_in(self, other: Self) -> bool {
        other.offset <= self.offset && self.offset + self.length <= other.offset + other.length
    }

    /// Which bytes it is.
    pub(super) fn bytes(self) -> Range<usize> {
        let [start, end] = [self.offset, self.offset + self.length].map(|place| place.bytes() as usize);
        start..end
    }

    /// Whether some byte is in both.
    pub(super) fn overlaps(self, other: Self) -> bool {
        let are_some = self.length.min(other.length) > ByteCount::new(0);
        are_some && self.offset < other.offset + other.length && other.offset < self.offset + self.length
    }
}

/// What a switch needs for a group that locks its memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchLocks {
    /// To the children in the tree and, last, to the parent.
    pub edges: Vec<LockEdge>,
    /// Whether there is a parent.
    pub has_parent: bool,
}

/// What the control plane asks of a switch.
#[derive(Clone, Debug)]
pub enum SwitchCommand<P: Payload> {
    /// Joins a group.
    Install(Box<SwitchGroup<P>>),
    /// Moves a block of the memory with what is in it, and the pointers of the groups whose parts are in it (EPIC 6.1). Nothing else of them changes.
    MoveMemory {
        /// The block.
        from: MemoryPart,
        /// Where it begins from now on. It may be in part where it was.
        to: ByteCount,
    },
    /// Removes a group; its packets are foreign from now on.
    Remove(GroupId),
    /// Sends on what is for `destination` and comes to this switch, from now on through `ports`. What comes from there is to come by them.
    Route {
        /// An address that is not the switch's own.
        destination: Gid,
        /// Where it goes: of several ports each flow has one.
        ports: Vec<PortId>,
    },
    /// Sends on what is for a queue pair of another node's by one way, whatever its address has: what comes by another port is dropped.
    Pin {
        /// The queue pair.
        destination: Endpoint,
        /// Where it comes from.
        from: PortId,
        /// Where it goes.
        to: PortId,
    },
    /// What flows are spread over ports by. Switches behind each other need different ones: otherwise the second has but those flows that
    /// the first one's hash has brought there, and sends all of them one way.
    HashSeed(u64),
    /// A work request of an offloaded queue pair has ended. What has been received is in the group's
    /// [memory](crate::Offloadable::memory).
    Complete {
        /// The group.
        group: GroupId,
        /// Which of its queue pairs.
        queue_pair: QpIndex,
        /// How.
        completion: Completion,
    },
}

/// What a switch tells the control plane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchEvent {
    /// The neighbour on an edge has not answered within the retry count, or has failed.
    Unreachable {
        /// The group.
        group: GroupId,
        /// Index of the edge in the group's context.
        edge: u16,
    },
    /// The neighbour on an edge has begun its part in a collective; said again of what comes again.
    Begun {
        /// The group.
        group: GroupId,
        /// Index of the edge in the group's context.
        edge: u16,
        /// Of the collective, the same on all edges.
        number: u64,
        /// When.
        at: Instant,
    },
}

/// Why a command is refused; nothing has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SwitchRejected {
    /// The group is installed already.
    #[error("expected a new group, found group {0:?} installed; remove it first")]
    GroupExists(GroupId),
    /// The group is not installed.
    #[error("expected an installed group, found no group {0:?}; install it first")]
    NoSuchGroup(GroupId),
    /// What it stores does not fit into its part of the memory.
    #[error(
        "expected {needed} of the switch's memory, found {given} in the group's context; run the same version at the manager"
    )]
    TooLittleMemory {
        /// What its buffers take.
        needed: ByteCount,
        /// What it was given.
        given: ByteCount,
    },
    /// Memory cannot be moved to where another group's is.
    #[error("expected free memory at {to}, found group {owner:?} there; move that one first")]
    MemoryInUse {
        /// Where it was to begin.
        to: ByteCount,
        /// Who has some of it.
        owner: GroupId,
    },
    /// A queue pair is taken.
    #[error("expected free queue pair numbers, found {0:?} in use; give each edge its own")]
    QpInUse(QpNumber),
    /// Frames of the group are none of queue pairs that end here, and others a device does not hand over.
    #[error(
        "expected a group whose connections end at this switch's queue pairs, which a device executes, found group {0:?} whose frames \
         pass through; run a design that ends them, or the switch with --transport packet"
    )]
    PassesThrough(GroupId),
    /// What the group runs takes packets of a memory fabric, not frames.
    #[error(
        "expected a part that takes frames, found group {0:?} with a unit of a memory fabric; name another design"
    )]
    OfMemoryFabric(GroupId),
    /// A queue pair makes no sense.
    #[error(transparent)]
    QueuePair(#[from] quincunx_roce::ConfigError),
}
