//! The SMs of an accelerator: which blocks they hold, and which of these computes.

use crate::blocks::Share;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
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

    /// Takes a whole SM of those that are kept for that.
    pub(crate) fn take_whole(&mut self) -> Option<u16> {
        self.take_in(0..usize::from(self.reserved), self.places)
    }

    /// Takes a place on the SM that has most of them free: of the kernel's group, if it has one, or of the others if it has these, too.
    pub(crate) fn take(&mut self, share: Option<Share>) -> Option<u16> {
        let all = usize::from(self.reserved)..self.sms.len();
        let Some(Share { mine, its, is_first, has_all }) = share else { return self.take_in(all, 1) };
        let (first, weights) = (if is_first { mine } else { its }, u64::from(mine) + u64::from(its));
        let size = (all.len() as u64 * u64::from(first)).div_ceil(weights.max(1)) as usize;
        // Each has an SM, if there are two.
        let cut = (all.start + size.clamp(1, all.len().max(2) - 1)).min(all.end);
        let [mine, its] =
            if is_first { [all.start..cut, cut..all.end] } else { [cut..all.end, all.start..cut] };
        self.take_in(mine, 1).or_else(|| if has_all { self.take_in(its, 1) } else { None })
    }

    fn take_in(&mut self, sms: Range<usize>, wanted: u8) -> Option<u16> {
        let (held, first) = sms.map(|number| (self.sms[number].held, number as u16)).min()?;
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
