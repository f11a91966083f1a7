//! A rank's place in the sequence of its group's collectives: what is complete, and what has to be run again when the group is made anew.
//! EPIC 3.4 promises re-initialisation and says no more; this is beyond the paper.
//!
//! All ranks of a group run the same collectives in the same order, counted from one. When a switch is lost, some ranks may have completed
//! one more than others: these lack what only the switch had. Then all run again from the first one that some rank lacks.

use alloc::collections::VecDeque;

/// How far a rank has come, told when its group is suspended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Progress {
    /// Collectives that are complete here: the last one's number, zero if none is.
    pub complete: u64,
    /// The first collective whose input this rank still has: it can run from there again.
    pub repeats_from: u64,
}

/// The sequence as one rank sees it; `C` is what it keeps of a collective that is complete, to run it again for others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sequence<C> {
    complete: u64,
    /// The last ones that are complete, newest last.
    kept: VecDeque<C>,
    /// So many are kept at most.
    keeps: usize,
    /// Of the generation that runs: the next one that is run again for others, if one is left.
    next_repeat: Option<u64>,
    suspended: bool,
}

impl<C> Sequence<C> {
    /// Nothing has run. The rank keeps what it needs to run the last `keeps` collectives again.
    pub const fn new(keeps: usize) -> Self {
        Self { complete: 0, kept: VecDeque::new(), keeps, next_repeat: None, suspended: false }
    }

    /// Whether the next of the application's own collectives may begin: nothing is to be run again before it.
    pub const fn may_begin(&self) -> bool {
        !self.suspended && self.next_repeat.is_none()
    }

    /// What is to be run again next, and its number.
    pub fn next_repeat(&self) -> Option<(u64, &C)> {
        let number = self.next_repeat.filter(|_| !self.suspended)?;
        let back = (self.complete - number) as usize;
        Some((number, &self.kept[self.kept.len() - 1 - back]))
    }

    /// What was run again has ended.
    ///
    /// # Panics
    /// If nothing is run again.
    pub fn repeated(&mut self) {
        let number = self.next_repeat.expect("something is run again");
        self.next_repeat = (number < self.complete).then_some(number + 1);
    }

    /// The application's collective has ended. What was kept of the oldest one, if that is kept no longer.
    ///
    /// # Panics
    /// If the group is suspended, or something was to be run again before.
    pub fn complete(&mut self, kept: C) -> Option<C> {
        assert!(self.may_begin(), "a collective ends that may not run");
        self.complete += 1;
        if self.keeps == 0 {
            return Some(kept);
        }
        let dropped = if self.kept.len() == self.keeps { self.kept.pop_front() } else { None };
        self.kept.push_back(kept);
        dropped
    }

    /// The application's collective has ended, and nothing is kept of it, nor of any before.
    ///
    /// # Panics
    /// As [`complete`](Self::complete).
    pub fn skip(&mut self) {
        assert!(self.may_begin(), "a collective ends that may not run");
        self.complete += 1;
        self.kept.clear();
    }

    /// The group's queue pairs are gone: how far this rank has come. No collective ends from here on until the group goes on.
    pub fn suspend(&mut self) -> Progress {
        self.suspended = true;
        // What was run again and had not ended has to be run again once more.
        self.next_repeat = None;
        Progress { complete: self.complete, repeats_from: self.complete - self.kept.len() as u64 + 1 }
    }

    /// Whether it can go on with collective `first`.
    pub fn can_resume(&self, first: u64) -> bool {
        first > self.complete - self.kept.len() as u64 && first <= self.complete + 1
    }

    /// The group has been made anew: it goes on with collective `first`.
    ///
    /// # Panics
    /// If it cannot.
    pub fn resume(&mut self, first: u64) {
        assert!(self.can_resume(first), "what has not been kept cannot be run again");
        self.suspended = false;
        self.next_repeat = (first <= self.complete).then_some(first);
    }

    /// Collectives that are complete.
    pub const fn completed(&self) -> u64 {
        self.complete
    }
}
