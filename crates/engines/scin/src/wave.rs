//! Wave tables: buffers for what read responses bring, one table for each accelerator (SCIN 3.4).

use crate::{Accelerators, IsaConfig, Mutation};
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{BlockQuantization, Payload, Quantized, Reduction, accumulate_in_tree};

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

/// The wave that an entry is taken by, or a piece of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Wave {
    /// The operation that it is part of.
    pub(crate) operation: u16,
    /// Its place in the vector.
    pub(crate) offset: u32,
    /// Bytes.
    pub(crate) length: u32,
    /// Bytes of the scale factors that go with it; none without quantization.
    pub(crate) scales: u32,
    /// Who contributes.
    pub(crate) sources: Accelerators,
}

/// A packet of an entry of the wave table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryPacket {
    /// Among the scale factors, not the data.
    pub(crate) scales: bool,
    /// Which.
    pub(crate) index: usize,
}

/// What the accumulator can take: a piece of the wave in an entry, which is a packet; a quantised wave as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Ready {
    entry: u16,
    piece: u32,
}

/// What the accumulator gives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sum<P> {
    /// Of what.
    pub(crate) wave: Wave,
    pub(crate) data: P,
    /// Empty without quantization.
    pub(crate) scales: P,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry<P> {
    wave: Option<Wave>,
    /// Of each accelerator's table.
    states: Vec<State>,
    /// Data and scale factors, of each accelerator's table.
    data: Vec<P>,
    scales: Vec<P>,
    /// Sources from which a packet has not come, for each piece; of quantised waves all packets together.
    missing: Vec<u32>,
    /// Pieces that it has not taken.
    unread: u32,
}

/// The tables of all accelerators: entry e of every table holds the same wave.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WaveTables<P> {
    entries: Vec<Entry<P>>,
    idle: Vec<u16>,
    payload: usize,
    quantization: Option<BlockQuantization>,
    mutation: Option<Mutation>,
}

impl Wave {
    /// Packets of data from or to one accelerator.
    pub(crate) const fn packets(&self, payload: usize) -> u32 {
        self.length.div_ceil(payload as u32)
    }

    /// Packets of scale factors from or to one accelerator.
    pub(crate) const fn scale_packets(&self, payload: usize) -> u32 {
        self.scales.div_ceil(payload as u32)
    }
}

impl<P: Payload> WaveTables<P> {
    pub(crate) fn new(config: &IsaConfig) -> Self {
        let (tables, payload) = (usize::from(config.accelerators), config.format.max_payload);
        let buffers = |length| (0..tables).map(|_| P::zeroed(length)).collect();
        let entry = || Entry {
            wave: None,
            states: vec![State::Idle; tables],
            data: buffers(config.wave),
            scales: buffers(config.scale_bytes(config.wave)),
            missing: vec![0; config.packets()],
            unread: 0,
        };
        Self {
            entries: (0..config.waves).map(|_| entry()).collect(),
            idle: (0..config.waves).rev().collect(),
            payload,
            quantization: config.quantization,
            mutation: config.mutation,
        }
    }

    pub(crate) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes an entry for a wave.
    ///
    /// # Panics
    /// If none is idle.
    pub(crate) fn take(&mut self, wave: Wave) -> u16 {
        let index = self.idle.pop().expect("an idle entry");
        let entry = &mut self.entries[usize::from(index)];
        let (sources, payload) = (wave.sources.count(), self.payload);
        let packets = wave.packets(payload) + wave.scale_packets(payload);
        for source in wave.sources.iter() {
            entry.states[usize::from(source)] = State::Waiting { packets };
        }
        if wave.scales > 0 {
            entry.unread = 1;
            entry.missing[0] = sources * packets;
        } else {
            entry.unread = packets;
            entry.missing[..packets as usize].fill(sources);
        }
        entry.wave = Some(wave);
        index
    }

    /// The wave in an entry; none if it is idle or not there.
    pub(crate) fn wave(&self, entry: usize) -> Option<&Wave> {
        self.entries.get(entry)?.wave.as_ref()
    }

    /// Stores a packet of a source in an entry that holds a wave. What is ready by that, if anything; an error if
    /// nothing was missing from there.
    pub(crate) fn store(
        &mut self,
        entry: usize,
        source: u16,
        at: EntryPacket,
        data: P::View<'_>,
    ) -> Result<Option<Ready>, ()> {
        let number = entry as u16;
        let entry = self.entries.get_mut(entry).ok_or(())?;
        let state = entry.states.get_mut(usize::from(source)).ok_or(())?;
        let quantised = entry.wave.is_some_and(|wave| wave.scales > 0);
        let piece = if quantised { 0 } else { at.index };
        let missing = entry.missing.get_mut(piece).ok_or(())?;
        let State::Waiting { packets } = state else { return Err(()) };
        *missing = missing.checked_sub(1).ok_or(())?;
        let is_early = self.mutation == Some(Mutation::ReadsOutEarly)
            && entry.wave.is_some_and(|wave| wave.sources.count() > 1);
        let spared = u32::from(is_early);
        let ready = (*missing == spared).then_some(Ready { entry: number, piece: piece as u32 });
        *packets -= 1;
        if *packets == 0 {
            *state = State::Ready;
        }
        let buffers = if at.scales { &mut entry.scales } else { &mut entry.data };
        buffers[usize::from(source)].write(at.index * self.payload, data);
        Ok(ready)
    }

    /// Adds up what is ready. With the last piece of a wave its entry is released, and told.
    ///
    /// # Panics
    /// If there is no wave.
    pub(crate) fn read_out(&mut self, ready: Ready, reduction: Reduction) -> (Sum<P>, Option<u16>) {
        let entry = &mut self.entries[usize::from(ready.entry)];
        let wave = entry.wave.expect("a wave to read out");
        let sources = wave.sources.iter().map(usize::from);
        let sum = match self.quantization {
            Some(quantization) if wave.scales > 0 => {
                let (length, scales) = (wave.length as usize, wave.scales as usize);
                let vectors: Vec<_> = sources
                    .map(|source| Quantized {
                        codes: entry.data[source].view(0..length),
                        scales: entry.scales[source].view(0..scales),
                    })
                    .collect();
                let sum = P::sum_quantized(quantization, quantization.values(length), &vectors);
                Sum { wave, data: sum.codes, scales: sum.scales }
            }
            _ => {
                let start = ready.piece as usize * self.payload;
                let end = (wave.length as usize).min(start + self.payload);
                let at = accumulate_in_tree(&mut entry.data, sources, start..end, reduction);
                let (offset, length) = (wave.offset + start as u32, (end - start) as u32);
                let data = P::from_view(entry.data[at].view(start..end));
                Sum { wave: Wave { offset, length, ..wave }, data, scales: P::zeroed(0) }
            }
        };
        entry.unread -= 1;
        if entry.unread == 0 || self.mutation == Some(Mutation::FreesWaveEarly) {
            entry.wave = None;
            entry.unread = 0;
            entry.missing.fill(0);
            entry.states.fill(State::Idle);
            self.idle.push(ready.entry);
            return (sum, Some(ready.entry));
        }
        (sum, None)
    }

    pub(crate) fn assert_invariants(&self) {
        let busy = self.entries.iter().filter(|entry| entry.wave.is_some()).count();
        assert_eq!(busy + self.idle.len(), self.entries.len(), "an entry is idle or holds a wave");
        for entry in &self.entries {
            let sources = entry.wave.map_or(Accelerators::default(), |wave| wave.sources);
            let mut packets_missing = 0;
            for (&state, number) in entry.states.iter().zip(0..) {
                assert_eq!(state != State::Idle, sources.contains(number), "tables of sources are in use");
                if let State::Waiting { packets } = state {
                    packets_missing += packets;
                }
            }
            assert_eq!(
                packets_missing,
                entry.missing.iter().sum::<u32>(),
                "each missing packet is waited for"
            );
            assert_eq!(entry.wave.is_some(), entry.unread > 0, "a wave stays until it is read out");
        }
    }
}
