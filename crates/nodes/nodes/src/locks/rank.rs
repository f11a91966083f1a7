//! A rank's part in the locks of a group.

use alloc::vec::Vec;

use super::{LockMutation as Mutation, Number, Word};

/// What a rank is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockStep {
    /// Say this to its switch.
    Say(Word, Number),
    /// Begin the invocation: in the tree if it is granted, otherwise among the hosts.
    Run {
        /// In the tree.
        granted: bool,
    },
    /// Call [`LockRank::again`] after a while, in place of any earlier time.
    SetTimer,
    /// Do not.
    CancelTimer,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Nothing is locked for it, as far as it knows.
    Idle,
    /// It has asked.
    Asking,
    /// The invocation runs.
    Running { granted: bool },
    /// It has run in the tree here, and others may still need what is locked.
    Leaving,
}

/// The locks of a group as one of its ranks sees them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LockRank {
    number: Number,
    state: State,
    mutation: Option<Mutation>,
}

impl Default for LockRank {
    fn default() -> Self {
        Self::new(None)
    }
}

impl LockRank {
    /// Before the first invocation.
    pub const fn new(mutation: Option<Mutation>) -> Self {
        Self { number: Number::FIRST, state: State::Idle, mutation }
    }

    /// Whether the next invocation may be asked for.
    pub const fn may_ask(&self) -> bool {
        matches!(self.state, State::Idle | State::Leaving)
    }

    /// Which invocation it is at.
    pub const fn number(&self) -> Number {
        self.number
    }

    /// Asks for the next invocation.
    ///
    /// # Panics
    /// If one is asked for or runs.
    pub fn ask(&mut self, out: &mut Vec<LockStep>) {
        assert!(self.may_ask(), "an invocation is asked for while another one runs");
        if self.state == State::Leaving {
            self.number = self.number.next();
        }
        self.state = State::Asking;
        self.repeat(out);
    }

    /// The invocation has ended here.
    ///
    /// # Panics
    /// If none runs.
    pub fn end(&mut self, out: &mut Vec<LockStep>) {
        let State::Running { granted } = self.state else { panic!("an invocation ends that does not run") };
        if granted {
            self.state = State::Leaving;
            self.repeat(out);
        } else {
            self.state = State::Idle;
            self.number = self.number.next();
        }
    }

    /// Its switch says something: whether that was news.
    pub fn hear(&mut self, word: Word, number: Number, out: &mut Vec<LockStep>) -> bool {
        if number != self.number {
            return false;
        }
        match (self.state, word) {
            (State::Asking, Word::Verdict { granted }) => {
                self.state = State::Running { granted };
                out.push(LockStep::CancelTimer);
                out.push(LockStep::Run { granted });
                true
            }
            (State::Leaving, Word::Free) => {
                self.state = State::Idle;
                self.number = self.number.next();
                out.push(LockStep::CancelTimer);
                true
            }
            _ => false,
        }
    }

    /// Nobody has answered for a while.
    pub fn again(&mut self, out: &mut Vec<LockStep>) {
        if self.mutation != Some(Mutation::NeverRepeats) {
            self.repeat(out);
        }
    }

    fn repeat(&self, out: &mut Vec<LockStep>) {
        let word = match self.state {
            State::Asking => Word::Ask { refused: false },
            State::Leaving => Word::Done,
            State::Idle | State::Running { .. } => return,
        };
        out.push(LockStep::Say(word, self.number));
        out.push(LockStep::SetTimer);
    }
}
