//! Wave tables: buffers for what read responses bring, one table for each accelerator (SCIN 3.4).

use crate::{Accelerators, IsaConfig};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Payload, Reduction, accumulate_in_tree};

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
    /// Of each accelerator's table.
    states: Vec<State>,
    /// Of each accelerator's table.
    data: Vec<P>,
}

/// The tables of all accelerators: entry e of every table holds the same wave.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WaveTables<P> {
    entries: Vec<Entry<P>>,
    idle: Vec<u16>,
}

impl<P: Payload> WaveTables<P> {
    pub(crate) fn new(config: &IsaConfig) -> Self {
        let tables = usize::from(config.accelerators);
        let entry = || Entry {
            wave: None,
            waiting: 0,
            states: vec![State::Idle; tables],
            data: (0..tables).map(|_| P::zeroed(config.wave)).collect(),
        };
        Self {
            entries: (0..config.waves).map(|_| entry()).collect(),
            idle: (0..config.waves).rev().collect(),
        }
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
            entry.states[usize::from(source)] = State::Waiting { packets };
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
        let state = entry.states.get_mut(usize::from(source))?;
        let State::Waiting { packets } = state else { return None };
        *packets -= 1;
        let complete = *packets == 0;
        if complete {
            *state = State::Ready;
            entry.waiting -= 1;
        }
        entry.data[usize::from(source)].write(offset, data);
        Some(complete && entry.waiting == 0)
    }

    /// Adds up a wave that is ready and releases its entry. The sum goes to `result`, whose own buffer the table takes in its place.
    ///
    /// # Panics
    /// If there is no wave.
    pub(crate) fn read_out(&mut self, index: u16, reduction: Reduction, result: &mut P) -> Wave {
        let entry = &mut self.entries[usize::from(index)];
        let wave = entry.wave.take().expect("a wave to read out");
        let sources = wave.sources.iter().map(usize::from);
        let sum = accumulate_in_tree(&mut entry.data, sources, wave.length as usize, reduction);
        core::mem::swap(&mut entry.data[sum], result);
        for source in wave.sources.iter() {
            entry.states[usize::from(source)] = State::Idle;
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
            for (&state, number) in entry.states.iter().zip(0..) {
                assert_eq!(state != State::Idle, sources.contains(number), "slots of sources are in use");
                waiting += u32::from(matches!(state, State::Waiting { .. }));
            }
            assert_eq!(waiting, entry.waiting, "tables that a wave waits for");
        }
    }
}
