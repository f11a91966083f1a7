//! What survives the managers. It stands for the stores of `control/grpc/src/store`: a file that is locked as long as its manager lives, or etcd,
//! where a change is taken as long as the lease of whoever makes it runs.

use crate::plan::StoreKind;
use quincunx_collective::GroupId;
use quincunx_control::{Change, GroupRecord};
use quincunx_units::{Duration, Instant};
use std::collections::BTreeMap;

/// How long a lease runs, and how often it is renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// How long a manager waits for the store when it opens it.
pub(crate) const OPENING: Duration = Duration::from_secs(5);

/// What a manager asks of it.
#[derive(Clone, Debug)]
pub(crate) enum StoreRequest {
    /// The lease, and what is kept.
    Take,
    /// That a change is kept, if the lease is this one still.
    Keep { term: u64, change: Change },
    /// A longer lease.
    Renew { term: u64, sent: Instant },
    /// The end of the lease.
    GiveBack { term: u64 },
}

/// What it hears.
#[derive(Clone, Debug)]
pub(crate) enum StoreReply {
    /// The lease, if it was free.
    Taken(Option<(u64, u32, Vec<GroupRecord>)>),
    /// Whether the change is kept; otherwise why not.
    Kept(Result<(), &'static str>),
    /// Whether the lease runs, from when the question was sent.
    Renewed(Option<Instant>),
    /// Nobody has answered in time.
    Silent,
}

/// The store.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    kind: StoreKind,
    term: u64,
    /// Which manager has the lease, and until when if it is one.
    holder: Option<(usize, Instant)>,
    numbers: u32,
    records: BTreeMap<GroupId, GroupRecord>,
    /// Takes changes of anybody: a rule that is broken on purpose.
    pub(crate) keeps_for_anybody: bool,
}

impl Store {
    /// A store in which groups are numbered from there on.
    pub(crate) fn new(kind: StoreKind, numbers: u32) -> Self {
        Self { kind, term: 0, holder: None, numbers, records: BTreeMap::new(), keeps_for_anybody: false }
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &GroupRecord> {
        self.records.values()
    }

    /// The process of a manager is gone: the kernel gives its lock back, and nobody its lease.
    pub(crate) fn lose(&mut self, manager: usize) {
        if self.kind == StoreKind::File && self.holder.is_some_and(|(holder, _)| holder == manager) {
            self.holder = None;
        }
    }

    /// Answers manager number `manager`; a store that is `full` takes no change.
    pub(crate) fn answer(
        &mut self,
        now: Instant,
        manager: usize,
        request: &StoreRequest,
        full: bool,
    ) -> StoreReply {
        if self.kind == StoreKind::Lease && self.holder.is_some_and(|(_, until)| now >= until) {
            self.holder = None;
        }
        match request {
            StoreRequest::Take => {
                let is_free = self.holder.is_none();
                if is_free {
                    self.term += 1;
                    self.holder = Some((manager, now + LEASE));
                }
                let stored = || (self.term, self.numbers, self.records.values().cloned().collect());
                StoreReply::Taken(is_free.then(stored))
            }
            StoreRequest::Renew { term, sent } => {
                let is_own = *term == self.term && self.holder.is_some();
                if is_own {
                    self.holder = Some((manager, now + LEASE));
                }
                StoreReply::Renewed(is_own.then_some(*sent))
            }
            StoreRequest::GiveBack { term } => {
                if *term == self.term {
                    self.holder = None;
                }
                StoreReply::Renewed(None)
            }
            StoreRequest::Keep { term, .. }
                if (*term != self.term || self.holder.is_none()) && !self.keeps_for_anybody =>
            {
                StoreReply::Kept(Err("the lease is over"))
            }
            StoreRequest::Keep { .. } if full => StoreReply::Kept(Err("no space left")),
            StoreRequest::Keep { change, .. } => {
                match change.clone() {
                    Change::Numbers(numbers) => self.numbers = numbers,
                    Change::Put(record) => _ = self.records.insert(record.group, *record),
                    Change::Remove(group) => _ = self.records.remove(&group),
                }
                StoreReply::Kept(Ok(()))
            }
        }
    }
}
