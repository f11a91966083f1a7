//! A rank's part in the life of its groups: what runs, what has to be run again, and how a group goes on that is made anew.
//!
//! A group keeps the number that the application knows, whatever number its present generation has at the manager and on the wire.

use quincunx_collective::{Collective, GroupId, Numbers, Reduction};
use quincunx_control::{GroupFailure, Sequence};
use std::fmt;
use std::time::Instant;

use crate::calls::Calls;
use crate::doubt::Suspicion;
use crate::joined::Finished;

/// A group that was made anew, as one of its ranks has seen it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recreation {
    /// The group, as the application knows it.
    pub group: GroupId,
    /// What it runs now.
    pub design: String,
    /// The collective that all ranks run from, counted from one.
    pub first: u64,
    /// Whether this rank has to run collectives again for others.
    pub repeats: bool,
    /// What it had lost.
    pub failure: GroupFailure,
    /// From the word that it was lost to the word that it goes on.
    pub after: std::time::Duration,
}

/// Collectives of a group that a rank can run again for others, if the group loses a switch: it keeps a copy of their input. One is enough where
/// each rank waits for all others, as in AllReduce; ranks that only send may be further ahead.
const KEPT: usize = 1;

/// What a rank keeps of a collective that is complete, to run it again for ranks that lack it.
#[derive(Clone, Debug)]
pub(crate) struct CompletedCollective {
    pub(crate) collective: Collective,
    pub(crate) reduction: Reduction,
    pub(crate) input: Numbers,
    pub(crate) output: usize,
}

/// A collective that the application waits for.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) collective: Collective,
    pub(crate) reduction: Reduction,
    /// While the node does not have them.
    pub(crate) buffers: Option<[Numbers; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Running {
    /// The application's.
    Own,
    /// One that others lack.
    Repeat,
}

/// A group's life at this rank.
#[derive(Debug)]
pub(crate) struct Life {
    /// The number of its present generation.
    pub(crate) wire: GroupId,
    pub(crate) sequence: Sequence<CompletedCollective>,
    pub(crate) own: Option<Own>,
    pub(crate) running: Option<Running>,
    pub(crate) done: Option<Finished>,
    /// It is suspended, since when and by what.
    pub(crate) stopped: Option<(Instant, GroupFailure)>,
    /// Something is wrong with it: the manager has been told, and decides.
    pub(crate) suspicion: Option<Suspicion>,
    /// What the application has called.
    pub(crate) calls: Calls,
    /// Whether the manager may make it anew: it runs in switches.
    pub(crate) may_go_on: bool,
    /// Its owner begins collectives and takes their ends himself, several at once: nobody here could run them again.
    pub(crate) is_owners: bool,
}

impl Life {
    pub(crate) const fn new(wire: GroupId, may_go_on: bool) -> Self {
        Self {
            wire,
            sequence: Sequence::new(if may_go_on { KEPT } else { 0 }),
            own: None,
            running: None,
            done: None,
            stopped: None,
            suspicion: None,
            calls: Calls::new(),
            may_go_on,
            is_owners: false,
        }
    }

    /// Whether something runs here that has to end.
    pub(crate) const fn is_busy(&self) -> bool {
        self.own.is_some() || self.running.is_some()
    }

    /// Whether it may lose something and go on, with what runs here.
    pub(crate) const fn goes_on(&self) -> bool {
        self.may_go_on && !self.is_owners
    }

    pub(crate) fn complete(&mut self, finished: Finished) {
        let Some(own) = self.own.take() else { return };
        if !self.may_go_on {
            self.sequence.skip();
        } else {
            let Own { collective, reduction, .. } = own;
            let output = finished.output.bytes().len();
            // Copied when the application writes to it, and not before.
            let input = finished.input.clone();
            self.sequence.complete(CompletedCollective { collective, reduction, input, output });
        }
        self.done = Some(finished);
    }
}

/// `group 1 was made anew on ring after 41 ms, from collective 12 on: node "leaf": its connection is gone`.
impl fmt::Display for Recreation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, design, first, failure, after, .. } = self;
        let after = after.as_secs_f64() * 1e3;
        write!(
            f,
            "group {group} was made anew on {design} after {after:.0} ms, from collective {first} on: {failure}"
        )
    }
}
