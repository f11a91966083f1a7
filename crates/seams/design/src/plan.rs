//! What a design makes of parameters and a placement: who is connected with whom, what each node is to do, what switches must have.

use crate::{
    ConnectionContext, FabricKind, Form, GroupContext, MemoryNeeds, Node, Peer, Refusal, Role, Settings,
};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use quincunx_collective::{Collective, GroupId, Rank};
use quincunx_fabric::TreeNodeId;
use quincunx_units::ByteCount;
use quincunx_wire::{Endpoint, Psn};

/// Somebody who takes part in a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Member {
    /// A rank.
    Rank(Rank),
    /// A switch of the tree.
    Switch(TreeNodeId),
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionEnd {
    /// Whose.
    pub member: Member,
    /// Its number among that one's: the queue pair's index for a program, the edge's for a datapath.
    pub index: u16,
}

/// Two members that exchange packets, each through a queue pair of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection {
    /// Both ends.
    pub ends: [ConnectionEnd; 2],
}

impl Connection {
    /// A connection between two ends, each a member and its number there.
    pub const fn new(a: (Member, u16), b: (Member, u16)) -> Self {
        Self { ends: [ConnectionEnd { member: a.0, index: a.1 }, ConnectionEnd { member: b.0, index: b.1 }] }
    }

    /// All pairs of ranks below `ranks`; every rank meets the others in rank order.
    pub fn full_mesh(ranks: u16) -> Vec<Self> {
        let index = |at: u16, of: u16| if of < at { of } else { of - 1 };
        let end = |at, of| (Member::Rank(Rank(at)), index(at, of));
        (0..ranks).flat_map(|a| (a + 1..ranks).map(move |b| Self::new(end(a, b), end(b, a)))).collect()
    }
}

/// A switch's part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchPlan<S> {
    /// Which switch of the tree.
    pub node: TreeNodeId,
    /// What it is to do.
    pub role: S,
    /// Payload and degree buffers that it must have for that (EPIC F.3).
    pub memory: ByteCount,
    /// Connections between others that pass through it, by their index in the plan: it takes what the first end sends to the second.
    /// Its own context has them in this order, after its own connections: the second end as the local one, the first as the remote one.
    pub passes: Vec<usize>,
}

/// A group before anybody has addresses: a pure function of parameters and placement. The manager, the simulator, the checker and
/// tests all make theirs by [`Design::plan`](crate::Design::plan).
#[derive(Clone, PartialEq, Debug)]
pub struct Plan<R = Role, S = Role> {
    /// What each rank is to do.
    pub ranks: Vec<R>,
    /// The switches that take part, parents before their children.
    pub switches: Vec<SwitchPlan<S>>,
    /// Who is connected with whom.
    pub connections: Vec<Connection>,
    /// Whether peers may write to registered memory; otherwise they send, and vectors are nobody else's to write to.
    pub remote_write: bool,
    /// Whether both ends of its connections are queue pairs of nodes, which then tell each other of their receive requests
    /// (InfiniBand Architecture 9.7.7.2), so that nobody sends what there is no room for. What passes through a switch to several does not.
    pub credits: bool,
    /// How many times it stands side by side, each with connections of its own.
    pub channels: u16,
    /// The share of the data that goes over ranks that relay, in a design where some does.
    pub relayed: Option<f64>,
    /// Collectives that are several others one after the other, one for each rank as their root: ReduceScatter as Reduces, AllGather as
    /// Broadcasts.
    pub in_steps: &'static [Collective],
    /// What it makes of the numbers. [`Form::Exact`] if and only if the design [is exact](crate::About::is_exact).
    pub form: Form,
    /// What a stream on a memory fabric must have for itself.
    pub memory: MemoryNeeds,
}

impl<R, S> Plan<R, S> {
    /// A stream on a memory fabric.
    pub fn of_stream(ranks: Vec<R>, memory: MemoryNeeds) -> Self {
        Self { memory, ..Self::new(ranks, Vec::new()) }
    }

    /// Ranks that send to each other, and nobody else.
    pub fn new(ranks: Vec<R>, connections: Vec<Connection>) -> Self {
        Self {
            ranks,
            switches: Vec::new(),
            connections,
            remote_write: false,
            credits: false,
            channels: 1,
            relayed: None,
            in_steps: &[],
            form: Form::Exact,
            memory: MemoryNeeds::default(),
        }
    }

    /// How many connections a member has.
    pub fn degree(&self, member: Member) -> u32 {
        let ends = self.connections.iter().flat_map(|connection| &connection.ends);
        ends.filter(|end| end.member == member).count() as u32
    }

    /// How many connections each member has.
    pub fn degrees(&self) -> BTreeMap<Member, u32> {
        let mut degrees = BTreeMap::new();
        for end in self.connections.iter().flat_map(|connection| &connection.ends) {
            *degrees.entry(end.member).or_insert(0) += 1;
        }
        degrees
    }

    /// The same with other roles.
    ///
    /// # Errors
    /// The first of a role's.
    pub(crate) fn map_roles<R2, S2>(
        self,
        rank: impl FnMut(R) -> Result<R2, Refusal>,
        mut switch: impl FnMut(S) -> Result<S2, Refusal>,
    ) -> Result<Plan<R2, S2>, Refusal> {
        let switches = self.switches.into_iter().map(|SwitchPlan { node, role, memory, passes }| {
            Ok(SwitchPlan { node, role: switch(role)?, memory, passes })
        });
        Ok(Plan {
            switches: switches.collect::<Result<_, Refusal>>()?,
            ranks: self.ranks.into_iter().map(rank).collect::<Result<_, Refusal>>()?,
            connections: self.connections,
            remote_write: self.remote_write,
            credits: self.credits,
            channels: self.channels,
            relayed: self.relayed,
            in_steps: self.in_steps,
            form: self.form,
            memory: self.memory,
        })
    }
}

/// What a group is called and how it begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    /// The group.
    pub group: GroupId,
    /// The design's name.
    pub design: String,
    /// The version of its parameters.
    pub version: u32,
    /// Their values.
    pub settings: Settings,
    /// The kind of fabric that it runs on.
    pub fabric: FabricKind,
    /// Domains of equal size that the ranks are in.
    pub domains: u16,
    /// The first PSN of every connection, both ways.
    pub initial_psn: Psn,
}

impl Plan {
    /// The same so many times side by side: a member's connections of the first channel come first.
    ///
    /// # Errors
    /// If ranks write to each other's memory, or connections pass through switches: neither tells channels apart.
    pub(crate) fn in_channels(mut self, channels: u16) -> Result<Self, Refusal> {
        if channels == 1 {
            return Ok(self);
        }
        if self.remote_write || self.switches.iter().any(|part| !part.passes.is_empty()) {
            return Err(Refusal::new(
                "`group.channels` of 1 in a design whose ranks write to each other's memory",
                channels,
                "leave it out, or choose a design that sends",
            ));
        }
        let degrees = self.degrees();
        for part in &mut self.switches {
            part.memory = part.memory * u64::from(channels);
        }
        let first = core::mem::take(&mut self.connections);
        let moved = |end: ConnectionEnd, channel: u16| ConnectionEnd {
            index: end.index + channel * degrees[&end.member] as u16,
            ..end
        };
        let in_channel = |channel| {
            first.iter().map(move |all| Connection { ends: all.ends.map(|end| moved(end, channel)) })
        };
        self.connections = (0..channels).flat_map(in_channel).collect();
        self.channels = channels;
        Ok(self)
    }

    /// What each member is told: `endpoint` is asked once for each end of each connection, and must answer with a queue pair that
    /// the member does not use; `name` calls the switches.
    ///
    /// # Panics
    /// If the connections of a member are not numbered from zero, each once, or one passes that is not there: a fault of the design.
    pub fn contexts(
        self,
        naming: &Naming,
        name: impl Fn(TreeNodeId) -> String,
        mut endpoint: impl FnMut(Member) -> Endpoint,
    ) -> Vec<(Member, GroupContext)> {
        let degrees = self.degrees();
        let mut connections: BTreeMap<Member, Vec<Option<ConnectionContext>>> =
            degrees.iter().map(|(&member, &degree)| (member, alloc::vec![None; degree as usize])).collect();
        let peer = |member| match member {
            Member::Rank(rank) => Peer::Rank(rank),
            Member::Switch(node) => Peer::Switch(name(node)),
        };
        let mut passing = Vec::with_capacity(self.connections.len());
        for Connection { ends: [a, b] } in self.connections {
            let (at_a, at_b) = (endpoint(a.member), endpoint(b.member));
            passing.push(ConnectionContext { local: at_b, remote: at_a, peer: peer(a.member) });
            for (near, far, local, remote) in [(a, b, at_a, at_b), (b, a, at_b, at_a)] {
                let places = connections.get_mut(&near.member).expect("every end was counted");
                let place = places.get_mut(usize::from(near.index)).filter(|place| place.is_none());
                let place = place.expect("connections of a member are numbered from zero, each once");
                *place = Some(ConnectionContext { local, remote, peer: peer(far.member) });
            }
        }
        let ranks = self.ranks.len() as u16;
        let mut context = |member, node, role, memory, passes: Vec<usize>| {
            let own = connections.remove(&member).unwrap_or_default().into_iter().flatten();
            let others = passes.into_iter().map(|index| passing[index].clone());
            let context = GroupContext {
                group: naming.group,
                design: naming.design.clone(),
                version: naming.version,
                settings: naming.settings.clone(),
                node,
                role,
                ranks,
                fabric: naming.fabric,
                domains: naming.domains,
                initial_psn: naming.initial_psn,
                remote_write: self.remote_write,
                credits: self.credits,
                channels: self.channels,
                memory,
                memory_offset: ByteCount::new(0),
                connections: own.chain(others).collect(),
                contention: None,
            };
            (member, context)
        };
        let mut contexts = Vec::new();
        for SwitchPlan { node, role, memory, passes } in self.switches {
            contexts.push(context(Member::Switch(node), Node::Switch, role, memory, passes));
        }
        for (rank, role) in (0..).map(Rank).zip(self.ranks) {
            contexts.push(context(Member::Rank(rank), Node::Rank(rank), role, ByteCount::new(0), Vec::new()));
        }
        contexts
    }
}
