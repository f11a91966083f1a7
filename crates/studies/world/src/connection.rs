//! What travels on the control network between a node and a manager. It stands for an HTTP/2 connection over TCP with what gRPC says on it:
//! words arrive in order and once, or not at all when the connection ends; an end that hears nothing for long gives it up.

use crate::fabric::Place;
use quincunx_collective::GroupId;
use quincunx_control::{
    GroupRequest, GroupSummary, HeldGroup, Instruction, LinkReport, NodeDescription, Report,
};
use quincunx_units::{Duration, Instant};
use std::collections::VecDeque;

/// Names a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Names a call to the one who makes it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct CallId(pub(crate) u64);

/// What a node asks.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// It attaches; instructions follow as long as the connection lives.
    Attach { node: Box<NodeDescription>, held: Vec<HeldGroup> },
    /// It tells of a group.
    Report { group: GroupId, report: Report },
    /// It tells which of its links are up.
    Links(Vec<LinkReport>),
    /// Its application wants a group.
    Init(Box<GroupRequest>),
    /// Its application still needs one.
    Renew(GroupId),
}

/// What a manager answers.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Done,
    Made(Box<GroupSummary>),
    Refused(Status),
}

/// Why a call is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Status {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// The codes of gRPC that clients tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    NotFound,
    AlreadyExists,
    FailedPrecondition,
    PermissionDenied,
    InvalidArgument,
}

/// A word on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// Somebody wants one.
    Open,
    /// It is there.
    Opened,
    /// Nobody serves there.
    Refused,
    /// A call.
    Call(CallId, Request),
    /// Its answer.
    Answer(CallId, Reply),
    /// To an attached node.
    Instruct(Box<Instruction>),
    /// The other end is gone.
    Closed,
}

/// How long an end may hear nothing until it asks, and half of that: then it gives the connection up. Of a manager, as `quincunx manager`
/// starts it.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The same of a node that knows of another manager.
pub(crate) const KEEP_ALIVE_OF_TWO: Duration = Duration::from_secs(2);

/// A connection between a node and a manager.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) node: Place,
    pub(crate) manager: Place,
    /// Whether the end is open: the node's, the manager's.
    pub(crate) open: [bool; 2],
    /// Words that wait for the network: to the node, to the manager.
    pub(crate) held: [VecDeque<Message>; 2],
    /// Words that have come, and that a process that is stopped or waits for the store has not read.
    pub(crate) inbox: [VecDeque<Message>; 2],
    /// When the last word comes, each way.
    pub(crate) last: [Instant; 2],
    /// Since when it does not work both ways.
    pub(crate) silent: Option<Instant>,
}
