//! What a manager is told, and what it has others do.

use super::kept::Change;
use crate::calls::{Call, Standing};
use crate::memory::{MovedBlock, Region};
use crate::sequence::Progress;
use crate::{GroupFailure, GroupSummary, InitGroupError, LockUse};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use quincunx_collective::GroupId;
use quincunx_design::GroupContext;
use quincunx_units::Duration;
use quincunx_wire::QpNumber;

/// Names a request to the one who made it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// What the driver is to do.
#[expect(clippy::large_enum_variant, reason = "answers are few, and no action is kept")]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Keep this where it survives the manager, before what follows is done.
    Keep(Change),
    /// Send an instruction to an attached node.
    Instruct {
        /// The node's name.
        node: String,
        /// What it is to do.
        instruction: Instruction,
    },
    /// A request has a group, which its nodes are about to install.
    Begin {
        /// Which request.
        request: RequestId,
        /// The group.
        group: GroupId,
    },
    /// A group is made anew: what is known of the first by its number is known of the second from here on.
    Recreate {
        /// The number that it had.
        from: GroupId,
        /// The number that it has.
        group: GroupId,
    },
    /// All ranks of a group are done with it: it is over, and what is known of it by its number is forgotten.
    GivenBack {
        /// The group.
        group: GroupId,
    },
    /// Answer an [`Manager::init_group`](crate::Manager::init_group).
    Answer {
        /// Which.
        request: RequestId,
        /// The group, or why there is none.
        answer: Result<GroupSummary, InitGroupError>,
    },
    /// Answer a [`Manager::destroy_group`](crate::Manager::destroy_group): what the group held is free, but at nodes that do not answer.
    Destroyed {
        /// Which.
        request: RequestId,
        /// Nodes that have not said in time that they have forgotten the group: what it holds there is not free.
        silent: Vec<String>,
    },
    /// Call [`Manager::handle_timer`](crate::Manager::handle_timer) after this time, in place of any earlier deadline.
    SetTimer {
        /// With what.
        timer: ManagerTimer,
        /// The time from now.
        after: Duration,
    },
    /// Forget that timer.
    CancelTimer {
        /// Which.
        timer: ManagerTimer,
    },
}

/// What a node is to do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Instruction {
    /// Install this, then report. A switch takes frames at once; a rank sends nothing yet.
    Install(Box<GroupContext>),
    /// All nodes have installed the group: ranks may send.
    Ready(GroupId),
    /// A rank stops what runs on the group, forgets its queue pairs, and reports how far it has come: it is to be made anew.
    Suspend {
        /// The group.
        group: GroupId,
        /// What it is lost by.
        failure: GroupFailure,
    },
    /// To a rank: all nodes have installed the group, which takes the place of another. It runs from that collective on.
    Resume {
        /// The group.
        group: GroupId,
        /// The one that was suspended.
        from: GroupId,
        /// The collective that all ranks go on with, counted from one.
        first: u64,
    },
    /// A rank tells what it has called last ([`Report::Called`]).
    TellCalls(GroupId),
    /// A rank tells all calls that it keeps, with their times: to whoever asks the manager's service, past the manager.
    TellTimes(GroupId),
    /// The node sends others what finds out about the paths to them, and counts what it gets of theirs: for whoever asks the manager's service,
    /// past the manager.
    ProbePaths(Box<ProbePaths>),
    /// It tells what it has counted in that run.
    TellPaths(u64),
    /// To a switch: a block of its memory is moved, with the pointers of the groups that have it. Only their pointers change, at once.
    MoveMemory(MovedBlock),
    /// Forget the group, then report.
    Remove(GroupId),
    /// The group is over: stop what runs on it with this error, forget it, then report.
    Failed {
        /// The group.
        group: GroupId,
        /// Why.
        failure: GroupFailure,
    },
}

/// The paths from a node to others.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ProbePaths {
    /// What tells it from others: a number that nobody can guess.
    pub run: u64,
    /// The node's own number in it.
    pub own: u32,
    /// To whom, in this order.
    pub targets: Vec<PathTarget>,
}

/// A node at the other end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PathTarget {
    /// Its number in the run.
    pub number: u32,
    /// Where it is.
    pub address: IpAddr,
    /// Which of the processes there.
    pub share: u8,
}

/// What a node tells of a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Report {
    /// Its context is installed.
    Installed,
    /// It cannot install its context, and has nothing of it.
    Refused {
        /// One line.
        reason: String,
    },
    /// Its data plane failed: a peer does not answer.
    DataPlaneFailed {
        /// One line; names the peer.
        reason: String,
    },
    /// A result does not agree with its checksum: the group is over.
    Corrupted {
        /// One line.
        reason: String,
    },
    /// It has forgotten the group.
    Removed,
    /// A rank has stopped, has forgotten the group's queue pairs, and has come so far.
    Suspended(Progress),
    /// A switch has granted and refused its memory to the group so often.
    Locked(LockUse),
    /// A rank has called these collectives last.
    Called {
        /// In the order of their numbers.
        calls: Vec<Call>,
        /// It tells them unasked, for one has not come to its end.
        is_stalled: bool,
        /// How far it has come.
        standing: Standing,
    },
    /// Its rank is done with the group, and answers its peers until it is told to forget it. When all ranks are done, the group is over.
    Released,
}

impl Report {
    /// Of a group that a rank does not have.
    pub fn called_nothing() -> Self {
        Self::Called { calls: Vec::new(), is_stalled: false, standing: Standing::default() }
    }
}

/// A manager's named timers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ManagerTimer {
    /// The nodes of a group have had time to install it.
    Install(GroupId),
    /// The nodes of a group that is over have had time to forget it.
    End(GroupId),
    /// A group's lease is over.
    Lease(GroupId),
    /// A request has waited long enough for room.
    Delay(RequestId),
    /// Nodes that were lost with a group have had time to come back.
    Return(GroupId),
    /// Ranks of a group have had time to say what they have called.
    Inquiry(GroupId),
    /// No machine has told of its ports for as long as their words hold.
    Cables,
}

/// A group that a node has when it attaches: it was attached before. Of one that it waits for to be made anew it has neither buffers nor queue
/// pairs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeldGroup {
    /// Which.
    pub group: GroupId,
    /// Its buffers there, if the node is a switch.
    pub region: Option<Region>,
    /// Its queue pairs there.
    pub endpoints: BTreeSet<QpNumber>,
    /// The node's rank is done with it.
    pub is_released: bool,
}
