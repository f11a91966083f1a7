//! What is kept, and where two managers share it: whoever holds the lease may change it, and nobody else. In the running system etcd is that,
//! with a transaction for each change that compares who has the lease.

use super::message::{ControlDrop, Message};
use super::sink::{ControlSink, say};
use crate::mutation::Mutation;
use crate::{Change, GroupRecord};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_engine::PortId;

/// Group numbers that are given away, and the groups that are ready.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct StoredState {
    pub(super) numbers: u32,
    pub(super) records: BTreeMap<GroupId, GroupRecord>,
}

impl StoredState {
    pub(super) const fn new() -> Self {
        Self { numbers: 1, records: BTreeMap::new() }
    }

    pub(super) fn change(&mut self, change: Change) {
        match change {
            Change::Numbers(numbers) => self.numbers = numbers,
            Change::Put(record) => _ = self.records.insert(record.group, *record),
            Change::Remove(group) => _ = self.records.remove(&group),
        }
    }

    pub(super) fn all(&self) -> (u32, Vec<GroupRecord>) {
        (self.numbers, self.records.values().cloned().collect())
    }
}

/// The store of two managers, the first of which has the lease: the first by port 0, the other by port 1. The lease is
/// over as soon as the other wants it: time may pass at any moment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StoreNode {
    /// The how-manieth lease it is.
    term: u32,
    stored: StoredState,
    mutation: Option<Mutation>,
}

impl StoreNode {
    pub(super) const fn new(mutation: Option<Mutation>) -> Self {
        Self { term: 1, stored: StoredState::new(), mutation }
    }

    pub(super) fn hear(&mut self, port: PortId, message: &Message, out: &mut impl ControlSink) {
        match message {
            Message::Keep { term, change } => {
                let is_kept = *term == self.term || self.mutation == Some(Mutation::KeepsForAnybody);
                if is_kept {
                    self.stored.change(change.clone());
                }
                say(port, Message::KeepReply { is_kept }, out);
            }
            Message::Take => self.expire(port, out),
            _ => out.drop_frame(port, ControlDrop::ProtocolViolation),
        }
    }

    /// The lease is over, and this one has the next: his changes alone are taken from here on.
    fn expire(&mut self, port: PortId, out: &mut impl ControlSink) {
        self.term += 1;
        let (numbers, records) = self.stored.all();
        say(port, Message::Lease { term: self.term, numbers, records }, out);
    }

    pub(super) fn assert_invariants(&self) {
        let keys: Vec<_> = self.stored.records.values().filter_map(|record| record.request.key).collect();
        let distinct: BTreeSet<_> = keys.iter().collect();
        assert_eq!(keys.len(), distinct.len(), "two groups are kept for one request");
    }
}
