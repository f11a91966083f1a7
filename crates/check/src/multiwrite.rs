//! MultiWrite between four hosts, with writes alone or an AllGather above them: the engines' tables and programs on real nodes.
//!
//! What must hold: each destination gets each write once and whole, nobody else gets anything, every AllGather has the right result, and
//! every run ends. Where tables contradict each other a run ends too, and nobody is told that it has what it has not.
//!
//! What keeps the states few: the hosts are alike ([`Protocol::symmetries`]), so that up to four states count as one, and every
//! queue pair leads the same way from every host, so that they stay alike. A host has several links, so that there are no leaves to look at
//! first: what arrives over two links does not commute, for the one acknowledge that was missing may let a host begin anew, and
//! whether something else arrives over a third link before depends on all others. All orders of that are explored.

use core::fmt;
use core::str::FromStr;

use quincunx_collective::{Collective, Contributions, Payload, Rank};
use quincunx_driver_check::{End, NodeId, Renaming};
use quincunx_engine::PortId;
use quincunx_engine::verbs::{
    Alarm, CollectiveRequest, Completion, Outcome, Program, QpIndex, RequestError, UNLIMITED_RETRIES, Verbs,
};
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, Mutation, Part, RelayCost, Table, Window, Writer, WriterConfig,
};
use quincunx_nodes::{
    HostCommand, HostGroup, StationCommand, StationKind, StationRejected, SwitchCommand, SwitchTimer,
};
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, Reliability};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Operation, RoceHeader};

use crate::network::{Expected, FIRST_PSN, GROUP, MTU, Network, Protocol, Task, endpoint, station};
use crate::writes::{Piece, Writes};

/// Hosts of every network, numbered first.
const RANKS: u16 = 4;

const SWITCH: NodeId = NodeId(RANKS);

/// Where a peer may fail for good: one more than there are losses.
const RETRIES: u8 = 2;

/// How hosts are joined, and which ways their tables know.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Topology {
    /// Each with each. Ranks 0 and 1 are a group, and 2 and 3; a second way within a group leads over the rank's partner in the other
    /// one, two ranks on.
    Mesh,
    /// Each with the next and the one before; all ways lead to the next.
    Ring,
    /// Two servers of two, each host joined with the other one and with a switch. Ways to the other server lead over the rank of the same
    /// place there.
    Servers,
    /// Each with each, with tables that contradict each other: rank 0 reaches rank 1 over rank 2, which leads back.
    ShortLoop,
    /// The same, but rank 2 leads on to rank 3, and that one back.
    LongLoop,
}

const NAMES: [(&str, Topology); 5] = [
    ("mesh-2x2", Topology::Mesh),
    ("ring-4", Topology::Ring),
    ("servers-2x2", Topology::Servers),
    ("loop-2", Topology::ShortLoop),
    ("loop-3", Topology::LongLoop),
];

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(_, topology)| topology == self).map_or("?", |(name, _)| name))
    }
}

/// No topology has this name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected one of mesh-2x2, ring-4, servers-2x2, loop-2, loop-3, found \"{0}\"")]
pub struct UnknownTopology(String);

impl FromStr for Topology {
    type Err = UnknownTopology;

    fn from_str(text: &str) -> Result<Self, UnknownTopology> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, topology)| *topology).ok_or_else(|| UnknownTopology(text.to_owned()))
    }
}

impl Topology {
    /// Neighbours of a rank, by queue pair. The same one leads the same way from every rank, or they would not be alike.
    fn neighbours(self, rank: u16) -> Vec<u16> {
        match self {
            Self::Ring => vec![(rank + 1) % RANKS, (rank + 3) % RANKS],
            _ => vec![rank ^ 1, rank ^ 2, rank ^ 3],
        }
    }

    /// The queue pairs that lead to `to`, the usual way first.
    fn ways(self, rank: u16, to: u16) -> Vec<u16> {
        match (self, rank ^ to, rank) {
            (_, 0, _) => vec![],
            (Self::Ring, ..) => vec![0],
            (Self::ShortLoop, 3, 2) => vec![1],
            (Self::LongLoop, 3, 2) => vec![0],
            (Self::LongLoop, 2, 3) => vec![2],
            (Self::Mesh | Self::ShortLoop | Self::LongLoop, 1, _) => vec![0, 1],
            (Self::Servers, 3, _) => vec![1],
            (_, difference, _) => vec![difference - 1],
        }
    }

    /// The rank that writes of a rank reach over most relays.
    fn far(self, rank: u16) -> u16 {
        match self {
            Self::Servers => rank ^ 3,
            Self::Ring => (rank + 3) % RANKS,
            Self::Mesh | Self::ShortLoop | Self::LongLoop => rank ^ 1,
        }
    }

    /// The ranks that gather together with this one.
    fn group(self, rank: u16) -> Vec<Rank> {
        let group = match self {
            // The barrier needs neighbours: of those, the ones between whom writes take the longest way.
            Self::Ring | Self::Servers if [0, 3].contains(&rank) => [0, 3],
            Self::Ring | Self::Servers => [1, 2],
            Self::Mesh | Self::ShortLoop | Self::LongLoop => [rank & 2, rank | 1],
        };
        group.into_iter().map(Rank).collect()
    }

    /// How a rank's data is divided: on a mesh one half goes over its partner.
    fn parts(self) -> Vec<Part> {
        let part = |way| Part { way, weight: 1, is_shared: true };
        if self == Self::Mesh { vec![part(0), part(1)] } else { vec![part(0)] }
    }

    fn is_loop(self) -> bool {
        matches!(self, Self::ShortLoop | Self::LongLoop)
    }

    /// The port that a rank's queue pair speaks through.
    fn port(self, queue_pair: u16) -> PortId {
        PortId(if self == Self::Servers { queue_pair.min(1) } else { queue_pair })
    }

    fn switch(self) -> Option<NodeId> {
        (self == Self::Servers).then_some(SWITCH)
    }

    /// Port `i` of the switch leads to rank `i`.
    fn links(self) -> Vec<[End; 2]> {
        let end = |node, port| End { node: NodeId(node), port };
        let links = (0..RANKS).flat_map(|rank| {
            let neighbours = (0..).zip(self.neighbours(rank));
            neighbours.filter(move |(_, peer)| rank < *peer).map(move |(queue_pair, peer)| {
                [end(rank, self.port(queue_pair)), end(peer, self.port(self.back(rank, peer)))]
            })
        });
        match self.switch() {
            None => links.collect(),
            Some(switch) => {
                let joined = links.filter(|[end, _]| end.port == PortId(0));
                let up = (0..RANKS)
                    .map(|rank| [End { node: switch, port: PortId(rank) }, end(rank, self.port(1))]);
                joined.chain(up).collect()
            }
        }
    }

    /// The queue pair of `peer` that leads to `rank`.
    fn back(self, rank: u16, peer: u16) -> u16 {
        let back = self.neighbours(peer).into_iter().position(|other| other == rank);
        back.expect("neighbours are each other's") as u16
    }

    /// A renaming: ranks are turned or exchanged by `step`.
    fn renamed(self, step: u16) -> Vec<NodeId> {
        let rename = |rank| if self == Self::Ring { (rank + step) % RANKS } else { rank ^ step };
        (0..RANKS).map(|rank| NodeId(rename(rank))).chain(self.switch()).collect()
    }
}

/// What hosts do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// Writes without anything above them: the first of a rank is for all others, the next for the one that is reached over most
    /// relays, and so on in turn.
    Writes,
    /// The first ranks gather, the others relay for them.
    AllGather,
}

/// What to explore.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RelaySetup {
    /// The network.
    pub topology: Topology,
    /// What hosts do.
    pub pattern: Pattern,
    /// Ranks that send anything of their own: of two, 0 and 2 write, or 0 and the one that gathers with it.
    pub senders: u16,
    /// Packets of each of them.
    pub packets: usize,
    /// How often in sequence; writes once.
    pub times: usize,
    /// Packets that a queue pair may have in flight.
    pub window: u32,
    /// Relaying takes its time: until nothing else is on its way, but for [early time-outs](crate::Exploration::early_timeouts).
    pub slow: bool,
    /// A rule that all break.
    pub mutation: Option<Mutation>,
}

/// Why a set-up cannot be explored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RelayError {
    /// More packets than can be told apart, or none.
    #[error("expected 1 to {most} packets of all ranks, found {found}; send less", most = Contributions::RANKS)]
    Packets {
        /// Packets of all ranks in all collectives.
        found: usize,
    },
    /// Writes have no end that all notice.
    #[error("expected writes once, found {found} times; choose all_gather, whose barrier frees the slots")]
    Times {
        /// As given.
        found: usize,
    },
    /// Ranks that do not send together.
    #[error("expected {expected} senders, found {found}; choose another number")]
    Senders {
        /// What would do.
        expected: &'static str,
        /// As given.
        found: u16,
    },
    /// Nobody tells those who wait for what goes astray.
    #[error("expected writes where tables contradict each other, found all_gather; choose write")]
    NoEnd,
    /// A host refuses its group.
    #[error(transparent)]
    Rejected(#[from] StationRejected),
}

/// Hosts that write and relay, to explore.
pub type Relays = Network<MultiWrite>;

/// MultiWrite between four hosts.
#[derive(Clone, Debug)]
pub struct MultiWrite {
    setup: RelaySetup,
}

impl Network<MultiWrite> {
    /// The network of a set-up, with the group installed.
    ///
    /// # Errors
    /// If the set-up makes no sense, or a host refuses it.
    pub fn new(setup: RelaySetup) -> Result<Self, RelayError> {
        setup.check()?;
        let install = |rank| {
            let group = HostGroup {
                group: GROUP,
                queue_pairs: setup.queue_pairs(rank),
                program: setup.program(rank),
            };
            station(StationKind::Host, [StationCommand::Host(HostCommand::Install(Box::new(group)))])
        };
        let mut stations = (0..RANKS).map(install).collect::<Result<Vec<_>, _>>()?;
        if setup.topology.switch().is_some() {
            let route = |rank| {
                let port = PortId(rank);
                let destination = endpoint(End { node: NodeId(rank), port }).ip;
                StationCommand::Switch(SwitchCommand::Route { destination, port })
            };
            stations.push(station(StationKind::Switch, (0..RANKS).map(route))?);
        }
        Ok(Self::on(setup.topology.links(), stations, MultiWrite { setup }))
    }
}

impl RelaySetup {
    fn check(&self) -> Result<(), RelayError> {
        let packets = self.packets * self.times * usize::from(RANKS);
        if !(1..=usize::from(Contributions::RANKS)).contains(&packets) {
            return Err(RelayError::Packets { found: packets });
        }
        if self.pattern == Pattern::Writes && self.times != 1 {
            return Err(RelayError::Times { found: self.times });
        }
        let (expected, fits) = match (self.pattern, self.topology) {
            (Pattern::Writes, topology) if topology.is_loop() => ("1", self.senders == 1),
            (Pattern::Writes, _) => ("1, 2 or 4", matches!(self.senders, 1 | 2 | 4)),
            (Pattern::AllGather, topology) if topology.is_loop() => return Err(RelayError::NoEnd),
            (Pattern::AllGather, _) => ("2 or 4", matches!(self.senders, 2 | 4)),
        };
        if fits { Ok(()) } else { Err(RelayError::Senders { expected, found: self.senders }) }
    }

    fn sends(&self, rank: u16) -> bool {
        match self.pattern {
            Pattern::Writes => rank.is_multiple_of(RANKS / self.senders),
            Pattern::AllGather => self.senders == RANKS || self.topology.group(0).contains(&Rank(rank)),
        }
    }

    fn queue_pairs(&self, rank: u16) -> Vec<(PortId, QueuePairConfig)> {
        let topology = self.topology;
        let end = |node, queue_pair| End { node: NodeId(node), port: PortId(queue_pair) };
        let neighbours = (0..).zip(topology.neighbours(rank));
        let queue_pair = |(index, peer)| {
            let (near, far) = (end(rank, index), end(peer, topology.back(rank, peer)));
            (topology.port(index), self.queue_pair(near, far))
        };
        neighbours.map(queue_pair).collect()
    }

    fn queue_pair(&self, near: End, far: End) -> QueuePairConfig {
        QueuePairConfig {
            local: endpoint(near),
            remote: endpoint(far),
            mtu: MTU,
            send_psn: FIRST_PSN,
            expected_psn: FIRST_PSN,
            acknowledge_every: 1,
            retry_timeout: Duration::from_micros(100),
            retry_count: if self.topology.is_loop() { RETRIES } else { UNLIMITED_RETRIES },
            rnr_timer: 1,
            rnr_retry_count: INFINITE_RNR_RETRIES,
            max_outstanding_packets: self.window,
            remote_write: true,
            reliability: Reliability::GoBackN,
            rate: None,
            mutation: None,
        }
    }

    fn table(&self, rank: u16) -> Table {
        let neighbours = self.topology.neighbours(rank).into_iter().map(Rank).collect();
        let ways = |to| self.topology.ways(rank, to).into_iter().map(QpIndex).collect();
        let table = Table::new(Rank(rank), RANKS, neighbours, (0..RANKS).map(ways).collect());
        table.expect("ports lead to neighbours")
    }

    fn program(&self, rank: u16) -> Relaying {
        let writer = WriterConfig {
            table: self.table(rank),
            window: Window::new(RANKS, self.packets, MTU),
            receives: self.window as usize,
            cost: RelayCost { message: Duration::from_micros(self.slow.into()), copy: Duration::ZERO },
        };
        match self.pattern {
            Pattern::Writes => {
                let mut writer = Writer::new(writer);
                if let Some(mutation) = self.mutation {
                    writer.break_rule(mutation);
                }
                let to = if self.sends(rank) { self.packets } else { 0 };
                let to = (0..to).map(|slot| self.destinations(rank, slot)).collect();
                // The ways that relay, where there is a choice.
                Relaying::Writes(Writes::new(writer, to, 1, self.awaited(rank)))
            }
            Pattern::AllGather => {
                let group = self.topology.group(rank);
                let parts = self.topology.parts();
                let config = AllGatherConfig { writer, group, parts, preparation: Duration::ZERO };
                let mut program = AllGather::new(config).expect("groups are neighbours");
                if let Some(mutation) = self.mutation {
                    program.break_rule(mutation);
                }
                Relaying::AllGather(program)
            }
        }
    }

    /// Whom a write is for.
    fn destinations(&self, rank: u16, slot: usize) -> Vec<Rank> {
        match slot % 2 {
            0 => (0..RANKS).filter(|other| *other != rank).map(Rank).collect(),
            _ => vec![Rank(self.topology.far(rank))],
        }
    }

    /// The writes that are for a rank.
    fn awaited(&self, rank: u16) -> Vec<Piece> {
        let sources = (0..RANKS).filter(|source| self.sends(*source));
        let pieces = sources.flat_map(|source| (0..self.packets).map(move |slot| (source, slot)));
        let own = pieces.filter(|&(source, slot)| self.destinations(source, slot).contains(&Rank(rank)));
        own.map(|(source, slot)| (Rank(source), slot)).collect()
    }

    /// A packet of a rank in its collective of that number: each is marked as another rank's.
    fn mark(&self, rank: Rank, number: usize, slot: usize) -> Contributions {
        let mark = (number * self.packets + slot) * usize::from(RANKS) + rank.index();
        Contributions::of_rank(Rank(mark as u16), MTU)
    }

    /// All packets of a rank in its collective of that number.
    fn data(&self, rank: Rank, number: usize) -> Contributions {
        let mut data = Contributions::zeroed(self.packets * MTU);
        for slot in 0..self.packets {
            data.write(slot * MTU, self.mark(rank, number, slot).view(0..MTU));
        }
        data
    }
}

/// What hosts run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Relaying {
    /// Writes alone.
    Writes(Writes),
    /// An AllGather.
    AllGather(AllGather),
}

impl Program<Contributions> for Relaying {
    fn initialise(&mut self, verbs: &mut impl Verbs<Contributions>) {
        match self {
            Self::Writes(program) => program.initialise(verbs),
            Self::AllGather(program) => program.initialise(verbs),
        }
    }

    fn start(
        &mut self,
        now: Instant,
        request: CollectiveRequest,
        verbs: &mut impl Verbs<Contributions>,
    ) -> Result<Option<Outcome>, RequestError> {
        match self {
            Self::Writes(program) => program.start(now, request, verbs),
            Self::AllGather(program) => program.start(now, request, verbs),
        }
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        qp: QpIndex,
        completion: Completion,
        verbs: &mut impl Verbs<Contributions>,
    ) -> Option<Outcome> {
        match self {
            Self::Writes(program) => program.handle_completion(now, qp, completion, verbs),
            Self::AllGather(program) => program.handle_completion(now, qp, completion, verbs),
        }
    }

    fn handle_alarm(
        &mut self,
        now: Instant,
        alarm: Alarm,
        verbs: &mut impl Verbs<Contributions>,
    ) -> Option<Outcome> {
        match self {
            Self::Writes(program) => program.handle_alarm(now, alarm, verbs),
            Self::AllGather(program) => program.handle_alarm(now, alarm, verbs),
        }
    }

    fn assert_invariants(&self) {
        match self {
            Self::Writes(program) => program.assert_invariants(),
            Self::AllGather(program) => Program::<Contributions>::assert_invariants(program),
        }
    }
}

impl MultiWrite {
    /// What must come of a collective that would have this result if all tables led somewhere.
    fn verdict(&self, node: NodeId, result: Contributions) -> Expected {
        match (self.setup.topology, node.0) {
            (Topology::ShortLoop, 1 | 2) | (Topology::LongLoop, 1) => Expected::Failure(result.length()),
            (topology, _) if topology.is_loop() => Expected::Either(result),
            _ => Expected::Result(result),
        }
    }
}

impl Protocol for MultiWrite {
    type Program = Relaying;

    fn name(&self, node: NodeId) -> String {
        if node == SWITCH { "switch".to_owned() } else { format!("rank {}", node.0) }
    }

    fn tasks(&self, node: NodeId) -> usize {
        let RelaySetup { pattern, times, .. } = self.setup;
        if node == SWITCH {
            return 0;
        }
        if pattern == Pattern::Writes || self.setup.sends(node.0) { times } else { 0 }
    }

    fn task(&self, node: NodeId, number: usize) -> Task {
        let (setup, rank) = (&self.setup, Rank(node.0));
        let input = if setup.sends(rank.0) { setup.packets } else { 0 };
        let input = Contributions::from_view(setup.data(rank, number).view(0..input * MTU));
        let (collective, sources) = match setup.pattern {
            Pattern::Writes => (Collective::Dispatch, (0..RANKS).map(Rank).collect()),
            Pattern::AllGather => (Collective::AllGather, setup.topology.group(rank.0)),
        };
        let each = setup.packets * MTU;
        let mut expected = Contributions::zeroed(sources.len() * each);
        match setup.pattern {
            Pattern::Writes => {
                for (source, slot) in setup.awaited(rank.0) {
                    let mark = setup.mark(source, number, slot);
                    expected.write(Writes::place((source, slot), setup.packets), mark.view(0..MTU));
                }
            }
            Pattern::AllGather => {
                for (index, source) in sources.into_iter().enumerate() {
                    expected.write(index * each, setup.data(source, number).view(0..each));
                }
            }
        }
        Task { collective, input, expected: self.verdict(node, expected) }
    }

    /// Of tables that contradict each other: a relay that sees that something would go back where it came from fails. Nobody tells
    /// those who wait for it.
    fn must_end(&self, node: NodeId) -> bool {
        let topology = self.setup.topology;
        !topology.is_loop() || (topology == Topology::ShortLoop && node.0 == 2)
    }

    fn symmetries(&self) -> Vec<Vec<NodeId>> {
        if self.setup.topology.is_loop() {
            return Vec::new();
        }
        let renamings = (1..RANKS).map(|step| self.setup.topology.renamed(step));
        let is_alike = |nodes: &Vec<NodeId>| {
            (0..RANKS).all(|rank| {
                let image = nodes[usize::from(rank)].0;
                let sends = self.setup.sends(rank) == self.setup.sends(image);
                let group = self.setup.topology.group(rank);
                let renamed = group.iter().map(|member| Rank(nodes[member.index()].0));
                let is_group =
                    || renamed.clone().all(|rank| self.setup.topology.group(image).contains(&rank));
                sends && (self.setup.pattern == Pattern::Writes || is_group())
            })
        };
        renamings.filter(is_alike).collect()
    }

    fn rename_contents(
        &self,
        renaming: &Renaming,
        header: &RoceHeader,
        payload: &Contributions,
    ) -> (RoceHeader, Contributions) {
        let rename = |rank: u16| renaming.node(NodeId(rank)).0;
        let mut header = *header;
        if let Operation::WriteOnlyImmediate(reth, bitmap) = &mut header.operation {
            let each = (self.setup.packets * MTU) as u64;
            let (source, place) = (reth.virtual_address / each, reth.virtual_address % each);
            reth.virtual_address = u64::from(rename(source as u16)) * each + place;
            let ranks = (0..RANKS).filter(|rank| *bitmap & 1 << rank != 0);
            *bitmap = ranks.map(|rank| 1 << rename(rank)).sum();
        }
        let mark = |mark: Rank| Rank(mark.0 / RANKS * RANKS + rename(mark.0 % RANKS));
        (header, payload.renamed(Contributions::RANKS, mark))
    }

    fn peer(&self, node: NodeId, queue_pair: QpIndex) -> Option<NodeId> {
        let peer = self.setup.topology.neighbours(node.0)[usize::from(queue_pair.0)];
        Some(NodeId(peer))
    }

    fn request(&self, header: &RoceHeader, number: i32, payload: &Contributions) -> String {
        match header.operation {
            Operation::WriteOnlyImmediate(_, bitmap) => {
                let ranks = (0..RANKS).filter(|rank| bitmap & 1 << rank != 0);
                let ranks: Vec<String> = ranks.map(|rank| rank.to_string()).collect();
                format!("write {number} {payload} for {}", ranks.join("+"))
            }
            _ => format!("word {number} that it has everything"),
        }
    }

    fn switch_timer(&self, _: SwitchTimer, _: &dyn Fn(u16) -> String) -> String {
        unreachable!("the switch only forwards")
    }
}
