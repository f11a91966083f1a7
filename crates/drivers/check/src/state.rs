//! A state of the network as a list of words, its fingerprint, and the states that follow it.
//!
//! The words: what is left of the budgets; the state of each node; the frames on their way, in the order in which they were
//! sent; the frames that are late, in the order of their hashes.

use std::collections::BTreeSet;
use std::sync::Mutex;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::choice::{Choice, Chooser};
use crate::exploration::{Exploration, MOST};
use crate::fault::Fault;
use crate::independence::{FrameSet, Question};
use crate::input::{Input, LATE};
use crate::interned::Id;
use crate::nodes::Facts;
use crate::world::{Outcome, Way, World};

/// What is left of what may go wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Budget {
    pub(crate) losses: u8,
    pub(crate) duplicates: u8,
    pub(crate) delays: u8,
    pub(crate) early_timeouts: u8,
    pub(crate) jumps: u8,
    pub(crate) marks: u8,
}

/// Bits of each in a word.
const BITS: u32 = MOST.count_ones();

impl Budget {
    /// # Panics
    /// If more than [`MOST`] may happen of anything.
    fn new(rules: Exploration) -> Self {
        let Exploration { losses, duplicates, delays, early_timeouts, jumps, marks, .. } = rules;
        let most = [losses, duplicates, delays, early_timeouts, jumps, marks].into_iter().max();
        assert!(most <= Some(MOST), "expected at most {MOST} of each fault, found {most:?}");
        Self { losses, duplicates, delays, early_timeouts, jumps, marks }
    }

    fn encode(self) -> u32 {
        let Self { losses, duplicates, delays, early_timeouts, jumps, marks } = self;
        let all = [losses, duplicates, delays, early_timeouts, jumps, marks];
        all.into_iter().fold(0, |word, count| word << BITS | u32::from(count))
    }

    fn decode(word: u32) -> Self {
        let [losses, duplicates, delays, early_timeouts, jumps, marks] =
            core::array::from_fn(|place| (word >> (BITS * (5 - place as u32))) as u8 & MOST);
        Self { losses, duplicates, delays, early_timeouts, jumps, marks }
    }

    /// Whether more than one thing may become of a frame.
    fn has_fates(self) -> bool {
        self.losses + self.duplicates + self.delays + self.marks > 0
    }
}

/// The same state, of a network in which nothing goes wrong from now on.
pub(crate) fn without_faults(state: &[u32]) -> Vec<u32> {
    let mut state = state.to_vec();
    state[0] = 0;
    state
}

/// A step of the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// A frame arrives; with its number, and the mark if it is late.
    Deliver(Id),
    /// A frame arrives, and a copy of it will be late.
    Duplicate(Id),
    /// A frame will be late.
    Delay(Id),
    /// A frame is lost.
    Lose(Id),
    /// A frame is marked by a congested link, and stays on its way.
    Mark(Id),
    /// The clock moves on.
    Clock,
    /// A node does what nothing arrives for: a timer, a slot, a command. With its index and its state.
    Act { node: usize, input: Input },
    /// A timer fires though frames are on their way.
    FireEarly { node: usize, input: Input },
}

impl Move {
    /// Whether it is the environment's doing: a run must end without.
    pub(crate) fn is_fault(self) -> bool {
        match self {
            Self::Duplicate(_) | Self::Delay(_) | Self::Lose(_) | Self::Mark(_) | Self::Clock => true,
            Self::FireEarly { .. } => true,
            Self::Deliver(_) | Self::Act { .. } => false,
        }
    }
}

/// Steps at most between states that are kept.
pub(crate) const MOST_STEPS: usize = 64;

/// Which steps of a state to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part<'p> {
    /// All.
    All,
    /// What may become of the frames at these indices.
    Only(&'p FrameSet),
    /// All else.
    AllBut(&'p FrameSet),
}

/// Who hears of a step: the state that follows, or the fault that it leads to.
pub(crate) type Found<'f, View> = &'f mut dyn FnMut(&mut View, Move, Result<&[u32], Fault>);

/// What one thread knows of the world: a copy that is brought up to date when something is missing.
pub(crate) struct View<'w, 'n> {
    world: &'w Mutex<World<'n>>,
    rules: Exploration,
    nodes: usize,
    /// Whether the control plane may give notices.
    has_notices: bool,
    order: usize,
    hashes: Vec<u64>,
    facts: Vec<Facts>,
    flight_hashes: Vec<u64>,
    ways: Vec<Way>,
    answers: HashMap<(Id, u32), u32, FixedState>,
    outcomes: Vec<Outcome>,
    pub(crate) chooser: Chooser,
    /// A choice was not made because something is not known.
    pub(crate) is_unsure: bool,
    sums: Vec<u64>,
    next: Vec<u32>,
    onward: Vec<u32>,
}

impl<'w, 'n> View<'w, 'n> {
    pub(crate) fn new(world: &'w Mutex<World<'n>>, rules: Exploration) -> Self {
        let (nodes, has_notices, order) = {
            let world = world.lock().expect("no thread panics with the world");
            (world.initial.len(), world.notices() > 0, world.order())
        };
        let mut view = Self {
            world,
            rules,
            nodes,
            has_notices,
            order,
            hashes: Vec::new(),
            facts: Vec::new(),
            flight_hashes: Vec::new(),
            ways: Vec::new(),
            answers: HashMap::with_hasher(FixedState::with_seed(1)),
            outcomes: Vec::new(),
            chooser: Chooser::new(),
            is_unsure: true,
            sums: vec![0; order],
            next: Vec::new(),
            onward: Vec::new(),
        };
        view.refresh();
        view
    }

    /// Learns what other threads have found: to be called before states of theirs are looked at.
    pub(crate) fn refresh(&mut self) {
        self.catch_up(|_| ());
    }

    /// The state in which everything begins.
    pub(crate) fn initial(&self) -> Vec<u32> {
        let budget = Budget::new(self.rules);
        let world = self.world.lock().expect("no thread panics with the world");
        core::iter::once(budget.encode()).chain(world.initial.iter().copied()).collect()
    }

    fn catch_up<T>(&mut self, ask: impl FnOnce(&mut World<'n>) -> T) -> T {
        let mut world = self.world.lock().expect("no thread panics with the world");
        let answer = ask(&mut world);
        self.hashes.extend_from_slice(&world.hashes()[self.hashes.len()..]);
        self.facts.extend_from_slice(&world.facts()[self.facts.len()..]);
        self.flight_hashes.extend_from_slice(&world.flight_hashes()[self.flight_hashes.len()..]);
        self.ways.extend_from_slice(&world.ways()[self.ways.len()..]);
        answer
    }

    /// The index of a node's answer.
    fn outcome(&mut self, node_state: Id, input: Input) -> usize {
        let key = (node_state, input.encode());
        if let Some(&index) = self.answers.get(&key) {
            return index as usize;
        }
        let outcome = self.catch_up(|world| world.ask(node_state, input).clone());
        let index = self.outcomes.len();
        self.outcomes.push(outcome);
        self.answers.insert(key, index as u32);
        index
    }

    /// The fingerprint of a state, the same for all states that are symmetric to it.
    pub(crate) fn fingerprint(&mut self, state: &[u32]) -> u64 {
        const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
        let order = self.order;
        let budget = u64::from(state[0]).wrapping_mul(SPREAD);
        self.sums.fill(budget ^ budget >> 29);
        let (nodes, flights) = state[1..].split_at(self.nodes);
        for &node_state in nodes {
            let hashes = &self.hashes[node_state as usize * order..][..order];
            for (sum, hash) in self.sums.iter_mut().zip(hashes) {
                *sum = sum.wrapping_add(*hash);
            }
        }
        for (index, &flight) in flights.iter().enumerate() {
            // Each place of a channel is another rotation and, beyond the sixth, another odd factor. A late frame has no place.
            let (rotation, round) = if flight & LATE != 0 {
                (6, 0)
            } else {
                let place = self.place(flights, index);
                (place % 6, u64::from(place / 6))
            };
            let factor = (SPREAD | 1).wrapping_mul(2 * round + 1);
            let hashes = &self.flight_hashes[(flight & !LATE) as usize * order..][..order];
            for (sum, hash) in self.sums.iter_mut().zip(hashes) {
                *sum = sum.wrapping_add(hash.rotate_left(9 * rotation).wrapping_mul(factor));
            }
        }
        let least = self.sums.iter().copied().min().expect("one symmetry at least");
        // Sums of hashes are spread well, but the least of several is small.
        (least ^ least >> 32).wrapping_mul(SPREAD)
    }

    /// How many frames are before this one in its channel.
    fn place(&self, flights: &[u32], index: usize) -> u32 {
        let channel = |flight: u32| self.ways[(flight & !LATE) as usize].channel;
        let own = channel(flights[index]);
        flights[..index].iter().filter(|&&flight| channel(flight) == own).count() as u32
    }

    /// The notices that somebody has called for.
    fn called(&self, nodes: &[u32]) -> u8 {
        if !self.has_notices {
            return 0;
        }
        nodes.iter().fold(0, |called, &node_state| called | self.facts[node_state as usize].calls)
    }

    /// Whether somebody has not got a notice that was called for.
    fn has_notices_due(&self, nodes: &[u32]) -> bool {
        let called = self.called(nodes);
        called != 0 && nodes.iter().any(|&node_state| self.facts[node_state as usize].lacks & called != 0)
    }

    /// Whether nothing is left to do: no frame, no timer, no notice, nothing wanted, everybody done; or nothing need be.
    pub(crate) fn is_end(&self, state: &[u32]) -> bool {
        let rests = |&node_state: &u32| {
            let facts = &self.facts[node_state as usize];
            facts.may_wait || facts.is_done && facts.wants.is_empty() && facts.timers.is_empty()
        };
        let nodes = &state[1..1 + self.nodes];
        let has_frames = state.len() > 1 + self.nodes;
        let may_wait = nodes.iter().all(|node_state| self.facts[*node_state as usize].may_wait);
        nodes.iter().all(rests) && (may_wait || !has_frames && !self.has_notices_due(nodes))
    }

    /// Which frames may be taken alone; what must be known for that is put into `questions`.
    pub(crate) fn choose(&mut self, state: &[u32], questions: Option<&mut BTreeSet<Question>>) -> Choice {
        if !self.rules.uses_persistent_sets() {
            return Choice::All;
        }
        let (nodes, flights) = state[1..].split_at(self.nodes);
        if self.has_notices_due(nodes) {
            return Choice::All;
        }
        let choice = self.chooser.choose(nodes, flights, &self.ways, questions);
        self.is_unsure |= choice == Choice::Unknown;
        choice
    }

    /// The frame of which one thing alone may become, and all else later; as far as that is known.
    fn only(&mut self, state: &[u32]) -> Option<FrameSet> {
        let Choice::Only(frames) = self.choose(state, None) else { return None };
        let &[index] = frames.as_slice() else { return None };
        let is_late = state[1 + self.nodes + index as usize] & LATE != 0;
        (is_late || !Budget::decode(state[0]).has_fates()).then_some(frames)
    }

    /// The only step there is to look at, and the state that follows: if there is one such step, and it leads to no fault.
    pub(crate) fn only_step(&mut self, state: &[u32]) -> Option<(Move, Vec<u32>)> {
        let mut onward = core::mem::take(&mut self.onward);
        let step = self.go_on(state, &mut onward);
        let found = step.map(|step| (step, onward.clone()));
        self.onward = onward;
        found
    }

    /// The same, with the state that follows in `next`.
    fn go_on(&mut self, state: &[u32], next: &mut Vec<u32>) -> Option<Move> {
        let frames = self.only(state)?;
        let mut taken = None;
        self.each_step(state, Part::Only(&frames), &mut |_, step, found| {
            if let Ok(found) = found {
                next.clear();
                next.extend_from_slice(found);
                taken = Some(step);
            }
        });
        taken
    }

    /// Takes the only step there is to look at from `state`, and from what follows, for as long as there is one; how many. The states
    /// on the way need not be kept: whatever reaches one of them reaches the last one.
    pub(crate) fn compress_chain(&mut self, state: &mut Vec<u32>) -> u64 {
        let mut next = core::mem::take(&mut self.onward);
        let mut steps = 0;
        while steps < MOST_STEPS as u64 && self.go_on(state, &mut next).is_some() {
            core::mem::swap(state, &mut next);
            steps += 1;
        }
        if steps == MOST_STEPS as u64 {
            // Not to be expanded before what must be known for that is asked.
            self.choose(state, None);
        }
        self.onward = next;
        steps
    }

    /// Calls `found` with every step from `state`, or a part of them: the state that follows, or the fault that it leads to.
    pub(crate) fn each_step(&mut self, state: &[u32], part: Part<'_>, found: Found<'_, Self>) {
        let budget = Budget::decode(state[0]);
        let (nodes, flights) = state[1..].split_at(self.nodes);
        if let Part::Only(indices) = part {
            for &index in indices {
                let node = self.ways[(flights[index as usize] & !LATE) as usize].to.index();
                self.each_fate(state, budget, node, index as usize, found);
            }
            return;
        }
        let is_left_out = |index: usize| matches!(part, Part::AllBut(out) if out.contains(&(index as u32)));
        for (index, &flight) in flights.iter().enumerate() {
            let node = self.ways[(flight & !LATE) as usize].to.index();
            if !is_left_out(index) {
                self.each_fate(state, budget, node, index, found);
            }
        }
        if let Some(jumps) = budget.jumps.checked_sub(1) {
            self.clock_step(state, Budget { jumps, ..budget }, found);
        }
        let mut idle = flights.iter().all(|&flight| flight & LATE != 0);
        for (node, &node_state) in nodes.iter().enumerate() {
            let wants = self.facts[node_state as usize].wants.clone();
            for &input in wants.iter() {
                idle = false;
                let input = Input::decode(input);
                self.step(state, budget, node, input, None, None, Move::Act { node, input }, found);
            }
        }
        let called = self.called(nodes);
        for (node, &node_state) in nodes.iter().enumerate().filter(|_| called != 0) {
            let due = called & self.facts[node_state as usize].lacks;
            for notice in (0..8).filter(|notice| due & 1 << notice != 0) {
                let input = Input::Notice(notice);
                self.step(state, budget, node, input, None, None, Move::Act { node, input }, found);
            }
        }
        let early =
            budget.early_timeouts.checked_sub(1).map(|early_timeouts| Budget { early_timeouts, ..budget });
        let Some(timers_budget) = (if idle { Some(budget) } else { early }) else { return };
        for (node, &node_state) in nodes.iter().enumerate() {
            let timers = self.facts[node_state as usize].timers.clone();
            for &input in timers.iter() {
                let input = Input::decode(input);
                let step = if idle { Move::Act { node, input } } else { Move::FireEarly { node, input } };
                self.step(state, timers_budget, node, input, None, None, step, found);
            }
        }
    }

    /// What may become of the frame at `index`, if it is the first of its channel or late.
    fn each_fate(
        &mut self,
        state: &[u32],
        budget: Budget,
        node: usize,
        index: usize,
        found: Found<'_, Self>,
    ) {
        let flights = &state[1 + self.nodes..];
        let flight = flights[index];
        let input = Input::decode(flight);
        if flight & LATE != 0 {
            if index == 0 || flights[index - 1] != flight {
                self.step(state, budget, node, input, Some(index), None, Move::Deliver(flight), found);
            }
            return;
        }
        if self.place(flights, index) > 0 {
            return;
        }
        self.step(state, budget, node, input, Some(index), None, Move::Deliver(flight), found);
        let late = Some(flight | LATE);
        if let Some(duplicates) = budget.duplicates.checked_sub(1) {
            let budget = Budget { duplicates, ..budget };
            self.step(state, budget, node, input, Some(index), late, Move::Duplicate(flight), found);
        }
        if let Some(delays) = budget.delays.checked_sub(1) {
            self.network_step(state, Budget { delays, ..budget }, index, late, Move::Delay(flight), found);
        }
        if let Some(losses) = budget.losses.checked_sub(1) {
            self.network_step(state, Budget { losses, ..budget }, index, None, Move::Lose(flight), found);
        }
        if let Some(marks) = budget.marks.checked_sub(1) {
            self.mark_step(state, Budget { marks, ..budget }, index, found);
        }
    }

    /// A step in which the frame at `index` is marked, if it can be, and stays where it is.
    fn mark_step(&mut self, state: &[u32], budget: Budget, index: usize, found: Found<'_, Self>) {
        let place = 1 + self.nodes + index;
        let Some(marked) = self.catch_up(|world| world.marked(state[place])) else { return };
        let mut next = core::mem::take(&mut self.next);
        self.begin(&mut next, state, budget, None);
        next[place] = marked;
        found(self, Move::Mark(state[place]), Ok(&next));
        self.next = next;
    }

    /// The step in which the clock of all nodes moves on.
    fn clock_step(&mut self, state: &[u32], budget: Budget, found: Found<'_, Self>) {
        let mut next = core::mem::take(&mut self.next);
        self.begin(&mut next, state, budget, None);
        for (node, &node_state) in state[1..=self.nodes].iter().enumerate() {
            let outcome = self.outcome(node_state, Input::Clock);
            next[1 + node] = self.outcomes[outcome].next;
        }
        found(self, Move::Clock, Ok(&next));
        self.next = next;
    }

    /// A step in which no node takes part: the frame at `gone` is lost, or late.
    fn network_step(
        &mut self,
        state: &[u32],
        budget: Budget,
        gone: usize,
        late: Option<u32>,
        step: Move,
        found: Found<'_, Self>,
    ) {
        let mut next = core::mem::take(&mut self.next);
        self.begin(&mut next, state, budget, Some(gone));
        self.add(&mut next, &[], late);
        found(self, step, Ok(&next));
        self.next = next;
    }

    /// One step of one node; the frame at `arrived` is on its way no longer, the frame `late` still is.
    #[expect(clippy::too_many_arguments, reason = "a step, and what it leaves")]
    fn step(
        &mut self,
        state: &[u32],
        budget: Budget,
        node: usize,
        input: Input,
        arrived: Option<usize>,
        late: Option<u32>,
        step: Move,
        found: Found<'_, Self>,
    ) {
        let outcome = self.outcome(state[1 + node], input);
        if let Some(fault) = &self.outcomes[outcome].fault {
            let fault = fault.clone();
            return found(self, step, Err(fault));
        }
        let mut next = core::mem::take(&mut self.next);
        self.begin(&mut next, state, budget, arrived);
        let Outcome { next: node_state, sends, .. } = &self.outcomes[outcome];
        next[1 + node] = *node_state;
        self.add(&mut next, sends, late);
        found(self, step, Ok(&next));
        self.next = next;
    }

    /// Puts frames in their places: sent ones behind those that were sent before, late ones behind all.
    fn add(&self, next: &mut Vec<u32>, sends: &[Id], late: Option<u32>) {
        let flights = &next[1 + self.nodes..];
        let on_time = flights.iter().position(|flight| flight & LATE != 0).unwrap_or(flights.len());
        let place = 1 + self.nodes + on_time;
        next.splice(place..place, sends.iter().copied());
        if let Some(late) = late {
            next.push(late);
            // By contents: numbers depend on which thread was first.
            let hash = |&flight: &u32| (self.flight_hashes[(flight & !LATE) as usize * self.order], flight);
            next[place + sends.len()..].sort_unstable_by_key(hash);
        }
    }

    fn begin(&self, next: &mut Vec<u32>, state: &[u32], budget: Budget, gone: Option<usize>) {
        next.clear();
        next.push(budget.encode());
        match gone.map(|gone| 1 + self.nodes + gone) {
            None => next.extend_from_slice(&state[1..]),
            Some(gone) => {
                next.extend_from_slice(&state[1..gone]);
                next.extend_from_slice(&state[gone + 1..]);
            }
        }
    }
}
