//! What is said between managers, agents, clients and a store, and what their owners ask and are told.

use crate::rank::Token;
use crate::{
    Change, GroupRecord, GroupRequest, GroupSummary, HeldGroup, InitGroupError, Instruction, ManagerTimer,
    NodeDescription, Report,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use quincunx_collective::GroupId;
use quincunx_units::ByteCount;

/// A connection of an agent: what belongs to another one is not heard. No life of a manager gives one twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session {
    /// The manager's how-manieth life.
    pub epoch: u32,
    /// Of its connections, the how-manieth.
    pub number: u32,
}

/// What is said between a manager and an agent. A connection begins with three words, as one of TCP does: otherwise a word that comes late
/// would tell a manager that has started again what a node had long ago, and it would hand that out twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// A node wants a connection.
    Connect {
        /// Of its attempts, the how-manieth.
        attempt: u32,
    },
    /// It gets one.
    Welcome {
        /// Which attempt is answered.
        attempt: u32,
        /// The connection.
        session: Session,
    },
    /// A node attaches.
    Attach {
        /// By which connection.
        session: Session,
        /// What it is.
        node: Box<NodeDescription>,
        /// What it has.
        held: Vec<HeldGroup>,
    },
    /// The manager has taken it.
    Attached {
        /// Which connection.
        session: Session,
    },
    /// The manager says what to do.
    Instruct {
        /// To which connection.
        session: Session,
        /// What.
        instruction: Instruction,
    },
    /// The connection of a node that died is at its end.
    Gone {
        /// Which connection.
        session: Session,
    },
    /// Ranks talk to each other, through a switch or without.
    Data(Token),
    /// A node tells of a group.
    Report {
        /// From which connection.
        session: Session,
        /// The group.
        group: GroupId,
        /// What it tells.
        report: Report,
    },
    /// A client asks for a group; the request's key says whether it is another one.
    Ask {
        /// What he wants.
        wanted: Box<GroupRequest>,
    },
    /// The manager answers that.
    Answer {
        /// The request's.
        key: u128,
        /// Nothing: it is refused.
        group: Option<GroupId>,
    },
    /// A client wants a group to end.
    End {
        /// Which.
        group: GroupId,
    },
    /// It has ended.
    Ended {
        /// Which.
        group: GroupId,
        /// Whether the manager knew of it.
        was_known: bool,
    },
    /// A manager wants a change to be kept.
    Keep {
        /// By which lease.
        term: u32,
        /// What.
        change: Change,
    },
    /// What the store says to that.
    KeepReply {
        /// Otherwise the lease is another's.
        is_kept: bool,
    },
    /// Of a manager of two, to whoever waits for that: all its nodes are there, and time may pass; or it has got the lease, and is to be
    /// turned to.
    Serves,
    /// A manager that stands by wants the lease, when that of before is over.
    Take,
    /// A manager finds by its clock that its lease is over.
    Over,
    /// A manager that stands by gets the lease, and hears what was kept.
    Lease {
        /// Of all leases, the how-manieth.
        term: u32,
        /// Group numbers below this have been given away.
        numbers: u32,
        /// Groups that were ready.
        records: Vec<GroupRecord>,
    },
}

/// A timer of either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ControlTimer {
    /// The manager's.
    Manager(ManagerTimer),
    /// An agent's: it has no connection yet.
    Again,
}

/// What owners ask for.
#[derive(Clone, Debug)]
pub enum ControlCommand {
    /// Of the manager: make a group.
    Init(Box<GroupRequest>),
    /// Of a client: ask for a group.
    Ask,
    /// Of the manager: end all groups that there are. Of a client: that which it has.
    EndAll,
    /// Of the manager: stop, and start again from what was kept.
    Restart,
    /// Of an agent: its connection is gone, and it makes another.
    Reconnect,
    /// Of an agent: its process is killed.
    Die,
    /// Of an agent: its rank is done with the groups that it has.
    Release,
}

/// What owners are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlEvent {
    /// A request is answered.
    Answered(Box<Result<GroupSummary, InitGroupError>>),
    /// Requests that the manager has forgotten.
    Forgotten(usize),
    /// What the manager knows of: nodes that are attached, groups that live, and bytes of memory that are not free.
    Manages {
        /// Nodes.
        nodes: usize,
        /// Groups.
        groups: usize,
        /// Bytes.
        taken: ByteCount,
    },
    /// What a node has: groups, and who else has a part of the memory of the newest.
    Holds {
        /// How many.
        groups: usize,
        /// Another group in the same memory or with the same queue pair.
        clash: Option<GroupId>,
    },
    /// A rank's collective has ended.
    Ran {
        /// Which, counted from one.
        number: u64,
        /// The collective whose input the other rank gave to it.
        with: u64,
        /// Whether the application is told: it was not run for others again.
        is_told: bool,
    },
    /// A rank is told that its group has failed.
    Failed,
    /// A client may ask: all nodes are there.
    MayAsk,
    /// A client has left the first manager for the other one.
    Turned,
    /// A manager that stood by has the lease; or one that had it has ended.
    Serves(bool),
    /// A client's request is answered; without a group it is refused.
    Made(Option<GroupId>),
    /// A client's group has ended.
    Ended {
        /// Which.
        group: GroupId,
        /// It had been given to him, and nobody had ended it, but the manager did not know of it.
        had_vanished: bool,
    },
}

/// Why a message is not heard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ControlDrop {
    /// It belongs to an earlier connection.
    OldSession,
    /// Its name or address is taken.
    NotAttached,
    /// It is for the other side.
    ProtocolViolation,
    /// It is for a generation that is not installed, or for a node that is dead.
    NotInstalled,
}

/// One of two managers. Its ports: one to each agent, then one to the store, one to the client, and one to the other, by
/// which each learns that time has passed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pair {
    /// The other one has the lease.
    pub stands_by: bool,
    /// How many agents there are.
    pub agents: u16,
}
