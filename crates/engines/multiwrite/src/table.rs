//! Who is who, and where to send what is for whom: the table of ranks, and the one for ordinary writes (MultiWrite 4.1, "Local
//! forwarding table").

use alloc::vec::Vec;
use quincunx_collective::Rank;
use quincunx_engine::verbs::QpIndex;
use quincunx_wire::multiwrite::{Destinations, MAX_RANKS};

/// A node's table. It stays as it is: nothing is added for a write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table {
    rank: Rank,
    ranks: u16,
    neighbours: Vec<Rank>,
    routes: Vec<Vec<QpIndex>>,
}

/// Why a table is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// A group that no bitmap holds.
    #[error("expected 2 to {MAX_RANKS} ranks, found {found}; split the group")]
    Ranks {
        /// As given.
        found: u16,
    },
    /// A rank that is not in the group.
    #[error("expected ranks below {ranks}, found {found}; number them as the group does")]
    OutOfTable {
        /// Ranks in the group.
        ranks: u16,
        /// As given.
        found: u16,
    },
    /// A rank without a line.
    #[error(
        "expected routes to {ranks} ranks, found {found}; give each rank a line, an empty one to the node itself"
    )]
    Lines {
        /// Ranks in the group.
        ranks: u16,
        /// As given.
        found: usize,
    },
    /// A route over a queue pair that the node does not have.
    #[error(
        "expected a queue pair below {queue_pairs} on the way to rank {to}, found {found}; name one of the node's"
    )]
    NoQueuePair {
        /// Whom it leads to.
        to: u16,
        /// The node's queue pairs.
        queue_pairs: usize,
        /// As given.
        found: u16,
    },
}

impl Table {
    /// The table of node `rank` in a group of `ranks`. `neighbours` are the ranks at the other ends of its queue pairs; `routes` has
    /// for each rank the queue pairs that lead there, the usual way first.
    ///
    /// # Errors
    /// If a rank or a queue pair does not exist, or a rank has no line.
    pub fn new(
        rank: Rank,
        ranks: u16,
        neighbours: Vec<Rank>,
        routes: Vec<Vec<QpIndex>>,
    ) -> Result<Self, TableError> {
        if !(2..=MAX_RANKS).contains(&ranks) {
            return Err(TableError::Ranks { found: ranks });
        }
        if let Some(found) = neighbours.iter().chain([&rank]).find(|rank| rank.0 >= ranks) {
            return Err(TableError::OutOfTable { ranks, found: found.0 });
        }
        if routes.len() != usize::from(ranks) {
            return Err(TableError::Lines { ranks, found: routes.len() });
        }
        let queue_pairs = neighbours.len();
        for (to, ways) in routes.iter().enumerate() {
            if let Some(found) = ways.iter().find(|qp| usize::from(qp.0) >= queue_pairs) {
                return Err(TableError::NoQueuePair { to: to as u16, queue_pairs, found: found.0 });
            }
        }
        Ok(Self { rank, ranks, neighbours, routes })
    }

    /// This node.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Ranks in the group.
    pub fn ranks(&self) -> u16 {
        self.ranks
    }

    /// The node's queue pairs.
    pub fn queue_pairs(&self) -> impl Iterator<Item = QpIndex> + use<> {
        (0..self.neighbours.len() as u16).map(QpIndex)
    }

    /// Who is at the other end of a queue pair.
    pub fn neighbour(&self, qp: QpIndex) -> Rank {
        self.neighbours[usize::from(qp.0)]
    }

    /// The queue pair to a neighbour; `None` to anybody else.
    pub fn queue_pair(&self, rank: Rank) -> Option<QpIndex> {
        let found = self.neighbours.iter().position(|neighbour| *neighbour == rank);
        found.map(|index| QpIndex(index as u16))
    }

    /// The next hop to `rank` by its way number `way`, or its last one if it has fewer.
    pub fn next_hop(&self, rank: u16, way: usize) -> Option<QpIndex> {
        let ways = self.routes.get(usize::from(rank))?;
        ways.get(way).or(ways.last()).copied()
    }

    /// The destinations by next hop, in the order of the queue pairs: the union of their ports, with who is behind each (4.1). A destination
    /// without a way there is in none.
    pub fn parts(&self, destinations: Destinations, way: usize) -> Vec<(QpIndex, Destinations)> {
        let mut parts: Vec<(QpIndex, Destinations)> = Vec::new();
        for rank in destinations.iter() {
            let Some(qp) = self.next_hop(rank, way) else { continue };
            match parts.iter_mut().find(|(known, _)| *known == qp) {
                Some((_, part)) => part.insert(rank),
                None => parts.push((qp, Destinations::one(rank))),
            }
        }
        parts.sort_unstable_by_key(|(qp, _)| *qp);
        parts
    }
}
