//! What must have happened before a node is in a state, and what may have, as far as the node's own steps tell.

use crate::interned::Id;

/// Sets of frames, by number.
#[derive(Default)]
struct Sets {
    /// Words of a set.
    stride: usize,
    words: Vec<u64>,
    /// What is in a set that nothing is known of.
    unknown: u64,
    is_known: Vec<bool>,
}

impl Sets {
    fn new(unknown: u64) -> Self {
        Self { unknown, ..Self::default() }
    }

    /// Makes room for more sets, and for more frames: those are in no set that is known.
    fn grow(&mut self, sets: usize, frames: usize) {
        if frames > self.stride * 64 {
            let stride = (frames.div_ceil(64) * 2).max(4);
            let mut words = vec![self.unknown; self.is_known.len() * stride];
            for (set, is_known) in self.is_known.iter().enumerate().filter(|(_, is_known)| **is_known) {
                debug_assert!(is_known);
                let new = &mut words[set * stride..][..stride];
                new.fill(0);
                new[..self.stride].copy_from_slice(&self.words[set * self.stride..][..self.stride]);
            }
            (self.stride, self.words) = (stride, words);
        }
        self.is_known.resize(sets.max(self.is_known.len()), false);
        self.words.resize(self.is_known.len() * self.stride, self.unknown);
    }

    fn get(&self, set: Id) -> &[u64] {
        &self.words[set as usize * self.stride..][..self.stride]
    }

    fn has(&self, set: Id, frame: Id) -> bool {
        self.get(set)[frame as usize / 64] & 1 << (frame % 64) != 0
    }

    /// Keeps what is in `other` too, or puts in what is there; whether that changes anything.
    fn meet(&mut self, set: Id, other: &[u64], is_union: bool) -> bool {
        self.is_known[set as usize] = true;
        let mut changed = false;
        for (word, other) in self.words[set as usize * self.stride..].iter_mut().zip(other) {
            let new = if is_union { *word | other } else { *word & other };
            changed |= new != *word;
            *word = new;
        }
        changed
    }
}

fn insert(set: &mut [u64], frame: Id) {
    set[frame as usize / 64] |= 1 << (frame % 64);
}

/// A step of a node: from a state, by a frame that arrives or by something else, to a state.
struct Step {
    arrived: Option<Id>,
    next: Id,
    sent: Vec<Id>,
}

/// What is known of the past of nodes' states, and of frames.
pub(crate) struct Causality {
    /// From each state of a node.
    steps: Vec<Vec<Step>>,
    /// For each state of a node: frames without whose arrival it is not reached.
    must: Sets,
    /// For each state of a node: frames that may have been sent before.
    may: Sets,
    /// For each frame: frames without whose arrival at its sender it is not sent.
    needs: Sets,
    /// States from which what is known must be passed on.
    changed: Vec<Id>,
}

impl Causality {
    /// The past of the states in which everything begins.
    pub(crate) fn new(initial: &[Id]) -> Self {
        let (mut must, mut may) = (Sets::new(u64::MAX), Sets::new(0));
        let most = initial.iter().max().map_or(0, |most| *most as usize + 1);
        must.grow(most, 1);
        may.grow(most, 1);
        let nothing = vec![0; must.stride];
        for &node_state in initial {
            must.meet(node_state, &nothing, false);
        }
        Self { steps: Vec::new(), must, may, needs: Sets::new(u64::MAX), changed: Vec::new() }
    }

    /// Makes room for states and frames.
    pub(crate) fn grow(&mut self, node_states: usize, frames: usize) {
        self.steps.resize_with(node_states.max(self.steps.len()), Vec::new);
        self.must.grow(node_states, frames);
        self.may.grow(node_states, frames);
        self.needs.grow(frames, frames);
    }

    /// Notes a step.
    pub(crate) fn note(&mut self, node_state: Id, arrived: Option<Id>, next: Id, sent: &[Id]) {
        self.steps[node_state as usize].push(Step { arrived, next, sent: sent.to_vec() });
        self.changed.push(node_state);
    }

    /// The states that follow one.
    pub(crate) fn following(&self, node_state: Id) -> impl Iterator<Item = Id> {
        self.steps.get(node_state as usize).into_iter().flatten().map(|step| step.next)
    }

    /// Works out what follows from the steps that were noted.
    pub(crate) fn settle(&mut self) {
        let (mut must, mut may) = (vec![0; self.must.stride], vec![0; self.may.stride]);
        while let Some(node_state) = self.changed.pop() {
            for step in &self.steps[node_state as usize] {
                must.copy_from_slice(self.must.get(node_state));
                step.arrived.iter().for_each(|&frame| insert(&mut must, frame));
                may.copy_from_slice(self.may.get(node_state));
                step.sent.iter().for_each(|&frame| insert(&mut may, frame));
                let fewer = self.must.meet(step.next, &must, false);
                let more = self.may.meet(step.next, &may, true);
                if fewer || more {
                    self.changed.push(step.next);
                }
                for &frame in &step.sent {
                    self.needs.meet(frame, &must, false);
                }
            }
        }
    }

    /// Whether `frame` can only have been sent because `sent` was, which its receiver has not sent before it was in state `node_state`.
    #[inline]
    pub(crate) fn is_answer(&self, frame: Id, sent: Id, node_state: Id) -> bool {
        self.needs.has(frame, sent) && !self.may.has(node_state, sent)
    }
}
