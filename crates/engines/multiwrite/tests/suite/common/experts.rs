//! Two servers of ranks, each joined with each, that dispatch and combine: to the other server by way of the rank of the same index, or to
//! each rank there by itself.

use super::{Graph, Port, Random, config, port, step};
use quincunx_collective::{Collective, DataType, Payload, Rank, ReduceOp, Reduction, Routes};
use quincunx_engine::Terms;
use quincunx_engine::routing::Routed;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Outcome, Program, QpIndex, RegionId, RequestError, Slice,
};
use quincunx_multiwrite::{Experts, ExpertsConfig, RelayCost, Table, WriterConfig};
use quincunx_units::{Duration, Instant};

pub const SLOTS: usize = 6;
pub const TOKEN: usize = 12;

/// Sums depend on their order.
pub const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

/// How the ranks are set up.
#[derive(Clone, Copy)]
pub struct ExpertsSetup {
    /// Of a server.
    pub members: usize,
    pub relays: bool,
    pub announces: bool,
    pub cost: RelayCost,
    pub seed: u64,
}

impl ExpertsSetup {
    pub fn new(relays: bool) -> Self {
        Self { members: 4, relays, announces: true, cost: RelayCost::default(), seed: 1 }
    }

    pub fn table(&self, graph: &Graph, rank: usize) -> Table {
        let (plain, ranks) = (graph.table(rank), graph.0.len());
        let ways = |peer: usize| {
            let is_far = peer / self.members != rank / self.members;
            let relay = (rank + self.members) % ranks;
            let hops = [Some(relay).filter(|_| self.relays && is_far), Some(peer)];
            let hops = hops.into_iter().flatten().filter(|_| peer != rank);
            hops.filter_map(|hop| plain.queue_pair(Rank(hop as u16))).collect()
        };
        let neighbours = graph.0[rank].iter().map(|peer| Rank(*peer as u16)).collect();
        Table::new(Rank(rank as u16), ranks as u16, neighbours, (0..ranks).map(ways).collect()).unwrap()
    }

    pub fn config(&self, graph: &Graph, rank: usize) -> ExpertsConfig {
        let writer = WriterConfig {
            table: self.table(graph, rank),
            cost: self.cost,
            ..config(graph, rank, SLOTS, TOKEN)
        };
        let patience = Duration::from_nanos(1);
        ExpertsConfig { writer, preparation: Duration::ZERO, announces: self.announces, patience }
    }
}

/// Whom the tokens of a batch are for.
pub fn routes(tokens: &[&[u16]]) -> Routes {
    tokens.iter().map(|ranks| ranks.iter().copied().map(Rank)).collect()
}

/// Token t of rank r is for r + t and ranks around it; the last rank has none.
pub fn all_routes(ranks: usize) -> Vec<Routes> {
    let to = |rank: usize, token: usize, step: usize| Rank(((rank + token + step) % ranks) as u16);
    let of = |rank: usize| {
        let tokens = 0..if rank == ranks - 1 { 0 } else { SLOTS };
        tokens.map(|token| [0, 1, 3].map(|step| to(rank, token, step))).collect()
    };
    Routes::with_incoming((0..ranks).map(of).collect())
}

/// The tokens of one rank, and of no other.
pub fn only(rank: usize, ranks: usize, tokens: &[&[u16]]) -> Vec<Routes> {
    let mut all = vec![Routes::default(); ranks];
    all[rank] = routes(tokens);
    Routes::with_incoming(all)
}

pub struct Ranks<P> {
    pub graph: Graph,
    pub setup: ExpertsSetup,
    pub programs: Vec<Experts>,
    pub ports: Vec<Port<P>>,
    pub random: Random,
    pub outcomes: Vec<Vec<Outcome>>,
    pub outputs: Vec<Slice>,
    /// Writes that have gone from a server to the other, by source.
    pub crossed: Vec<usize>,
}

impl<P: Payload> Ranks<P> {
    pub fn new(setup: ExpertsSetup) -> Self {
        let ranks = 2 * setup.members;
        let graph = Graph::mesh(ranks);
        let mut ports: Vec<Port<P>> = (0..ranks).map(|rank| port(&graph, rank)).collect();
        let mut programs: Vec<Experts> =
            (0..ranks).map(|rank| Experts::new(setup.config(&graph, rank)).unwrap()).collect();
        for (program, port) in programs.iter_mut().zip(&mut ports) {
            program.initialise(port);
        }
        let nowhere = Slice { region: RegionId(0), offset: 0, length: 0 };
        Self {
            graph,
            setup,
            programs,
            ports,
            random: Random(setup.seed),
            outcomes: vec![Vec::new(); ranks],
            outputs: vec![nowhere; ranks],
            crossed: vec![0; ranks],
        }
    }

    pub fn ranks(&self) -> usize {
        self.graph.0.len()
    }

    /// Bytes of all places of a rank.
    pub fn places(&self) -> usize {
        self.ranks() * SLOTS * TOKEN
    }

    pub fn route(&mut self, rank: usize, routes: &Routes) -> Result<(), RequestError> {
        self.programs[rank].route(routes)
    }

    pub fn start(
        &mut self,
        rank: usize,
        collective: Collective,
        input: P,
        output: usize,
    ) -> Result<(), RequestError> {
        let memory = &mut self.ports[rank].memory;
        let (length, input_region) = (input.length(), memory.register(input));
        let output_region = memory.register(P::zeroed(output));
        let request = CollectiveRequest {
            collective,
            reduction: SUM,
            input: Slice { region: input_region, offset: 0, length },
            output: Slice { region: output_region, offset: 0, length: output },
            terms: Terms::WHOLE,
        };
        let outcome = self.programs[rank].start(Instant::ZERO, request, &mut self.ports[rank])?;
        self.outputs[rank] = request.output;
        self.outcomes[rank].extend(outcome);
        Ok(())
    }

    pub fn dispatch(&mut self, rank: usize, routes: &Routes, input: P) {
        self.route(rank, routes).unwrap();
        self.start(rank, Collective::Dispatch, input, self.places()).unwrap();
    }

    /// What a rank has for its output.
    pub fn output(&self, rank: usize) -> P {
        P::from_view(self.ports[rank].memory.view(self.outputs[rank]))
    }

    pub fn complete(&mut self, rank: usize, qp: QpIndex, completion: Completion) {
        let (peer, members) = (self.graph.0[rank][usize::from(qp.0)], self.setup.members);
        if let (Completion::Written { .. }, true) = (completion, peer / members != rank / members) {
            self.crossed[peer] += 1;
        }
        let outcome =
            self.programs[rank].handle_completion(Instant::ZERO, qp, completion, &mut self.ports[rank]);
        self.outcomes[rank].extend(outcome);
        Program::<P>::assert_invariants(&self.programs[rank]);
    }

    /// One message, or an alarm; whether there was one.
    pub fn step(&mut self) -> bool {
        if let Some(completions) = step(&self.graph, &mut self.ports, &mut self.random) {
            for (rank, qp, completion) in completions {
                self.complete(rank, qp, completion);
            }
            return true;
        }
        for rank in 0..self.ranks() {
            if let Some(alarm) = self.ports[rank].alarms.pop_first() {
                let outcome = self.programs[rank].handle_alarm(Instant::ZERO, alarm, &mut self.ports[rank]);
                self.outcomes[rank].extend(outcome);
                return true;
            }
        }
        false
    }

    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Dispatches a batch at every rank, and runs to its end.
    pub fn dispatch_all(&mut self, routes: &[Routes], inputs: &[P]) {
        for (rank, (routes, input)) in routes.iter().zip(inputs).enumerate() {
            self.dispatch(rank, routes, input.clone());
        }
        self.run();
    }

    /// Combines at every rank what it has made of its tokens, and runs to its end.
    pub fn combine_all(&mut self, routes: &[Routes], places: &[P]) {
        for (rank, (routes, places)) in routes.iter().zip(places).enumerate() {
            self.start(rank, Collective::Combine, places.clone(), routes.tokens() * TOKEN).unwrap();
        }
        self.run();
    }

    /// Every rank has ended `times` collectives well.
    pub fn assert_done(&self, times: usize) {
        for (rank, outcomes) in self.outcomes.iter().enumerate() {
            assert_eq!(*outcomes, vec![Outcome::Done; times], "rank {rank}, relays: {}", self.setup.relays);
        }
    }
}
