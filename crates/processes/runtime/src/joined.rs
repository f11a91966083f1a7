//! A group that a rank is in, and what comes of its collectives.

use quincunx_collective::{GroupId, Numbers, Rank as RankNumber};
use quincunx_design::FabricKind;
use std::ops::Range;

/// A group that this rank has joined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinedGroup {
    /// Its number.
    pub id: GroupId,
    /// This rank in it.
    pub rank: RankNumber,
    /// Ranks in it.
    pub ranks: u16,
    /// The kind of fabric that it runs on.
    pub fabric: FabricKind,
    /// Domains of equal size that they are in; one is all of them.
    pub domains: u16,
    /// What it runs, by name: the design that was asked for, or what it fell back to.
    pub design: String,
    /// Who is at the other end of each queue pair.
    pub(crate) peers: Vec<String>,
    pub(crate) in_switches: bool,
}

impl JoinedGroup {
    /// Whether switches take part, at this rank's queue pairs.
    pub(crate) fn runs_in_switches(&self) -> bool {
        self.in_switches
    }

    /// The ranks whose vectors its collectives put together: all, or where there are domains those of this rank's.
    pub fn together(&self) -> Range<u16> {
        let members = self.ranks / self.domains;
        let first = self.rank.0 / members * members;
        first..first + members
    }
}

/// A collective that has ended well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The input, given back.
    pub input: Numbers,
    /// The result.
    pub output: Numbers,
}
