//! CheckDuplicate, AggregateData and RecycleBuffer over one ring of slots (EPIC 4.1, 4.4 "A Pipe Abstraction", algorithms
//! 1 and 2). A pipe takes the numbers `start .. start + capacity`; number `n` lives in slot `n % capacity`.

use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Reduction};
use quincunx_wire::{Operation, RoceHeader};

use crate::invocation::{EdgeSet, LOCAL};
use crate::mutation::Mutation;

/// Bytes of the degree counter that a switch keeps for each slot (EPIC 4.3; F.3 counts payload and degree buffers).
pub(crate) const DEGREE_BYTES: usize = 4;

/// The state of a slot beside its payload. The degree of the paper is the number of bits in `arrived`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    arrived: EdgeSet,
    header: Option<SlotHeader>,
}

/// The header of a slot: what all contributions to it agree on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SlotHeader {
    pub(crate) operation: Operation,
    pub(crate) acknowledge_request: bool,
    pub(crate) length: u16,
}

impl SlotHeader {
    pub(crate) fn of(header: &RoceHeader, length: usize) -> Self {
        Self {
            operation: header.operation,
            acknowledge_request: header.acknowledge_request,
            length: length as u16,
        }
    }
}

/// What became of a contribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aggregated {
    /// This source had contributed before; nothing has changed.
    Duplicate,
    /// Others are still missing.
    Partial,
    /// This was the last.
    Complete,
    /// It disagrees with the others on length or operation; nothing has changed.
    Mismatch,
}

/// A ring of slots with a valid range.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pipe<P> {
    mutation: Option<Mutation>,
    start: u64,
    capacity: u64,
    mtu: usize,
    /// One region, or one for each edge when the order of addition must not depend on the order of arrival.
    payload: Vec<P>,
    slots: Vec<Slot>,
    /// Broken rule: who has ever contributed to each slot.
    seen: Vec<EdgeSet>,
}

impl<P: Payload> Pipe<P> {
    /// An empty pipe for the numbers `start .. start + capacity`, with `regions` payload regions (1: add on arrival).
    pub(crate) fn new(
        start: u64,
        capacity: u64,
        mtu: usize,
        regions: usize,
        mutation: Option<Mutation>,
    ) -> Self {
        let seen = if mutation == Some(Mutation::ArrivedNeverCleared) { capacity as usize } else { 0 };
        Self {
            mutation,
            seen: vec![0; seen],
            start,
            capacity,
            mtu,
            payload: (0..regions.max(1)).map(|_| P::zeroed(capacity as usize * mtu)).collect(),
            slots: vec![Slot::default(); capacity as usize],
        }
    }

    /// psnStart: the first number that the pipe takes.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The first number that lies ahead of the range.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.capacity
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        (self.start..self.end()).contains(&number) || self.takes_anything()
    }

    /// Broken rules: no valid range, numbers share slots.
    fn takes_anything(&self) -> bool {
        use Mutation::{OneBitVersion, RootCopiesAggregate, StaleCollective, WindowInMessages, WindowShort};
        self.mutation.is_some_and(|broken| {
            matches!(
                broken,
                OneBitVersion | RootCopiesAggregate | StaleCollective | WindowInMessages | WindowShort
            )
        })
    }

    /// Bytes of the payload and degree buffers (EPIC F.3).
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.slots.len() * (self.mtu * self.payload.len() + DEGREE_BYTES)
    }

    /// CheckDuplicate: whether `source` has contributed to `number`, which must be in range.
    pub(crate) fn has_arrived(&self, number: u64, source: EdgeSet) -> bool {
        let seen = self.seen.get((number % self.capacity) as usize).is_some_and(|seen| seen & source != 0);
        seen || self.slot(number).arrived & source != 0
    }

    /// Whether all `sources` have contributed to `number`, which must be in range.
    pub(crate) fn is_complete(&self, number: u64, sources: EdgeSet) -> bool {
        self.slot(number).arrived & sources == sources
    }

    /// The header of slot `number`; `None` before the first contribution.
    pub(crate) fn header(&self, number: u64) -> Option<SlotHeader> {
        self.slot(number).header
    }

    /// The payload of `number`, whole once the slot is complete.
    pub(crate) fn view(&self, number: u64) -> P::View<'_> {
        let offset = self.offset(number);
        let length = self.slot(number).header.map_or(0, |header| usize::from(header.length));
        self.payload[0].view(offset..offset + length)
    }

    /// The payload of the slot behind that of `number`: what nobody is to be sent.
    pub(crate) fn next_view(&self, number: u64) -> P::View<'_> {
        let offset = self.offset(number + 1);
        let length = self.slot(number).header.map_or(0, |header| usize::from(header.length));
        self.payload[0].view(offset..offset + length)
    }

    /// Broken rules: erases the payload in the slot of `number`, whatever that is. Who has contributed is known of each endpoint.
    pub(crate) fn erase(&mut self, number: u64) {
        let offset = self.offset(number);
        let nothing = P::zeroed(self.mtu);
        for region in &mut self.payload {
            region.write(offset, nothing.view(0..self.mtu));
        }
    }

    /// CheckDuplicate and AggregateData: adds what `source` sends to slot `number`, which must be in range.
    pub(crate) fn aggregate(
        &mut self,
        number: u64,
        source: EdgeSet,
        sources: EdgeSet,
        header: SlotHeader,
        view: P::View<'_>,
        reduction: Reduction,
    ) -> Aggregated {
        assert!(self.contains(number), "{number} is outside the pipe's range {}..{}", self.start, self.end());
        let offset = self.offset(number);
        let index = (number % self.capacity) as usize;
        if let Some(seen) = self.seen.get_mut(index)
            && core::mem::replace(seen, *seen | source) & source != 0
        {
            return Aggregated::Duplicate;
        }
        let slot = &mut self.slots[index];
        if slot.arrived & source != 0 && self.mutation != Some(Mutation::NoDuplicateCheck) {
            return Aggregated::Duplicate;
        }
        match &mut slot.header {
            None => slot.header = Some(header),
            Some(held) if held.operation != header.operation || held.length != header.length => {
                return Aggregated::Mismatch;
            }
            Some(held) => held.acknowledge_request |= header.acknowledge_request,
        }
        let first = slot.arrived == 0;
        slot.arrived |= source;
        let complete = slot.arrived & sources == sources;
        if self.mutation == Some(Mutation::OneBitVersion) {
            let other = (number + self.capacity / 2) % self.capacity;
            self.slots[other as usize].arrived &= !source;
        }
        if self.payload.len() == 1 || source == LOCAL {
            if first && self.mutation != Some(Mutation::PayloadNotCleared) {
                self.payload[0].write(offset, view);
            } else {
                self.payload[0].reduce(offset, view, reduction);
            }
        } else {
            let order = |source: EdgeSet| (sources & (source - 1)).count_ones() as usize;
            self.payload[order(source)].write(offset, view);
            if complete {
                let (sum, rest) = self.payload.split_at_mut(1);
                let length = usize::from(header.length);
                for region in &rest[..sources.count_ones() as usize - 1] {
                    sum[0].reduce(offset, region.view(offset..offset + length), reduction);
                }
            }
        }
        if complete { Aggregated::Complete } else { Aggregated::Partial }
    }

    /// RecycleBuffer: frees everything before `start`, which becomes the new start of the range. Never goes back.
    pub(crate) fn recycle_to(&mut self, start: u64) {
        if start <= self.start {
            return;
        }
        let end = match self.mutation {
            Some(Mutation::NeverCleared) => self.start,
            Some(Mutation::RecyclesStart) => start + 1,
            _ => start,
        };
        for number in self.start..end.min(self.end()) {
            self.slots[(number % self.capacity) as usize] = Slot::default();
        }
        self.start = start;
    }

    fn slot(&self, number: u64) -> &Slot {
        debug_assert!(self.contains(number));
        &self.slots[(number % self.capacity) as usize]
    }

    fn offset(&self, number: u64) -> usize {
        (number % self.capacity) as usize * self.mtu
    }
}
