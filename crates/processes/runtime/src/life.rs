//! A rank's part in the life of its groups: what runs, what has to be run again, and how a group goes on that is made anew.
//!
//! A group keeps the number that the application knows, whatever number its present generation has at the manager and on the wire.

use quincunx_collective::{Collective, GroupId, Numbers, Payload, Reduction};
use quincunx_control::{GroupFailure, Sequence};
use quincunx_engine::Terms;
use quincunx_nodes::Ways;
use std::collections::VecDeque;
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

/// Collectives of a group that a rank can run again for others, if the group loses a switch: it keeps their input. Where each rank waits for all
/// others, as in AllReduce, as many are enough as ranks have under way at once; ranks that only send may be further ahead.
const KEPT: usize = 2;

/// What a rank keeps of a collective that is complete, to run it again for ranks that lack it.
#[derive(Clone, Debug)]
pub(crate) struct CompletedCollective {
    pub(crate) collective: Collective,
    pub(crate) reduction: Reduction,
    pub(crate) terms: Terms,
    pub(crate) input: Numbers,
    pub(crate) output: usize,
}

/// A collective that the application waits for.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) collective: Collective,
    pub(crate) reduction: Reduction,
    pub(crate) terms: Terms,
    /// While the node does not have them: it is to begin, or to begin again.
    pub(crate) buffers: Option<[Numbers; 2]>,
}

/// What the application asks for, and what it is told of the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Collectives one at a time, each a call of its own.
    Whole,
    /// Several at once, parts of calls: it says itself when a call has ended, and does not want inputs back.
    Parts,
}

/// A group's life at this rank.
#[derive(Debug)]
pub(crate) struct Life {
    /// The number of its present generation.
    pub(crate) wire: GroupId,
    pub(crate) sequence: Sequence<CompletedCollective>,
    /// Oldest first.
    pub(crate) own: VecDeque<Own>,
    /// One that others lack is run again.
    pub(crate) repeats: bool,
    /// What has ended and the application has not taken, oldest first.
    pub(crate) done: VecDeque<Finished>,
    /// It is suspended, since when and by what.
    pub(crate) stopped: Option<(Instant, GroupFailure)>,
    /// Something is wrong with it: the manager has been told, and decides.
    pub(crate) suspicion: Option<Suspicion>,
    /// What the application has called.
    pub(crate) calls: Calls,
    /// Whether the manager may make it anew: it runs in switches.
    pub(crate) may_go_on: bool,
    pub(crate) asked: Asked,
    /// Of a group whose switches' memory is locked for each collective: how many had run in its tree when the last call ended.
    in_tree: u64,
}

impl Life {
    pub(crate) const fn new(wire: GroupId, may_go_on: bool) -> Self {
        Self {
            wire,
            sequence: Sequence::new(if may_go_on { KEPT } else { 0 }),
            own: VecDeque::new(),
            repeats: false,
            done: VecDeque::new(),
            stopped: None,
            suspicion: None,
            calls: Calls::new(),
            may_go_on,
            asked: Asked::Whole,
            in_tree: 0,
        }
    }

    /// Whether something runs here that has to end.
    pub(crate) fn is_busy(&self) -> bool {
        !self.own.is_empty() || self.repeats
    }

    /// Whether the node may be given the application's next collective: nothing is wrong, and nothing is to run before it.
    pub(crate) fn takes_more(&self) -> bool {
        let waits = self.own.iter().any(|own| own.buffers.is_some());
        self.suspicion.is_none() && self.stopped.is_none() && self.sequence.may_begin() && !waits
    }

    /// Of those that the node has the oldest.
    pub(crate) fn running(&mut self) -> Option<&mut Own> {
        self.own.iter_mut().find(|own| own.buffers.is_none())
    }

    /// The oldest call of the application's has ended.
    pub(crate) fn complete_call(&mut self, ways: Option<Ways>, now: Instant) {
        let in_network = match ways {
            Some(Ways { tree, .. }) => std::mem::replace(&mut self.in_tree, tree) != tree,
            None => self.may_go_on,
        };
        self.calls.complete_one(in_network, now);
    }

    /// The oldest collective of the application's has ended.
    pub(crate) fn complete(&mut self, finished: Finished, ways: Option<Ways>, now: Instant) {
        let Some(Own { collective, reduction, terms, .. }) = self.own.pop_front() else { return };
        self.calls.end_one();
        if self.asked == Asked::Whole {
            self.complete_call(ways, now);
        }
        if !self.may_go_on {
            self.sequence.skip();
            return self.done.push_back(finished);
        }
        let Finished { input, output } = finished;
        let length = output.length();
        let (kept, back) = match self.asked {
            // Copied when the application writes to it, and not before.
            Asked::Whole => (input.clone(), Some(input)),
            Asked::Parts => (input, None),
        };
        let kept = CompletedCollective { collective, reduction, terms, input: kept, output: length };
        let dropped = self.sequence.complete(kept).map(|dropped| dropped.input);
        let input = back.or(dropped).unwrap_or_else(|| Numbers::zeroed(0));
        self.done.push_back(Finished { input, output });
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
