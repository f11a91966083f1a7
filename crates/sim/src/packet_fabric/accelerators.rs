//! What meshes and servers have in common: accelerators in groups, the links within a group, queue pairs from each to each, and relays.

use quincunx_collective::{Bandwidths, Collective, GroupId, Rank};
use quincunx_control::Retry;
use quincunx_driver_des::{BusyOverTime, LinkConfig, NodeIndex, Observer, Simulation};
use quincunx_engine::PortId;
use quincunx_engine::verbs::QpIndex;
use quincunx_fabric::LinkProperties;
use quincunx_multiwrite::{RelayCost, Table, Window, WriterConfig};
use quincunx_network::FaultPlan;
use quincunx_nodes::{HostCommand, HostGroup, Programs, Station, StationCommand, StationKind};
use quincunx_roce::QueuePairConfig;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::{Endpoint, QpNumber};

use super::build::{Built, FIRST_QP, address};
use super::data::Data;
use super::group::Group;
use super::lines::Lines;
use super::watch::Watcher;
use super::{Framing, LinkUse, LossyLinks, RoceMedium, SimulationError};

/// Accelerators in groups, joined in full within each, and how they are set up.
#[derive(Clone, PartialEq, Debug)]
pub struct Accelerators {
    /// Groups; those of servers are the servers.
    pub groups: u16,
    /// Accelerators of a group.
    pub members: u16,
    /// Between any two of a group, each way.
    pub link: LinkProperties,
    /// What a frame takes beside its payload.
    pub framing: Framing,
    /// Payload of a full packet.
    pub mtu: ByteCount,
    /// Packets that a queue pair may have outstanding.
    pub outstanding: u32,
    /// Packets between two that ask for an acknowledge.
    pub acknowledge_every: u32,
    /// When senders send again, and when they give up.
    pub retry: Retry,
    /// Send again what is missing and nothing else.
    pub selective: bool,
    /// Loss on the links of the first ones.
    pub lossy: Option<LossyLinks>,
    /// To prepare relaying.
    pub preparation: Duration,
    /// What relaying a message takes.
    pub cost: RelayCost,
    /// Virtual time that a collective may take.
    pub limit: Duration,
}

/// The result of a measurement on meshes or servers: all groups run at once, and the last rank ends it.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshRow {
    /// Bytes of a group's whole vector, or of a rank's tokens.
    pub size: ByteCount,
    /// From the start to the end of the last rank.
    pub time: Duration,
    /// Rates of a group over that time.
    pub bandwidths: Bandwidths,
    /// Wrong elements, over all ranks; none if memory held no numbers.
    pub wrong: Option<u64>,
    /// Steps that the simulation did.
    pub steps: u64,
    /// Frames on all links.
    pub frames: u64,
    /// Each direction of each link.
    pub links: Vec<LinkUse>,
    /// How busy each of them was over time, until the last rank's end.
    pub busy_over_time: BusyOverTime,
}

impl MeshRow {
    /// What `collective` among `ranks` has left on `group`'s links, whose watcher has seen all.
    pub(super) fn of<P: Data>(
        group: &mut Group<P, Watcher>,
        (collective, ranks, size): (Collective, u16, ByteCount),
        after: &[Duration],
        wrong: Option<u64>,
    ) -> Result<Self, SimulationError> {
        let time = after.iter().copied().max().unwrap_or_default();
        let links = group.links(time);
        std::mem::take(group.simulation_mut().observer_mut()).finish().map_err(SimulationError::output)?;
        Ok(Self {
            size,
            time,
            bandwidths: collective.bandwidths(ranks, size, group.busiest_bytes(), time),
            wrong,
            steps: group.simulation().steps(),
            frames: links.iter().map(|link| link.statistics.frames).sum(),
            links,
            busy_over_time: group.simulation().busy_over_time(),
        })
    }
}

impl Accelerators {
    /// How many there are.
    pub fn ranks(&self) -> u16 {
        self.groups * self.members
    }

    /// Which group a rank is in.
    pub(super) fn group_of(&self, rank: u16) -> u16 {
        rank / self.members
    }

    /// Hosts without links, that somebody watches.
    pub(super) fn hosts<P: Data, O: Observer<Station<P>>>(&self, seed: u64, observer: O) -> Built<P, O> {
        let medium = RoceMedium { framing: self.framing };
        let mut built = Built {
            simulation: Simulation::with_observer(medium, seed, observer),
            names: Vec::new(),
            ranks: Vec::new(),
            links: Vec::new(),
            medium,
            link: link_config(self.link),
            filling: P::zeroed(self.mtu.as_usize()),
        };
        built.ranks =
            (0..self.ranks()).map(|rank| built.add(format!("host-{rank}"), StationKind::Host)).collect();
        built
    }

    /// Joins ports of two nodes by a link; a lossy one if `lossy` says so.
    pub(super) fn join<P: Data, O: Observer<Station<P>>>(
        built: &mut Built<P, O>,
        [(a, from), (b, to)]: [(NodeIndex, PortId); 2],
        link: LinkProperties,
        lossy: Option<LossyLinks>,
    ) {
        built.links.push([a, b]);
        let joined = built.simulation.connect((a, &[from]), (b, &[to]), link_config(link));
        if let Some(LossyLinks { loss, .. }) = lossy {
            for direction in [joined.forward(), joined.backward()] {
                built.simulation.set_faults(direction, FaultPlan::losing(loss));
            }
        }
    }

    /// A node's part in writes: `ways` leads to each rank, and each source has `slots` slots of `length` bytes.
    pub(super) fn writer(
        &self,
        rank: u16,
        peers: &[u16],
        ways: Vec<Vec<QpIndex>>,
        (slots, length): (usize, usize),
    ) -> Result<WriterConfig, SimulationError> {
        let neighbours = peers.iter().copied().map(Rank).collect();
        Ok(WriterConfig {
            table: Table::new(Rank(rank), self.ranks(), neighbours, ways)?,
            window: Window::new(self.ranks(), slots, length),
            // No more messages than packets are on their way.
            receives: self.outstanding as usize,
            cost: self.cost,
        })
    }

    /// Has a rank run `program` above queue pairs to `peers`, each through its port.
    pub(super) fn install<P: Data, O: Observer<Station<P>>>(
        &self,
        built: &mut Built<P, O>,
        rank: u16,
        peers: &[u16],
        port: impl Fn(u16) -> PortId,
        program: Programs,
    ) -> Result<(), SimulationError> {
        let queue_pairs = peers.iter().map(|peer| (port(*peer), self.queue_pair(rank, *peer))).collect();
        let install = HostCommand::Install(Box::new(HostGroup { group: GroupId(1), queue_pairs, program }));
        built.simulation.command(built.ranks[usize::from(rank)], StationCommand::Host(install))?;
        Ok(())
    }

    fn queue_pair(&self, rank: u16, peer: u16) -> QueuePairConfig {
        let end = |at: u16, toward: u16| Endpoint {
            ip: address(NodeIndex(u32::from(at))),
            qp: QpNumber::new(FIRST_QP + u32::from(toward)),
        };
        Lines::from(self).queue_pair(end(rank, peer), end(peer, rank))
    }
}

fn link_config(link: LinkProperties) -> LinkConfig {
    LinkConfig { rate: link.rate, latency: link.latency }
}
