//! What a node's data plane needs to know of a group: its local context (EPIC 4.1).

use crate::{Design, MeshSetup, switch_memory};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use quincunx_collective::{GroupId, Rank};
use quincunx_fabric::Mode;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Endpoint, Psn};

/// When a sender gives up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Retry {
    /// Time without an acknowledge after which it sends again.
    pub timeout: Duration,
    /// How often in a row it does so before the peer counts as dead.
    pub count: u8,
}

/// What all nodes of a group agree on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupParameters {
    /// The group.
    pub group: GroupId,
    /// How many ranks it has.
    pub ranks: u16,
    /// Bytes of payload in a full packet: U in EPIC's table 2.
    pub mtu: ByteCount,
    /// Packets in a full message: M.
    pub message_packets: u32,
    /// Messages that a rank may have outstanding: W.
    pub window_messages: u32,
    /// Whether numbers are combined in rank order (EPIC 4.3, footnote 4).
    pub reproducible: bool,
    /// The first PSN of every flow: Mode-II needs one for all (EPIC 4.3).
    pub initial_psn: Psn,
    /// When senders give up.
    pub retry: Retry,
}

/// What a switch gets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SwitchContext {
    /// What all agree on.
    pub parameters: GroupParameters,
    /// What the switch is to run.
    pub mode: Mode,
    /// N of EPIC's table 2: packets in a Mode-II payload buffer or in each of the two Mode-III pipes; messages in a
    /// Mode-I window. See [`slots`](crate::slots).
    pub slots: u32,
    /// Which of `edges` leads to the parent; none at the root.
    pub parent: Option<u16>,
    /// The switch's edges: children in order, then the parent.
    pub edges: Vec<EdgeContext>,
    /// By rank: which of `edges` leads there.
    pub toward: Vec<u16>,
}

/// An edge as one of its switches sees it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EdgeContext {
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// Who is at the other end.
    pub peer: Peer,
}

/// Who is at the other end of an edge or queue pair.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// A rank of the group.
    Rank(Rank),
    /// A switch, by its node name.
    Switch(String),
}

/// What a rank gets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RankContext {
    /// What all agree on.
    pub parameters: GroupParameters,
    /// What the rank is to run.
    pub design: Design,
    /// Which rank this is.
    pub rank: Rank,
    /// How the group uses a mesh, if it runs on one.
    pub mesh: Option<MeshSetup>,
    /// EPIC: one, to the leaf switch. Ring: to the next rank, then to the previous one (one between two ranks). Tree,
    /// direct and on a mesh: to every other rank, in rank order. A group of one needs none among hosts.
    pub queue_pairs: Vec<QueuePairContext>,
}

/// A queue pair of a rank, connected by configuration: there is no handshake.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct QueuePairContext {
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// Who is there.
    pub peer: Peer,
    /// The first PSN that is sent.
    pub send_psn: Psn,
    /// The first PSN that is expected.
    pub receive_psn: Psn,
}

impl GroupParameters {
    /// The largest window: two of them (Mode-II's buffer) are half the PSN space, so that an old packet is never taken
    /// for a new one.
    pub const MAX_WINDOW_PACKETS: u64 = 1 << 22;

    /// Packets that a rank may have outstanding: M times W.
    pub fn window_packets(&self) -> u32 {
        self.message_packets * self.window_messages
    }

    /// Bytes of payload that a neighbour may have under way to a node.
    pub fn window_bytes(&self) -> ByteCount {
        self.mtu * u64::from(self.window_packets())
    }
}

impl SwitchContext {
    /// How many children the switch has: the most that flow into one aggregation.
    pub fn children(&self) -> u16 {
        self.edges.len() as u16 - u16::from(self.parent.is_some())
    }

    /// Bytes of payload and degree buffers that the group takes here (EPIC F.3).
    pub fn memory(&self) -> ByteCount {
        switch_memory(self.mode, &self.parameters, self.edges.len() as u16)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {}", rank.0),
            Self::Switch(name) => write!(f, "switch {name}"),
        }
    }
}
