//! What the ranks of a group are asked for, and what must come of it: as the collective's reference has it, from payloads that say
//! whose data, and which element of it, is in them. No element of a rank is in two
//! collectives, or in two groups.

use quincunx_collective::{Collective, Payload, Provenance, Rank, reference};

use crate::network::{Expected, MTU, SUM, Task};

/// What the ranks of a group do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TasksSetup {
    /// One after the other.
    pub(crate) collectives: Vec<Collective>,
    pub(crate) ranks: u16,
    /// Ranks of a domain: those that work together.
    pub(crate) members: u16,
    /// The first so many ranks, in whole domains.
    pub(crate) senders: u16,
    /// Packets of data in each collective.
    pub(crate) packets: usize,
    /// Bytes of a packet.
    pub(crate) packet: usize,
    /// Elements of each rank that other groups have.
    pub(crate) others: usize,
}

/// The tasks of all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tasks {
    ranks: u16,
    by_rank: Vec<Vec<Task>>,
    longest: usize,
}

impl Tasks {
    pub(crate) fn new(setup: TasksSetup) -> Self {
        let mut by_rank = vec![Vec::new(); usize::from(setup.ranks)];
        let mut first = setup.others;
        for &collective in &setup.collectives {
            let length = setup.length(collective);
            for domain in (0..setup.senders).step_by(usize::from(setup.members)) {
                let ranks = (domain..domain + setup.members).map(Rank);
                let input = |rank| match collective {
                    Collective::Broadcast { root } if root != rank => Provenance::zeroed(0),
                    _ => Provenance::of_rank(rank, length).moved(first),
                };
                let inputs: Vec<Provenance> = ranks.clone().map(input).collect();
                let expected = reference(collective, SUM, &inputs);
                for ((rank, input), expected) in ranks.zip(inputs).zip(expected) {
                    let expected = Expected::Result(expected);
                    by_rank[rank.index()].push(Task { collective, input, expected });
                }
            }
            first += length / MTU;
        }
        let lengths = by_rank.iter().flatten().map(|task: &Task| task.input.length());
        let longest = lengths.max().unwrap_or_default();
        Self { ranks: setup.ranks, by_rank, longest }
    }

    /// What a rank is asked for, in order; nothing if it only relays.
    pub(crate) fn of(&self, rank: Rank) -> &[Task] {
        &self.by_rank[rank.index()]
    }

    /// Bytes of the longest input.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// A payload where ranks are renamed.
    pub(crate) fn renamed(&self, payload: &Provenance, rename: impl Fn(Rank) -> Rank) -> Provenance {
        payload.renamed(self.ranks, rename)
    }
}

impl TasksSetup {
    /// Elements that a rank brings into all collectives.
    pub(crate) fn elements(&self) -> usize {
        self.collectives.iter().map(|collective| self.length(*collective) / MTU).sum()
    }

    /// Bytes that a rank brings into a collective, if it brings anything.
    fn length(&self, collective: Collective) -> usize {
        let pieces = match collective {
            Collective::Barrier => 0,
            Collective::ReduceScatter => self.packets * usize::from(self.members),
            _ => self.packets,
        };
        pieces * self.packet
    }
}
