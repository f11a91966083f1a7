//! Wave tables: buffers for what read responses bring, one table for each accelerator (SCIN 3.4).

use crate::{Accelerators, IsaConfig};
use alloc::vec::Vec;
use quincunx_collective::{Payload, Reduction};

/// What an entry of one accelerator's table is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    /// Free.
    Idle,
    /// Waits for so many packets.
    Waiting { packets: u32 },
    /// All there.
    Ready,
}

/// An entry of one accelerator's table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot<P> {
    state: State,
    data: P,
}

/// The wave that an entry is taken by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Wave {
    /// The operation that it is part of.
    pub(crate) operation: u16,
    /// Its place in the vector.
    pub(crate) offset: u32,
    /// Bytes.
    pub(crate) length: u32,
    /// Who contributes.
    pub(crate) sources: Accelerators,
}

impl Wave {
    /// Of no operation.
    pub(crate) const NONE: Self =
        Self { operation: 0, offset: 0, length: 0, sources: Accelerators::first(0) };
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry<P> {
    wave: Option<Wave>,
    /// Tables whose entry is not ready yet.
    waiting: u32,
    slots: Vec<Slot<P>>,
}

/// The tables of all accelerators: entry e of every table holds the same wave.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WaveTables<P> {
    entries: Vec<Entry<P>>,
    idle: Vec<u16>,
}

impl<P: Payload> WaveTables<P> {
    pub(crate) fn new(config: &IsaConfig) -> Self {
        let slot = || Slot { state: State::Idle, data: P::zeroed(config.wave) };
        let slots = || (0..config.accelerators).map(|_| slot()).collect();
        let entries = (0..config.waves).map(|_| Entry { wave: None, waiting: 0, slots: slots() }).collect();
        Self { entries, idle: (0..config.waves).rev().collect() }
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes an entry for a wave that comes in `packets` packets from each source.
    ///
    /// # Panics
    /// If none is idle.
    pub(crate) fn take(&mut self, wave: Wave, packets: u32) -> u16 {
        let index = self.idle.pop().expect("an idle entry");
        let entry = &mut self.entries[usize::from(index)];
        entry.wave = Some(wave);
        entry.waiting = wave.sources.count();
        for source in wave.sources.iter() {
            entry.slots[usize::from(source)].state = State::Waiting { packets };
        }
        index
    }

    /// The wave in an entry; none if it is idle or not there.
    pub(crate) fn wave(&self, entry: usize) -> Option<&Wave> {
        self.entries.get(entry)?.wave.as_ref()
    }

    /// Stores what has come from a source at `offset` of an entry. Whether the wave is ready; `None` if nothing was missing
    /// from there.
    pub(crate) fn store(
        &mut self,
        entry: usize,
        source: u16,
        offset: usize,
        data: P::View<'_>,
    ) -> Option<bool> {
        let entry = self.entries.get_mut(entry)?;
        let slot = entry.slots.get_mut(usize::from(source))?;
        let State::Waiting { packets } = &mut slot.state else { return None };
        *packets -= 1;
        let complete = *packets == 0;
        slot.data.write(offset, data);
        if complete {
            slot.state = State::Ready;
            entry.waiting -= 1;
        }
        Some(complete && entry.waiting == 0)
    }

    /// Adds up a wave that is ready and releases its entry. The sum goes to `result`, whose own buffer the table takes in its place.
    ///
    /// # Panics
    /// If there is no wave.
    pub(crate) fn read_out(&mut self, index: u16, reduction: Reduction, result: &mut P) -> Wave {
        let entry = &mut self.entries[usize::from(index)];
        let wave = entry.wave.take().expect("a wave to read out");
        let first = accumulate(&mut entry.slots, wave, reduction);
        core::mem::swap(&mut entry.slots[usize::from(first)].data, result);
        for source in wave.sources.iter() {
            entry.slots[usize::from(source)].state = State::Idle;
        }
        self.idle.push(index);
        wave
    }

    pub(crate) fn assert_invariants(&self) {
        let busy = self.entries.iter().filter(|entry| entry.wave.is_some()).count();
        assert_eq!(busy + self.idle.len(), self.entries.len(), "an entry is idle or holds a wave");
        for entry in &self.entries {
            let sources = entry.wave.map_or(Accelerators::default(), |wave| wave.sources);
            let mut waiting = 0;
            for (slot, number) in entry.slots.iter().zip(0..) {
                assert_eq!(
                    slot.state != State::Idle,
                    sources.contains(number),
                    "slots of sources are in use"
                );
                waiting += u32::from(matches!(slot.state, State::Waiting { .. }));
            }
            assert_eq!(waiting, entry.waiting, "tables that a wave waits for");
        }
    }
}

/// Adds up neighbours, then neighbours of these, and so on: a tree, whose order is the same in every run. Returns the slot that
/// holds the sum.
fn accumulate<P: Payload>(slots: &mut [Slot<P>], wave: Wave, reduction: Reduction) -> u16 {
    let mut level = [0; 64];
    let mut count = 0;
    for source in wave.sources.iter() {
        level[count] = source;
        count += 1;
    }
    let length = wave.length as usize;
    while count > 1 {
        for pair in 0..count / 2 {
            let [left, right] = [level[2 * pair], level[2 * pair + 1]].map(usize::from);
            let [left, right] = slots.get_disjoint_mut([left, right]).expect("two tables");
            left.data.reduce(0, right.data.view(0..length), reduction);
            level[pair] = level[2 * pair];
        }
        if count % 2 == 1 {
            level[count / 2] = level[count - 1];
        }
        count = count.div_ceil(2);
    }
    level[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use quincunx_collective::{DataType, Fold, Numbers, Rank, ReduceOp, noise, reduce_in_tree};

    const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

    #[test]
    fn neighbours_are_added_first() {
        let leaf = |rank| Fold::Rank(Rank(rank));
        let pair = |a, b| Fold::Node(vec![a, b]);
        let fold = pair(pair(pair(leaf(0), leaf(1)), pair(leaf(2), leaf(3))), leaf(4));
        let inputs: Vec<Numbers> = (0..5).map(|rank| noise(rank, 64, DataType::F32)).collect();
        let mut slots: Vec<Slot<Numbers>> =
            inputs.iter().map(|input| Slot { state: State::Ready, data: input.clone() }).collect();
        let wave = Wave { operation: 0, offset: 0, length: 64, sources: Accelerators::first(5) };
        let at = accumulate(&mut slots, wave, SUM);
        assert_eq!(slots[usize::from(at)].data, reduce_in_tree(&fold, SUM, &inputs));
    }
}
