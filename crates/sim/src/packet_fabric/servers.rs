//! Servers of hosts that are joined each with each, and by a network between them: dispatches of tokens to experts (MultiWrite 3.2).

use quincunx_collective::{Collective, DataType, GroupId, LengthOnly, Numbers, Rank, ReduceOp, Reduction};
use quincunx_driver_des::{Faults, LinkConfig, NodeIndex, Observer, Simulation};
use quincunx_engine::PortId;
use quincunx_engine::verbs::QpIndex;
use quincunx_fabric::LinkProperties;
use quincunx_multiwrite::{Dispatch, DispatchConfig, Table, Window, WriterConfig};
use quincunx_nodes::{HostCommand, HostGroup, Programs, Station, StationCommand, StationKind, SwitchCommand};
use quincunx_units::{ByteCount, Duration};
use quincunx_wire::multiwrite::Destinations;

use super::build::{Built, address};
use super::data::Data;
use super::group::Group;
use super::watch::Watcher;
use super::{Contents, Mesh, MeshRow, RoceMedium, SimulationError};
use crate::progress::Watch;
use crate::{Gate, Outputs, Routing};

/// Words of a token: what is wrong is counted in them, to the bit.
const WORDS: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// Servers, and what is dispatched on them.
#[derive(Clone, PartialEq, Debug)]
pub struct Servers {
    /// Groups of the mesh are servers, with links within each alone; pieces are the values of a token. Losses are on links to the network.
    pub mesh: Mesh,
    /// From each rank to the network, which is one switch.
    pub network: LinkProperties,
    /// Which experts tokens go to.
    pub gate: Gate,
    /// Tokens of each rank.
    pub tokens: usize,
}

/// One measurement on servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DispatchCase {
    /// Whether a token goes to another server once, to the rank of the same index, or to each of its ranks there.
    pub relays: bool,
    /// What ranks are asked for: a Dispatch, or they refuse it.
    pub collective: Collective,
    /// What memory holds.
    pub contents: Contents,
    /// Decides all that chance decides, the gate's choices with it.
    pub seed: u64,
}

/// Dispatches one batch, on a fabric of its own; the last rank ends it. The size is that of a rank's tokens.
///
/// # Errors
/// If the set-up or the case makes no sense, the dispatch does not end, or an output cannot be written.
pub fn simulate_dispatch(
    servers: &Servers,
    case: &DispatchCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    match case.contents {
        Contents::LengthOnly => run::<LengthOnly>(servers, case, outputs, progress),
        Contents::Numbers => run::<Numbers>(servers, case, outputs, progress),
    }
}

fn run<P: Data>(
    servers: &Servers,
    case: &DispatchCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    let ranks = servers.mesh.ranks();
    let routings: Vec<Vec<Routing>> =
        (0..ranks).map(|rank| servers.gate.route(rank, servers.tokens, case.seed)).collect();
    let mut group: Group<P, Watcher> =
        servers.build(case.relays, &routings, case.seed, Watcher::default())?;
    let watcher = Watcher::new(outputs, &group.directions()).map_err(SimulationError::output)?;
    *group.simulation_mut().observer_mut() = watcher;
    let inputs = || (0..ranks).zip(&routings).map(|(rank, routings)| servers.input(rank, routings));
    let places = usize::from(ranks) * servers.tokens;
    let buffers = inputs().map(|input| (input, P::zeroed(places * servers.token()))).collect();
    let finished = group.run(case.collective, WORDS, buffers, servers.mesh.limit, progress)?;
    let time = finished.after.iter().copied().max().unwrap_or_default();
    let wrong = |(rank, found): (u16, &P)| {
        P::differing(&servers.expected(rank, &finished.inputs, &routings), found, WORDS.data_type)
    };
    let wrong = match case.contents {
        Contents::Numbers => (0..ranks).zip(&finished.outputs).map(wrong).sum(),
        Contents::LengthOnly => None,
    };
    let links = group.links(time);
    std::mem::take(group.simulation_mut().observer_mut()).finish().map_err(SimulationError::output)?;
    let size = ByteCount::new((servers.tokens * servers.mesh.piece.as_usize()) as u64);
    Ok(MeshRow {
        size,
        time,
        bandwidths: case.collective.bandwidths(ranks, size, group.busiest_bytes(), time),
        wrong,
        steps: group.simulation().steps(),
        frames: links.iter().map(|link| link.statistics.frames).sum(),
        links,
        busy_over_time: group.simulation().busy_over_time(),
    })
}

impl Servers {
    /// Bytes of a token as it travels: its values, and behind them its routing.
    pub fn token(&self) -> usize {
        self.mesh.piece.as_usize() + self.gate.routing_bytes()
    }

    /// Experts of a rank.
    fn experts_each(&self) -> u16 {
        self.gate.experts / self.mesh.ranks()
    }

    fn input<P: Data>(&self, rank: u16, routings: &[Routing]) -> P {
        let token = self.token();
        let mut input = P::input(Rank(rank), routings.len() * token, WORDS.data_type);
        for (number, routing) in routings.iter().enumerate() {
            input.inscribe(number * token + self.mesh.piece.as_usize(), &routing.bytes());
        }
        input
    }

    /// What a rank is to have: the tokens with one of its experts, by source and number, with their routing.
    fn expected<P: Data>(&self, rank: u16, inputs: &[P], routings: &[Vec<Routing>]) -> P {
        let token = self.token();
        let mut expected = P::zeroed(inputs.len() * self.tokens * token);
        for (source, (input, routings)) in inputs.iter().zip(routings).enumerate() {
            for (number, routing) in routings.iter().enumerate() {
                if routing.ranks(self.experts_each()).contains(rank) {
                    let view = input.view(number * token..(number + 1) * token);
                    expected.write((source * self.tokens + number) * token, view);
                }
            }
        }
        expected
    }

    /// Hosts and the network, set up for a batch, that somebody watches.
    fn build<P: Data, O: Observer<Station<P>>>(
        &self,
        relays: bool,
        routings: &[Vec<Routing>],
        seed: u64,
        observer: O,
    ) -> Result<Group<P, O>, SimulationError> {
        let Mesh { members, link, framing, mtu, .. } = self.mesh;
        let (ranks, medium) = (self.mesh.ranks(), RoceMedium { framing });
        let config = |link: LinkProperties| LinkConfig { rate: link.rate, latency: link.latency };
        let mut built = Built {
            simulation: Simulation::with_observer(medium, seed, observer),
            names: Vec::new(),
            ranks: Vec::new(),
            links: Vec::new(),
            medium,
            link: config(link),
            filling: P::zeroed(mtu.as_usize()),
        };
        built.ranks = (0..ranks).map(|rank| built.add(format!("host-{rank}"), StationKind::Host)).collect();
        let network = built.add("network".into(), StationKind::Switch);
        for a in 0..ranks {
            let node = built.ranks[usize::from(a)];
            for b in (a + 1..ranks).filter(|b| a / members == b / members) {
                let ends = [(a, b), (b, a)]
                    .map(|(rank, peer)| (NodeIndex(u32::from(rank)), [self.port(rank, peer)]));
                built.links.push(ends.map(|(node, _)| node));
                let [first, second] = &ends;
                built.simulation.connect((first.0, &first.1), (second.0, &second.1), config(link));
            }
            built.links.push([node, network]);
            let ends = ((node, &[PortId(members)][..]), (network, &[PortId(a)][..]));
            let joined = built.simulation.connect(ends.0, ends.1, config(self.network));
            if let Some(lossy) = self.mesh.lossy.filter(|lossy| a < lossy.links) {
                for direction in [joined.forward(), joined.backward()] {
                    built.simulation.set_faults(direction, Faults { loss: lossy.loss, ..Faults::default() });
                }
            }
            let route = SwitchCommand::Route { destination: address(node), port: PortId(a) };
            built.simulation.command(network, StationCommand::Switch(route))?;
        }
        for (rank, routings) in (0..ranks).zip(routings) {
            let routes = routings.iter().map(|routing| routing.ranks(self.experts_each())).collect();
            let install = HostCommand::Install(Box::new(self.host(relays, rank, routes)?));
            built.simulation.command(built.ranks[usize::from(rank)], StationCommand::Host(install))?;
        }
        Ok(Group::from_built(built))
    }

    /// The port of a rank that leads to another one: a link within the server, or the network.
    fn port(&self, rank: u16, peer: u16) -> PortId {
        let members = self.mesh.members;
        PortId(if rank / members == peer / members { peer % members } else { members })
    }

    fn host(
        &self,
        relays: bool,
        rank: u16,
        routes: Vec<Destinations>,
    ) -> Result<HostGroup<Programs>, SimulationError> {
        let Mesh { members, preparation, cost, outstanding, .. } = self.mesh;
        let ranks = self.mesh.ranks();
        // Each begins with another one in every server, so that not all send to the same rank first.
        let at = |step| {
            let index = (rank + step) % members;
            (0..ranks / members).map(move |server| server * members + index)
        };
        let peers: Vec<u16> = (0..members).flat_map(at).filter(|peer| *peer != rank).collect();
        let queue_pair_to =
            |to: u16| peers.iter().position(|peer| *peer == to).map(|index| QpIndex(index as u16));
        let way = |to: u16| {
            let is_far = to / members != rank / members;
            let relay = to / members * members + rank % members;
            queue_pair_to(if relays && is_far { relay } else { to })
        };
        let ways = (0..ranks).map(|to| way(to).into_iter().collect()).collect();
        let writer = WriterConfig {
            table: Table::new(Rank(rank), ranks, peers.iter().copied().map(Rank).collect(), ways)?,
            window: Window::new(ranks, self.tokens, self.token()),
            // No more messages than packets are on their way.
            receives: outstanding as usize,
            cost,
        };
        let preparation = if relays { preparation } else { Duration::ZERO };
        let program = Dispatch::new(DispatchConfig { writer, routes, preparation })?;
        let queue_pair = |&peer: &u16| (self.port(rank, peer), self.mesh.queue_pair(rank, peer));
        let queue_pairs = peers.iter().map(queue_pair).collect();
        Ok(HostGroup { group: GroupId(1), queue_pairs, program: Programs::Dispatch(program) })
    }
}
