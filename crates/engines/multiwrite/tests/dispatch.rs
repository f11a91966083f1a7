//! Dispatch over MultiWrite: two servers, each token to the ranks of its experts, over a relay in the other server or to each by itself.

mod common;

use common::{Graph, Port, Random, config, port, step};
use proptest::prelude::*;
use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction, noise};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RegionId, RequestError, Slice, WorkId,
};
use quincunx_multiwrite::{
    Dispatch, DispatchConfig, DispatchConfigError, RELAY, RelayCost, Table, Window, WriterConfig,
};
use quincunx_units::{Duration, Instant};
use quincunx_wire::multiwrite::Destinations;

const RANKS: usize = 8;
const SERVER: usize = 4;
const SLOTS: usize = 6;
const TOKEN: usize = 12;

type Routes = Vec<Vec<Destinations>>;

fn route(ranks: &[u16]) -> Destinations {
    let mut route = Destinations::NONE;
    ranks.iter().for_each(|rank| route.insert(*rank));
    route
}

/// To the other server by way of the rank of the same index, or each way by itself.
fn table(graph: &Graph, rank: usize, relays: bool) -> Table {
    let plain = graph.table(rank);
    let partner = (rank + SERVER) % RANKS;
    let way = |peer: usize| {
        let is_far = peer / SERVER != rank / SERVER;
        let hop = if relays && is_far { partner } else { peer };
        plain.queue_pair(Rank(hop as u16)).filter(|_| peer != rank).into_iter().collect()
    };
    let neighbours = graph.0[rank].iter().map(|peer| Rank(*peer as u16)).collect();
    Table::new(Rank(rank as u16), RANKS as u16, neighbours, (0..RANKS).map(way).collect()).unwrap()
}

fn dispatch_config(graph: &Graph, rank: usize, relays: bool, routes: &[Destinations]) -> DispatchConfig {
    let writer = WriterConfig { table: table(graph, rank, relays), ..config(graph, rank, SLOTS, TOKEN) };
    DispatchConfig { writer, routes: routes.to_vec(), preparation: Duration::ZERO }
}

struct Ranks {
    graph: Graph,
    relays: bool,
    routes: Routes,
    programs: Vec<Dispatch>,
    ports: Vec<Port>,
    random: Random,
    outcomes: Vec<Vec<Outcome>>,
    outputs: Vec<Slice>,
    inputs: Vec<Numbers>,
    /// Tokens that have gone from a server to the other, by source.
    crossed: Vec<usize>,
}

impl Ranks {
    fn new(relays: bool, routes: &Routes, cost: RelayCost, seed: u64) -> Self {
        let graph = Graph::mesh(RANKS);
        let mut ports: Vec<Port> = (0..RANKS).map(|rank| port(&graph, rank)).collect();
        let program = |rank: usize| {
            let mut config = dispatch_config(&graph, rank, relays, &routes[rank]);
            config.writer.cost = cost;
            Dispatch::new(config).unwrap()
        };
        let mut programs: Vec<Dispatch> = (0..RANKS).map(program).collect();
        for (program, port) in programs.iter_mut().zip(&mut ports) {
            program.initialise(port);
        }
        let nowhere = Slice { region: RegionId(0), offset: 0, length: 0 };
        Self {
            graph,
            relays,
            routes: routes.clone(),
            programs,
            ports,
            random: Random(seed),
            outcomes: vec![Vec::new(); RANKS],
            outputs: vec![nowhere; RANKS],
            inputs: vec![Numbers::zeroed(0); RANKS],
            crossed: vec![0; RANKS],
        }
    }

    fn request(
        &mut self,
        rank: usize,
        collective: Collective,
        input: Numbers,
        output: usize,
    ) -> CollectiveRequest {
        let memory = &mut self.ports[rank].memory;
        let (length, input_region) = (input.length(), memory.register(input));
        let output_region = memory.register(Numbers::zeroed(output));
        CollectiveRequest {
            collective,
            reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
            input: Slice { region: input_region, offset: 0, length },
            output: Slice { region: output_region, offset: 0, length: output },
        }
    }

    fn dispatch(&mut self, rank: usize, seed: u64) {
        let input = noise(seed << 8 | rank as u64, self.routes[rank].len() * TOKEN, DataType::F32);
        self.inputs[rank] = input.clone();
        let request = self.request(rank, Collective::Dispatch, input, RANKS * SLOTS * TOKEN);
        self.outputs[rank] = request.output;
        let outcome = self.programs[rank].start(Instant::ZERO, request, &mut self.ports[rank]).unwrap();
        self.outcomes[rank].extend(outcome);
    }

    fn complete(&mut self, rank: usize, qp: QpIndex, completion: Completion) {
        let peer = self.graph.0[rank][usize::from(qp.0)];
        if let (Completion::Written { .. }, true) = (completion, peer / SERVER != rank / SERVER) {
            self.crossed[peer] += 1;
        }
        let outcome =
            self.programs[rank].handle_completion(Instant::ZERO, qp, completion, &mut self.ports[rank]);
        self.outcomes[rank].extend(outcome);
        Program::<Numbers>::assert_invariants(&self.programs[rank]);
    }

    /// One message, or an alarm; whether there was one.
    fn step(&mut self) -> bool {
        if let Some(completions) = step(&self.graph, &mut self.ports, &mut self.random) {
            for (rank, qp, completion) in completions {
                self.complete(rank, qp, completion);
            }
            return true;
        }
        for rank in 0..RANKS {
            if let Some(alarm) = self.ports[rank].alarms.pop_first() {
                let outcome = self.programs[rank].handle_alarm(Instant::ZERO, alarm, &mut self.ports[rank]);
                self.outcomes[rank].extend(outcome);
                return true;
            }
        }
        false
    }

    fn run(&mut self) {
        while self.step() {}
    }

    /// Every token lies at every rank that it is for, and nothing lies anywhere else.
    fn is_right(&self, rank: usize) -> bool {
        let mut expected = vec![0; RANKS * SLOTS * TOKEN];
        for (source, routes) in self.routes.iter().enumerate() {
            for (token, _) in routes.iter().enumerate().filter(|(_, route)| route.contains(rank as u16)) {
                let at = (source * SLOTS + token) * TOKEN;
                let bytes = &self.inputs[source].bytes()[token * TOKEN..(token + 1) * TOKEN];
                expected[at..at + TOKEN].copy_from_slice(bytes);
            }
        }
        self.ports[rank].memory.view(self.outputs[rank]) == expected
    }

    fn assert_done(&self) {
        for rank in 0..RANKS {
            assert_eq!(self.outcomes[rank], [Outcome::Done], "rank {rank}, relays: {}", self.relays);
            assert!(self.is_right(rank), "rank {rank}, relays: {}", self.relays);
        }
    }
}

/// Token t of rank r is for r + t and the ranks around it; rank 7 has none.
fn routes() -> Routes {
    let of = |rank: usize| {
        let tokens = 0..if rank == 7 { 0 } else { SLOTS };
        let to = |token: usize, step: usize| ((rank + token + step) % RANKS) as u16;
        tokens.map(|token| route(&[to(token, 0), to(token, 1), to(token, 3)])).collect()
    };
    (0..RANKS).map(of).collect()
}

fn ran(relays: bool, routes: &Routes) -> Ranks {
    let mut ranks = Ranks::new(relays, routes, RelayCost::default(), 1);
    (0..RANKS).for_each(|rank| ranks.dispatch(rank, 1));
    ranks.run();
    ranks
}

fn only(rank: usize, tokens: Vec<Destinations>) -> Routes {
    let mut routes = vec![Vec::new(); RANKS];
    routes[rank] = tokens;
    routes
}

#[test]
fn every_token_lies_at_the_ranks_of_its_experts_and_nowhere_else() {
    for relays in [false, true] {
        ran(relays, &routes()).assert_done();
    }
}

#[test]
fn a_token_crosses_once_over_a_relay_and_once_for_each_rank_without() {
    let routes = only(1, vec![route(&[0, 4, 6, 7])]);
    for (relays, crossings) in [(true, 1), (false, 3)] {
        let ranks = ran(relays, &routes);
        ranks.assert_done();
        assert_eq!(ranks.crossed[1], crossings, "relays: {relays}");
    }
}

#[test]
fn a_token_with_no_expert_on_another_server_does_not_cross() {
    for relays in [false, true] {
        let ranks = ran(relays, &only(1, vec![route(&[0, 1, 2]), route(&[1])]));
        ranks.assert_done();
        assert_eq!(ranks.crossed, [0; RANKS], "relays: {relays}");
    }
}

#[test]
fn a_batch_of_nothing_ends_at_all_ranks() {
    ran(true, &vec![Vec::new(); RANKS]).assert_done();
}

#[test]
fn a_relay_that_takes_its_time_changes_nothing_but_that() {
    let cost = RelayCost { message: Duration::from_nanos(1), copy: Duration::from_nanos(1) };
    let mut ranks = Ranks::new(true, &routes(), cost, 1);
    (0..RANKS).for_each(|rank| ranks.dispatch(rank, 1));
    ranks.run();
    ranks.assert_done();
}

#[test]
fn nobody_is_done_while_somebody_has_not_begun() {
    let mut ranks = Ranks::new(true, &routes(), RelayCost::default(), 1);
    (0..7).for_each(|rank| ranks.dispatch(rank, 1));
    ranks.run();
    assert!(ranks.outcomes.iter().all(Vec::is_empty));
    ranks.dispatch(7, 1);
    ranks.run();
    ranks.assert_done();
}

#[test]
fn a_relay_that_dies_fails_the_dispatch_and_no_part_of_it_counts_as_whole() {
    let mut ranks = Ranks::new(true, &routes(), RelayCost::default(), 1);
    ranks.ports[4].lines.clear();
    (0..SERVER).for_each(|rank| ranks.dispatch(rank, 1));
    let to_relay = table(&ranks.graph, 0, true).queue_pair(Rank(4)).unwrap();
    let id = ranks.ports[0].lines[usize::from(to_relay.0)].sends[0].id;
    ranks.complete(0, to_relay, Completion::Failed { id, failure: Failure::RetryExceeded });
    assert_eq!(ranks.outcomes[0], [Outcome::Failed { qp: to_relay, failure: Failure::RetryExceeded }]);
    ranks.run();
    assert!(ranks.outcomes[1..].iter().all(|outcomes| !outcomes.contains(&Outcome::Done)));
    let request = ranks.request(0, Collective::Dispatch, Numbers::zeroed(0), 0);
    let again = ranks.programs[0].start(Instant::ZERO, request, &mut ranks.ports[0]);
    assert_eq!(again, Err(RequestError::GroupFailed));
}

#[test]
fn what_was_not_announced_fails_the_dispatch() {
    let heard = |count| Completion::Received { id: WorkId(0), length: 0, immediate: Some(count) };
    let token = Completion::Written {
        id: WorkId(0),
        target: Slice { region: RegionId(0), offset: SLOTS * TOKEN, length: TOKEN },
        immediate: 1,
    };
    let short = Completion::Written {
        id: WorkId(0),
        target: Slice { region: RegionId(0), offset: SLOTS * TOKEN, length: TOKEN - 1 },
        immediate: 1,
    };
    let all_here = heard(u32::MAX);
    for wrong in [
        vec![token, token],
        vec![heard(0), token],
        vec![token, heard(0)],
        vec![heard(1), heard(1)],
        vec![heard(SLOTS as u32 + 1)],
        vec![short],
        vec![all_here, all_here, all_here],
        vec![Completion::Received { id: WorkId(0), length: 1, immediate: None }],
    ] {
        let mut ranks = Ranks::new(true, &routes(), RelayCost::default(), 1);
        ranks.dispatch(0, 1);
        let qp = table(&ranks.graph, 0, true).queue_pair(Rank(1)).unwrap();
        wrong.iter().for_each(|completion| ranks.complete(0, qp, *completion));
        let failed = Outcome::Failed { qp, failure: Failure::InvalidRequest };
        assert_eq!(ranks.outcomes[0], [failed], "{wrong:?}");
    }
}

#[test]
fn what_a_rank_does_not_offer_is_refused_and_nothing_has_changed() {
    let mut ranks = Ranks::new(true, &routes(), RelayCost::default(), 1);
    let before = ranks.programs[0].clone();
    let (input, output) = (SLOTS * TOKEN, RANKS * SLOTS * TOKEN);
    for (collective, lengths, refusal) in [
        (Collective::Barrier, [input, output], RequestError::NotOffered { found: Collective::Barrier }),
        (
            Collective::Dispatch,
            [input - 4, output],
            RequestError::Length { what: "an input", expected: input, found: input - 4 },
        ),
        (
            Collective::Dispatch,
            [input, output + 4],
            RequestError::Length { what: "an output", expected: output, found: output + 4 },
        ),
    ] {
        let request = ranks.request(0, collective, Numbers::zeroed(lengths[0]), lengths[1]);
        assert_eq!(ranks.programs[0].start(Instant::ZERO, request, &mut ranks.ports[0]), Err(refusal));
        assert_eq!(ranks.programs[0], before);
    }
    ranks.dispatch(0, 1);
    let request = ranks.request(0, Collective::Dispatch, Numbers::zeroed(input), output);
    let busy = ranks.programs[0].start(Instant::ZERO, request, &mut ranks.ports[0]);
    assert_eq!(busy, Err(RequestError::Busy));
}

#[test]
fn a_set_up_that_makes_no_sense_is_refused_in_a_line() {
    let graph = Graph::mesh(RANKS);
    let with = |routes: &[Destinations]| Dispatch::new(dispatch_config(&graph, 0, true, routes)).map(|_| ());
    let slots = SLOTS;
    assert_eq!(with(&[route(&[1]); SLOTS + 1]), Err(DispatchConfigError::Tokens { slots, found: SLOTS + 1 }));
    let nobody = DispatchConfigError::Route { ranks: 8, token: 0, found: 0 };
    assert_eq!(with(&[Destinations::NONE]), Err(nobody));
    assert_eq!(with(&[route(&[8])]), Err(DispatchConfigError::Route { ranks: 8, token: 0, found: 8 }));
    let line = Graph::line(RANKS);
    let unconnected = DispatchConfig {
        writer: config(&line, 0, SLOTS, TOKEN),
        routes: Vec::new(),
        preparation: Duration::ZERO,
    };
    assert_eq!(Dispatch::new(unconnected).map(|_| ()), Err(DispatchConfigError::NoQueuePair { found: 2 }));
    let mut empty = dispatch_config(&graph, 0, true, &[]);
    empty.writer.window = Window::new(RANKS as u16, SLOTS, 0);
    assert_eq!(Dispatch::new(empty).map(|_| ()), Err(DispatchConfigError::EmptyToken));
    assert!(!nobody.to_string().contains('\n'));
}

#[test]
fn alarms_that_nobody_set_are_harmless() {
    let mut ranks = Ranks::new(true, &routes(), RelayCost::default(), 1);
    let before = ranks.programs[0].clone();
    assert_eq!(ranks.programs[0].handle_alarm(Instant::ZERO, RELAY, &mut ranks.ports[0]), None);
    assert_eq!(ranks.programs[0], before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn dispatches_follow_each_other_whoever_is_ahead(
        seed in any::<u64>(),
        relays in any::<bool>(),
        masks in prop::collection::vec(prop::collection::vec(1_u32..256, 0..=SLOTS), RANKS),
        rounds in 1_usize..4,
    ) {
        let routes: Routes =
            masks.iter().map(|of| of.iter().map(|mask| Destinations::from_immediate(*mask)).collect()).collect();
        let mut ranks = Ranks::new(relays, &routes, RelayCost::default(), seed);
        let mut begun = [0; RANKS];
        loop {
            // A rank begins its next dispatch, or a message moves.
            let rank = ranks.random.below(RANKS);
            let is_idle = ranks.outcomes[rank].len() == begun[rank];
            if ranks.random.below(6) == 0 && is_idle && begun[rank] < rounds {
                begun[rank] += 1;
                ranks.dispatch(rank, seed.wrapping_add(begun[rank] as u64) >> 8);
            } else if !ranks.step() && begun == [rounds; RANKS] {
                break;
            }
        }
        for rank in 0..RANKS {
            prop_assert_eq!(&ranks.outcomes[rank], &vec![Outcome::Done; rounds]);
            prop_assert!(ranks.is_right(rank), "rank {}", rank);
        }
    }
}
