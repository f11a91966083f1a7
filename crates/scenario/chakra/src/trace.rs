//! A trace as values: nodes whose sizes and durations are there and make sense.

use quincunx_collective::{Collective, Rank};
use quincunx_units::{ByteCount, Duration};

/// What one rank does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The schema's version, as the file says it.
    pub version: String,
    /// In the order of the file. Every id is there once, and dependencies have no cycle.
    pub nodes: Vec<Node>,
}

/// A piece of work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its number in the trace.
    pub id: u64,
    /// What it is called.
    pub name: String,
    /// Nodes that must be over before it begins, by control flow.
    pub control: Vec<u64>,
    /// Nodes that must be over before it begins, for their results.
    pub data: Vec<u64>,
    /// How long it took where it was recorded; zero if nobody says. Replays take it for computation alone.
    pub duration: Duration,
    /// Whether a processor does it, not an accelerator.
    pub is_on_host: bool,
    /// What there is to do.
    pub work: Work,
}

/// What a node does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// Nothing: the node describes something.
    Metadata,
    /// Computes.
    Compute(Cost),
    /// Reads memory.
    Load(ByteCount),
    /// Writes memory.
    Store(ByteCount),
    /// Does something together with the other ranks of a group.
    Collective {
        /// What.
        operation: Operation,
        /// `comm_size`: a rank's whole vector, but of AllGather what a rank brings in.
        size: ByteCount,
        /// The group's name (`pg_name`); none: all ranks.
        group: Option<String>,
    },
    /// Sends to another rank.
    Send {
        /// To whom.
        peer: Rank,
        /// What tells messages between two ranks apart.
        tag: u64,
        /// Bytes.
        size: ByteCount,
    },
    /// Receives from another rank.
    Receive {
        /// From whom.
        peer: Rank,
        /// What tells messages between two ranks apart.
        tag: u64,
        /// Bytes.
        size: ByteCount,
    },
}

/// What decides how long a computation takes whose duration nobody has recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cost {
    /// Operations (`num_ops`).
    pub operations: Option<u64>,
    /// Traffic to memory (`tensor_size`).
    pub traffic: Option<ByteCount>,
}

/// Chakra's collectives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Operation {
    /// One that fabrics are asked for elsewhere, too.
    Collective(Collective),
    /// A root gets all ranks' vectors.
    Gather,
    /// All ranks get a part of a root's vector.
    Scatter,
    /// Every rank gets a part of every rank's vector.
    AllToAll,
}

impl Operation {
    /// `comm_type`, as the schema numbers it; the root of those that have one stands elsewhere.
    pub(crate) fn from_number(number: i128, root: Rank) -> Option<Self> {
        Some(match number {
            0 => Self::Collective(Collective::AllReduce),
            1 => Self::Collective(Collective::Reduce { root }),
            2 => Self::Collective(Collective::AllGather),
            3 => Self::Gather,
            4 => Self::Scatter,
            5 => Self::Collective(Collective::Broadcast { root }),
            6 => Self::AllToAll,
            // 8 has parts of equal length, as ours always have.
            7 | 8 => Self::Collective(Collective::ReduceScatter),
            9 => Self::Collective(Collective::Barrier),
            _ => return None,
        })
    }

    /// The other way round; none for those that the schema does not have.
    pub(crate) fn number(self) -> Option<i64> {
        Some(match self {
            Self::Collective(Collective::AllReduce) => 0,
            Self::Collective(Collective::Reduce { .. }) => 1,
            Self::Collective(Collective::AllGather) => 2,
            Self::Gather => 3,
            Self::Scatter => 4,
            Self::Collective(Collective::Broadcast { .. }) => 5,
            Self::AllToAll => 6,
            Self::Collective(Collective::ReduceScatter) => 7,
            Self::Collective(Collective::Barrier) => 9,
            Self::Collective(Collective::Dispatch | Collective::Combine) => return None,
        })
    }

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Collective(collective) => collective.name(),
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::AllToAll => "all_to_all",
        }
    }
}

impl Node {
    /// All nodes that must be over before it begins.
    pub fn dependencies(&self) -> impl Iterator<Item = u64> {
        self.control.iter().chain(&self.data).copied()
    }
}
