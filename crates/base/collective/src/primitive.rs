//! The collectives: the six primitives (EPIC section 3.1 and appendix A), and the two of expert parallelism (MultiWrite 2.3.2).

use crate::name::{ParseNameError, find};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A group of ranks, numbered by the control plane; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

/// A member of a group, numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rank(pub u16);

/// What a group of ranks does together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Collective {
    /// Every rank gets the reduction of all ranks' vectors.
    AllReduce,
    /// The root gets the reduction of all ranks' vectors.
    Reduce {
        /// Who gets it.
        root: Rank,
    },
    /// Every rank gets the root's vector.
    Broadcast {
        /// Whose.
        root: Rank,
    },
    /// No rank passes before every rank has come: an AllReduce of nothing.
    Barrier,
    /// Rank r gets the r-th part of the reduction: one Reduce after the other, each with another root.
    ReduceScatter,
    /// Every rank gets all ranks' vectors in rank order: one Broadcast after the other, each with another root.
    AllGather,
    /// Every rank gets the tokens that are for one of its experts: each token goes to a few ranks, other ones for each token.
    Dispatch,
    /// The way back: every rank gets, for each of its tokens, the reduction of what the ranks that got the token make of it.
    Combine,
}

impl Rank {
    /// For indexing what is kept one a rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Collective {
    /// The six primitives, with rank 0 as the root: what a rank brings in and gets depends on lengths alone.
    pub const PRIMITIVES: [Self; 6] = [
        Self::AllReduce,
        Self::Reduce { root: Rank(0) },
        Self::Broadcast { root: Rank(0) },
        Self::Barrier,
        Self::ReduceScatter,
        Self::AllGather,
    ];

    /// The name that people type; the root is not in it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::Reduce { .. } => "reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::Barrier => "barrier",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::Dispatch => "dispatch",
            Self::Combine => "combine",
        }
    }

    /// Whether it is a Dispatch or a Combine: what goes where depends on whom each token is for, beside lengths.
    pub const fn is_routed(self) -> bool {
        matches!(self, Self::Dispatch | Self::Combine)
    }

    /// The root, of those that have one.
    pub const fn root(self) -> Option<Rank> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root),
            _ => None,
        }
    }

    /// The same with another root; nothing changes where there is none.
    pub const fn with_root(self, root: Rank) -> Self {
        match self {
            Self::Reduce { .. } => Self::Reduce { root },
            Self::Broadcast { .. } => Self::Broadcast { root },
            rootless => rootless,
        }
    }

    /// What algorithm bandwidth (bytes over time) is multiplied with for bus bandwidth, as nccl-tests defines it:
    /// the share of the data that a link must carry when hosts do the work. Bytes are those of the longer of input
    /// and output: all ranks' together for ReduceScatter and AllGather, a rank's own tokens for Dispatch and Combine, where what a
    /// link must carry depends on whom they are for.
    ///
    /// # Panics
    /// If `ranks` is zero.
    pub fn bus_factor(self, ranks: u16) -> f64 {
        assert!(ranks > 0, "a group has at least one rank");
        let ranks = f64::from(ranks);
        match self {
            Self::AllReduce => 2.0 * (ranks - 1.0) / ranks,
            Self::ReduceScatter | Self::AllGather => (ranks - 1.0) / ranks,
            Self::Reduce { .. } | Self::Broadcast { .. } | Self::Barrier => 1.0,
            Self::Dispatch | Self::Combine => 1.0,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Reads a name; the root, where there is one, is rank 0.
impl FromStr for Collective {
    type Err = ParseNameError;
    fn from_str(text: &str) -> Result<Self, ParseNameError> {
        let all = Self::PRIMITIVES.into_iter().chain([Self::Dispatch, Self::Combine]);
        let table: Vec<_> = all.map(|collective| (collective.name(), collective)).collect();
        let expected =
            "all_reduce, reduce, broadcast, barrier, reduce_scatter, all_gather, dispatch, combine";
        find(&table, expected, text)
    }
}
