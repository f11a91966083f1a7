//! What follows from the manager's steps, in the order of the steps: nothing behind a change is done before that change is kept, and nothing
//! at all any more once one was refused. For then another manager has the store, which knows nothing of it.
//!
//! The call loop: add what a step has appended, then take [`next`](Journal::next) until there is nothing. A change among it is to be kept, and
//! what became of that is to be said by [`kept`](Journal::kept).

use crate::Action;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// What a manager has decided, and its driver has not yet done.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Journal {
    due: VecDeque<Action>,
    /// A change is on its way to where it is kept.
    waits: bool,
    is_closed: bool,
}

impl Journal {
    /// A step of the manager has appended these.
    pub fn add(&mut self, actions: Vec<Action>) {
        if !self.is_closed {
            self.due.extend(actions);
        }
    }

    /// What is to be done now, if anything is.
    #[expect(
        clippy::should_implement_trait,
        reason = "there is nothing more today, and there may be tomorrow"
    )]
    pub fn next(&mut self) -> Option<Action> {
        if self.waits {
            return None;
        }
        let action = self.due.pop_front();
        self.waits = matches!(action, Some(Action::Keep(_)));
        action
    }

    /// The change that was taken last is kept, or is refused: that is the end.
    pub fn kept(&mut self, is_kept: bool) {
        self.waits = false;
        if !is_kept {
            self.close();
        }
    }

    /// Nothing is done any more: the manager stops.
    pub fn close(&mut self) {
        self.due.clear();
        (self.waits, self.is_closed) = (false, true);
    }

    /// Whether nothing is done any more.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }
}
