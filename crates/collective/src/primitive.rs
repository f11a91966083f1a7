//! The six primitives (EPIC section 3.1 and appendix A).

/// A member of a group, numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rank(pub u16);

/// What a group of ranks does together (EPIC appendix A).
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
}
