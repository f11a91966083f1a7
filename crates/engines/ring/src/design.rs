//! Collectives among hosts alone as three designs: parameters, who is connected with whom, and what runs on a rank.

use crate::config::{Algorithm, Config, DEFAULT_CHUNK, DEFAULT_WINDOW, Pace};
use crate::mutation::Mutation;
use crate::program::HostProgram;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    Connection, Design, FabricKind, GroupContext, Help, Member, Model, Node, Params, Peer, Placement, Plan,
    Refusal, Transport,
};
use quincunx_engine::verbs::{AnyProgram, QpIndex};
use quincunx_units::ByteCount;
use serde::{Deserialize, Serialize};

/// Collectives among hosts alone, by one algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hosts {
    algorithm: Algorithm,
}

/// Each rank sends to the next.
pub const RING: Hosts = Hosts { algorithm: Algorithm::Ring };

/// Ranks form a tree.
pub const TREE: Hosts = Hosts { algorithm: Algorithm::Tree };

/// Each rank sends to each other.
pub const DIRECT: Hosts = Hosts { algorithm: Algorithm::Direct };

/// The parameters.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HostParams {
    /// The queue pairs.
    pub group: Transport,
    /// How vectors are cut.
    pub hosts: Pieces,
}

/// How vectors are cut into messages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Pieces {
    /// The longest message.
    pub chunk: ByteCount,
    /// Messages that may be on their way to a peer.
    pub window: u16,
    /// A step begins when what the one before sent is acknowledged, not as soon as its data is there.
    pub lockstep: bool,
    /// A Broadcast, a Reduce and what has no bytes end when all ranks have confirmed that they ask for the same; otherwise when this rank has
    /// sent and received all, as papers count: a rank that asks for something else goes unnoticed then.
    pub confirm: bool,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { chunk: DEFAULT_CHUNK, window: DEFAULT_WINDOW, lockstep: false, confirm: true }
    }
}

impl AsRef<Transport> for HostParams {
    fn as_ref(&self) -> &Transport {
        &self.group
    }
}

impl Params for HostParams {
    fn help() -> Vec<Help> {
        let own: [Help; 4] = [
            ("hosts.chunk", "the longest message"),
            ("hosts.window", "messages that may be on their way to a peer"),
            ("hosts.lockstep", "begin a step when what the one before sent is acknowledged"),
            (
                "hosts.confirm",
                "Broadcast and Reduce end when all ranks have confirmed the same; otherwise as papers count",
            ),
        ];
        Transport::HELP.into_iter().chain(own).collect()
    }

    fn check(&self) -> Result<(), Refusal> {
        let Pieces { chunk, window, .. } = self.hosts;
        if chunk.bytes() == 0 || !chunk.bytes().is_multiple_of(4) {
            return Err(Refusal::new("`hosts.chunk` of a multiple of 4 bytes", chunk, "round it"));
        }
        if window < 2 {
            let remedy = "raise it: a ring with fewer would wait for itself";
            return Err(Refusal::new("`hosts.window` of 2 at least", window, remedy));
        }
        // A rank has as much in slots for each peer.
        if u128::from(chunk.bytes()) * u128::from(window) > u128::from(MAX_SLOTS.bytes()) {
            return Err(Refusal::new(
                format!("`hosts.chunk` times `hosts.window` of {MAX_SLOTS} at most"),
                format!("{chunk} times {window}"),
                "cut the data",
            ));
        }
        Ok(())
    }
}

/// Slots that no rank could map.
const MAX_SLOTS: ByteCount = ByteCount::new(1 << 36);

impl Hosts {
    /// How.
    pub const fn algorithm(self) -> Algorithm {
        self.algorithm
    }
}

/// Each rank's next one is its first peer, the one before its second. Two ranks are each other's next and previous: one connection, as
/// for any pair.
fn ring(ranks: u16) -> Vec<Connection> {
    let end = |rank: u16, index| (Member::Rank(Rank(rank)), index);
    match ranks {
        0 | 1 => Vec::new(),
        2 => vec![Connection::new(end(0, 0), end(1, 0))],
        _ => (0..ranks).map(|rank| Connection::new(end(rank, 0), end((rank + 1) % ranks, 1))).collect(),
    }
}

impl Design for Hosts {
    type Params = HostParams;
    type RankRole = ();
    type SwitchRole = ();

    fn name(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Ring => "ring",
            Algorithm::Tree => "tree",
            Algorithm::Direct => "direct",
        }
    }

    fn summary(&self) -> &'static str {
        match self.algorithm {
            Algorithm::Ring => "hosts alone: each rank sends to the next",
            Algorithm::Tree => "hosts alone: ranks form a binary tree",
            Algorithm::Direct => "hosts alone: each rank sends to each other",
        }
    }

    fn fabrics(&self) -> &'static [FabricKind] {
        match self.algorithm {
            Algorithm::Ring => &[FabricKind::Tree, FabricKind::Ring],
            Algorithm::Tree | Algorithm::Direct => &[FabricKind::Tree],
        }
    }

    fn collectives(&self, _: FabricKind) -> &'static [Collective] {
        &Collective::PRIMITIVES
    }

    fn plan(&self, _: &HostParams, placement: &Placement) -> Result<Plan<(), ()>, Refusal> {
        let ranks = placement.ranks;
        let connections = match self.algorithm {
            Algorithm::Ring => ring(ranks),
            // That a rank of a tree could do with fewer depends on the roots that will be asked for.
            Algorithm::Tree | Algorithm::Direct => Connection::full_mesh(ranks),
        };
        Ok(Plan {
            ranks: vec![(); usize::from(ranks)],
            switches: Vec::new(),
            connections,
            remote_write: false,
            relayed: None,
        })
    }

    fn rank<P: Payload>(
        &self,
        params: &HostParams,
        (): (),
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<Box<dyn AnyProgram<P>>, Refusal> {
        let Node::Rank(rank) = context.node else {
            return Err(Refusal::new("a rank", "a switch", "run the same version at both ends"));
        };
        let mutation =
            mutation.map(str::parse::<Mutation>).transpose().map_err(|error| Refusal::of(&error))?;
        let mut peers = vec![None; usize::from(context.ranks)];
        for (index, connection) in context.connections.iter().enumerate() {
            if let Peer::Rank(peer) = connection.peer
                && let Some(place) = peers.get_mut(peer.index())
            {
                *place = Some(QpIndex(index as u16));
            }
        }
        let Pieces { chunk, window, lockstep, confirm } = params.hosts;
        let pace = if lockstep { Pace::Lockstep } else { Pace::Eager };
        let config = Config { algorithm: self.algorithm, rank, peers, chunk, window, pace, confirm };
        let mut program = HostProgram::new(&config).map_err(|error| Refusal::of(&error))?;
        if let Some(mutation) = mutation {
            program.break_rule(mutation);
        }
        Ok(Box::new(program))
    }

    fn model(&self) -> Model {
        Model { mutations: || Mutation::all().map(Mutation::name).collect(), ..Model::PLAIN }
    }
}
