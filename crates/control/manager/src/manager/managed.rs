//! A group as its manager has it.

use super::action::RequestId;
use super::nodes::Taken;
use crate::sequence::Progress;
use crate::shared::Measured;
use crate::{Fallback, GroupFailure, GroupRequest, RecreatedGroup};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_units::{Duration, Instant};

/// Where a group stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum State {
    /// Who has asked for it; nobody: it is made anew.
    Installing {
        requests: Vec<RequestId>,
        waiting: BTreeSet<String>,
    },
    Ready,
    /// Its nodes forget it, and its ranks have told how far they have come: it is to be made anew; among hosts, if nobody knows what was at
    /// fault. Its tree led over these links.
    Suspending {
        failure: GroupFailure,
        among_hosts: bool,
        links: Vec<[String; 2]>,
        told: BTreeMap<String, Progress>,
    },
    Failed(GroupFailure),
}

/// A group that is over, and whose nodes have not all said that they have forgotten it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Ending {
    pub(super) waiting: BTreeSet<String>,
    /// Who waits for that.
    pub(super) requests: Vec<RequestId>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ManagedGroup {
    pub(super) request: GroupRequest,
    pub(super) design: String,
    pub(super) fallback: Option<Fallback>,
    pub(super) state: State,
    /// All of them, until it is over.
    pub(super) nodes: BTreeSet<String>,
    /// Members whose ranks are done with it.
    pub(super) released: BTreeSet<String>,
    /// Nodes that are lost and may come back, with what the group holds there.
    pub(super) away: BTreeMap<String, Taken>,
    /// What it has lost, while members are away without whom it cannot be made anew; and whether it is to run among hosts then.
    pub(super) lost: Option<(GroupFailure, bool)>,
    /// From the root down.
    pub(super) switches: Vec<String>,
    /// Links that its tree leads over, by the names of both ends.
    pub(super) links: Vec<[String; 2]>,
    pub(super) conflicts: u32,
    /// Until when, if nobody renews it.
    pub(super) lease: Option<Instant>,
    /// What it goes on from, if it was made anew.
    pub(super) recreated: Option<RecreatedGroup>,
    /// If it locks its memory: what switches have told of that.
    pub(super) uses: Option<BTreeMap<String, Measured>>,
}

impl ManagedGroup {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }

    pub(super) fn installs(&self) -> bool {
        matches!(self.state, State::Installing { .. })
    }

    pub(super) fn is_suspended(&self) -> bool {
        matches!(self.state, State::Suspending { .. })
    }

    pub(super) fn holds_something(&self) -> bool {
        !self.nodes.is_empty()
    }

    pub(super) fn lease_left(&self, now: Instant) -> Option<Duration> {
        self.lease.map(|until| if until > now { until.since(now) } else { Duration::ZERO })
    }
}
