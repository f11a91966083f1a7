//! Which frames may be taken first: those whose arrival commutes with whatever else may come to their node before.
//!
//! A frame that is the first of its channel and on time stays where it is until it arrives, is lost or is put off. If its arrival
//! commutes with every arrival that may come before it at the same node, then what becomes of it can be looked at
//! first, and all else later: a persistent set in the words of partial-order reduction. Other nodes do not see it, no timer fires
//! while it is on its way, and budgets are spent by as many steps in one order as in another. The same holds of several frames
//! at one node, the first of several channels, if each commutes with what may come over the other channels.
//!
//! What may come before is found as the exploration goes. [`Independence`] notes which frames arrive at which state of a node,
//! in time or late, and closes that under exchange: where `a` and then `b` arrive over different channels, or one of them late, `b` and
//! then `a` may arrive too, whatever that leads to; unless `b` cannot have been sent without what `a` has the node send ([`Causality`]).
//! So all orders are there, though only some are explored. A frame is independent at a state if it commutes, in state and in what
//! is sent on each channel, with every arrival at every state that is reached from there without its channel. Late arrivals count wherever
//! they are known, whether or not such a frame is on its way: to tell that apart was tried, and left hardly any state out.
//!
//! A late frame is on its way for long, and mostly to be ignored. If its node does nothing about it, in the state in which it is
//! and in all that may follow, the frame arrives at once.
//!
//! An answer may be wrong when more arrivals are known. So all answers are looked at again when much is new, and at the
//! end; if one was wrong, the exploration begins again, knowing better. What is known only grows, so that ends; and in the last
//! exploration no answer was wrong.

use std::collections::BTreeSet;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use crate::causality::Causality;
use crate::exploration::Unfinished;
use crate::input::{CLOCK, Input, LATE};
use crate::interned::Id;
use crate::world::{World, by_channel};

/// A few frames, or where they are in a state.
pub(crate) type FrameSet = SmallVec<[Id; 4]>;

/// Whether frames to one node are independent of all that may come there before any of them; of a single late frame, whether it
/// is ignored.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Question {
    /// The first frames of some channels, or a late one.
    pub(crate) flights: FrameSet,
    /// Late frames of the same channels, which may come before them, too.
    pub(crate) late: FrameSet,
    pub(crate) node_state: Id,
}

pub(crate) type Answers = HashMap<Question, bool, FixedState>;

/// What moves the clock on comes over no channel.
const NO_CHANNEL: u16 = u16::MAX;

/// Two frames that arrive one after the other at a state of a node.
type Pair = (Id, u32, u32);

/// Why nothing more is looked into.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The whole exploration ends.
    Unfinished(Unfinished),
    /// More is learnt of orders that may be than there is to explore. What is left open is taken up again whenever somebody goes on.
    Patience,
}

/// A function that is told how many node states are known, and says whether to go on.
pub(crate) type ProgressFn<'w> = &'w mut dyn FnMut(usize) -> Result<(), Halt>;

/// Calls it only now and then.
struct ThrottledProgress<'w> {
    count: u32,
    progress_fn: ProgressFn<'w>,
}

impl ThrottledProgress<'_> {
    fn look(&mut self, node_states: usize) -> Result<(), Halt> {
        self.count += 1;
        if self.count.is_multiple_of(1 << 12) { (self.progress_fn)(node_states) } else { Ok(()) }
    }
}

/// What is known of arrivals, and of what commutes.
pub(crate) struct Independence {
    /// For each state of a node: frames that may arrive there, in time or marked late.
    arrivals: Vec<Vec<u32>>,
    /// For each state of a node: states and frames that lead there.
    before: Vec<Vec<(Id, u32)>>,
    causality: Causality,
    /// How much of the world's answers is in the three above.
    known: usize,
    /// Pairs that are still to be exchanged.
    open: Vec<Pair>,
    /// Pairs that are not exchanged because one frame answers the other, as far as is known.
    answering: Vec<Pair>,
    commuting: HashMap<Pair, bool, FixedState>,
    answers: Arc<Answers>,
    /// How much was known when all answers were looked at.
    checked: usize,
    /// How many answers have turned out to be wrong.
    revision: u64,
}

impl Independence {
    pub(crate) fn new(world: &World<'_>) -> Self {
        let hasher = FixedState::with_seed(2);
        Self {
            arrivals: Vec::new(),
            before: Vec::new(),
            causality: Causality::new(&world.initial),
            known: 0,
            open: Vec::new(),
            answering: Vec::new(),
            commuting: HashMap::with_hasher(hasher),
            answers: Arc::new(HashMap::with_hasher(hasher)),
            checked: 0,
            revision: 0,
        }
    }

    /// All answers so far.
    pub(crate) fn answers(&self) -> Arc<Answers> {
        self.answers.clone()
    }

    /// The same number as before if no answer has turned out to be wrong since.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Learns what has come to nodes since, and answers `questions`; whether all that was answered before still holds, as far as
    /// that is looked at: all of it if it is the last time, and otherwise when much is new.
    pub(crate) fn settle(
        &mut self,
        world: &mut World<'_>,
        questions: BTreeSet<Question>,
        is_last: bool,
        progress_fn: ProgressFn<'_>,
    ) -> Result<bool, Halt> {
        let mut throttled = ThrottledProgress { count: 0, progress_fn };
        self.learn(world, &mut throttled)?;
        let mut open = questions;
        let is_new = if is_last { self.known > self.checked } else { self.known > self.checked * 9 / 8 };
        if is_new {
            open.extend(self.answers.iter().filter(|(_, yes)| **yes).map(|(question, _)| question.clone()));
        }
        // They are sorted by frames: what is found of one state serves the next.
        let mut good: HashSet<Id, FixedState> = HashSet::with_hasher(FixedState::with_seed(3));
        let mut of = None;
        let mut found = Vec::with_capacity(open.len());
        for question in open {
            let frames = Some((question.flights.clone(), question.late.clone()));
            if of != frames {
                of = frames;
                good.clear();
            }
            let yes = match question.flights[..] {
                [late] if late & LATE != 0 => {
                    self.is_ignored(world, late, question.node_state, &mut good, &mut throttled)?
                }
                _ => self.is_independent(world, &question, &mut good, &mut throttled)?,
            };
            found.push((question, yes));
        }
        let mut holds = true;
        let answers = Arc::make_mut(&mut self.answers);
        for (question, yes) in found {
            let was_wrong = answers.insert(question, yes) == Some(true) && !yes;
            self.revision += u64::from(was_wrong);
            holds &= !was_wrong;
        }
        // Not before all of them have been looked at: who halts meanwhile leaves them to the next one.
        if is_new {
            self.checked = self.known;
        }
        Ok(holds)
    }

    /// Takes in what is new, and closes what is known under exchange.
    fn learn(&mut self, world: &mut World<'_>, throttled: &mut ThrottledProgress<'_>) -> Result<(), Halt> {
        while self.known < world.asked().len() || !self.open.is_empty() {
            let mut open = core::mem::take(&mut self.open);
            self.note(world, &mut open);
            open.append(&mut self.answering);
            for (place, &pair) in open.iter().enumerate() {
                if let Err(why) = throttled.look(world.node_states()) {
                    self.open = open.split_off(place);
                    return Err(why);
                }
                self.exchange(world, pair);
            }
        }
        Ok(())
    }

    /// Notes new answers of the world, and puts the pairs that they make into `pairs`.
    fn note(&mut self, world: &mut World<'_>, pairs: &mut Vec<Pair>) {
        self.arrivals.resize(world.node_states(), Vec::new());
        self.before.resize(world.node_states(), Vec::new());
        self.causality.grow(world.node_states(), world.ways().len());
        for &(node_state, input) in &world.asked()[self.known..] {
            let outcome = world.answer(node_state, input);
            let flight = input.arrival();
            self.arrivals[node_state as usize].extend(flight);
            if let Some(flight) = flight {
                pairs.extend(
                    self.before[node_state as usize]
                        .iter()
                        .map(|&(node_state, first)| (node_state, first, flight)),
                );
            }
            if outcome.fault.is_some() {
                continue;
            }
            self.causality.note(node_state, input.frame(), outcome.next, &outcome.sends);
            if let Some(flight) = flight {
                self.before[outcome.next as usize].push((node_state, flight));
                pairs.extend(
                    self.arrivals[outcome.next as usize].iter().map(|&next| (node_state, flight, next)),
                );
            }
        }
        self.known = world.asked().len();
        self.causality.settle();
    }

    /// Where two frames may arrive one after the other, they may the other way round: unless they come over one channel in order, or
    /// the second answers the first. The world notes what is new.
    fn exchange(&mut self, world: &mut World<'_>, (node_state, first, second): Pair) {
        let channel = |frame: u32| world.ways()[(frame & !LATE) as usize].channel;
        let is_clock = first == CLOCK || second == CLOCK;
        if first == second || !is_clock && (first | second) & LATE == 0 && channel(first) == channel(second) {
            return;
        }
        let (one, other) = (Input::decode(first), Input::decode(second));
        let sends = &world.answer(node_state, one).sends;
        if !is_clock && sends.iter().any(|&sent| self.causality.is_answer(second & !LATE, sent, node_state)) {
            return self.answering.push((node_state, first, second));
        }
        let outcome = world.ask(node_state, other);
        if outcome.fault.is_none() {
            let next = outcome.next;
            world.ask(next, one);
        }
    }

    /// Whether frames commute with all that may come before them. States in `good` are known to be fine, and more are put there.
    fn is_independent(
        &mut self,
        world: &mut World<'_>,
        question: &Question,
        good: &mut HashSet<Id, FixedState>,
        throttled: &mut ThrottledProgress<'_>,
    ) -> Result<bool, Halt> {
        let Question { flights, late, node_state } = question;
        let channel = |world: &World<'_>, frame: u32| match frame {
            CLOCK => NO_CHANNEL,
            frame => world.ways()[(frame & !LATE) as usize].channel,
        };
        let channels: SmallVec<[u16; 4]> = flights.iter().map(|&flight| channel(world, flight)).collect();
        let mut seen = HashSet::with_hasher(FixedState::with_seed(4));
        let mut open = vec![*node_state];
        seen.insert(*node_state);
        while let Some(node_state) = open.pop() {
            throttled.look(world.node_states())?;
            for place in 0..self.arrivals.get(node_state as usize).map_or(0, Vec::len) {
                let other = self.arrivals[node_state as usize][place];
                if channels.contains(&channel(world, other)) && !late.contains(&other) {
                    continue;
                }
                if !flights.iter().all(|&flight| self.commute(world, node_state, flight, other)) {
                    return Ok(false);
                }
                let next = world.outcome(node_state, Input::decode(other)).next;
                if !good.contains(&next) && seen.insert(next) {
                    open.push(next);
                }
            }
        }
        good.extend(seen);
        Ok(true)
    }

    /// Whether a frame does nothing in a state of a node, nor in any that may follow. States in `good` as above.
    fn is_ignored(
        &mut self,
        world: &mut World<'_>,
        frame: u32,
        node_state: Id,
        good: &mut HashSet<Id, FixedState>,
        throttled: &mut ThrottledProgress<'_>,
    ) -> Result<bool, Halt> {
        let mut seen = HashSet::with_hasher(FixedState::with_seed(4));
        let mut open = vec![node_state];
        while let Some(node_state) = open.pop() {
            throttled.look(world.node_states())?;
            if good.contains(&node_state) || !seen.insert(node_state) {
                continue;
            }
            let outcome = world.outcome(node_state, Input::Frame(frame & !LATE));
            if outcome.next != node_state || !outcome.sends.is_empty() || outcome.fault.is_some() {
                return Ok(false);
            }
            open.extend(self.causality.following(node_state));
        }
        good.extend(seen);
        Ok(true)
    }

    /// Whether two frames, or a frame and that the clock moves on, lead to the same in both orders: the same state, the same frames in the same order on each channel.
    fn commute(&mut self, world: &mut World<'_>, node_state: Id, a: u32, b: u32) -> bool {
        let (a, b) = (a & !LATE, b & !LATE);
        if let Some(&known) = self.commuting.get(&(node_state, a, b)) {
            return known;
        }
        let mut both = |first: Id, second: Id| {
            let one = world.outcome(node_state, Input::decode(first)).clone();
            if one.fault.is_some() {
                return None;
            }
            let two = world.outcome(one.next, Input::decode(second)).clone();
            if two.fault.is_some() {
                return None;
            }
            let mut sends: Vec<Id> = one.sends.iter().chain(two.sends.iter()).copied().collect();
            by_channel(&mut sends, world.ways());
            Some((two.next, sends))
        };
        let (ab, ba) = (both(a, b), both(b, a));
        let found = ab.is_some() && ab == ba;
        self.commuting.insert((node_state, a, b), found);
        found
    }
}
