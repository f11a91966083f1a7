//! Accelerators joined each with each on a memory fabric: AllGather over MultiWrite (3.1), by the program that also runs above queue
//! pairs.

use super::FlitMedium;
use super::shape::Wiring;
use super::watch::Watcher;
use crate::gathering::{Gathering, queue_pair_to};
use crate::outputs::Outputs;
use crate::packet_fabric::{Contents, Data, LinkUse, MeshCase, MeshRow, SimulationError, lengths};
use crate::progress::{Progress, STEPS_A_REPORT, Watch};
use quincunx_collective::{LengthOnly, Numbers, Rank};
use quincunx_driver_des::{Limits, LinkConfig, NodeIndex, Observer, Simulation, Stopped};
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, PortId};
use quincunx_memory::{MessagesConfig, PortConfig};
use quincunx_multiwrite::{AllGather, RelayCost, Strategy};
use quincunx_nodes::fabric::{FabricPeer, PeerCommand, PeerConfig, PeerEvent};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::flit::{FlitFormat, NodeId};

/// A full mesh, and how groups are set up on it.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryMesh {
    /// Groups.
    pub groups: u16,
    /// Ranks of a group.
    pub members: u16,
    /// Every link, each way.
    pub link: LinkConfig,
    /// How packets are cut.
    pub format: FlitFormat,
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

/// A rank.
type Peer<P> = FabricPeer<P, AllGather>;

/// Runs one collective in every group at once, on a fabric of its own.
///
/// # Errors
/// If the set-up or the case makes no sense, the collective does not end, or an output cannot be written.
pub fn simulate_memory_mesh(
    mesh: &MemoryMesh,
    case: &MeshCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    match case.contents {
        Contents::LengthOnly => run::<LengthOnly>(mesh, case, outputs, progress),
        Contents::Numbers => run::<Numbers>(mesh, case, outputs, progress),
    }
}

fn run<P: Data>(
    mesh: &MemoryMesh,
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
    let wiring = mesh.wiring();
    let watcher = Watcher::new(outputs, &wiring).map_err(SimulationError::output)?;
    let mut simulation: Simulation<Peer<P>, _, _> = mesh.build(case.strategy, input, &wiring, watcher)?;
    for rank in 0..mesh.ranks() {
        let (input, output) = (P::input(Rank(rank), input, reduction.data_type), P::zeroed(output));
        let start = PeerCommand::Start { collective, reduction, input, output };
        simulation.command(NodeIndex(rank.into()), start)?;
    }
    let ended = finish(&mut simulation, mesh, progress)?;
    let time = ended.iter().map(|(after, ..)| *after).max().unwrap_or_default();
    let (inputs, outputs): (Vec<P>, Vec<P>) =
        ended.into_iter().map(|(_, input, output)| (input, output)).unzip();
    let groups = inputs.chunks(members).zip(outputs.chunks(members));
    let wrong = groups.map(|(inputs, outputs)| P::wrong(collective, reduction, inputs, outputs)).sum();
    let link_use = |(direction, statistics): (_, quincunx_driver_des::DirectionStatistics)| {
        let [from, to] = wiring.names(direction).map(str::to_owned);
        let busy = statistics.busy.as_secs_f64();
        let utilisation = if time == Duration::ZERO { 0.0 } else { busy / time.as_secs_f64() };
        LinkUse { from, to, joins_ranks: [true, true], utilisation, statistics }
    };
    let links: Vec<LinkUse> = simulation.statistics().map(link_use).collect();
    let busiest = links.iter().map(|link| link.statistics.bytes).max().unwrap_or_default();
    let row = MeshRow {
        size,
        time,
        bandwidths: collective.bandwidths(mesh.members, size, busiest, time),
        wrong,
        steps: simulation.steps(),
        frames: links.iter().map(|link| link.statistics.frames).sum(),
        links,
        busy_over_time: simulation.busy_over_time(),
    };
    simulation.into_observer().finish().map_err(SimulationError::output)?;
    Ok(row)
}

/// Runs until all ranks have ended: by rank, how long after the start, and the buffers.
fn finish<P: Data, O: Observer<Peer<P>>>(
    simulation: &mut Simulation<Peer<P>, FlitMedium, O>,
    mesh: &MemoryMesh,
    progress: Watch<'_>,
) -> Result<Vec<(Duration, P, P)>, SimulationError> {
    let start = simulation.now();
    let mut ended: Vec<Option<(Duration, P, P)>> = (0..mesh.ranks()).map(|_| None).collect();
    let mut limits = Limits { time: start + mesh.limit, steps: simulation.steps() + STEPS_A_REPORT };
    while ended.iter().any(Option::is_none) {
        let stopped = simulation.run(limits);
        let after = simulation.now().since(start);
        match stopped {
            Stopped::Event(emitted) => {
                let PeerEvent::Finished { outcome, input, output } = emitted.event;
                if outcome != Outcome::Done {
                    return Err(SimulationError::Failed { rank: emitted.node.0 as u16, outcome, after });
                }
                ended[emitted.node.0 as usize] = Some((after, input, output));
            }
            Stopped::StepLimit => {
                if progress(Progress { now: simulation.now(), steps: simulation.steps() }).is_break() {
                    return Err(SimulationError::Stopped { after });
                }
                limits.steps += STEPS_A_REPORT;
            }
            Stopped::Idle | Stopped::TimeLimit => {
                let unfinished = ended.iter().filter(|ended| ended.is_none()).count() as u16;
                return Err(SimulationError::Unfinished { unfinished, ranks: mesh.ranks(), after });
            }
        }
    }
    Ok(ended.into_iter().flatten().collect())
}

impl MemoryMesh {
    /// Accelerators on it.
    pub fn ranks(&self) -> u16 {
        self.groups * self.members
    }

    fn wiring(&self) -> Wiring {
        let names = (0..self.ranks()).map(|rank| format!("accelerator{rank}")).collect();
        let end = |rank: u16, peer| (NodeIndex(rank.into()), PortId(queue_pair_to(rank, peer).0));
        let pairs = (0..self.ranks()).flat_map(|a| (a + 1..self.ranks()).map(move |b| (a, b)));
        Wiring { names, ends: pairs.map(|(a, b)| [end(a, b), end(b, a)]).collect() }
    }

    /// Nodes on links, set up for inputs of `length` bytes.
    fn build<P: Data, O: Observer<Peer<P>>>(
        &self,
        strategy: Strategy,
        length: usize,
        wiring: &Wiring,
        observer: O,
    ) -> Result<Simulation<Peer<P>, FlitMedium, O>, SimulationError> {
        let medium = FlitMedium { format: self.format, accelerators: self.ranks() };
        // Nothing is left to chance: links lose nothing.
        let mut simulation = Simulation::with_observer(medium, 0, observer);
        let port = PortConfig::covering_round_trip(self.link.rate, self.link.latency, &self.format);
        let gathering = Gathering {
            groups: self.groups,
            members: self.members,
            rate: self.link.rate,
            full: self.full,
            piece: self.piece,
            preparation: self.preparation,
            cost: self.cost,
            // As many as hold a buffer of the port's.
            receives: usize::from(port.write_slots()),
        };
        for rank in 0..self.ranks() {
            let messages = MessagesConfig {
                node: NodeId(rank),
                neighbours: gathering.peers(rank).map(NodeId).collect(),
                format: self.format,
            };
            let program = gathering.program(strategy, length, rank)?;
            let Ok(peer) = Engine::new(PeerConfig { messages, port, program });
            simulation.add_node(peer);
        }
        for [first, second] in &wiring.ends {
            simulation.connect((first.0, &[first.1]), (second.0, &[second.1]), self.link);
        }
        Ok(simulation)
    }
}
