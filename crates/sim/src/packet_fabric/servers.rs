//! Servers of hosts that are joined each with each, and by a network between them: dispatches of tokens to experts, and what comes back
//! (MultiWrite 3.2).

use quincunx_collective::{
    Collective, DataType, Gate, GroupId, LengthOnly, Numbers, Rank, ReduceOp, Reduction, Routes, Routing,
    reference_dispatch,
};
use quincunx_driver_des::{NodeIndex, Observer};
use quincunx_engine::PortId;
use quincunx_engine::verbs::QpIndex;
use quincunx_fabric::LinkProperties;
use quincunx_multiwrite::{Experts, ExpertsConfig};
use quincunx_nodes::{HostCommand, Programs, Station, StationCommand, StationKind, SwitchCommand};
use quincunx_scenario::GateSource;
use quincunx_units::{ByteCount, Duration};

use super::build::address;
use super::data::Data;
use super::group::{Finished, Group};
use super::watch::Watcher;
use super::{Accelerators, Contents, MeshRow, SimulationError};
use crate::Outputs;
use crate::progress::Watch;

/// Words of a token: what is wrong is counted in them, to the bit, and the experts' results are sums of them.
const WORDS: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };

/// Servers, and what is dispatched on them.
#[derive(Clone, PartialEq, Debug)]
pub struct Servers {
    /// All of them. A group is a server; lossy links are those to the network.
    pub accelerators: Accelerators,
    /// From each accelerator to the network, which is one switch.
    pub network: LinkProperties,
    /// Experts, as many on each accelerator.
    pub experts: u16,
    /// Experts of a token.
    pub top_k: u16,
    /// How tokens choose theirs.
    pub gate: GateSource,
    /// The most tokens of an accelerator.
    pub tokens: usize,
    /// The values of a token.
    pub token: ByteCount,
}

/// One measurement on servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExpertsCase {
    /// Whether a dispatched token goes to another server once, to the rank of the same index, or to each of its ranks there.
    pub relays: bool,
    /// A Dispatch, or the Combine after one; ranks refuse any other.
    pub collective: Collective,
    /// What memory holds.
    pub contents: Contents,
    /// Decides all that chance decides, the gate's choices with it.
    pub seed: u64,
}

/// Dispatches one batch, or combines one that has been dispatched, on a fabric of its own; the last rank ends it. The size is that of a
/// rank's tokens.
///
/// # Errors
/// If the set-up or the case makes no sense, the collective does not end, or an output cannot be written.
pub fn simulate_experts(
    servers: &Servers,
    case: &ExpertsCase,
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
    case: &ExpertsCase,
    outputs: Outputs,
    progress: Watch<'_>,
) -> Result<MeshRow, SimulationError> {
    let ranks = servers.accelerators.ranks();
    let batch = Batch::new(servers, case.seed);
    let mut group: Group<P, Watcher> = servers.build(case.relays, case.seed, Watcher::default())?;
    let watch = |group: &mut Group<P, Watcher>| {
        let directions = group.directions();
        let watcher = Watcher::new(outputs, &directions).map_err(SimulationError::output)?;
        *group.simulation_mut().observer_mut() = watcher;
        Ok::<(), SimulationError>(())
    };
    let limit = servers.accelerators.limit;
    let (after, wrong) = if case.collective == Collective::Combine {
        let dispatched = batch.dispatch(&mut group, limit, progress)?;
        group.drain(limit);
        group.simulation_mut().reset_statistics();
        watch(&mut group)?;
        let combined = batch.combine(&mut group, &dispatched, limit, progress)?;
        (combined.after, batch.wrong_sums(&dispatched.inputs, &combined.outputs))
    } else if case.collective == Collective::Dispatch {
        watch(&mut group)?;
        let dispatched = batch.dispatch(&mut group, limit, progress)?;
        (dispatched.after, batch.wrong_tokens(&dispatched.inputs, &dispatched.outputs))
    } else {
        // The ranks refuse it.
        let nothing = (0..ranks).map(|_| (P::zeroed(0), P::zeroed(0))).collect();
        (group.run(case.collective, WORDS, nothing, limit, progress)?.after, None)
    };
    let size = ByteCount::new(servers.tokens as u64 * servers.token.bytes());
    let wrong = wrong.filter(|_| case.contents == Contents::Numbers);
    MeshRow::of(&mut group, (case.collective, ranks, size), &after, wrong)
}

/// The tokens of all ranks, and whom they are for.
struct Batch<'a> {
    servers: &'a Servers,
    /// By rank and token.
    routings: Vec<Vec<Routing>>,
    /// By rank.
    routes: Vec<Routes>,
}

impl<'a> Batch<'a> {
    fn new(servers: &'a Servers, seed: u64) -> Self {
        let Servers { experts, top_k, tokens, .. } = *servers;
        let route = |rank: u16| match &servers.gate {
            GateSource::Drawn(kind) => Gate { experts, top_k, kind: *kind }.route(Rank(rank), tokens, seed),
            GateSource::Written(written) => {
                written.tokens[usize::from(rank)].iter().take(tokens).cloned().collect()
            }
        };
        let routings: Vec<_> = (0..servers.accelerators.ranks()).map(route).collect();
        let each = servers.experts_each();
        let routes = |of: &Vec<Routing>| of.iter().map(|routing| routing.ranks(each)).collect();
        Self { servers, routes: routings.iter().map(routes).collect(), routings }
    }

    fn ranks(&self) -> u16 {
        self.servers.accelerators.ranks()
    }

    /// Places of a rank's tokens and of everybody's.
    fn places(&self) -> usize {
        usize::from(self.ranks()) * self.servers.tokens
    }

    /// A rank's tokens: the values of each, and its routing behind them.
    fn input<P: Data>(&self, rank: u16) -> P {
        let (token, values) = (self.servers.token_length(), self.servers.token.as_usize());
        let routings = &self.routings[usize::from(rank)];
        let mut input = P::input(Rank(rank), routings.len() * token, WORDS.data_type);
        for (number, routing) in routings.iter().enumerate() {
            input.inscribe(number * token + values, &routing.bytes());
        }
        input
    }

    fn dispatch<P: Data>(
        &self,
        group: &mut Group<P, Watcher>,
        limit: Duration,
        progress: Watch<'_>,
    ) -> Result<Finished<P>, SimulationError> {
        for (rank, routes) in (0..self.ranks()).zip(&self.routes) {
            let route = HostCommand::Route { group: GroupId(1), routes: routes.clone() };
            let node = NodeIndex(u32::from(rank));
            group.simulation_mut().command(node, StationCommand::Host(route))?;
        }
        let places = self.places() * self.servers.token_length();
        let buffers = (0..self.ranks()).map(|rank| (self.input(rank), P::zeroed(places))).collect();
        group.run(Collective::Dispatch, WORDS, buffers, limit, progress)
    }

    /// Takes back what the experts have made of the tokens that were `dispatched`.
    fn combine<P: Data>(
        &self,
        group: &mut Group<P, Watcher>,
        dispatched: &Finished<P>,
        limit: Duration,
        progress: Watch<'_>,
    ) -> Result<Finished<P>, SimulationError> {
        let values = self.servers.token.as_usize();
        let buffers = (0..self.ranks()).zip(&dispatched.outputs).map(|(rank, places)| {
            let sums = self.routes[usize::from(rank)].tokens() * values;
            (self.work(rank, places), P::zeroed(sums))
        });
        group.run(Collective::Combine, WORDS, buffers.collect(), limit, progress)
    }

    /// What a rank's experts make of the tokens in its places, by the routing that has travelled with each.
    fn work<P: Data>(&self, rank: u16, places: &P) -> P {
        let (token, values) = (self.servers.token_length(), self.servers.token.as_usize());
        let each = self.servers.experts_each();
        let mut results = P::zeroed(self.places() * values);
        for (source, routes) in self.routes.iter().enumerate() {
            for (number, _) in routes.iter().enumerate().filter(|(_, ranks)| ranks.contains(&Rank(rank))) {
                let place = source * self.servers.tokens + number;
                let view = places.view(place * token..(place + 1) * token);
                if let Some((values_there, routing)) = P::contents(view).map(|bytes| bytes.split_at(values)) {
                    let routing = Routing::parse(routing);
                    results.inscribe(
                        place * values,
                        &routing.work(rank * each..(rank + 1) * each, values_there),
                    );
                }
            }
        }
        results
    }

    /// Words that are not as they were sent, or not where they belong.
    fn wrong_tokens<P: Data>(&self, inputs: &[P], outputs: &[P]) -> Option<u64> {
        let (slots, token) = (self.servers.tokens, self.servers.token_length());
        let wrong = |(rank, found)| {
            let expected = reference_dispatch(&self.routes, inputs, Rank(rank), slots, token);
            P::differing(&expected, found, WORDS.data_type)
        };
        (0..).zip(outputs).map(wrong).sum()
    }

    /// Words that are not the sum of what all experts make of them.
    fn wrong_sums<P: Data>(&self, inputs: &[P], outputs: &[P]) -> Option<u64> {
        let (token, values) = (self.servers.token_length(), self.servers.token.as_usize());
        let wrong = |((input, routings), found): ((&P, &Vec<Routing>), &P)| {
            let mut expected = P::zeroed(routings.len() * values);
            for (number, routing) in routings.iter().enumerate() {
                let view = input.view(number * token..number * token + values);
                let sum = routing.work(0..self.servers.experts, P::contents(view)?);
                expected.inscribe(number * values, &sum);
            }
            P::differing(&expected, found, WORDS.data_type)
        };
        inputs.iter().zip(&self.routings).zip(outputs).map(wrong).sum()
    }
}

impl Servers {
    /// Bytes of a token as it travels: its values, and behind them its routing.
    pub fn token_length(&self) -> usize {
        self.token.as_usize() + Routing::length(self.top_k)
    }

    /// Experts of a rank.
    fn experts_each(&self) -> u16 {
        self.experts / self.accelerators.ranks()
    }

    /// Hosts and the network, set up for batches, that somebody watches.
    fn build<P: Data, O: Observer<Station<P>>>(
        &self,
        relays: bool,
        seed: u64,
        observer: O,
    ) -> Result<Group<P, O>, SimulationError> {
        let accelerators = &self.accelerators;
        let (ranks, members) = (accelerators.ranks(), accelerators.members);
        let mut built = accelerators.hosts(seed, observer);
        let network = built.add("network".into(), StationKind::Switch);
        for a in 0..ranks {
            let node = built.ranks[usize::from(a)];
            for b in (a + 1..ranks).filter(|b| self.is_near(a, *b)) {
                let ends = [(a, b), (b, a)].map(|(at, to)| (NodeIndex(u32::from(at)), self.port(at, to)));
                Accelerators::join(&mut built, ends, accelerators.link, None);
            }
            let ends = [(node, PortId(members)), (network, PortId(a))];
            let lossy = accelerators.lossy.filter(|lossy| a < lossy.links);
            Accelerators::join(&mut built, ends, self.network, lossy);
            let route = SwitchCommand::Route { destination: address(node), port: PortId(a) };
            built.simulation.command(network, StationCommand::Switch(route))?;
        }
        for rank in 0..ranks {
            let peers = self.peers(rank);
            let program = Programs::Experts(self.program(relays, rank, &peers)?);
            accelerators.install(&mut built, rank, &peers, |peer| self.port(rank, peer), program)?;
        }
        Ok(Group::from_built(built))
    }

    fn is_near(&self, rank: u16, peer: u16) -> bool {
        self.accelerators.group_of(rank) == self.accelerators.group_of(peer)
    }

    /// The port of a rank that leads to another one: a link within the server, or the network.
    fn port(&self, rank: u16, peer: u16) -> PortId {
        let members = self.accelerators.members;
        PortId(if self.is_near(rank, peer) { peer % members } else { members })
    }

    /// The others. Each begins with another one in every server, so that not all send to the same rank first.
    fn peers(&self, rank: u16) -> Vec<u16> {
        let Accelerators { groups, members, .. } = self.accelerators;
        let at = |step| {
            let index = (rank + step) % members;
            (0..groups).map(move |server| server * members + index)
        };
        (0..members).flat_map(at).filter(|peer| *peer != rank).collect()
    }

    fn program(&self, relays: bool, rank: u16, peers: &[u16]) -> Result<Experts, SimulationError> {
        let Accelerators { members, preparation, .. } = self.accelerators;
        let queue_pair_to =
            |to: u16| peers.iter().position(|peer| *peer == to).map(|index| QpIndex(index as u16));
        // By way of the rank of the same index, and by itself.
        let ways = |to: u16| {
            let relay = self.accelerators.group_of(to) * members + rank % members;
            let relay = queue_pair_to(relay).filter(|_| relays && !self.is_near(rank, to));
            relay.into_iter().chain(queue_pair_to(to)).collect()
        };
        let ways = (0..self.accelerators.ranks()).map(ways).collect();
        let writer = self.accelerators.writer(rank, peers, ways, (self.tokens, self.token_length()))?;
        let preparation = if relays { preparation } else { Duration::ZERO };
        Ok(Experts::new(ExpertsConfig { writer, preparation })?)
    }
}
