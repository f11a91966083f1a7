//! LookupTable, second half: which collective a packet belongs to, and by that its direction, its fan-in and its outs
//! (EPIC 3.3.2, 4.3; the invocation states of algorithm 1).
//!
//! All edges of a group share one numbering. A collective occupies the numbers `first..=last`, its control message the
//! first of them; the next collective follows without a gap (group PSN synchronisation). Ranks are in several at once, and not
//! all in the same ones, so a node knows several. A rank that sends nothing in a collective is ahead of those who do: a node may
//! hear of a collective before it hears of one before it, and then knows of a hole.

use alloc::collections::VecDeque;
use quincunx_collective::Rank;
use quincunx_wire::Operation;

use crate::config::GroupConfig;
use crate::control::{ControlMessage, Pattern};
use crate::drops::DropReason;
use crate::mutation::Mutation;

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
    /// What it does.
    pub(crate) message: ControlMessage,
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

/// Collectives for which a table has room from the start.
const RESERVED: usize = 1024;

/// The collectives that this node knows of, oldest first, each with what the realisation keeps of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct InvocationTable<T = ()> {
    entries: VecDeque<(Invocation, T)>,
    capacity: usize,
    /// Everything before this number has been forgotten.
    base: u64,
    ranks: u16,
    /// Control messages of one collective must be equal: a rule that can be broken.
    compares: bool,
}

/// What [`InvocationTable::admit`] has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Admitted {
    /// The collective of the packet.
    pub(crate) invocation: Invocation,
    /// It was not known before.
    pub(crate) is_new: bool,
}

impl<T: Copy> InvocationTable<T> {
    /// A table that keeps `capacity` collectives; the first will begin at `first`.
    pub(crate) fn new(first: u64, capacity: usize, ranks: u16) -> Self {
        // Room at once, so that no packet waits for memory later.
        let entries = VecDeque::with_capacity(capacity.min(RESERVED));
        Self { entries, capacity, base: first, ranks, compares: true }
    }

    /// The same, of a node that breaks a rule.
    pub(crate) fn breaking(self, mutation: Option<Mutation>) -> Self {
        Self { compares: mutation != Some(Mutation::AddsWhateverComes), ..self }
    }

    /// Where the collective behind all that are known begins.
    pub(crate) fn next(&self) -> u64 {
        self.entries.back().map_or(self.base, |(invocation, _)| invocation.last + 1)
    }

    /// Everything before this number has been forgotten.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Takes in the collective behind all that are known; the oldest is forgotten when the table is full.
    pub(crate) fn register(&mut self, message: ControlMessage, state: impl FnOnce(&Invocation) -> T) {
        let place = self.entries.len();
        self.insert(place, self.next(), message, state);
    }

    fn insert(
        &mut self,
        mut place: usize,
        first: u64,
        message: ControlMessage,
        state: impl FnOnce(&Invocation) -> T,
    ) {
        if self.is_full()
            && let Some((oldest, _)) = self.entries.pop_front()
        {
            self.base = oldest.last + 1;
            place -= 1;
        }
        let invocation = Invocation { first, last: first + u64::from(message.data_packets), message };
        self.entries.insert(place, (invocation, state(&invocation)));
    }

    /// How many known collectives begin before `sequence` or with it.
    fn begun(&self, sequence: u64) -> usize {
        // Nearly always the newest or the one before it.
        let newer = self.entries.iter().rev().take(2).take_while(|(known, _)| known.first > sequence).count();
        match newer {
            2 => self.entries.partition_point(|(known, _)| known.first <= sequence),
            newer => self.entries.len() - newer,
        }
    }

    /// The index of the collective that packet `sequence` belongs to.
    pub(crate) fn index(&self, sequence: u64) -> Option<usize> {
        let index = self.begun(sequence).checked_sub(1)?;
        (sequence <= self.entries[index].0.last).then_some(index)
    }

    /// The collective that packet `sequence` belongs to.
    pub(crate) fn find(&self, sequence: u64) -> Option<&Invocation> {
        self.index(sequence).map(|index| self.get(index))
    }

    /// The index of the first known collective that ends with `sequence` or after it.
    pub(crate) fn first_from(&self, sequence: u64) -> usize {
        self.index(sequence).unwrap_or_else(|| self.begun(sequence))
    }

    /// Finds the collective of a data packet, and takes it in when this is its control message, which must be the next behind all
    /// that are known or lie before `horizon`. `allowed` says whether packets of a collective may come from where this one does;
    /// nothing before `needed` is asked for again.
    #[expect(clippy::too_many_arguments, reason = "a packet, and what decides on it")]
    pub(crate) fn admit(
        &mut self,
        sequence: u64,
        operation: Operation,
        length: usize,
        mtu: usize,
        (needed, horizon): (Option<u64>, u64),
        allowed: impl FnOnce(&ControlMessage) -> bool,
        state: impl FnOnce(&Invocation) -> T,
    ) -> Result<Admitted, DropReason> {
        let control = match operation {
            Operation::SendOnlyImmediate(immediate) => {
                Some(ControlMessage::decode(immediate).ok_or(DropReason::Malformed)?)
            }
            _ => None,
        };
        let found = self.index(sequence);
        let fits = sequence >= self.base && (sequence < horizon || sequence == self.next());
        let is_new = found.is_none() && fits && control.is_some();
        if let Some(message) = control.filter(|_| is_new) {
            let place = self.begun(sequence);
            let last = sequence + u64::from(message.data_packets);
            if self.is_full() && (place == 0 || needed.is_some_and(|needed| self.entries[0].0.last >= needed))
            {
                return Err(DropReason::TableFull);
            }
            match message.pattern {
                Pattern::Reduce { root } | Pattern::Broadcast { root } if root.0 >= self.ranks => {
                    return Err(DropReason::Malformed);
                }
                _ if !message.may_carry(length, mtu) => return Err(DropReason::Malformed),
                _ if self.entries.get(place).is_some_and(|(next, _)| next.first <= last) => {
                    return Err(DropReason::Malformed);
                }
                _ if !allowed(&message) => return Err(DropReason::WrongDirection),
                _ => self.insert(place, sequence, message, state),
            }
        }
        let invocation = *self.find(sequence).ok_or(DropReason::NoCollective)?;
        let expected = (sequence == invocation.first).then_some(invocation.message);
        if self.compares && control.is_some() && expected.is_some() && control != expected {
            return Err(DropReason::Disagreement);
        }
        // Only the control message may have no data: kernels send empty packets where they go back wrong.
        if control.is_some() != expected.is_some()
            || !invocation.message.may_carry(length, mtu)
            || control.is_none() && length == 0
        {
            return Err(DropReason::Malformed);
        }
        Ok(Admitted { invocation, is_new })
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
        &self.entries[index].0
    }

    /// What is kept of the known collective with this index.
    pub(crate) fn state(&self, index: usize) -> &T {
        &self.entries[index].1
    }

    /// What is kept of the known collective with this index.
    pub(crate) fn state_mut(&mut self, index: usize) -> &mut T {
        &mut self.entries[index].1
    }

    pub(crate) fn assert_invariants(&self) {
        assert!(self.entries.len() <= self.capacity);
        let mut next = self.base;
        for (invocation, _) in &self.entries {
            assert!(next <= invocation.first, "collectives do not overlap");
            assert!(invocation.first <= invocation.last);
            next = invocation.last + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InvocationTable;
    use crate::control::{Agreement, ControlMessage, Pattern};
    use quincunx_collective::{DataType, ReduceOp, Reduction};

    #[test]
    fn a_table_keeps_as_many_collectives_as_it_has_room_for_and_then_forgets_the_oldest() {
        let message = ControlMessage {
            pattern: Pattern::AllReduce,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            data_packets: 1,
            agreement: Agreement::Detail(0),
        };
        let mut table: InvocationTable = InvocationTable::new(7, 3, 2);
        for known in 0..3 {
            assert_eq!((table.len(), table.is_full(), table.base()), (known, false, 7));
            table.register(message, |_| ());
        }
        assert_eq!((table.len(), table.is_full(), table.base()), (3, true, 7));
        table.register(message, |_| ());
        assert_eq!((table.len(), table.base(), table.next()), (3, 9, 15));
    }
}
