//! What has happened, as far as promises are about it: processes and the world say it, and the checker (`promises.rs`) hears it.

use quincunx_collective::GroupId;
use quincunx_control::memory::{MovedBlock, Region};
use quincunx_wire::QpNumber;
use std::collections::BTreeSet;

/// Something that promises are about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Fact {
    /// A job has asked for a group.
    Asked { job: usize },
    /// It has one; with whom it runs, and why it is not what was asked for.
    Made { job: usize, group: GroupId, switches: Vec<String>, fallback: Option<String> },
    /// It has none.
    NotMade { job: usize, reason: String },
    /// A rank is in a group, and runs so many collectives there; in one of them it calls something else than the others.
    Joined { job: usize, group: GroupId, rank: u16, wants: u64, mistaken: Option<u64> },
    /// A result was delivered, and is right or wrong.
    Delivered { group: GroupId, rank: u16, number: u64, wrong: usize },
    /// A rank has heard that its group is over.
    Ended { group: GroupId, rank: u16, reason: String, is_late: bool },
    /// A rank is done with a group.
    Released { group: GroupId, rank: u16 },
    /// A group goes on under another number, and its rank runs from a collective again.
    Recreated { group: GroupId, rank: u16, first: u64, repeats: bool, reason: String },
    /// A switch has a group in its memory.
    Installed { group: GroupId, region: Region, queue_pairs: BTreeSet<QpNumber> },
    /// It has moved a block of it.
    Moved { block: MovedBlock },
    /// It has not any more.
    Removed { group: GroupId },
    /// A manager serves.
    Serves { records: usize },
    /// A manager has a group ready, or ends one: which nodes it has and why it is over.
    GroupEnded { group: GroupId, owner: String, nodes: BTreeSet<String>, reason: String },
    /// Something that only the table of coverage is about.
    Met(&'static str),
}
