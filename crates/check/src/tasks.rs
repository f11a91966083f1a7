//! What the ranks of a group are asked for, and what must come of it: as the collective's reference has it, from payloads that say
//! whose data, and of which packet, is in them.

use quincunx_collective::{Collective, Contributions, Payload, Rank, reference};

use crate::network::{Expected, SUM, Task};

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
}

/// The tasks of all ranks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tasks {
    ranks: u16,
    /// Marks that are used: the ranks, as often as there are packets to tell apart.
    marks: u16,
    by_rank: Vec<Vec<Task>>,
    longest: usize,
}

impl Tasks {
    pub(crate) fn new(setup: TasksSetup) -> Self {
        let pieces: Vec<usize> =
            setup.collectives.iter().map(|collective| setup.pieces(*collective)).collect();
        // Where marks do not suffice for all packets, a rank has one.
        let marks = pieces.iter().sum::<usize>() * usize::from(setup.ranks);
        let marks = u16::try_from(marks).ok().filter(|marks| (1..=Contributions::RANKS).contains(marks));
        let mut by_rank = vec![Vec::new(); usize::from(setup.ranks)];
        let mut first = 0;
        for (&collective, &pieces) in setup.collectives.iter().zip(&pieces) {
            for domain in (0..setup.senders).step_by(usize::from(setup.members)) {
                let ranks = (domain..domain + setup.members).map(Rank);
                let input = |rank| setup.input(collective, rank, pieces, marks.map(|_| first));
                let inputs: Vec<Contributions> = ranks.clone().map(input).collect();
                let expected = reference(collective, SUM, &inputs);
                for ((rank, input), expected) in ranks.zip(inputs).zip(expected) {
                    let expected = Expected::Result(expected);
                    by_rank[rank.index()].push(Task { collective, input, expected });
                }
            }
            first += pieces;
        }
        let lengths = by_rank.iter().flatten().map(|task: &Task| task.input.length());
        let longest = lengths.max().unwrap_or_default();
        Self { ranks: setup.ranks, marks: marks.unwrap_or(setup.ranks), by_rank, longest }
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
    pub(crate) fn renamed(&self, payload: &Contributions, rename: impl Fn(Rank) -> Rank) -> Contributions {
        let ranks = self.ranks;
        payload.renamed(self.marks, |mark| Rank(mark.0 / ranks * ranks + rename(Rank(mark.0 % ranks)).0))
    }
}

impl TasksSetup {
    /// Packets that a rank brings into a collective, if it brings anything.
    fn pieces(&self, collective: Collective) -> usize {
        match collective {
            Collective::Barrier => 0,
            Collective::ReduceScatter => self.packets * usize::from(self.members),
            _ => self.packets,
        }
    }

    /// What a rank brings in: each packet has a mark of its own, from the number `first` on, or all have the rank's.
    fn input(
        &self,
        collective: Collective,
        rank: Rank,
        pieces: usize,
        first: Option<usize>,
    ) -> Contributions {
        let pieces = match collective {
            Collective::Broadcast { root } if root != rank => 0,
            _ => pieces,
        };
        let mut input = Contributions::zeroed(pieces * self.packet);
        for piece in 0..pieces {
            let number = first.map_or(0, |first| first + piece) as u16;
            let packet = Contributions::of_rank(Rank(number * self.ranks + rank.0), self.packet);
            input.write(piece * self.packet, packet.view(0..self.packet));
        }
        input
    }
}
