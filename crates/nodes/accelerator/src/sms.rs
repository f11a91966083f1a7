//! The SMs of an accelerator: which blocks they hold, and which of these computes.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_units::Duration;

/// A block that has something to compute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Task {
    block: u32,
    length: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Sm {
    held: u8,
    /// What it computes.
    computing: Option<Task>,
    waiting: VecDeque<Task>,
}

/// All of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sms {
    sms: Vec<Sm>,
    places: u8,
    /// The first so many are for blocks that want a whole one.
    reserved: u16,
}

impl Sms {
    pub(crate) fn new(sms: u16, places: u8) -> Self {
        Self { sms: vec![Sm::default(); usize::from(sms)], places, reserved: 0 }
    }

    /// Blocks that all of them hold at most.
    pub(crate) fn capacity(&self) -> usize {
        self.sms.len() * usize::from(self.places)
    }

    /// Keeps so many SMs for blocks that want a whole one; others leave them as their blocks end.
    pub(crate) fn reserve(&mut self, sms: u16) {
        self.reserved = sms.min(self.sms.len() as u16);
    }

    /// Takes a place on the SM that has most of them free, or a whole one of those that are kept for that; the SM.
    pub(crate) fn take(&mut self, whole: bool) -> Option<u16> {
        let wanted = if whole { self.places } else { 1 };
        let reserved = usize::from(self.reserved);
        let mine = if whole { 0..reserved } else { reserved..self.sms.len() };
        let (held, first) = mine.map(|number| (self.sms[number].held, number as u16)).min()?;
        if held + wanted > self.places {
            return None;
        }
        self.sms[usize::from(first)].held += wanted;
        Some(first)
    }

    /// Gives a place back.
    pub(crate) fn give(&mut self, sm: u16, whole: bool) {
        let given = if whole { self.places } else { 1 };
        let held = &mut self.sms[usize::from(sm)].held;
        *held = held.checked_sub(given).expect("a place that was taken");
    }

    /// Has a block compute as soon as the SM is free; how long, if that is now.
    pub(crate) fn compute(&mut self, sm: u16, block: u32, length: Duration) -> Option<Duration> {
        let sm = &mut self.sms[usize::from(sm)];
        let task = Task { block, length };
        if sm.computing.is_some() {
            sm.waiting.push_back(task);
            return None;
        }
        sm.computing = Some(task);
        Some(length)
    }

    /// The block that an SM is done with and how long it took; and how long the next one takes, if there is one.
    pub(crate) fn computed(&mut self, sm: u16) -> Option<(u32, Duration, Option<Duration>)> {
        let sm = &mut self.sms[usize::from(sm)];
        let task = sm.computing.take()?;
        sm.computing = sm.waiting.pop_front();
        Some((task.block, task.length, sm.computing.map(|next| next.length)))
    }

    pub(crate) fn assert_invariants(&self) {
        for sm in &self.sms {
            assert!(sm.held <= self.places, "an SM holds no more blocks than it has places");
            assert!(sm.waiting.is_empty() || sm.computing.is_some(), "who waits, waits for somebody");
        }
    }
}
