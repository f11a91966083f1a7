//! Collectives among hosts or accelerators alone as three designs: parameters, who is connected with whom, and what runs on a rank.

use crate::config::{Algorithm, Config, DEFAULT_CHUNK, DEFAULT_WINDOW};
use crate::mutation::Mutation;
use crate::pace::Pace;
use crate::program::HostProgram;
use crate::shared_direct::{LONGEST_COPIED, SharedDirect, SharedDirectConfig};
use crate::shared_memory::{SharedRing, SharedRingConfig};
use crate::two_trees::TwoTrees;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    About, Connection, Context, Design, Endpoint, FabricKind, GroupContext, Help, Member, MemoryContext,
    MemoryNeeds, Model, Params, Peer, Place, Placement, Plan, Refusal, SharedMemory, Transport,
};
use quincunx_engine::shared_memory::AnyKernel;
use quincunx_engine::verbs::QpIndex;
use quincunx_units::ByteCount;
use serde::{Deserialize, Serialize};

/// Collectives among ranks alone, by one algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Hosts {
    about: About,
    algorithm: Algorithm,
}

/// What they offer to accelerators.
const ON_MEMORY: &[Collective] = &[Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

/// All of its rules are those of hosts.
const MODEL: Model = Model {
    mutations: |fabric| match fabric {
        FabricKind::Memory => Vec::new(),
        _ => Mutation::all().map(Mutation::name).collect(),
    },
    ..Model::PLAIN
};

/// Each rank sends to the next.
pub const RING: Hosts = Hosts {
    about: About {
        model: MODEL,
        ..About::new(
            "ring",
            "ranks alone: each sends to the next",
            &[
                (FabricKind::Tree, &Collective::PRIMITIVES),
                (FabricKind::Ring, &Collective::PRIMITIVES),
                (FabricKind::Memory, ON_MEMORY),
            ],
        )
    },
    algorithm: Algorithm::Ring,
};

/// Ranks form a tree.
pub const TREE: Hosts = Hosts {
    about: About {
        model: MODEL,
        ..About::new(
            "tree",
            "hosts alone: ranks form a binary tree",
            &[(FabricKind::Tree, &Collective::PRIMITIVES)],
        )
    },
    algorithm: Algorithm::Tree,
};

/// Ranks form two trees, each for half of the vector.
pub const DOUBLE_TREE: Hosts = Hosts {
    about: About {
        model: MODEL,
        ..About::new(
            "double-tree",
            "hosts alone: ranks form two binary trees, each for half of the vector",
            &[(FabricKind::Tree, Algorithm::DoubleTree.collectives())],
        )
    },
    algorithm: Algorithm::DoubleTree,
};

/// Ranks exchange with those at distances of powers of two.
pub const HALVING_DOUBLING: Hosts = Hosts {
    about: About {
        model: MODEL,
        ..About::new(
            "halving-doubling",
            "hosts alone: ranks exchange halves, quarters and so on, or short vectors, with those 1, 2, 4, ... away",
            &[(FabricKind::Tree, Algorithm::HalvingDoubling.collectives())],
        )
    },
    algorithm: Algorithm::HalvingDoubling,
};

/// Each rank sends to each other.
pub const DIRECT: Hosts = Hosts {
    about: About {
        model: MODEL,
        ..About::new(
            "direct",
            "ranks alone: each sends to each other",
            &[(FabricKind::Tree, &Collective::PRIMITIVES), (FabricKind::Memory, ON_MEMORY)],
        )
    },
    algorithm: Algorithm::Direct,
};

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
    /// The longest message; the algorithm's if it is not said.
    pub chunk: Option<ByteCount>,
    /// Messages that may be on their way to a peer; the algorithm's if it is not said.
    pub window: Option<u16>,
    /// A step begins when what the one before sent is acknowledged, not as soon as its data is there.
    pub lockstep: bool,
    /// A Broadcast, a Reduce and what has no bytes end when all ranks have confirmed that they ask for the same; otherwise when this rank has
    /// sent and received all, as papers count: a rank that asks for something else goes unnoticed then.
    pub confirm: bool,
    /// Of direct: a Barrier goes to rank 0 and back from there (EPIC table 30, ToRank0), not from each to each.
    pub barrier_at_root: bool,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { chunk: None, window: None, lockstep: false, confirm: true, barrier_at_root: false }
    }
}

impl Params for HostParams {
    fn help() -> Vec<Help> {
        let own: [Help; 5] = [
            ("hosts.chunk", "the longest message; default: 64KiB, 16KiB in double-tree"),
            ("hosts.window", "messages in flight to a peer; default: 16, 64 in double-tree"),
            ("hosts.lockstep", "begin a step when all messages of the last one are acknowledged"),
            (
                "hosts.confirm",
                "Broadcast and Reduce end when all ranks have confirmed the same; otherwise, as in papers, when each has sent and received all",
            ),
            (
                "hosts.barrier_at_root",
                "of direct: a Barrier goes to rank 0 and back from there; otherwise from each to each",
            ),
        ];
        Transport::HELP.into_iter().chain(own).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(self.group.clone())
    }

    /// Accelerators write whole parts of a vector, as fast as the links take them.
    fn tables_on(fabric: FabricKind) -> Option<&'static [&'static str]> {
        (fabric == FabricKind::Memory).then_some(&[])
    }

    fn check(&self) -> Result<(), Refusal> {
        let chunk = self.hosts.chunk.unwrap_or(DEFAULT_CHUNK);
        let window = self.hosts.window.unwrap_or(DEFAULT_WINDOW);
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

/// Each rank's connections are to its neighbours, in their order.
fn to_neighbours(neighbours: &[Vec<Rank>]) -> Vec<Connection> {
    let end = |rank: Rank, to: Rank| {
        let index = neighbours[rank.index()].iter().position(|peer| *peer == to);
        (Member::Rank(rank), index.expect("neighbours are mutual") as u16)
    };
    let from = |rank: Rank| {
        let above = neighbours[rank.index()].iter().filter(move |peer| **peer > rank);
        above.map(move |peer| Connection::new(end(rank, *peer), end(*peer, rank)))
    };
    (0..neighbours.len() as u16).map(Rank).flat_map(from).collect()
}

impl Hosts {
    fn memory_needs(&self, memory: &SharedMemory) -> Result<MemoryNeeds, Refusal> {
        let (ranks, length) = (memory.fabric.accelerators, memory.request.span.length);
        let (words, scratch) = match self.algorithm {
            Algorithm::Ring => {
                let granule = memory.fabric.format.max_payload;
                // A flag for each link, and what the successor has begun.
                (memory.fabric.switches + 1, SharedRing::scratch_bytes(ranks, length, granule))
            }
            // Of each rank a flag for each link, and what it has begun.
            Algorithm::Direct => {
                ((memory.fabric.switches + 1) * ranks, SharedDirect::scratch_bytes(ranks, length))
            }
            Algorithm::Tree | Algorithm::DoubleTree | Algorithm::HalvingDoubling => {
                return Err(self.hosts_alone());
            }
        };
        Ok(MemoryNeeds { words, tail: 0, scratch })
    }

    fn kernel<P: Payload>(&self, memory: &MemoryContext<'_>) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        let (rank, stream) = (memory.rank()?, memory.stream()?);
        let (ranks, granule) = (memory.fabric.accelerators, memory.fabric.format.max_payload);
        let (scratch, first_flag) = (stream.scratch, stream.first_word);
        Ok(match self.algorithm {
            Algorithm::Ring => {
                Box::new(SharedRing::new(SharedRingConfig { ranks, rank, granule, scratch, first_flag }))
            }
            Algorithm::Direct => {
                let longest_copied = LONGEST_COPIED;
                let config = SharedDirectConfig { ranks, rank, granule, scratch, longest_copied, first_flag };
                Box::new(SharedDirect::new(config))
            }
            Algorithm::Tree | Algorithm::DoubleTree | Algorithm::HalvingDoubling => {
                return Err(self.hosts_alone());
            }
        })
    }

    fn hosts_alone(&self) -> Refusal {
        let expected = format!("hosts for {}", self.about.name);
        Refusal::new(expected, "accelerators", "name another design, or another fabric")
    }

    fn program(
        &self,
        params: &HostParams,
        trees: Option<TwoTrees>,
        context: &GroupContext,
        mutation: Option<Mutation>,
    ) -> Result<HostProgram, Refusal> {
        let mut peers = vec![None; usize::from(context.ranks)];
        for (index, connection) in context.connections.iter().enumerate() {
            if let Peer::Rank(peer) = connection.peer
                && let Some(place) = peers.get_mut(peer.index())
            {
                *place = Some(QpIndex(index as u16));
            }
        }
        let Pieces { chunk, window, lockstep, confirm, barrier_at_root } = params.hosts;
        let (usual_chunk, usual_window) = self.algorithm.pieces();
        let (chunk, window) = (chunk.unwrap_or(usual_chunk), window.unwrap_or(usual_window));
        let pace = if lockstep { Pace::Lockstep } else { Pace::Eager };
        let rank = context.rank()?;
        let algorithm = self.algorithm;
        let config = Config { algorithm, rank, peers, trees, chunk, window, pace, confirm, barrier_at_root };
        let mut program = HostProgram::new(&config).map_err(|error| Refusal::of(&error))?;
        if let Some(mutation) = mutation {
            program.break_rule(mutation);
        }
        Ok(program)
    }
}

impl Design for Hosts {
    type Params = HostParams;
    /// Where it is in two trees, if these are the algorithm.
    type RankRole = Option<TwoTrees>;
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, _: &HostParams, placement: &Placement) -> Result<Plan<Option<TwoTrees>, ()>, Refusal> {
        let ranks = vec![None; usize::from(placement.ranks)];
        if let Some(memory) = &placement.memory {
            return Ok(Plan::of_stream(ranks, self.memory_needs(memory)?));
        }
        let connections = match self.algorithm {
            Algorithm::Ring => ring(placement.ranks),
            // That a rank of a tree could do with fewer depends on the roots that will be asked for.
            Algorithm::Tree | Algorithm::Direct => Connection::full_mesh(placement.ranks),
            Algorithm::DoubleTree => {
                let trees = TwoTrees::over(placement.ranks, placement.tree.as_ref());
                let neighbours: Vec<_> = trees.iter().map(TwoTrees::neighbours).collect();
                let ranks = trees.into_iter().map(Some).collect();
                return Ok(Plan::new(ranks, to_neighbours(&neighbours)));
            }
            Algorithm::HalvingDoubling => {
                let peers = |rank| self.algorithm.peers(Rank(rank), placement.ranks);
                to_neighbours(&(0..placement.ranks).map(peers).collect::<Vec<_>>())
            }
        };
        Ok(Plan::new(ranks, connections))
    }

    fn endpoint<P: Payload>(
        &self,
        params: &HostParams,
        trees: Option<TwoTrees>,
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        Ok(match &context.place {
            Place::Group(group) => {
                Endpoint::Program(Box::new(self.program(params, trees, group, context.mutation()?)?))
            }
            Place::Memory(memory) => Endpoint::Kernel(self.kernel(memory)?),
        })
    }
}
