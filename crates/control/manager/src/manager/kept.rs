//! What is kept of groups where it survives the manager.

use crate::memory::Region;
use crate::{Fallback, GroupRequest, RecreatedGroup};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_wire::QpNumber;

/// A step of what is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// Group numbers below this have been given away.
    Numbers(u32),
    /// The group is ready.
    Put(Box<GroupRecord>),
    /// The group is over.
    Remove(GroupId),
}

/// A group that is ready: all that a manager that starts again must know of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupRecord {
    /// Its number.
    pub group: GroupId,
    /// What was asked for.
    pub request: GroupRequest,
    /// What it runs, by name.
    pub design: String,
    /// Why that is not what was asked for, if it is not.
    pub fallback: Option<Fallback>,
    /// What it holds of each node: queue pairs, and memory of a switch.
    pub nodes: BTreeMap<String, (BTreeSet<QpNumber>, Option<Region>)>,
    /// From the root down.
    pub switches: Vec<String>,
    /// That its tree leads over, by the names of both ends.
    pub links: Vec<[String; 2]>,
    /// Links that more than one of its edges crosses.
    pub conflicts: u32,
    /// What it goes on from, if it was made anew.
    pub recreated: Option<RecreatedGroup>,
    /// Whether it locks its memory for each of its collectives.
    pub contends: bool,
}
