//! What the ranks of a group are asked for, and what must come of it: as the collective's reference has it, from payloads that say
//! whose data, and which element of it, is in them. No element of a rank is in two
//! collectives, or in two groups.

use quincunx_collective::{
    Collective, Payload, Provenance, Rank, Routes, reference, reference_combine, reference_dispatch,
};

use crate::network::{MTU, SUM, Task};

/// Ranks that a token is for: those of two experts.
const EXPERTS: usize = 2;

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
            if collective.is_routed() {
                first += setup.route(collective, first, &mut by_rank);
                continue;
            }
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
                    by_rank[rank.index()].push(Task { collective, routes: None, input, expected });
                }
            }
            first += length / MTU;
        }
        let lengths = by_rank.iter().flatten().map(|task: &Task| task.input.length());
        let longest = lengths.max().unwrap_or_default();
        Self { ranks: setup.ranks, by_rank, longest }
    }

    /// The same, but for one rank, which is asked for what it is asked for in `other`.
    pub(crate) fn with_dissenter(mut self, rank: Rank, mut other: Self) -> Self {
        self.by_rank[rank.index()] = core::mem::take(&mut other.by_rank[rank.index()]);
        self.longest = self.longest.max(other.longest);
        self
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

    /// Whom the tokens of a rank are for: the ranks of two experts, from the second one on, which one token after the other moves on by a
    /// rank. On a mesh of two domains of two the first token of rank 0 is for both ranks of the other domain. Ranks beyond the senders have
    /// none.
    fn routes(&self, rank: u16) -> Routes {
        let tokens = if rank < self.senders { self.packets } else { 0 };
        let ranks = |token: usize| {
            let experts = (0..EXPERTS).map(|expert| usize::from(rank) + 2 + token + expert);
            let mut ranks: Vec<Rank> =
                experts.map(|rank| Rank((rank % usize::from(self.ranks)) as u16)).collect();
            ranks.sort_unstable();
            ranks.dedup();
            ranks
        };
        (0..tokens).map(ranks).collect()
    }

    /// Adds a Dispatch, and behind it the Combine of the same tokens if that is asked for; returns the elements of a rank that are used
    /// up. What a rank makes of tokens is nobody else's data.
    fn route(&self, collective: Collective, first: usize, by_rank: &mut [Vec<Task>]) -> usize {
        let (slots, token) = (self.packets, self.packet);
        let elements = slots * token / MTU;
        let ranks = || (0..self.ranks).map(Rank);
        let routes = Routes::with_incoming(ranks().map(|rank| self.routes(rank.0)).collect());
        let batch =
            |rank: Rank| Provenance::of_rank(rank, routes[rank.index()].tokens() * token).moved(first);
        let inputs: Vec<Provenance> = ranks().map(batch).collect();
        for rank in ranks() {
            let expected = reference_dispatch(&routes, &inputs, rank, slots, token);
            by_rank[rank.index()].push(Task {
                collective: Collective::Dispatch,
                routes: Some(routes[rank.index()].clone()),
                input: inputs[rank.index()].clone(),
                expected,
            });
        }
        if collective == Collective::Dispatch {
            return elements;
        }
        let length = usize::from(self.ranks) * slots * token;
        let places: Vec<Provenance> =
            ranks().map(|rank| Provenance::of_rank(rank, length).moved(first + elements)).collect();
        for rank in ranks() {
            let expected = reference_combine(&routes[rank.index()], &places, rank, slots, token, SUM);
            by_rank[rank.index()].push(Task {
                collective,
                routes: None,
                input: places[rank.index()].clone(),
                expected,
            });
        }
        elements + length / MTU
    }

    /// Bytes that a rank brings into a collective, if it brings anything.
    fn length(&self, collective: Collective) -> usize {
        let pieces = match collective {
            Collective::Barrier => 0,
            Collective::ReduceScatter => self.packets * usize::from(self.members),
            // The batch, and what ranks make of the tokens of all.
            Collective::Combine => self.packets * (1 + usize::from(self.ranks)),
            _ => self.packets,
        };
        pieces * self.packet
    }
}
