//! A switch's part in the locks of a group.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_units::ByteCount;

use super::{LockMutation as Mutation, Number, Recorder, Word};
use crate::switch::MemoryPart;

/// Where a switch is in the tree of a group: its edges by number.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LockEdges {
    /// Towards the root; none at the root.
    pub parent: Option<u16>,
    /// Towards the ranks.
    pub children: Vec<u16>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Phase {
    /// Not all children have asked.
    Gathering { asked: BTreeSet<u16>, refused: bool },
    /// All have, and the recorder; the root has not spoken.
    AwaitingVerdict { locked: bool },
    /// It runs in the tree; these are done.
    Running { done: BTreeSet<u16> },
    /// All children are done, and the root has not spoken.
    Leaving,
}

/// The locks of a group as one of its switches sees them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LockSwitch {
    group: GroupId,
    offset: ByteCount,
    length: ByteCount,
    edges: LockEdges,
    number: Number,
    phase: Phase,
    /// Children that have asked for the invocation after this one.
    next: BTreeSet<u16>,
    /// What became of the invocation before this one, if there was one: it ran in the tree.
    last: Option<bool>,
}

/// What a switch says, and over which edge.
pub type EdgeMessages = Vec<(u16, Word, Number)>;

impl LockSwitch {
    /// A group whose buffers are so many bytes at this place of the switch's memory.
    pub fn new(group: GroupId, edges: LockEdges, memory: MemoryPart) -> Self {
        let MemoryPart { offset, length } = memory;
        let phase = Phase::Gathering { asked: BTreeSet::new(), refused: false };
        Self { group, offset, length, edges, number: Number::FIRST, phase, next: BTreeSet::new(), last: None }
    }

    /// Its buffers are somewhere else from now on.
    pub fn move_to(&mut self, offset: ByteCount) {
        self.offset = offset;
    }

    /// Which invocation it is at.
    pub const fn number(&self) -> Number {
        self.number
    }

    /// Whether the invocation runs in the tree, as far as this switch knows.
    pub const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. } | Phase::Leaving)
    }

    /// Takes a word that came over an edge: whether it meant anything.
    pub fn hear(
        &mut self,
        edge: u16,
        word: Word,
        mut number: Number,
        recorder: &mut Recorder,
        out: &mut EdgeMessages,
    ) -> bool {
        if recorder.mutation() == Some(Mutation::TakesOldWords) {
            number = self.number;
        }
        match word {
            Word::Ask { .. } | Word::Done if !self.edges.children.contains(&edge) => false,
            Word::Verdict { .. } | Word::Free if self.edges.parent != Some(edge) => false,
            Word::Ask { refused } => self.hear_ask(edge, refused, number, recorder, out),
            Word::Done => self.hear_done(edge, number, recorder, out),
            Word::Verdict { granted } => number == self.number && self.hear_verdict(granted, recorder, out),
            Word::Free => {
                let is_due = number == self.number && self.phase == Phase::Leaving;
                if is_due {
                    self.free(recorder, out);
                }
                is_due
            }
        }
    }

    fn hear_ask(
        &mut self,
        edge: u16,
        with_mark: bool,
        number: Number,
        recorder: &mut Recorder,
        out: &mut EdgeMessages,
    ) -> bool {
        let mutation = recorder.mutation();
        if number.next() == self.number && self.last == Some(false) {
            // It has not heard that it was refused.
            if mutation != Some(Mutation::AnswersOnce) {
                out.push((edge, Word::Verdict { granted: false }, number));
            }
            return true;
        }
        if number == self.number.next() {
            // It is done with the present one.
            return match &mut self.phase {
                Phase::Running { .. } => {
                    self.next.insert(edge);
                    self.hear_done(edge, self.number, recorder, out)
                }
                Phase::Leaving => {
                    self.next.insert(edge);
                    self.say_up(Word::Done, out);
                    true
                }
                Phase::Gathering { .. } | Phase::AwaitingVerdict { .. } => false,
            };
        }
        if number != self.number {
            return false;
        }
        match &mut self.phase {
            Phase::Gathering { asked, refused } => {
                asked.insert(edge);
                *refused |= with_mark && mutation != Some(Mutation::IgnoresTheMark);
                self.decide(recorder, out);
            }
            Phase::AwaitingVerdict { locked } => {
                let refused = !*locked;
                self.say_up(Word::Ask { refused }, out);
            }
            // It has not heard that it was granted.
            Phase::Running { .. } | Phase::Leaving => {
                if mutation != Some(Mutation::AnswersOnce) {
                    out.push((edge, Word::Verdict { granted: true }, number));
                }
            }
        }
        true
    }

    fn hear_done(
        &mut self,
        edge: u16,
        number: Number,
        recorder: &mut Recorder,
        out: &mut EdgeMessages,
    ) -> bool {
        if number.next() == self.number && self.last == Some(true) {
            // It has not heard that all are.
            if recorder.mutation() != Some(Mutation::AnswersOnce) {
                out.push((edge, Word::Free, number));
            }
            return true;
        }
        if number != self.number {
            return false;
        }
        match &mut self.phase {
            Phase::Running { done } => {
                done.insert(edge);
                if done.len() == self.edges.children.len() {
                    if recorder.mutation() == Some(Mutation::ReleasesEarly) {
                        recorder.release(self.group, true);
                    }
                    if self.edges.parent.is_none() {
                        self.free(recorder, out);
                    } else {
                        self.phase = Phase::Leaving;
                        self.say_up(Word::Done, out);
                    }
                }
                true
            }
            Phase::Leaving => {
                self.say_up(Word::Done, out);
                true
            }
            Phase::Gathering { .. } | Phase::AwaitingVerdict { .. } => false,
        }
    }

    /// The root has spoken.
    fn hear_verdict(&mut self, granted: bool, recorder: &mut Recorder, out: &mut EdgeMessages) -> bool {
        let Phase::AwaitingVerdict { locked } = self.phase else { return false };
        // Nobody but a liar grants what is not locked here.
        if granted && !locked && recorder.mutation() != Some(Mutation::IgnoresTheMark) {
            return false;
        }
        self.settle(granted, recorder, out);
        true
    }

    /// When all children have asked: the recorder is asked, and the parent; or the root speaks.
    fn decide(&mut self, recorder: &mut Recorder, out: &mut EdgeMessages) {
        let Phase::Gathering { asked, refused } = &self.phase else { return };
        if asked.len() < self.edges.children.len() {
            return;
        }
        let locked = !refused && recorder.lock(self.group, self.offset, self.length);
        let mutation = recorder.mutation();
        if !locked && !refused && mutation == Some(Mutation::WaitsForTheLock) {
            return;
        }
        if self.edges.parent.is_none() {
            self.settle(locked, recorder, out);
        } else {
            self.phase = Phase::AwaitingVerdict { locked };
            self.say_up(Word::Ask { refused: !locked }, out);
            if locked && mutation == Some(Mutation::SpeaksForTheRoot) {
                self.say_down(Word::Verdict { granted: true }, out);
            }
        }
    }

    fn settle(&mut self, granted: bool, recorder: &mut Recorder, out: &mut EdgeMessages) {
        self.say_down(Word::Verdict { granted }, out);
        if granted {
            self.phase = Phase::Running { done: BTreeSet::new() };
        } else {
            if recorder.mutation() != Some(Mutation::KeepsWhatIsRefused) {
                recorder.release(self.group, false);
            }
            self.advance(false, recorder, out);
        }
    }

    fn free(&mut self, recorder: &mut Recorder, out: &mut EdgeMessages) {
        self.say_down(Word::Free, out);
        recorder.release(self.group, true);
        self.advance(true, recorder, out);
    }

    /// On to the next invocation, which children may have asked for already.
    fn advance(&mut self, ran: bool, recorder: &mut Recorder, out: &mut EdgeMessages) {
        self.number = self.number.next();
        self.last = Some(ran);
        self.phase = Phase::Gathering { asked: core::mem::take(&mut self.next), refused: false };
        self.decide(recorder, out);
    }

    fn say_up(&self, word: Word, out: &mut EdgeMessages) {
        if let Some(parent) = self.edges.parent {
            out.push((parent, word, self.number));
        }
    }

    fn say_down(&self, word: Word, out: &mut EdgeMessages) {
        out.extend(self.edges.children.iter().map(|&child| (child, word, self.number)));
    }

    /// Panics if what is locked is not what the phase says.
    pub fn assert_invariants(&self, recorder: &Recorder) {
        if recorder.mutation().is_some() {
            return;
        }
        let holds = match &self.phase {
            Phase::Gathering { asked, .. } => {
                assert!(asked.len() < self.edges.children.len(), "all have asked, and nobody has decided");
                false
            }
            Phase::AwaitingVerdict { locked } => *locked,
            Phase::Running { done } => {
                assert!(done.len() < self.edges.children.len(), "all are done, and nobody has heard it");
                true
            }
            Phase::Leaving => true,
        };
        assert_eq!(holds, recorder.holds(self.group), "the recorder and group {} disagree", self.group);
    }
}
