//! One peer: the slots that its messages arrive in, and how far we are in what we take from it and send to it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use quincunx_engine::verbs::{QpIndex, RegionId, Slice, WorkId};

/// Where in the plan one direction of a lane stands: the stages that use it, in order, and the next piece.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Cursor {
    stages: Vec<usize>,
    at: usize,
    piece: usize,
}

impl Cursor {
    pub(crate) fn clear(&mut self) {
        self.stages.clear();
        (self.at, self.piece) = (0, 0);
    }

    pub(crate) fn push(&mut self, stage: usize) {
        self.stages.push(stage);
    }

    /// The next stage and piece.
    pub(crate) fn head(&self) -> Option<(usize, usize)> {
        Some((*self.stages.get(self.at)?, self.piece))
    }

    /// Goes past the head, whose stage has `pieces`.
    pub(crate) fn advance(&mut self, pieces: usize) {
        self.piece += 1;
        if self.piece == pieces {
            (self.at, self.piece) = (self.at + 1, 0);
        }
    }
}

/// A receive slot of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SlotId {
    pub(crate) lane: usize,
    pub(crate) slot: usize,
}

/// What a slot is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Slot {
    /// Waiting for a message.
    Posted,
    /// Holding one that is not combined yet.
    Arrived {
        /// Its bytes.
        length: usize,
    },
    /// Holding a partial result that is to be sent, or is being sent.
    Held,
}

/// A peer's queue pair and everything that is in flight on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lane {
    pub(crate) qp: QpIndex,
    /// Registered memory of the slots, one chunk each; none before the first collective.
    pub(crate) region: Option<RegionId>,
    pub(crate) slots: Vec<Slot>,
    /// Slots with messages, oldest first.
    pub(crate) arrived: VecDeque<usize>,
    pub(crate) incoming: Cursor,
    pub(crate) outgoing: Cursor,
    /// Partial results that this lane is to send, in order.
    pub(crate) held: VecDeque<SlotId>,
    /// Sends that are not complete.
    pub(crate) outstanding: usize,
}

impl Lane {
    pub(crate) fn new(qp: QpIndex, window: usize) -> Self {
        Self {
            qp,
            region: None,
            slots: alloc::vec![Slot::Posted; window],
            arrived: VecDeque::with_capacity(window),
            incoming: Cursor::default(),
            outgoing: Cursor::default(),
            held: VecDeque::with_capacity(window),
            outstanding: 0,
        }
    }

    /// The first `length` bytes of a slot.
    pub(crate) fn slice(&self, slot: usize, chunk: usize, length: usize) -> Slice {
        let region = self.region.expect("slots are registered before they are used");
        Slice { region, offset: slot * chunk, length }
    }
}

/// Names of work requests: a receive is its slot; a send says which slot is free after it, if any.
pub(crate) mod work {
    use super::{SlotId, WorkId};

    const NO_SLOT: u64 = u64::MAX;

    pub(crate) fn receive(slot: usize) -> WorkId {
        WorkId(slot as u64)
    }

    pub(crate) fn received(id: WorkId) -> usize {
        id.0 as usize
    }

    pub(crate) fn send(frees: Option<SlotId>) -> WorkId {
        WorkId(frees.map_or(NO_SLOT, |id| (id.lane as u64) << 32 | id.slot as u64))
    }

    pub(crate) fn sent(id: WorkId) -> Option<SlotId> {
        let slot = SlotId { lane: (id.0 >> 32) as usize, slot: id.0 as u32 as usize };
        (id.0 != NO_SLOT).then_some(slot)
    }
}
