//! MultiWrite between four hosts with tables that no plan makes: writes alone, or an AllGather above them on a ring and between servers.
//! The AllGather of the design, on a mesh, is a [`Group`](crate::Group).
//!
//! What must hold: each destination gets each write once and whole, nobody else gets anything, every AllGather has the right result, and
//! every run ends. Where tables contradict each other a run ends too, and nobody is told that it has what it has not.
//!
//! What keeps the states few: the hosts are alike ([`Protocol::symmetries`]), so that up to four states count as one, and every
//! queue pair leads the same way from every host, so that they stay alike. A host has several links, so that there are no leaves to look at
//! first: what arrives over two links does not commute, for the one acknowledge that was missing may let a host begin anew, and
//! whether something else arrives over a third link before depends on all others. All orders of that are explored.

use quincunx_collective::{Collective, Payload, Provenance, Rank};
use quincunx_design::{Catalog, Refusal};
use quincunx_driver_check::{End, NodeId, Renaming};
use quincunx_engine::PortId;
use quincunx_engine::verbs::{AnyProgram, QpIndex, UNLIMITED_RETRIES};
use quincunx_engine::writes::Target;
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, Mutation, Part, RelayCost, Table, Window, WriterConfig, Writes,
};

/// A rule of relays to break.
pub use quincunx_multiwrite::Mutation as RelayMutation;
use quincunx_nodes::{HostCommand, HostGroup, NodeCommand, NodeKind, NodeRejected, SwitchCommand};
use quincunx_roce::{INFINITE_RNR_RETRIES, QueuePairConfig, Reliability};
use quincunx_units::{Duration, Packets};
use quincunx_wire::{Operation, RoceHeader};

use crate::arguments::Arguments;
use crate::connections::GROUP;
use crate::connections::{Connections, endpoint};
use crate::installed::installed_node;
use crate::network::{FIRST_PSN, MTU, Network, OwnWrite, OwnWrites, Protocol, Task};
use crate::study::Study;
use crate::subject::Subject;
use crate::topology::{RANKS, SWITCH, Topology};

/// Where a peer may fail for good: as many as InfiniBand has bits for, more than there are losses.
const RETRIES: u16 = 7;

/// A packet of a source, by its slot.
type Piece = (Rank, usize);

/// What hosts do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pattern {
    /// Writes of the application's own, with nothing above them: the first of a rank is for all others, the next for the one that is reached
    /// over most relays, and so on in turn. Every destination answers each.
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
    pub window: Packets,
    /// Relaying takes its time: until nothing else is on its way, but for [early time-outs](crate::Exploration::early_timeouts).
    pub slow: bool,
    /// A rule that all break.
    pub mutation: Option<Mutation>,
}

/// Why a set-up cannot be explored.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RelayError {
    /// More packets than can be told apart, or none.
    #[error("expected 1 to {most} packets of each rank, found {found}; send less", most = Provenance::NUMBERS)]
    Packets {
        /// Packets of a rank in all collectives.
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
    /// Nobody tells those who wait for what goes astray; on a mesh the design gathers itself.
    #[error(
        "expected an all_gather on ring-4 or servers-2x2, found {found}; choose write, or a design on a mesh"
    )]
    NotGathered {
        /// As given.
        found: Topology,
    },
    /// A host refuses its group.
    #[error(transparent)]
    Rejected(#[from] NodeRejected),
}

/// MultiWrite between four hosts.
#[derive(Clone, Debug)]
pub struct MultiWrite {
    setup: RelaySetup,
}

impl Network {
    /// Hosts that write and relay, to explore, with the group installed.
    ///
    /// # Errors
    /// If the set-up makes no sense, or a host refuses it.
    pub fn of_relays(setup: RelaySetup) -> Result<Self, RelayError> {
        setup.check()?;
        let plain = RelaySetup { mutation: None, ..setup };
        let plain = setup.mutation.map(|_| Self::of_relays(plain)).transpose()?.map(|plain| plain.nodes);
        let install = |rank| {
            let group = HostGroup {
                group: GROUP,
                queue_pairs: setup.queue_pairs(rank),
                are_offloaded: false,
                program: setup.program(rank),
                contention: None,
            };
            installed_node(NodeKind::Host, [NodeCommand::Host(HostCommand::Install(Box::new(group)))])
        };
        let mut nodes = (0..RANKS).map(install).collect::<Result<Vec<_>, _>>()?;
        if setup.topology.switch().is_some() {
            let route = |rank| {
                let port = PortId(rank);
                let destination = endpoint(End { node: NodeId(rank), port }).ip;
                NodeCommand::Switch(SwitchCommand::Route { destination, ports: vec![port] })
            };
            nodes.push(installed_node(NodeKind::Switch, (0..RANKS).map(route))?);
        }
        let ends = |rank| {
            let queue_pairs = setup.queue_pairs(rank).into_iter();
            queue_pairs.map(|(_, queue_pair)| (queue_pair.local, queue_pair.remote)).collect()
        };
        let connections = Connections::new((0..RANKS).map(ends));
        Ok(Self::on(setup.topology.links(), nodes, connections, MultiWrite { setup }).beside(plain))
    }
}

impl RelaySetup {
    fn check(&self) -> Result<(), RelayError> {
        let packets = self.packets * self.times;
        if !(1..=Provenance::NUMBERS).contains(&packets) {
            return Err(RelayError::Packets { found: packets });
        }
        if self.pattern != Pattern::AllGather && self.times != 1 {
            return Err(RelayError::Times { found: self.times });
        }
        let (expected, fits) = match (self.pattern, self.topology) {
            (Pattern::Writes, topology) if topology.is_loop() => ("1", self.senders == 1),
            (Pattern::Writes, _) => ("1, 2 or 4", matches!(self.senders, 1 | 2 | 4)),
            (Pattern::AllGather, found) if !matches!(found, Topology::Ring | Topology::Servers) => {
                return Err(RelayError::NotGathered { found });
            }
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
            acknowledge_every: Packets::new(1),
            retry_timeout: Duration::from_micros(100),
            retry_count: if self.topology.is_loop() { RETRIES } else { UNLIMITED_RETRIES },
            rnr_timer: 1,
            rnr_retry_count: INFINITE_RNR_RETRIES,
            credits: false,
            window: self.window,
            congestion_window: false,
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

    fn program(&self, rank: u16) -> Box<dyn AnyProgram<Provenance>> {
        let writer = WriterConfig {
            table: self.table(rank),
            window: Window::new(RANKS, self.packets, MTU),
            receives: self.window.as_usize(),
            cost: RelayCost { message: Duration::from_micros(self.slow.into()), copy: Duration::ZERO },
        };
        match self.pattern {
            Pattern::Writes => {
                let mut program = Writes::new(writer);
                if let Some(mutation) = self.mutation {
                    program.break_rule(mutation);
                }
                Box::new(program)
            }
            Pattern::AllGather => {
                let group = self.topology.group(rank);
                let parts = vec![Part { way: 0, weight: 1, is_shared: true }];
                let config = AllGatherConfig { writer, group, parts, preparation: Duration::ZERO };
                let mut program = AllGather::new(config).expect("groups are neighbours");
                if let Some(mutation) = self.mutation {
                    program.break_rule(mutation);
                }
                Box::new(program)
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

    /// A packet of a rank in its collective of that number: no two are the same.
    fn packet(&self, rank: Rank, number: usize, slot: usize) -> Provenance {
        Provenance::of_rank(rank, MTU).moved(number * self.packets + slot)
    }

    /// All packets of a rank in its collective of that number.
    fn data(&self, rank: Rank, number: usize) -> Provenance {
        Provenance::of_rank(rank, self.packets * MTU).moved(number * self.packets)
    }
}

impl Protocol for MultiWrite {
    fn name(&self, node: NodeId) -> String {
        if node == SWITCH { "switch".to_owned() } else { format!("rank {}", node.0) }
    }

    fn tasks(&self, node: NodeId) -> usize {
        let RelaySetup { pattern, times, .. } = self.setup;
        let gathers = pattern == Pattern::AllGather && node != SWITCH && self.setup.sends(node.0);
        if gathers { times } else { 0 }
    }

    fn task(&self, node: NodeId, number: usize) -> Task {
        let (setup, rank) = (&self.setup, Rank(node.0));
        let (sources, each) = (setup.topology.group(rank.0), setup.packets * MTU);
        let mut expected = Provenance::zeroed(sources.len() * each);
        for (index, source) in sources.into_iter().enumerate() {
            expected.write(index * each, setup.data(source, number).view(0..each));
        }
        let input = setup.data(rank, number);
        Task { collective: Collective::AllGather, routes: None, input, expected }
    }

    fn writes(&self, node: NodeId) -> OwnWrites {
        let setup = &self.setup;
        if setup.pattern != Pattern::Writes || node == SWITCH {
            return OwnWrites::default();
        }
        let own = if setup.sends(node.0) { setup.packets } else { 0 };
        let write = |slot| OwnWrite {
            targets: setup.destinations(node.0, slot).into_iter().map(|rank| Target { rank, slot }).collect(),
            // The ways that relay, where there is a choice.
            way: 1,
            data: setup.packet(Rank(node.0), 0, slot),
        };
        let arrives = |(source, slot)| (source, slot, setup.packet(source, 0, slot));
        OwnWrites {
            writes: (0..own).map(write).collect(),
            awaited: setup.awaited(node.0).into_iter().map(arrives).collect(),
            never_end: setup.topology.is_loop(),
        }
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
                sends && (self.setup.pattern != Pattern::AllGather || is_group())
            })
        };
        renamings.filter(is_alike).collect()
    }

    fn rename_contents(
        &self,
        renaming: &Renaming,
        header: &RoceHeader,
        payload: &Provenance,
    ) -> (RoceHeader, Provenance) {
        let rename = |rank: u16| renaming.node(NodeId(rank)).0;
        let mut header = *header;
        if let Operation::WriteOnlyImmediate(reth, bitmap) = &mut header.operation {
            // Behind the slots for data lie as many for what is said of them.
            let kinds = if self.setup.pattern == Pattern::Writes { 2 } else { 1 };
            let each = (kinds * self.setup.packets * MTU) as u64;
            let (source, place) = (reth.virtual_address / each, reth.virtual_address % each);
            reth.virtual_address = u64::from(rename(source as u16)) * each + place;
            let ranks = (0..RANKS).filter(|rank| *bitmap & 1 << rank != 0);
            *bitmap = ranks.map(|rank| 1 << rename(rank)).sum();
        }
        (header, payload.renamed(RANKS, |rank| Rank(rename(rank.0))))
    }

    fn request(&self, header: &RoceHeader) -> String {
        match header.operation {
            Operation::WriteOnlyImmediate(..) => "write".to_owned(),
            _ => "word".to_owned(),
        }
    }

    fn destination(&self, header: &RoceHeader) -> Option<String> {
        match header.operation {
            Operation::WriteOnlyImmediate(_, bitmap) => {
                let ranks = (0..RANKS).filter(|rank| bitmap & 1 << rank != 0);
                let ranks: Vec<String> = ranks.map(|rank| rank.to_string()).collect();
                Some(format!(" for {}", ranks.join("+")))
            }
            _ => Some(" that it has everything".to_owned()),
        }
    }
}

/// MultiWrite's writes, as a study.
pub(crate) struct RelayStudy;

const PATTERNS: [(&str, Pattern); 2] = [("write", Pattern::Writes), ("all_gather", Pattern::AllGather)];

impl Study for RelayStudy {
    fn name(&self) -> &'static str {
        "multiwrite"
    }

    fn summary(&self) -> &'static str {
        "four hosts that write and relay, with tables of their own"
    }

    fn collectives(&self) -> &'static [&'static str] {
        &["write", "all_gather"]
    }

    fn options(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "--tree",
                "mesh-2x2, ring-4, servers-2x2, or with tables that contradict each other loop-2, loop-3 \
                 [default: mesh-2x2]; all_gather: ring-4 or servers-2x2",
            ),
            ("--packets", "packets of each sender [default: 2]"),
            ("--senders", "ranks that send anything of their own, the others relay [default: 2]"),
            ("--slow", "relaying takes its time, until nothing else is on its way or as an early time-out"),
            ("--mutate", ""),
        ]
    }

    fn mutations(&self) -> Vec<&'static str> {
        Mutation::all().map(Mutation::name).collect()
    }

    fn subject(&self, _: Catalog, collective: &str, arguments: &Arguments) -> Result<Subject, Refusal> {
        let (_, pattern) =
            PATTERNS.iter().find(|(name, _)| *name == collective).expect("it is asked whether it takes it");
        let topology: Topology = arguments
            .tree
            .as_deref()
            .map_or(Ok(Topology::Mesh), str::parse)
            .map_err(|error| Refusal::of(&error))?;
        let (packets, senders) = (arguments.packets.unwrap_or(2), arguments.senders.unwrap_or(2));
        let mutation = arguments.mutate.as_deref().map(str::parse).transpose();
        let relays = Network::of_relays(RelaySetup {
            topology,
            pattern: *pattern,
            senders,
            packets: packets as usize,
            times: arguments.times.into(),
            window: Packets::new(arguments.window()),
            slow: arguments.slow,
            mutation: mutation.map_err(|error| Refusal::of(&error))?,
        });
        let network = Box::new(relays.map_err(|error| Refusal::of(&error))?);
        let tree = Some(topology.to_string());
        Ok(Subject { network, tree, packets, senders: Some(senders), is_lossless: false, is_single: false })
    }
}
