//! What a rank's program is set up with, and which peers each algorithm needs.

use crate::{Pace, TwoTrees, halving_doubling, tree};
use alloc::vec::Vec;
use core::fmt;
use core::mem::discriminant;
use quincunx_collective::{Collective, Rank};
use quincunx_engine::verbs::QpIndex;
use quincunx_units::ByteCount;

/// Pieces this long amortise a message's cost and still leave enough of them to overlap.
pub const DEFAULT_CHUNK: ByteCount = ByteCount::new(64 * 1024);

/// With the default chunk 1 MiB on its way to a peer: more than a fast link holds.
pub const DEFAULT_WINDOW: u16 = 16;

/// Pieces that go up and down two trees are short, so that the way is little beside them: as much on its way as elsewhere is more of them.
const SHORTER: u16 = 4;

/// How hosts compute a collective between them.
///
/// | algorithm | peers a rank | order in which an element is combined |
/// |---|---|---|
/// | ring | 2 | Reduce: root + 1, root + 2, ... root. AllReduce, ReduceScatter: the same with the rank of the part as root |
/// | tree | at most 3 | own, then the children by rank, each with its own subtree combined so; AllReduce: root 0 |
/// | double tree | at most 4 | the same in the tree of each half |
/// | halving-doubling | at most log2(ranks) + 1 | of pairs, pairs of pairs and so on |
/// | direct | all | rank order |
///
/// Each order depends only on ranks and lengths, so that results are reproducible.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// AllReduce as reduce-scatter and all-gather around a ring: every link carries 2(n-1)/n of the vector, which is
    /// the least that hosts alone can do. The others as pipelined chains. A Barrier takes 2(n-1) hops.
    Ring,
    /// A binary tree of all ranks, in which a collective runs towards or away from its root: few hops, for short
    /// vectors; the busiest link carries a vector twice.
    Tree,
    /// Two binary trees, each for half of the vector: an AllReduce in few hops in which no link carries a vector more than twice each way. Other
    /// primitives than that and a Barrier it has none.
    DoubleTree,
    /// An AllReduce in log2(ranks) exchanges of the whole vector if that is short; otherwise in twice as many, by halves, quarters and so on.
    /// Other primitives than that and a Barrier it has none.
    HalvingDoubling,
    /// Everybody with everybody: one hop (AllReduce two), for short vectors in small groups.
    Direct,
}

/// A rank's place in its group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// How.
    pub algorithm: Algorithm,
    /// Who we are.
    pub rank: Rank,
    /// The queue pair to each rank, in rank order; what stands at our own place, and at ranks that the algorithm
    /// does not reach directly, is not looked at. The length is the size of the group.
    pub peers: Vec<Option<QpIndex>>,
    /// A double tree's: where the rank is in both. None: as of ranks at one switch.
    pub trees: Option<TwoTrees>,
    /// The longest message: a multiple of 4 bytes, the same at every rank.
    pub chunk: ByteCount,
    /// Messages that may be on their way to a peer or wait in its slots: at least 2, the same at every rank.
    pub window: u16,
    /// When pieces go out; the same at every rank.
    pub pace: Pace,
    /// A Broadcast, a Reduce and what has no bytes end when all ranks have confirmed that they ask for the same; otherwise when this rank has
    /// sent and received all. The same at every rank.
    pub confirm: bool,
    /// Of direct: a Barrier goes to rank 0 and back from there, not from each to each. The same at every rank.
    pub barrier_at_root: bool,
}

/// Why a set-up is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The rank is not in the group.
    #[error("expected a rank below {ranks}, the number of peers, found {found}; list one entry a rank")]
    NoSuchRank {
        /// Ranks in the group.
        ranks: usize,
        /// The rank as given.
        found: Rank,
    },
    /// The algorithm needs a peer to which there is no queue pair.
    #[error(
        "expected a queue pair to rank {peer}, which the {algorithm} of rank {rank} needs, found none; connect it"
    )]
    NoQueuePair {
        /// How.
        algorithm: Algorithm,
        /// Who we are.
        rank: Rank,
        /// Who cannot be reached.
        peer: Rank,
    },
    /// Two peers on one queue pair.
    #[error("expected a queue pair for each peer, found queue pair {} for rank {peer} and another; connect them apart", qp.0)]
    SharedQueuePair {
        /// The second of the peers.
        peer: Rank,
        /// The queue pair.
        qp: QpIndex,
    },
    /// A chunk that cuts elements, or none.
    #[error("expected a chunk of a positive multiple of 4 bytes, found {found}; elements must stay whole")]
    Chunk {
        /// Bytes as given.
        found: u64,
    },
    /// Too few messages in flight.
    #[error(
        "expected a window of at least 2 messages, found {found}; a ring with fewer would wait for itself"
    )]
    Window {
        /// Messages as given.
        found: u16,
    },
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::DoubleTree => "double-tree",
            Self::HalvingDoubling => "halving-doubling",
            Self::Direct => "direct",
        })
    }
}

impl Algorithm {
    /// The primitives that it has.
    pub const fn collectives(self) -> &'static [Collective] {
        match self {
            Self::Ring | Self::Tree | Self::Direct => &Collective::PRIMITIVES,
            Self::DoubleTree | Self::HalvingDoubling => &[Collective::AllReduce, Collective::Barrier],
        }
    }

    /// How long a message is, and how many are on their way to a peer, where nobody says.
    pub const fn pieces(self) -> (ByteCount, u16) {
        match self {
            Self::DoubleTree => {
                (ByteCount::new(DEFAULT_CHUNK.bytes() / SHORTER as u64), DEFAULT_WINDOW * SHORTER)
            }
            _ => (DEFAULT_CHUNK, DEFAULT_WINDOW),
        }
    }

    /// Whether it has one.
    pub fn offers(self, collective: Collective) -> bool {
        self.collectives().iter().any(|one| discriminant(one) == discriminant(&collective))
    }

    /// The ranks that `rank` exchanges messages with in a group of `ranks`, ascending; in a double tree, if all are at one switch.
    pub fn peers(self, rank: Rank, ranks: u16) -> Vec<Rank> {
        let ahead = |steps: u16| ((u32::from(rank.0) + u32::from(steps)) % u32::from(ranks)) as u16;
        let mut peers: Vec<Rank> = match self {
            Self::Ring => Vec::from([ahead(ranks - 1), ahead(1)].map(Rank)),
            Self::Tree => tree::neighbours(rank, ranks).collect(),
            Self::DoubleTree => TwoTrees::over(ranks, None)[rank.index()].neighbours(),
            Self::HalvingDoubling => halving_doubling::neighbours(rank, ranks),
            Self::Direct => (0..ranks).map(Rank).collect(),
        };
        peers.sort_unstable();
        peers.dedup();
        peers.retain(|peer| *peer != rank);
        peers
    }
}

impl Config {
    /// An eager program with the default chunk and window.
    pub fn new(algorithm: Algorithm, rank: Rank, peers: Vec<Option<QpIndex>>) -> Self {
        let (chunk, window) = algorithm.pieces();
        Self {
            algorithm,
            rank,
            peers,
            trees: None,
            chunk,
            window,
            pace: Pace::Eager,
            confirm: true,
            barrier_at_root: false,
        }
    }

    /// The peers that the algorithm needs and their queue pairs.
    pub(crate) fn check(&self) -> Result<Vec<(Rank, QpIndex)>, ConfigError> {
        let ranks = self.peers.len();
        if self.rank.index() >= ranks || ranks > usize::from(u16::MAX) {
            return Err(ConfigError::NoSuchRank { ranks, found: self.rank });
        }
        if self.chunk.bytes() == 0 || !self.chunk.bytes().is_multiple_of(4) {
            return Err(ConfigError::Chunk { found: self.chunk.bytes() });
        }
        if self.window < 2 {
            return Err(ConfigError::Window { found: self.window });
        }
        let mut needed: Vec<(Rank, QpIndex)> = Vec::new();
        let peers = match &self.trees {
            Some(trees) if self.algorithm == Algorithm::DoubleTree => trees.neighbours(),
            _ => self.algorithm.peers(self.rank, ranks as u16),
        };
        for peer in peers {
            let Some(qp) = self.peers.get(peer.index()).copied().flatten() else {
                return Err(ConfigError::NoQueuePair { algorithm: self.algorithm, rank: self.rank, peer });
            };
            if needed.iter().any(|(_, other)| *other == qp) {
                return Err(ConfigError::SharedQueuePair { peer, qp });
            }
            needed.push((peer, qp));
        }
        Ok(needed)
    }
}
