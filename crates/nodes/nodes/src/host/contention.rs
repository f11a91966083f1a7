//! What a host keeps of a group whose switches' memory is locked for each collective.

use alloc::collections::VecDeque;
use quincunx_collective::{Collective, GroupId, Payload, Rank, Reduction};
use quincunx_engine::Terms;
use quincunx_units::Duration;

use crate::locks::{LockEdge, LockRank};

/// What a collective is, without its buffers.
pub(super) type Kind = (Collective, Reduction, Terms);

/// How often a group has run in the tree, and how often among its hosts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ways {
    /// In the tree.
    pub tree: u64,
    /// Among the hosts: a switch has refused.
    pub hosts: u64,
}

impl core::ops::Add for Ways {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tree: self.tree + other.tree, hosts: self.hosts + other.hosts }
    }
}

/// A collective that waits for the verdict.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Waiting<P> {
    pub(super) what: Kind,
    pub(super) buffers: (P, P),
}

/// How far such a group is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Contended<P: Payload> {
    pub(super) fallback: GroupId,
    pub(super) edge: LockEdge,
    pub(super) again: Duration,
    /// Between a refusal and the next question.
    pub(super) pause: Duration,
    pub(super) rank: Rank,
    pub(super) ranks: u16,
    pub(super) locks: LockRank,
    /// Oldest first; the oldest is asked for.
    pub(super) waiting: VecDeque<Waiting<P>>,
    /// By which way the one runs that runs: the group of that way.
    pub(super) running: Option<GroupId>,
    pub(super) ways: Ways,
}
