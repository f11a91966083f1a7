//! Accelerators joined each with each on a memory fabric: what designs run above queue pairs runs here above messages over direct links.

use super::FlitMedium;
use super::measure::flit_format;
use super::observer::OutputObserver;
use super::shape::Wiring;
use crate::outputs::Outputs;
use crate::packet_fabric::{Data, LinkUse, Row, SimulationError};
use crate::progress::ProgressFn;
use crate::session::{Next, Runs, Session};
use crate::{Contents, Request};
use quincunx_cluster::{Cluster, GroupSpec, demand};
use quincunx_collective::{LengthOnly, Numbers, Rank};
use quincunx_design::{AnyDesign, Context, Peer, Refusal, Settings};
use quincunx_driver_des::{LinkConfig, NodeIndex, Observer, Simulation};
use quincunx_engine::verbs::Outcome;
use quincunx_engine::{Engine, PortId};
use quincunx_memory::{MessagesConfig, PortConfig};
use quincunx_nodes::fabric::{FabricPeer, PeerCommand, PeerConfig, PeerEvent};
use quincunx_scenario::MemoryMeshFabric;
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::flit::{FlitFormat, NodeId};

/// Runs one collective in every domain at once, on a fabric of its own.
///
/// # Errors
/// If the design refuses the fabric, the ranks the collective, it does not end, or an output cannot be written.
pub(crate) fn simulate_memory_mesh(
    fabric: &MemoryMeshFabric,
    request: &Request,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Row, SimulationError> {
    match request.contents {
        Contents::LengthOnly => run::<LengthOnly>(fabric, request, outputs, progress),
        Contents::Numbers => run::<Numbers>(fabric, request, outputs, progress),
    }
}

fn run<P: Data>(
    fabric: &MemoryMeshFabric,
    request: &Request,
    outputs: Outputs,
    progress: ProgressFn<'_>,
) -> Result<Row, SimulationError> {
    let Request { collective, reduction, .. } = *request;
    if request.background.is_some() {
        return Err(SimulationError::NoWay);
    }
    let [input, output] = request.vectors()?;
    let (members, size) = (usize::from(fabric.members), collective.counted_size(request.size));
    let mesh = Mesh::new(fabric, request, input)?;
    let ranks = mesh.cluster.wiring().ranks();
    let observer = OutputObserver::new(outputs, &mesh.wiring).map_err(SimulationError::output)?;
    let mut simulation: Simulation<FabricPeer<P>, _, _> = mesh.build(observer)?;
    for rank in (0..ranks).map(Rank) {
        let (input, output) = (P::input(rank, input, reduction.data_type), P::zeroed(output));
        let start = PeerCommand::Start { collective, reduction, input, output };
        simulation.command(NodeIndex(rank.0.into()), start)?;
    }
    let ended = finish(&mut simulation, ranks, request.scenario.measure.virtual_limit(), progress)?;
    let time = ended.iter().map(|(after, ..)| *after).max().unwrap_or_default();
    let (inputs, outputs): (Vec<P>, Vec<P>) =
        ended.into_iter().map(|(_, input, output)| (input, output)).unzip();
    let domains = inputs.chunks(members).zip(outputs.chunks(members));
    let wrong = domains.map(|(inputs, outputs)| P::wrong(collective, reduction, inputs, outputs)).sum();
    let link_use = |(direction, statistics): (_, quincunx_driver_des::DirectionStatistics)| {
        let [from, to] = mesh.wiring.names(direction).map(str::to_owned);
        let busy = statistics.busy.as_secs_f64();
        let utilisation = if time == Duration::ZERO { 0.0 } else { busy / time.as_secs_f64() };
        LinkUse { from, to, joins_ranks: [true, true], utilisation, statistics }
    };
    let links: Vec<LinkUse> = simulation.statistics().map(link_use).collect();
    let busiest = links.iter().map(|link| link.statistics.bytes).max().unwrap_or_default();
    let dropped = simulation.engines().map(|(node, _)| simulation.drops(node).values().sum::<u64>()).sum();
    let row = Row {
        design: request.design.name(),
        collective,
        reduction,
        ranks,
        size,
        time,
        bandwidths: collective.bandwidths(fabric.members, size, busiest, time),
        wrong,
        switch_buffer: ByteCount::new(0),
        steps: simulation.steps(),
        frames: links.iter().map(|link| link.statistics.frames).sum(),
        // Credits leave room for whatever is sent.
        lost: 0,
        retransmitted: 0,
        dropped,
        links,
        busy_over_time: simulation.busy_over_time(),
    };
    simulation.into_observer().finish().map_err(SimulationError::output)?;
    Ok(row)
}

/// Runs until all ranks have ended: by rank, how long after the start, and the buffers.
fn finish<P: Data, O: Observer<FabricPeer<P>>>(
    simulation: &mut Simulation<FabricPeer<P>, FlitMedium, O>,
    ranks: u16,
    limit: Duration,
    progress: ProgressFn<'_>,
) -> Result<Vec<(Duration, P, P)>, SimulationError> {
    let start = simulation.now();
    let mut ended: Vec<Option<(Duration, P, P)>> = (0..ranks).map(|_| None).collect();
    let mut session = Session::new(simulation.progress(), progress);
    while ended.iter().any(Option::is_none) {
        let next = session.next(simulation, start + limit)?;
        let after = simulation.now().since(start);
        match next {
            Next::Event(emitted) => {
                let PeerEvent::Finished { outcome, input, output } = emitted.event;
                if outcome != Outcome::Done {
                    return Err(SimulationError::Failed { rank: emitted.node.0 as u16, outcome, after });
                }
                ended[emitted.node.0 as usize] = Some((after, input, output));
            }
            Next::Idle | Next::TimeLimit => {
                let unfinished = ended.iter().filter(|ended| ended.is_none()).count() as u16;
                return Err(SimulationError::Unfinished { unfinished, ranks, after });
            }
        }
    }
    Ok(ended.into_iter().flatten().collect())
}

/// Accelerators, and what each is told.
struct Mesh {
    cluster: Cluster,
    design: &'static dyn AnyDesign,
    /// Names and links, for those who watch.
    wiring: Wiring,
    format: FlitFormat,
    gap: ByteCount,
    port: PortConfig,
    link: LinkConfig,
}

impl Mesh {
    /// Set up for inputs of `longest` bytes.
    fn new(fabric: &MemoryMeshFabric, request: &Request, longest: usize) -> Result<Self, SimulationError> {
        let design = request.design;
        let format = flit_format(&fabric.link);
        let port = PortConfig::covering_round_trip(fabric.link.rate, fabric.link.latency, &format);
        let mut settings =
            request.scenario.settings(request.design).map_err(quincunx_cluster::ClusterError::from)?;
        receives(design, &mut settings, port.write_slots())?;
        let longest = ByteCount::new(longest as u64);
        let group = GroupSpec::new(design, settings, demand(&request.scenario, longest));
        let cluster = Cluster::with_settings(&request.scenario, &group)?;
        let nodes = cluster.wiring();
        let end = |end: quincunx_cluster::WiringEnd| (NodeIndex(end.node as u32), PortId(end.port));
        let wiring = Wiring {
            names: nodes.nodes().iter().map(|node| node.name.clone()).collect(),
            ends: nodes.links().iter().map(|link| link.ends.map(end)).collect(),
        };
        let link = LinkConfig { rate: fabric.link.rate, latency: fabric.link.latency };
        Ok(Self { cluster, design, wiring, format, gap: fabric.link.gap, port, link })
    }

    /// Nodes on links.
    fn build<P: Data, O: Observer<FabricPeer<P>>>(
        &self,
        observer: O,
    ) -> Result<Simulation<FabricPeer<P>, FlitMedium, O>, SimulationError> {
        let nodes = self.cluster.wiring();
        let medium = FlitMedium { format: self.format, accelerators: nodes.ranks(), gap: self.gap };
        // Nothing is left to chance: links lose nothing.
        let mut simulation = Simulation::with_observer(medium, 0, observer);
        for node in 0..nodes.nodes().len() {
            let neighbours: Vec<usize> = nodes.neighbours(node).map(|(_, far)| far.node).collect();
            let context = self.cluster.context(node).expect("every accelerator is in the group");
            let is_behind = |(peer, neighbour): (&Peer, &usize)| self.cluster.node_of(peer) == *neighbour;
            let peers = context.connections.iter().map(|connection| &connection.peer);
            if peers.len() != neighbours.len() || !peers.zip(&neighbours).all(is_behind) {
                return Err(SimulationError::Refused(Refusal::new(
                    "a connection for each link in the order of ranks",
                    format!("others of {}", self.design.name()),
                    "choose a mesh of hosts such as mesh8",
                )));
            }
            let messages = MessagesConfig {
                node: NodeId(node as u16),
                neighbours: neighbours.into_iter().map(|far| NodeId(far as u16)).collect(),
                format: self.format,
            };
            let program = P::parts(self.design).endpoint_part(&Context::of(context))?.part.program()?;
            let Ok(peer) = Engine::new(PeerConfig { messages, port: self.port, program });
            simulation.add_node(peer);
        }
        for [first, second] in &self.wiring.ends {
            simulation.connect((first.0, &[first.1]), (second.0, &[second.1]), self.link);
        }
        Ok(simulation)
    }
}

/// There are no queue pairs: as many messages may arrive from a peer before a rank gets to run as a buffer of the port's holds writes.
fn receives(design: &dyn AnyDesign, settings: &mut Settings, writes: u16) -> Result<(), Refusal> {
    for (key, value) in [("group.message", 1), ("group.window", writes)] {
        if settings.has(key) {
            design.set(settings, key, &value.into())?;
        }
    }
    Ok(())
}
