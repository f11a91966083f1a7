//! LookupTable, second half: which collective a packet belongs to, and by that its direction, its fan-in and its outs
//! (EPIC 3.3.2, 4.3; the invocation states of algorithm 1).
//!
//! All edges of a group share one numbering. A collective occupies the numbers `first..=last`, its control message the
//! first of them; the next collective follows without a gap (group PSN synchronisation). A rank is in one collective at a
//! time, but ranks need not be in the same one, so a node knows several.

use alloc::collections::VecDeque;
use quincunx_collective::Rank;
use quincunx_wire::Operation;

use crate::config::GroupConfig;
use crate::control::{ControlMessage, Pattern};
use crate::inc_engine::DropReason;

/// A set of edges, one bit each; [`LOCAL`] is the node itself.
pub(crate) type EdgeSet = u64;

/// The node itself as a source: the tree's root hands its own aggregate to its own broadcast (EPIC H.4).
pub(crate) const LOCAL: EdgeSet = 1 << 63;

/// The set with one edge.
pub(crate) const fn edge_bit(edge: usize) -> EdgeSet {
    1 << edge
}

/// The edges of a set, in order, without [`LOCAL`].
pub(crate) fn edges_of(set: EdgeSet) -> impl Iterator<Item = usize> {
    let mut rest = set & !LOCAL;
    core::iter::from_fn(move || {
        let edge = rest.trailing_zeros() as usize;
        rest &= rest.wrapping_sub(1);
        (edge < 63).then_some(edge)
    })
}

/// A collective that this node knows of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Invocation {
    /// Number of its control message.
    pub(crate) first: u64,
    /// Number of its last packet.
    pub(crate) last: u64,
    /// Number of its control message when only collectives that aggregate are counted.
    pub(crate) slot_first: u64,
    /// What it does.
    pub(crate) message: ControlMessage,
}

impl Invocation {
    /// Number of packet `sequence` when only collectives that aggregate are counted.
    pub(crate) fn slot_of(&self, sequence: u64) -> u64 {
        debug_assert!((self.first..=self.last).contains(&sequence));
        self.slot_first + (sequence - self.first)
    }
}

/// What a flow through the node does: where its packets come from and where they go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Route {
    /// Edges that must all deliver a packet before it goes on: the fan-in.
    pub(crate) sources: EdgeSet,
    /// Edges that it goes to.
    pub(crate) outs: EdgeSet,
}

/// The node's place in the IncTree.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TreePlace {
    all: EdgeSet,
    parent: EdgeSet,
    toward: alloc::vec::Vec<EdgeSet>,
}

impl TreePlace {
    pub(crate) fn new(config: &GroupConfig) -> Self {
        Self {
            all: (1 << config.edges.len()) - 1,
            parent: config.parent.map_or(0, edge_bit),
            toward: config.toward.iter().map(|&edge| edge_bit(edge)).collect(),
        }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.parent == 0
    }

    pub(crate) fn toward(&self, rank: Rank) -> EdgeSet {
        self.toward[usize::from(rank.0)]
    }

    /// The aggregating flow of a pattern, if it has one here. The tree's root hands an AllReduce to itself.
    pub(crate) fn aggregation(&self, pattern: Pattern) -> Option<Route> {
        match pattern {
            Pattern::AllReduce => Some(Route {
                sources: self.all & !self.parent,
                outs: if self.is_root() { LOCAL } else { self.parent },
            }),
            Pattern::Reduce { root } => {
                let out = self.toward(root);
                Some(Route { sources: self.all & !out, outs: out })
            }
            Pattern::Broadcast { .. } => None,
        }
    }

    /// The replicating flow of a pattern, if it has one here.
    pub(crate) fn replication(&self, pattern: Pattern) -> Option<Route> {
        match pattern {
            Pattern::AllReduce => Some(Route {
                sources: if self.is_root() { LOCAL } else { self.parent },
                outs: self.all & !self.parent,
            }),
            Pattern::Reduce { .. } => None,
            Pattern::Broadcast { root } => {
                let source = self.toward(root);
                Some(Route { sources: source, outs: self.all & !source })
            }
        }
    }
}

/// The collectives that this node knows of, oldest first, without gaps between them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct InvocationTable {
    entries: VecDeque<Invocation>,
    capacity: usize,
    next: u64,
    next_slot: u64,
    ranks: u16,
}

impl InvocationTable {
    /// A table that keeps `capacity` collectives; the first will begin at `first`.
    pub(crate) fn new(first: u64, capacity: usize, ranks: u16) -> Self {
        Self { entries: VecDeque::with_capacity(capacity), capacity, next: first, next_slot: first, ranks }
    }

    /// Where the next collective will begin.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Where the oldest known collective begins.
    pub(crate) fn oldest(&self) -> u64 {
        self.entries.front().map_or(self.next, |invocation| invocation.first)
    }

    /// Takes in the next collective; the oldest is forgotten when the table is full.
    pub(crate) fn register(&mut self, message: ControlMessage) {
        if self.is_full() {
            self.entries.pop_front();
        }
        let packets = 1 + u64::from(message.data_packets);
        let invocation = Invocation {
            first: self.next,
            last: self.next + packets - 1,
            slot_first: self.next_slot,
            message,
        };
        self.entries.push_back(invocation);
        self.next += packets;
        if !matches!(message.pattern, Pattern::Broadcast { .. }) {
            self.next_slot += packets;
        }
    }

    /// The collective that packet `sequence` belongs to.
    pub(crate) fn find(&self, sequence: u64) -> Option<&Invocation> {
        if sequence >= self.next {
            return None;
        }
        // Nearly always the newest or the one before it.
        self.entries.iter().rev().find(|invocation| invocation.first <= sequence)
    }

    /// Finds the collective of a data packet, and takes it in when this is its control message. `allowed` says whether
    /// packets of a collective may come from where this one does; nothing before `needed` is asked for again.
    pub(crate) fn admit(
        &mut self,
        sequence: u64,
        operation: Operation,
        length: usize,
        mtu: usize,
        needed: Option<u64>,
        allowed: impl FnOnce(&ControlMessage) -> bool,
    ) -> Result<Invocation, DropReason> {
        let control = match operation {
            Operation::SendOnlyImmediate(immediate) => {
                Some(ControlMessage::decode(immediate).ok_or(DropReason::Malformed)?)
            }
            _ => None,
        };
        if let Some(message) = control.filter(|_| sequence == self.next) {
            if self.is_full()
                && needed
                    .is_some_and(|needed| self.entries.front().is_some_and(|oldest| oldest.last >= needed))
            {
                return Err(DropReason::TableFull);
            }
            match message.pattern {
                Pattern::Reduce { root } | Pattern::Broadcast { root } if root.0 >= self.ranks => {
                    return Err(DropReason::Malformed);
                }
                _ if length != 0 => return Err(DropReason::Malformed),
                _ if !allowed(&message) => return Err(DropReason::WrongDirection),
                _ => self.register(message),
            }
        }
        let invocation = *self.find(sequence).ok_or(DropReason::NoCollective)?;
        let expected = (sequence == invocation.first).then_some(invocation.message);
        if control != expected || length > mtu || (control.is_some() && length != 0) {
            return Err(DropReason::Malformed);
        }
        Ok(invocation)
    }

    /// Whether taking in another collective means to forget the oldest.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == self.capacity
    }

    /// How many collectives are known.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The known collective with this index; 0 is the oldest.
    pub(crate) fn get(&self, index: usize) -> &Invocation {
        &self.entries[index]
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.entries.len() <= self.capacity);
        let mut next = None;
        for invocation in &self.entries {
            assert!(next.is_none_or(|next| next == invocation.first), "collectives follow without a gap");
            assert!(invocation.first <= invocation.last);
            next = Some(invocation.last + 1);
        }
        assert!(next.is_none_or(|next| next == self.next));
    }
}
