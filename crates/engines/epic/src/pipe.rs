//! CheckDuplicate, AggregateData and RecycleBuffer over one ring of slots (EPIC 4.1, 4.4 "A Pipe Abstraction", algorithms
//! 1 and 2). A pipe takes the numbers `start .. start + capacity`; number `n` lives in slot `n % capacity`. Where an owner leaves
//! numbers out, it may use others instead, up to as many: two that meet in one slot, which is rare, find the next free one.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use quincunx_collective::{Payload, Reduction};
use quincunx_design::GroupMemory;
use quincunx_wire::{Operation, RoceHeader};

use crate::invocation::{EdgeSet, LOCAL};
use crate::mutation::Mutation;
use crate::source::Source;

/// Bytes of the degree counter that a switch keeps for each slot (EPIC 4.3; F.3 counts payload and degree buffers).
pub(crate) const DEGREE_BYTES: usize = 4;

/// The state of a slot beside its payload, which is in the group's memory. The degree of the paper is the number of bits in `arrived`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Slot {
    arrived: EdgeSet,
    header: Option<SlotHeader>,
    /// Whose it is, once it has a header.
    number: u64,
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
pub(crate) struct Pipe {
    mutation: Option<Mutation>,
    start: u64,
    /// The slot where `start` belongs.
    first: u64,
    capacity: u64,
    mtu: usize,
    /// Where its payloads begin in the group's memory.
    memory: usize,
    /// Payloads of a slot: one, or one for each edge when the order of addition must not depend on the order of arrival. Those of one edge
    /// lie behind those of the one before it.
    regions: usize,
    slots: Vec<Slot>,
    /// Numbers that are not in the slot where they belong.
    displaced: usize,
    /// Broken rule: who has ever contributed to each slot.
    seen: Vec<EdgeSet>,
    /// Broken rule: it has added up wrong.
    has_erred: bool,
}

impl Pipe {
    /// An empty pipe for the numbers `start .. start + capacity`, with `regions` payloads a slot (1: add on arrival) from `memory` on.
    pub(crate) fn new(
        start: u64,
        capacity: u64,
        mtu: usize,
        (memory, regions): (usize, usize),
        mutation: Option<Mutation>,
    ) -> Self {
        let seen = if mutation == Some(Mutation::ArrivedNeverCleared) { capacity as usize } else { 0 };
        Self {
            mutation,
            seen: vec![0; seen],
            has_erred: false,
            start,
            first: start % capacity,
            capacity,
            mtu,
            memory,
            regions: regions.max(1),
            slots: vec![Slot::default(); capacity as usize],
            displaced: 0,
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

    /// Broken rules: a number takes the slot where it belongs with whatever is in it.
    fn shares_slots(&self) -> bool {
        self.takes_anything() || self.mutation == Some(Mutation::NeverCleared)
    }

    /// Bytes of the payload and degree buffers (EPIC F.3).
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.slots.len() * DEGREE_BYTES + self.payload_bytes()
    }

    /// Bytes of its payloads.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.slots.len() * self.mtu * self.regions
    }

    /// Whether there is a slot for `number`, its own or a free one.
    pub(crate) fn has_slot(&self, number: u64) -> bool {
        self.place_or_free(number).is_some()
    }

    /// CheckDuplicate: whether `source` has contributed to `number`.
    pub(crate) fn has_arrived(&self, number: u64, source: EdgeSet) -> bool {
        let place = self.place(number);
        let seen = if self.seen.is_empty() { None } else { place.or_else(|| self.free_place(number)) };
        place.is_some_and(|place| self.slots[place].arrived & source != 0)
            || seen.is_some_and(|place| self.seen[place] & source != 0)
    }

    /// Whether all `sources` have contributed to `number`.
    pub(crate) fn is_complete(&self, number: u64, sources: EdgeSet) -> bool {
        self.slot(number).map_or(0, |slot| slot.arrived) & sources == sources
    }

    /// The header of slot `number`; `None` before the first contribution.
    pub(crate) fn header(&self, number: u64) -> Option<SlotHeader> {
        self.slot(number)?.header
    }

    /// The payload of `number`, whole once the slot is complete; nothing before the first contribution.
    pub(crate) fn payload<P: Payload>(&self, number: u64) -> Source<'static, P> {
        self.payload_in(number, 0)
    }

    /// The payload of the slot behind that of `number`: what nobody is to be sent.
    pub(crate) fn next_payload<P: Payload>(&self, number: u64) -> Source<'static, P> {
        self.payload_in(number, 1)
    }

    fn payload_in<P: Payload>(&self, number: u64, slots_behind: usize) -> Source<'static, P> {
        let Some(place) = self.place(number) else { return Source::Frame(P::empty()) };
        let length = self.slots[place].header.map_or(0, |header| usize::from(header.length));
        Source::Stored(self.in_memory(0, (place + slots_behind) % self.slots.len(), length))
    }

    /// Where `length` bytes of a slot are in a region.
    fn in_memory(&self, region: usize, place: usize, length: usize) -> Range<usize> {
        let start = self.memory + (region * self.slots.len() + place) * self.mtu;
        start..start + length
    }

    /// Broken rules: erases the payload in the slot where `number` belongs, whatever that is. Who has contributed is known of each
    /// endpoint.
    pub(crate) fn erase<P: Payload>(&self, number: u64, mut memory: GroupMemory<'_, P>) {
        let nothing = P::zeroed(self.mtu);
        for region in 0..self.regions {
            let Range { start, .. } = self.in_memory(region, self.home(number), self.mtu);
            memory.write(start, nothing.view(0..self.mtu));
        }
    }

    /// CheckDuplicate and AggregateData: adds what `source` sends to slot `number`, for which there must be one.
    #[expect(clippy::too_many_arguments, reason = "a packet, where it comes from and where it belongs")]
    pub(crate) fn aggregate<P: Payload>(
        &mut self,
        number: u64,
        source: EdgeSet,
        sources: EdgeSet,
        header: SlotHeader,
        payload: Source<'_, P>,
        reduction: Reduction,
        mut memory: GroupMemory<'_, P>,
    ) -> Aggregated {
        let home = self.home(number);
        let place = self.place_or_free(number);
        let Some(place) = place.filter(|_| number >= self.start || self.takes_anything()) else {
            panic!("{number} has no slot in a pipe that starts at {}", self.start);
        };
        if let Some(seen) = self.seen.get_mut(place)
            && core::mem::replace(seen, *seen | source) & source != 0
        {
            return Aggregated::Duplicate;
        }
        let slot = &mut self.slots[place];
        if slot.arrived & source != 0 && self.mutation != Some(Mutation::NoDuplicateCheck) {
            return Aggregated::Duplicate;
        }
        match &mut slot.header {
            None => {
                slot.header = Some(header);
                slot.number = number;
                self.displaced += usize::from(place != home);
            }
            Some(held)
                if held.length != header.length
                    || held.operation != header.operation
                        && self.mutation != Some(Mutation::AddsWhateverComes) =>
            {
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
        let is_alone = self.regions == 1 || source == LOCAL;
        let region = if is_alone { 0 } else { (sources & (source - 1)).count_ones() as usize };
        let is_written = !is_alone || first && self.mutation != Some(Mutation::PayloadNotCleared);
        let length = usize::from(header.length);
        let Range { start: sum, .. } = self.in_memory(0, place, length);
        let Range { start: target, .. } = self.in_memory(region, place, length);
        put(&mut memory, target, &payload, if is_written { None } else { Some(reduction) });
        if !is_alone && complete {
            for region in 1..sources.count_ones() as usize {
                memory.combine(sum, self.in_memory(region, place, length), reduction);
            }
        }
        let errs = self.mutation == Some(Mutation::ChangesAnElement) && complete && length > 0;
        if errs && !core::mem::replace(&mut self.has_erred, true) {
            put(&mut memory, sum, &payload, Some(reduction));
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
        if self.shares_slots() || self.displaced == 0 && start - self.start < self.capacity {
            for number in self.start..end.min(self.end()) {
                let home = self.home(number);
                if self.slots[home].number < end || self.shares_slots() {
                    self.slots[home] = Slot::default();
                }
            }
        } else {
            for place in 0..self.slots.len() {
                let Slot { header, number, .. } = self.slots[place];
                if header.is_some() && number < end {
                    self.free(number);
                }
            }
        }
        self.first = start % self.capacity;
        self.start = start;
    }

    /// Frees the slot of `number`, if it has one.
    pub(crate) fn free(&mut self, number: u64) {
        if let Some(place) = self.place(number).filter(|_| self.mutation != Some(Mutation::NeverCleared)) {
            self.displaced -= usize::from(place != self.home(number));
            self.slots[place] = Slot::default();
        }
    }

    /// The slot where `number` belongs, without a division for those in the range: packets ask several times each.
    fn home(&self, number: u64) -> usize {
        let ahead = number.wrapping_sub(self.start);
        if ahead >= self.capacity {
            return (number % self.capacity) as usize;
        }
        let place = self.first + ahead;
        (if place < self.capacity { place } else { place - self.capacity }) as usize
    }

    /// The slot that holds `number`.
    fn place(&self, number: u64) -> Option<usize> {
        let home = self.home(number);
        let holds = |place: usize| {
            let slot = &self.slots[place];
            slot.header.is_some() && (slot.number == number || self.shares_slots())
        };
        if holds(home) {
            return Some(home);
        }
        if self.displaced == 0 { None } else { (0..self.slots.len()).find(|place| holds(*place)) }
    }

    /// The free slot that `number` would take.
    fn free_place(&self, number: u64) -> Option<usize> {
        let home = self.home(number);
        let is_free = |place: &usize| self.slots[*place].header.is_none();
        (home..self.slots.len()).chain(0..home).find(is_free)
    }

    fn place_or_free(&self, number: u64) -> Option<usize> {
        self.place(number).or_else(|| self.free_place(number))
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        self.place(number).map(|place| &self.slots[place])
    }
}

/// Writes a payload to `target` in the group's memory, or combines it into what is there.
fn put<P: Payload>(
    memory: &mut GroupMemory<'_, P>,
    target: usize,
    payload: &Source<'_, P>,
    reduction: Option<Reduction>,
) {
    match (payload, reduction) {
        (Source::Frame(view), None) => memory.write(target, P::reborrow(*view)),
        (Source::Frame(view), Some(reduction)) => memory.reduce(target, P::reborrow(*view), reduction),
        (Source::Stored(place), None) => memory.copy(target, place.clone()),
        (Source::Stored(place), Some(reduction)) => memory.combine(target, place.clone(), reduction),
    }
}
