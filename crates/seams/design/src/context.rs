//! What a node is told of a group: its local context (EPIC 4.1, "States and Context"), whatever the design.

use crate::{FabricKind, MemoryContext, Refusal, Role, Settings};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hash;
use core::str::FromStr;
use quincunx_collective::{GroupId, Rank};
use quincunx_engine::MAX_CHANNELS;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Endpoint, Psn};

/// What a node is told, for one of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Where it is, and with whom.
    pub place: Place<'a>,
    /// A rule to break, by its name in [`Model::mutations`](crate::Model::mutations): for the checker alone.
    pub mutation: Option<&'a str>,
}

/// Where a part runs.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// In a group of nodes with queue pairs.
    Group(&'a GroupContext),
    /// On a memory fabric.
    Memory(MemoryContext<'a>),
}

impl<'a> Context<'a> {
    /// In a group, with all rules kept.
    pub const fn of(group: &'a GroupContext) -> Self {
        Self { place: Place::Group(group), mutation: None }
    }

    /// The group.
    ///
    /// # Errors
    /// If this is a memory fabric.
    pub fn group(&self) -> Result<&'a GroupContext, Refusal> {
        match self.place {
            Place::Group(group) => Ok(group),
            Place::Memory(_) => Err(Refusal::new(
                "a group of hosts with queue pairs",
                "a memory fabric",
                "name another design, or another fabric",
            )),
        }
    }

    /// The memory fabric.
    ///
    /// # Errors
    /// If this is a group of hosts.
    pub fn memory(&self) -> Result<&MemoryContext<'a>, Refusal> {
        match &self.place {
            Place::Memory(memory) => Ok(memory),
            Place::Group(_) => Err(Refusal::new(
                "a memory fabric",
                "a group of hosts with queue pairs",
                "name another design, or another fabric",
            )),
        }
    }

    /// The rule to break, in the design's own words.
    ///
    /// # Errors
    /// If there is no such rule.
    pub fn mutation<M: FromStr<Err: core::error::Error>>(&self) -> Result<Option<M>, Refusal> {
        self.mutation.map(str::parse).transpose().map_err(|error| Refusal::of(&error))
    }

    /// The parameters.
    pub(crate) fn settings(&self) -> &'a Settings {
        match self.place {
            Place::Group(group) => &group.settings,
            Place::Memory(memory) => memory.settings,
        }
    }

    /// What the node is to do.
    pub(crate) fn role(&self) -> &'a Role {
        match self.place {
            Place::Group(group) => &group.role,
            Place::Memory(memory) => memory.role,
        }
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// A rank of the group.
    Rank(Rank),
    /// A switch, by its node name.
    Switch(String),
}

/// One connection of a node, by configuration: there is no handshake.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConnectionContext {
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub remote: Endpoint,
    /// Who is there.
    pub peer: Peer,
}

/// What a node is in a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Node {
    /// It runs this rank.
    Rank(Rank),
    /// It is a switch.
    Switch,
}

/// What a node is told of a group: all that its data plane needs to know.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupContext {
    /// The group.
    pub group: GroupId,
    /// The design's name.
    pub design: String,
    /// The version of its parameters.
    pub version: u32,
    /// Their values.
    pub settings: Settings,
    /// What the node is.
    pub node: Node,
    /// What it is to do.
    pub role: Role,
    /// Ranks of the group.
    pub ranks: u16,
    /// The kind of fabric that the group runs on: designs of one name may differ there.
    pub fabric: FabricKind,
    /// Domains of equal size that they are in.
    pub domains: u16,
    /// The first PSN of every connection, both ways.
    pub initial_psn: Psn,
    /// Whether peers may write to registered memory.
    pub remote_write: bool,
    /// Whether queue pairs at both ends tell each other of their receive requests.
    pub credits: bool,
    /// Channels whose connections it has, one channel's after the other's.
    pub channels: u16,
    /// Buffers that a switch must have for it.
    pub memory: ByteCount,
    /// Where in the switch's memory they begin: the pointer of EPIC 6.1. Zero until somebody gives memory away.
    pub memory_offset: ByteCount,
    /// By index.
    pub connections: Vec<ConnectionContext>,
    /// If the switches' memory is to be locked for each invocation, because other groups have the same.
    pub contention: Option<Box<Contention>>,
}

/// What a member is told of a group whose switches' memory is locked for each invocation (EPIC 6.2).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contention {
    /// What a rank runs among hosts when a switch refuses: a group of its own number, installed with this one. None at a switch.
    pub fallback: Option<GroupContext>,
    /// Datagrams about locks travel over these: at a switch one to each child in the tree and, behind them, one to the parent, if there is
    /// one; at a rank one to its switch.
    pub edges: Vec<ConnectionContext>,
    /// At a switch, whether the last edge leads to a parent.
    pub has_parent: bool,
    /// How long a rank asks for locks that are not free, before it runs a collective among the hosts: the same at all ranks.
    pub patience: Duration,
}

impl Contention {
    /// How often a group asks again that waits for its locks, in all of its patience.
    pub const TRIES: u8 = 16;
}

impl GroupContext {
    /// Which rank the node runs.
    ///
    /// # Errors
    /// If it is a switch.
    pub fn rank(&self) -> Result<Rank, Refusal> {
        match self.node {
            Node::Rank(rank) => Ok(rank),
            Node::Switch => Err(Refusal::new("a rank", "a switch", "run the same version at both ends")),
        }
    }

    /// The contexts of a group's channels: each with its part of connections and memory, and at a switch with a number of its own, the next ones
    /// after the group's, which nobody else has.
    ///
    /// # Errors
    /// If there are not as many connections in each channel.
    pub fn in_channels(&self) -> Result<Vec<Self>, Refusal> {
        let channels = self.channels;
        if channels == 1 {
            return Ok(alloc::vec![self.clone()]);
        }
        let each = self.connections.len() / usize::from(channels).max(1);
        if channels > MAX_CHANNELS || each == 0 || each * usize::from(channels) != self.connections.len() {
            return Err(Refusal::new(
                format!("as many connections in each of {channels} channels"),
                format!("{} in all", self.connections.len()),
                "run the same version at both ends",
            ));
        }
        let memory = ByteCount::new(self.memory.bytes() / u64::from(channels));
        let channel = |(channel, connections): (u16, &[ConnectionContext])| Self {
            group: GroupId(self.group.0.wrapping_add(channel.into())),
            memory,
            memory_offset: self.memory_offset + memory * u64::from(channel),
            connections: connections.to_vec(),
            channels: 1,
            ..self.clone()
        };
        Ok((0..).zip(self.connections.chunks_exact(each)).map(channel).collect())
    }

    /// All that the node's queue pairs are connected with for the group.
    pub fn all_connections(&self) -> impl Iterator<Item = &ConnectionContext> {
        let contention = self.contention.iter();
        let others = contention.flat_map(|with| {
            let fallback = with.fallback.iter().flat_map(|fallback| &fallback.connections);
            fallback.chain(&with.edges)
        });
        self.connections.iter().chain(others)
    }

    /// Refuses numbers that no plan has.
    ///
    /// # Errors
    /// If a rank is not in the group, or its domains are not of one size.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        const REMEDY: &str = "run the same version at both ends";
        let ranks = self.ranks;
        if ranks == 0 || self.domains == 0 || !ranks.is_multiple_of(self.domains) {
            let found = format!("{ranks} in {}", self.domains);
            return Err(Refusal::new("ranks in domains of one size", found, REMEDY));
        }
        let own = match self.node {
            Node::Rank(rank) => Some(rank),
            Node::Switch => None,
        };
        let peers = self.connections.iter().filter_map(|connection| match connection.peer {
            Peer::Rank(rank) => Some(rank),
            Peer::Switch(_) => None,
        });
        match own.into_iter().chain(peers).find(|rank| rank.0 >= ranks) {
            Some(found) => Err(Refusal::new(format!("ranks below {ranks}"), found, REMEDY)),
            None => Ok(()),
        }
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
