//! Hosts joined each with each, in groups that gather each for itself and relay for each other: MultiWrite's scenario (3.1).

use quincunx_collective::{Bandwidths, Collective, GroupId, LengthOnly, Numbers, Rank, Reduction};
use quincunx_control::Retry;
use quincunx_driver_des::{BusyOverTime, Faults, LinkConfig, NodeIndex, Observer, Simulation};
use quincunx_engine::PortId;
use quincunx_engine::verbs::QpIndex;
use quincunx_fabric::LinkProperties;
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, Paths, RelayCost, Strategy, Table, Window, WriteError, WriterConfig, split,
};
use quincunx_nodes::{HostCommand, HostGroup, Programs, Station, StationCommand, StationKind};
use quincunx_roce::QueuePairConfig;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::multiwrite::IMMEDIATE_RANKS;
use quincunx_wire::{Endpoint, QpNumber};

use super::build::{Built, FIRST_QP, address};
use super::data::{Data, lengths};
use super::group::Group;
use super::lines::Lines;
use super::watch::Watcher;
use super::{Contents, Framing, LinkUse, LossyLinks, RoceMedium, SimulationError};
use crate::Outputs;
use crate::progress::Watch;

/// A full mesh, and how groups are set up on it.
#[derive(Clone, PartialEq, Debug)]
pub struct Mesh {
    /// Groups.
    pub groups: u16,
    /// Ranks of a group.
    pub members: u16,
    /// Every link, each way.
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
    /// Loss on all links of the first hosts.
    pub lossy: Option<LossyLinks>,
    /// Whether every rank of the next group relays for a rank, or only its partner.
    pub full: bool,
    /// The longest message.
    pub piece: ByteCount,
    /// To prepare more than one way.
    pub preparation: Duration,
    /// What relaying a message takes.
    pub cost: RelayCost,
    /// Virtual time that a collective may take.
    pub limit: Duration,
}

/// One measurement on a mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeshCase {
    /// What goes over relays, and how.
    pub strategy: Strategy,
    /// Which collective: an AllGather, or the ranks refuse it.
    pub collective: Collective,
    /// What an element is.
    pub reduction: Reduction,
    /// Bytes of a group's whole vector, as nccl-tests count them.
    pub size: ByteCount,
    /// What memory holds.
    pub contents: Contents,
    /// Decides all that chance decides.
    pub seed: u64,
}

/// The result of a measurement on meshes: all groups run at once, and the last rank ends it.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshRow {
    /// Bytes of a group's whole vector.
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

/// Runs one collective in every group at once, on a fabric of its own.
///
/// # Errors
/// If the set-up or the case makes no sense, the collective does not end, or an output cannot be written.
pub fn simulate_mesh(
    mesh: &Mesh,
    case: &MeshCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    match case.contents {
        Contents::LengthOnly if mesh.ranks() > IMMEDIATE_RANKS => {
            // The bitmap would lie in memory.
            Err(WriteError::NoContents { ranks: mesh.ranks() }.into())
        }
        Contents::LengthOnly => run::<LengthOnly>(mesh, case, outputs, progress),
        Contents::Numbers => run::<Numbers>(mesh, case, outputs, progress),
    }
}

fn run<P: Data>(
    mesh: &Mesh,
    case: &MeshCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    let MeshCase { collective, reduction, .. } = *case;
    let (members, size) = (usize::from(mesh.members), collective.counted_size(case.size));
    let [input, output] = lengths(collective, members, size.as_usize());
    if !size.as_usize().is_multiple_of(members * reduction.data_type.size()) {
        return Err(SimulationError::Parts { ranks: mesh.members, size: size.bytes() });
    }
    let mut group: Group<P, Watcher> = mesh.build(case.strategy, input, case.seed, Watcher::default())?;
    let watcher = Watcher::new(outputs, &group.directions()).map_err(SimulationError::output)?;
    *group.simulation_mut().observer_mut() = watcher;
    let buffers =
        (0..mesh.ranks()).map(|rank| (P::input(Rank(rank), input, reduction.data_type), P::zeroed(output)));
    let finished = group.run(collective, reduction, buffers.collect(), mesh.limit, progress)?;
    let time = finished.after.iter().copied().max().unwrap_or_default();
    let groups = finished.inputs.chunks(members).zip(finished.outputs.chunks(members));
    let wrong = groups.map(|(inputs, outputs)| P::wrong(collective, reduction, inputs, outputs)).sum();
    let links = group.links(time);
    std::mem::take(group.simulation_mut().observer_mut()).finish().map_err(SimulationError::output)?;
    Ok(MeshRow {
        size,
        time,
        bandwidths: collective.bandwidths(mesh.members, size, group.busiest_bytes(), time),
        wrong,
        steps: group.simulation().steps(),
        frames: links.iter().map(|link| link.statistics.frames).sum(),
        links,
        busy_over_time: group.simulation().busy_over_time(),
    })
}

impl Mesh {
    /// Hosts on it.
    pub fn ranks(&self) -> u16 {
        self.groups * self.members
    }

    /// Nodes on links, set up for inputs of `length` bytes, that somebody watches.
    ///
    /// # Errors
    /// If the set-up makes no sense, or a node refuses it.
    pub fn build<P: Data, O: Observer<Station<P>>>(
        &self,
        strategy: Strategy,
        length: usize,
        seed: u64,
        observer: O,
    ) -> Result<Group<P, O>, SimulationError> {
        let medium = RoceMedium { framing: self.framing };
        let link = LinkConfig { rate: self.link.rate, latency: self.link.latency };
        let mut built = Built {
            simulation: Simulation::with_observer(medium, seed, observer),
            names: Vec::new(),
            ranks: Vec::new(),
            links: Vec::new(),
            medium,
            link,
            filling: P::zeroed(self.mtu.as_usize()),
        };
        built.ranks =
            (0..self.ranks()).map(|rank| built.add(format!("host-{rank}"), StationKind::Host)).collect();
        for a in 0..self.ranks() {
            for b in a + 1..self.ranks() {
                let ends = [(a, b), (b, a)]
                    .map(|(rank, peer)| (NodeIndex(u32::from(rank)), [PortId(queue_pair_to(rank, peer).0)]));
                built.links.push(ends.map(|(node, _)| node));
                let joined = built.simulation.connect((ends[0].0, &ends[0].1), (ends[1].0, &ends[1].1), link);
                if let Some(LossyLinks { loss, .. }) = self.lossy.filter(|lossy| a < lossy.links) {
                    for direction in [joined.forward(), joined.backward()] {
                        built.simulation.set_faults(direction, Faults { loss, ..Faults::default() });
                    }
                }
            }
        }
        for rank in 0..self.ranks() {
            let group = self.host(strategy, length, rank)?;
            let install = StationCommand::Host(HostCommand::Install(Box::new(group)));
            built.simulation.command(built.ranks[usize::from(rank)], install)?;
        }
        Ok(Group::from_built(built))
    }

    fn host(
        &self,
        strategy: Strategy,
        length: usize,
        rank: u16,
    ) -> Result<HostGroup<Programs>, SimulationError> {
        let peers = || (0..self.ranks()).filter(move |peer| *peer != rank);
        let relays = if self.full { self.members } else { 1 };
        let paths = Paths {
            direct: self.link.rate,
            cross: self.link.rate,
            members: self.members,
            others: self.members,
            relays,
            relay: (self.cost, self.piece),
        };
        let neighbours = peers().map(Rank).collect();
        let ways = (0..self.ranks()).map(|peer| self.ways(rank, peer)).collect();
        let piece = self.piece.as_usize();
        let writer = WriterConfig {
            table: Table::new(Rank(rank), self.ranks(), neighbours, ways)?,
            window: Window::new(self.ranks(), length.div_ceil(piece).max(1), piece),
            // No more messages than packets are on their way.
            receives: self.outstanding as usize,
            cost: self.cost,
        };
        let first = rank / self.members * self.members;
        let group = (first..first + self.members).map(Rank).collect();
        let parts = split(strategy, &paths);
        let program =
            AllGather::new(AllGatherConfig { writer, group, parts, preparation: self.preparation })?;
        let queue_pairs =
            peers().map(|peer| (PortId(queue_pair_to(rank, peer).0), self.queue_pair(rank, peer))).collect();
        Ok(HostGroup { group: GroupId(1), queue_pairs, program: Programs::MultiWrite(program) })
    }

    /// The ways from a rank to another one: the direct one; within a group also by way of its partner in the next group, and of
    /// that group's others.
    fn ways(&self, rank: u16, to: u16) -> Vec<QpIndex> {
        if rank == to {
            return Vec::new();
        }
        let (group, place) = (rank / self.members, rank % self.members);
        let next = (group + 1) % self.groups * self.members;
        let relay = |step| queue_pair_to(rank, next + (place + step) % self.members);
        let relays = (0..self.members).map(relay).filter(|_| to / self.members == group);
        [queue_pair_to(rank, to)].into_iter().chain(relays).collect()
    }

    pub(super) fn queue_pair(&self, rank: u16, peer: u16) -> QueuePairConfig {
        let end = |at: u16, toward: u16| Endpoint {
            ip: address(NodeIndex(u32::from(at))),
            qp: QpNumber::new(FIRST_QP + u32::from(queue_pair_to(at, toward).0)),
        };
        Lines::from(self).queue_pair(end(rank, peer), end(peer, rank))
    }
}

/// A rank's queue pairs lead to the others in order.
fn queue_pair_to(rank: u16, peer: u16) -> QpIndex {
    QpIndex(if peer < rank { peer } else { peer - 1 })
}
