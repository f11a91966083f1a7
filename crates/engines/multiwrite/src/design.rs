//! MultiWrite as designs: what hosts of a mesh, of servers or at switches do with each other's memory. Parameters, ways and shares, and
//! what runs on a rank.

use crate::all_gather::{AllGather, AllGatherConfig};
use crate::experts::{Experts, ExpertsConfig};
use crate::mutation::Mutation;
use crate::split::{Part, Paths, Strategy, split};
use crate::table::Table;
use crate::ways::{Ways, ways};
use crate::window::Window;
use crate::writer::{RelayCost, WriterConfig};
use crate::writes::Writes;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use quincunx_collective::{Collective, Payload, Rank};
use quincunx_design::{
    About, Context, Demand, Design, Endpoint, FabricKind, Help, Model, Params, Peer, Placement, Plan,
    Refusal, Transport,
};
use quincunx_engine::verbs::QpIndex;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::multiwrite::MAX_RANKS;
use serde::{Deserialize, Serialize};

/// What ranks do with each other's memory.
#[derive(Clone, Copy, Debug)]
pub struct MultiWrite {
    about: About,
    strategy: Strategy,
}

const GATHERS: &[Collective] = &[Collective::AllGather, Collective::Barrier];

const EXPERTS: &[Collective] = &[Collective::Dispatch, Collective::Combine];

const MODEL: Model = Model { mutations: |_| Mutation::all().map(Mutation::name).collect(), ..Model::PLAIN };

/// Part of the data goes over relays, once for all who are to have it (3.1).
pub const MULTIWRITE: MultiWrite = MultiWrite {
    about: About {
        model: MODEL,
        ..About::new(
            "multiwrite",
            "MultiWrite: one write for many destinations, over ranks that relay",
            &[
                (FabricKind::Mesh, GATHERS),
                (FabricKind::MemoryMesh, GATHERS),
                (FabricKind::Servers, EXPERTS),
                (FabricKind::Tree, GATHERS),
            ],
        )
    },
    strategy: Strategy::MultiWrite,
};

/// Part of the data goes over relays, once for each who is to have it.
pub const UNICAST_MULTIPATH: MultiWrite = MultiWrite {
    about: About {
        model: MODEL,
        ..About::new(
            "unicast-multipath",
            "writes over ranks that relay, one for each destination",
            &[(FabricKind::Mesh, GATHERS), (FabricKind::MemoryMesh, GATHERS)],
        )
    },
    strategy: Strategy::Unicast,
};

/// The same program without relays: a baseline that differs in nothing else.
pub const DIRECT: MultiWrite = MultiWrite {
    about: About {
        model: MODEL,
        ..About::new(
            "direct",
            "writes by direct ways alone",
            &[(FabricKind::Mesh, GATHERS), (FabricKind::MemoryMesh, GATHERS), (FabricKind::Servers, EXPERTS)],
        )
    },
    strategy: Strategy::Direct,
};

/// What the application writes, to one rank or several (4.3.2).
pub const WRITES: MultiWrite = MultiWrite {
    about: About {
        writes: true,
        model: MODEL,
        ..About::new(
            "writes",
            "writes of the application's own, to one rank or several at once",
            &[(FabricKind::Mesh, &[])],
        )
    },
    strategy: Strategy::MultiWrite,
};

/// The parameters.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RelayParams {
    /// The queue pairs.
    pub group: Transport,
    /// How ranks relay, and what it takes them.
    pub relay: Relay,
}

/// How ranks relay, and what it takes them. Times are those of simulated processors: real ones take what they take.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Relay {
    /// Who relays for a rank.
    pub relays: Relays,
    /// The longest message; a full message of the queue pairs if it is not said.
    pub piece: Option<ByteCount>,
    /// To prepare more than one way, once a collective, before anything is sent.
    pub preparation: Duration,
    /// To take a message in and to read whom it is for.
    pub message: Duration,
    /// To send one copy of it.
    pub copy: Duration,
    /// Ranks announce to each other how many tokens follow; otherwise the application says how many come from whom, as AllToAllV's callers do.
    pub announce: bool,
    /// Where they do not: after how long ranks that wait say how many they have sent, so that wrong numbers are found; zero: never.
    pub patience: Duration,
}

impl Default for Relay {
    fn default() -> Self {
        let none = Duration::ZERO;
        Self {
            relays: Relays::default(),
            piece: None,
            preparation: none,
            message: none,
            copy: none,
            announce: true,
            patience: Duration::from_secs(1),
        }
    }
}

/// Who relays for a rank of a mesh.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relays {
    /// Its partner: the rank in the same place of the next domain.
    #[default]
    Paired,
    /// Every rank of the next domain.
    Full,
}

/// What a rank is told beside its connections.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayRole {
    /// By rank: which connections lead there, the usual way first.
    ways: Vec<Vec<u16>>,
    /// Slots that each rank has in each window.
    slots: u32,
    /// Bytes of each.
    length: ByteCount,
    /// To prepare relaying.
    preparation: Duration,
    /// How a rank's data is divided over ways, for AllGathers; nothing for tokens and writes.
    parts: Vec<PartRole>,
    /// Whether it is tokens that are written.
    tokens: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PartRole {
    way: u32,
    weight: u64,
    is_shared: bool,
}

impl Params for RelayParams {
    fn help() -> Vec<Help> {
        let own: [Help; 7] = [
            (
                "relay.relays",
                "who relays for a rank of a mesh: paired (its partner in the next domain) or full (all of it)",
            ),
            ("relay.piece", "the longest message; default: a full message of the queue pairs"),
            ("relay.preparation", "simulated: time to prepare several paths, once a collective"),
            ("relay.message", "simulated: time to receive a message and read its destinations"),
            ("relay.copy", "simulated: time to send one copy of a message"),
            (
                "relay.announce",
                "of tokens: ranks first announce how many follow; otherwise the application says how many come from whom",
            ),
            (
                "relay.patience",
                "of tokens that are not announced: after how long ranks that wait say how many they have sent, so that wrong numbers are found; 0s: never",
            ),
        ];
        Transport::HELP.into_iter().chain(own).collect()
    }

    fn transport(&self) -> Option<Transport> {
        Some(self.group.clone())
    }

    fn check(&self) -> Result<(), Refusal> {
        match self.relay.piece {
            Some(piece) if piece.bytes() == 0 || !piece.bytes().is_multiple_of(4) => {
                Err(Refusal::new("`relay.piece` of a multiple of 4 bytes", piece, "round it"))
            }
            Some(piece) if piece >= LONGEST_MESSAGE => Err(Refusal::new(
                "a `relay.piece` below 16 MiB",
                piece,
                "a packet of the memory fabric has no more bits for its length",
            )),
            _ => Ok(()),
        }
    }
}

impl RelayParams {
    fn piece(&self) -> ByteCount {
        self.relay.piece.unwrap_or(self.group.mtu * u64::from(self.group.message))
    }

    const fn cost(&self) -> RelayCost {
        RelayCost { message: self.relay.message, copy: self.relay.copy }
    }
}

/// Messages are shorter: packets of the memory fabric say their length in 24 bits.
const LONGEST_MESSAGE: ByteCount = ByteCount::new(1 << 24);

/// A window that no node could map.
const MAX_WINDOW: ByteCount = ByteCount::new(1 << 36);

/// Refuses windows that no node could map, and those that hold nothing.
fn check_window(ranks: u16, slots: u32, length: ByteCount) -> Result<(), Refusal> {
    let window = u128::from(length.bytes()) * u128::from(slots) * u128::from(ranks);
    if window == 0 || window > u128::from(MAX_WINDOW.bytes()) {
        return Err(Refusal::new(
            format!("windows of up to {MAX_WINDOW} with a slot at least"),
            format!("{ranks} ranks with {slots} slots of {length} each"),
            "cut the data",
        ));
    }
    Ok(())
}

impl MultiWrite {
    /// What goes over relays, and how.
    pub const fn strategy(self) -> Strategy {
        self.strategy
    }

    fn relays(&self) -> bool {
        self.strategy != Strategy::Direct
    }

    fn check(&self, placement: &Placement, slots: u32, length: ByteCount) -> Result<(), Refusal> {
        let ranks = placement.ranks;
        if !(2..=MAX_RANKS).contains(&ranks) || !ranks.is_multiple_of(placement.domains.max(1)) {
            return Err(Refusal::new(
                format!("2 to {MAX_RANKS} ranks in domains of one size for {}", self.about.name),
                format!("{ranks} in {}", placement.domains),
                "change the group's members",
            ));
        }
        let needs_domains = self.relays() && !self.about.writes && placement.tree.is_none();
        if needs_domains && placement.domains < 2 {
            return Err(Refusal::new(
                format!("two domains at least for {}", self.about.name),
                placement.domains,
                "choose a mesh such as mesh-2x4",
            ));
        }
        let gathers = matches!(placement.demand, Demand::Vectors { .. });
        if needs_domains && gathers && placement.members() < 2 {
            return Err(Refusal::new(
                format!("two ranks at least in a domain for {}", self.about.name),
                placement.members(),
                "choose a mesh such as mesh-2x4",
            ));
        }
        check_window(ranks, slots, length)
    }

    fn parts(&self, params: &RelayParams, placement: &Placement) -> Vec<Part> {
        if placement.tree.is_some() {
            // The last way there is: all of it goes over relays where there are any.
            return Vec::from([Part { way: 1, weight: 1, is_shared: true }]);
        }
        let members = placement.members();
        let paths = Paths {
            direct: placement.rates.direct,
            cross: placement.rates.cross,
            members,
            others: members,
            relays: match params.relay.relays {
                Relays::Paired => 1,
                Relays::Full => members,
            },
            relay: (params.cost(), params.piece()),
        };
        split(self.strategy, &paths)
    }
}

impl Design for MultiWrite {
    type Params = RelayParams;
    type RankRole = RelayRole;
    type SwitchRole = ();

    fn about(&self) -> &About {
        &self.about
    }

    fn plan(&self, params: &RelayParams, placement: &Placement) -> Result<Plan<RelayRole, ()>, Refusal> {
        let piece = params.piece();
        let (slots, length, tokens) = match placement.demand {
            Demand::Vectors { longest } => (longest.pieces_of(piece).max(1), piece, false),
            Demand::Writes { slots, length } => (slots.into(), length, false),
            Demand::Tokens { most, length } => (most.into(), length, true),
        };
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        self.check(placement, slots, length)?;
        let Ways { connections, by_rank } = ways(placement, self.relays(), tokens);
        let is_gathering = !self.about.writes && !tokens;
        let parts = if is_gathering { self.parts(params, placement) } else { Vec::new() };
        let weight = |chosen: fn(&Part) -> bool| {
            parts.iter().filter(|part| chosen(part)).map(|part| u128::from(part.weight)).sum::<u128>() as f64
        };
        let relayed = is_gathering.then(|| weight(|part| part.way > 0) / weight(|_| true));
        let role = |ways| RelayRole {
            ways,
            slots,
            length,
            preparation: if tokens && !self.relays() { Duration::ZERO } else { params.relay.preparation },
            parts: parts
                .iter()
                .map(|part| PartRole { way: part.way as u32, weight: part.weight, is_shared: part.is_shared })
                .collect(),
            tokens,
        };
        let ranks = by_rank.into_iter().map(role).collect();
        Ok(Plan { remote_write: true, relayed, ..Plan::new(ranks, connections) })
    }

    fn endpoint<P: Payload>(
        &self,
        params: &RelayParams,
        role: RelayRole,
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal> {
        let mutation = context.mutation::<Mutation>()?;
        let context = context.group()?;
        let rank = context.rank()?;
        check_window(context.ranks, role.slots, role.length)?;
        let neighbour = |peer: &Peer| match peer {
            Peer::Rank(rank) => Ok(*rank),
            Peer::Switch(name) => Err(Refusal::new(
                "ranks as peers",
                format!("switch {name}"),
                "run the same version at both ends",
            )),
        };
        let neighbours = context.connections.iter().map(|connection| neighbour(&connection.peer));
        let routes = role.ways.into_iter().map(|ways| ways.into_iter().map(QpIndex).collect()).collect();
        let table = Table::new(rank, context.ranks, neighbours.collect::<Result<_, _>>()?, routes);
        let writer = WriterConfig {
            table: table.map_err(|error| Refusal::of(&error))?,
            window: Window::new(context.ranks, role.slots as usize, role.length.as_usize()),
            // No more messages than packets are on their way.
            receives: params.group.window_packets().as_usize(),
            cost: params.cost(),
        };
        let preparation = role.preparation;
        if self.about.writes {
            let mut program = Writes::new(writer);
            if let Some(mutation) = mutation {
                program.break_rule(mutation);
            }
            return Ok(Endpoint::Program(Box::new(program)));
        }
        if role.tokens {
            let config = ExpertsConfig {
                writer,
                preparation,
                announces: params.relay.announce,
                patience: params.relay.patience,
            };
            let mut program = Experts::new(config).map_err(|error| Refusal::of(&error))?;
            if let Some(mutation) = mutation {
                program.break_rule(mutation);
            }
            return Ok(Endpoint::Program(Box::new(program)));
        }
        let members = context.ranks / context.domains.max(1);
        let first = rank.0 / members.max(1) * members;
        let part =
            |part: PartRole| Part { way: part.way as usize, weight: part.weight, is_shared: part.is_shared };
        let config = AllGatherConfig {
            writer,
            group: (first..first + members).map(Rank).collect(),
            parts: role.parts.into_iter().map(part).collect(),
            preparation,
        };
        let mut program = AllGather::new(config).map_err(|error| Refusal::of(&error))?;
        if let Some(mutation) = mutation {
            program.break_rule(mutation);
        }
        Ok(Endpoint::Program(Box::new(program)))
    }
}
