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
    /// The same after a pause, in which whoever has the locks may give them back.
    Pause,
    /// Do not.
    CancelTimer,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Nothing is locked for it, as far as it knows.
    Idle,
    /// It has asked.
    Asking,
    /// It has been refused, and will ask again.
    Pausing,
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
    /// How often a refused invocation is asked for again: the same at all ranks, who hear the same verdicts.
    tries: u8,
    /// How often it has been.
    refused: u8,
    mutation: Option<Mutation>,
}

impl LockRank {
    /// Before the first invocation. One that is refused is asked for so many times more, before it runs among the hosts.
    pub const fn new(tries: u8, mutation: Option<Mutation>) -> Self {
        Self { number: Number::FIRST, state: State::Idle, tries, refused: 0, mutation }
    }

    /// Whether the next invocation may be asked for.
    pub const fn may_ask(&self) -> bool {
        matches!(self.state, State::Idle | State::Leaving)
    }

    /// Which question it is at: each invocation has a number, and each time that it is asked for again.
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
            (State::Asking, Word::Verdict { granted: false }) if self.refused < self.tries => {
                self.refused += 1;
                self.state = State::Pausing;
                self.number = self.number.next();
                out.push(LockStep::Pause);
                true
            }
            (State::Asking, Word::Verdict { granted }) => {
                self.refused = 0;
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

    /// Nobody has answered for a while, or the pause is over.
    pub fn again(&mut self, out: &mut Vec<LockStep>) {
        if self.state == State::Pausing {
            self.state = State::Asking;
            self.repeat(out);
            return;
        }
        if self.mutation == Some(Mutation::CountsTimeOuts) {
            self.refused = self.tries;
        }
        if self.mutation != Some(Mutation::NeverRepeats) {
            self.repeat(out);
        }
    }

    fn repeat(&self, out: &mut Vec<LockStep>) {
        let word = match self.state {
            State::Asking => Word::Ask { refused: false },
            State::Leaving => Word::Done,
            State::Idle | State::Pausing | State::Running { .. } => return,
        };
        out.push(LockStep::Say(word, self.number));
        out.push(LockStep::SetTimer);
    }
}
