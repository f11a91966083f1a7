//! AllGather over MultiWrite: two groups of four in a full mesh, each of which relays for the other.

use crate::common::{Graph, Port, Random, config, full_mesh, port, step};
use proptest::prelude::*;
use quincunx_collective::{Collective, DataType, Numbers, Payload, Rank, ReduceOp, Reduction, noise};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RequestError, Slice, WorkId,
};
use quincunx_multiwrite::{
    AllGather, AllGatherConfig, AllGatherConfigError, Part, Paths, RELAY, RelayCost, Strategy, split,
};
use quincunx_units::{BitRate, ByteCount, Duration, Instant};

const RANKS: usize = 8;
const MEMBERS: usize = 4;
const SLOTS: usize = 16;
const DATA: usize = 8;

fn parts(strategy: Strategy, relays: u16) -> Vec<Part> {
    let rate = BitRate::new(1_200_000_000).unwrap();
    let relay = (RelayCost::default(), ByteCount::new(DATA as u64));
    split(strategy, &Paths { direct: rate, cross: rate, members: 4, others: 4, relays, relay })
}

fn gather_config(graph: &Graph, rank: usize, parts: Vec<Part>) -> AllGatherConfig {
    let table = full_mesh(((RANKS / MEMBERS) as u16, MEMBERS as u16), rank as u16);
    let writer = quincunx_multiwrite::WriterConfig { table, ..config(graph, rank, SLOTS, DATA) };
    let first = rank / MEMBERS * MEMBERS;
    let group = (first..first + MEMBERS).map(|rank| Rank(rank as u16)).collect();
    AllGatherConfig { writer, group, parts, preparation: Duration::ZERO }
}

struct Ranks {
    graph: Graph,
    programs: Vec<AllGather>,
    ports: Vec<Port>,
    random: Random,
    outcomes: Vec<Vec<Outcome>>,
    outputs: Vec<Slice>,
    inputs: Vec<Numbers>,
}

impl Ranks {
    fn new(parts: &[Part], cost: RelayCost, seed: u64) -> Self {
        Self::with_preparation(parts, cost, Duration::ZERO, seed)
    }

    fn with_preparation(parts: &[Part], cost: RelayCost, preparation: Duration, seed: u64) -> Self {
        let graph = Graph::mesh(RANKS);
        let mut ports: Vec<Port> = (0..RANKS).map(|rank| port(&graph, rank)).collect();
        let program = |rank: usize| {
            let mut config = gather_config(&graph, rank, parts.to_vec());
            config.writer.cost = cost;
            config.preparation = preparation;
            AllGather::new(config).unwrap()
        };
        let mut programs: Vec<AllGather> = (0..RANKS).map(program).collect();
        for (program, port) in programs.iter_mut().zip(&mut ports) {
            program.initialise(port);
        }
        let outputs =
            vec![Slice { region: quincunx_engine::verbs::RegionId(0), offset: 0, length: 0 }; RANKS];
        let (outcomes, inputs) = (vec![Vec::new(); RANKS], vec![Numbers::zeroed(0); RANKS]);
        Self { graph, programs, ports, random: Random(seed), outcomes, outputs, inputs }
    }

    /// What a rank tells the others that has nothing to send.
    fn word_of(&self, rank: usize) -> u32 {
        let mut told = self.ports[rank].lines.iter().filter_map(|line| line.sends.front()?.immediate);
        told.next().expect("it has told")
    }

    fn start(
        &mut self,
        rank: usize,
        collective: Collective,
        input: Numbers,
        output: usize,
    ) -> Result<(), RequestError> {
        self.start_typed(rank, (collective, DataType::F32), input, output)
    }

    fn start_typed(
        &mut self,
        rank: usize,
        (collective, data_type): (Collective, DataType),
        input: Numbers,
        output: usize,
    ) -> Result<(), RequestError> {
        let memory = &mut self.ports[rank].memory;
        let (length, input_region) = (input.length(), memory.register(input.clone()));
        let output_region = memory.register(Numbers::zeroed(output));
        let request = CollectiveRequest {
            collective,
            reduction: Reduction { op: ReduceOp::Sum, data_type },
            input: Slice { region: input_region, offset: 0, length },
            output: Slice { region: output_region, offset: 0, length: output },
            terms: Terms::WHOLE,
        };
        let outcome = self.programs[rank].start(Instant::ZERO, request, &mut self.ports[rank])?;
        self.outcomes[rank].extend(outcome);
        (self.outputs[rank], self.inputs[rank]) = (request.output, input);
        Ok(())
    }

    fn gather(&mut self, rank: usize, seed: u64, length: usize) {
        let input = noise(seed << 8 | rank as u64, length, DataType::F32);
        self.start(rank, Collective::AllGather, input, MEMBERS * length).unwrap();
    }

    fn complete(&mut self, rank: usize, qp: QpIndex, completion: Completion) {
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

    fn is_right(&self, rank: usize) -> bool {
        let first = rank / MEMBERS * MEMBERS;
        let expected =
            self.inputs[first..first + MEMBERS].iter().map(Numbers::bytes).collect::<Vec<_>>().concat();
        self.ports[rank].memory.view(self.outputs[rank]) == expected
    }
}

fn all_parts() -> Vec<Vec<Part>> {
    vec![
        parts(Strategy::Direct, 1),
        parts(Strategy::Unicast, 1),
        parts(Strategy::MultiWrite, 1),
        parts(Strategy::Unicast, 4),
        parts(Strategy::MultiWrite, 4),
    ]
}

#[test]
fn everybody_has_everything_of_its_own_group_whatever_the_ways() {
    for parts in all_parts() {
        for length in [0, 4, 8, 12, 60, 128] {
            let mut ranks = Ranks::new(&parts, RelayCost::default(), 1);
            (0..RANKS).for_each(|rank| ranks.gather(rank, 1, length));
            ranks.run();
            for rank in 0..RANKS {
                assert_eq!(ranks.outcomes[rank], [Outcome::Done], "rank {rank} of {parts:?}");
                assert!(ranks.is_right(rank), "rank {rank} of {parts:?}, {length} bytes");
            }
        }
    }
}

#[test]
fn one_multiwrite_carries_to_the_relay_what_unicast_carries_three_times() {
    let to_partner = |strategy| {
        let mut ranks = Ranks::new(&parts(strategy, 1), RelayCost::default(), 1);
        ranks.gather(0, 1, 16 * DATA);
        let qp = ranks.programs.len() / 2 - 1;
        ranks.ports[0].lines[qp].sends.len()
    };
    assert_eq!([Strategy::Direct, Strategy::MultiWrite, Strategy::Unicast].map(to_partner), [0, 8, 12]);
}

#[test]
fn a_relay_passes_on_while_its_own_application_asks_for_nothing() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    (0..MEMBERS).for_each(|rank| ranks.gather(rank, 1, 128));
    ranks.run();
    assert!((0..MEMBERS).all(|rank| ranks.outcomes[rank] == [Outcome::Done] && ranks.is_right(rank)));
}

#[test]
fn a_relay_that_takes_its_time_changes_nothing_but_that() {
    let cost = RelayCost { message: Duration::from_nanos(1), copy: Duration::from_nanos(1) };
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 4), cost, 1);
    (0..RANKS).for_each(|rank| ranks.gather(rank, 1, 128));
    ranks.run();
    assert!((0..RANKS).all(|rank| ranks.outcomes[rank] == [Outcome::Done] && ranks.is_right(rank)));
}

#[test]
fn ways_are_prepared_before_an_all_gather_over_several_and_for_nothing_else() {
    let prepares = |strategy, collective, length| {
        let preparation = Duration::from_nanos(1);
        let mut ranks = Ranks::with_preparation(&parts(strategy, 1), RelayCost::default(), preparation, 1);
        let output = if collective == Collective::AllGather { MEMBERS * length } else { 0 };
        ranks.start(0, collective, Numbers::zeroed(length), output).unwrap();
        let waits = !ranks.ports[0].alarms.is_empty();
        assert!(
            !waits || ranks.ports[0].lines.iter().all(|line| line.sends.is_empty()),
            "nothing leaves yet"
        );
        waits
    };
    assert!(prepares(Strategy::MultiWrite, Collective::AllGather, 128));
    assert!(!prepares(Strategy::Direct, Collective::AllGather, 128));
    assert!(!prepares(Strategy::MultiWrite, Collective::Barrier, 0));
}

#[test]
fn nobody_is_done_while_somebody_of_its_group_has_not_begun() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    (0..3).for_each(|rank| ranks.gather(rank, 1, 128));
    ranks.run();
    assert!(ranks.outcomes.iter().all(Vec::is_empty));
    ranks.gather(3, 1, 128);
    ranks.run();
    assert!((0..MEMBERS).all(|rank| ranks.outcomes[rank] == [Outcome::Done] && ranks.is_right(rank)));
}

#[test]
fn a_barrier_waits_for_everybody_in_all_groups() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    let barrier = |ranks: &mut Ranks, rank| {
        ranks.start(rank, Collective::Barrier, Numbers::zeroed(0), 0).unwrap();
        ranks.run();
    };
    (1..RANKS).for_each(|rank| barrier(&mut ranks, rank));
    assert!(ranks.outcomes.iter().all(Vec::is_empty));
    barrier(&mut ranks, 0);
    assert!(ranks.outcomes.iter().all(|outcomes| *outcomes == [Outcome::Done]));
}

#[test]
fn what_comes_before_the_end_of_a_barrier_waits_for_the_collective_that_it_is_of() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    ranks.start(0, Collective::Barrier, Numbers::zeroed(0), 0).unwrap();
    let word = ranks.word_of(0);
    (1..MEMBERS).for_each(|rank| ranks.gather(rank, 1, 128));
    ranks.run();
    assert!(ranks.outcomes.iter().all(Vec::is_empty));
    for rank in 0..RANKS {
        let told = Completion::Received { id: WorkId(0), length: 0, immediate: Some(word) };
        if let Some(qp) = ranks.graph.table(0).queue_pair(Rank(rank as u16)) {
            ranks.complete(0, qp, told);
        }
    }
    assert_eq!(ranks.outcomes[0], [Outcome::Done]);
    ranks.gather(0, 1, 128);
    ranks.run();
    assert!((0..MEMBERS).all(|rank| ranks.is_right(rank)));
}

#[test]
fn a_collective_of_nothing_may_be_over_elsewhere_before_the_one_before_it_is_here() {
    let mut ranks = Ranks::new(&parts(Strategy::Direct, 1), RelayCost::default(), 1);
    ranks.gather(0, 1, 0);
    let all_here = Completion::Received { id: WorkId(0), length: 0, immediate: Some(ranks.word_of(0)) };
    let qps = [1, 2, 3].map(|peer| ranks.graph.table(0).queue_pair(Rank(peer)).unwrap());
    for qp in [qps[0], qps[0], qps[1], qps[2]] {
        ranks.complete(0, qp, all_here);
    }
    assert!(ranks.outcomes[0].is_empty(), "what rank 0 has told is not acknowledged");
    let told: Vec<_> = ranks.ports[0].lines.iter_mut().flat_map(|line| line.sends.drain(..)).collect();
    told.iter().for_each(|send| ranks.complete(0, qps[0], Completion::Sent { id: send.id }));
    assert_eq!(ranks.outcomes[0], [Outcome::Done]);
    ranks.complete(0, qps[0], all_here);
    ranks.complete(0, qps[0], all_here);
    ranks.gather(1, 1, 0);
    let again = ranks.start(0, Collective::AllGather, Numbers::zeroed(0), 0);
    assert_eq!(again, Err(RequestError::GroupFailed), "nobody is two collectives ahead");
}

#[test]
fn nobody_is_done_where_one_gathers_something_else() {
    let dissenting: [(Collective, usize, DataType); 5] = [
        (Collective::AllGather, 128, DataType::I32),
        (Collective::AllGather, 64, DataType::F32),
        (Collective::AllGather, 124, DataType::F32),
        (Collective::AllGather, 0, DataType::F32),
        (Collective::Barrier, 0, DataType::F32),
    ];
    for (seed, (collective, length, data_type)) in (1..9).flat_map(|seed| dissenting.map(|one| (seed, one))) {
        let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), seed);
        (1..MEMBERS).for_each(|rank| ranks.gather(rank, 1, 128));
        let output = if collective == Collective::Barrier { 0 } else { MEMBERS * length };
        ranks.start_typed(0, (collective, data_type), Numbers::zeroed(length), output).unwrap();
        ranks.run();
        let is_done = |outcomes: &Vec<Outcome>| outcomes.contains(&Outcome::Done);
        assert!(
            !ranks.outcomes.iter().any(is_done),
            "{collective} of {length} {data_type}: {:?}",
            ranks.outcomes
        );
    }
}

#[test]
fn a_relay_that_dies_fails_the_collective_and_no_part_of_it_counts_as_whole() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    (0..MEMBERS).for_each(|rank| ranks.gather(rank, 1, 128));
    // Rank 4 relays for rank 0. It is gone.
    let to_relay = ranks.graph.table(0).queue_pair(Rank(4)).unwrap();
    ranks.ports[4].lines.clear();
    let id = ranks.ports[0].lines[usize::from(to_relay.0)].sends[0].id;
    ranks.complete(0, to_relay, Completion::Failed { id, failure: Failure::RetryExceeded });
    assert_eq!(ranks.outcomes[0], [Outcome::Failed { qp: to_relay, failure: Failure::RetryExceeded }]);
    ranks.run();
    assert!(ranks.outcomes[1..].iter().all(|outcomes| !outcomes.contains(&Outcome::Done)));
    let again = ranks.start(0, Collective::AllGather, Numbers::zeroed(8), 32);
    assert_eq!(again, Err(RequestError::GroupFailed));
}

#[test]
fn a_piece_that_comes_twice_or_from_a_stranger_fails_the_collective() {
    for (source, copies) in [(1, 2), (5, 1)] {
        let mut ranks = Ranks::new(&parts(Strategy::Direct, 1), RelayCost::default(), 1);
        ranks.gather(0, 1, 16);
        let config = gather_config(&ranks.graph, 0, parts(Strategy::Direct, 1));
        let (qp, window) = (config.writer.table.queue_pair(Rank(source)).unwrap(), config.writer.window);
        let region = quincunx_engine::verbs::RegionId(0);
        let offset = window.length() / RANKS * usize::from(source);
        let written = Completion::Written {
            id: WorkId(0),
            target: Slice { region, offset, length: DATA },
            immediate: 1,
        };
        (0..copies).for_each(|_| ranks.complete(0, qp, written));
        assert_eq!(ranks.outcomes[0], [Outcome::Failed { qp, failure: Failure::InvalidRequest }]);
    }
}

#[test]
fn what_the_group_does_not_offer_is_refused_and_nothing_has_changed() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    let before = ranks.programs[0].clone();
    let limit = SLOTS * DATA;
    for (collective, input, output, refusal) in [
        (Collective::AllReduce, 8, 8, RequestError::NotOffered { found: Collective::AllReduce }),
        (
            Collective::AllGather,
            limit + 4,
            4 * limit + 16,
            RequestError::Length { what: "an input", expected: limit, found: limit + 4 },
        ),
        (Collective::AllGather, 8, 64, RequestError::Length { what: "an output", expected: 32, found: 64 }),
        (Collective::AllGather, 6, 24, RequestError::Element { element: 4, found: 6 }),
        (Collective::Barrier, 8, 0, RequestError::Length { what: "an input", expected: 0, found: 8 }),
    ] {
        assert_eq!(ranks.start(0, collective, Numbers::zeroed(input), output), Err(refusal));
        assert_eq!(ranks.programs[0], before);
    }
    ranks.gather(0, 1, 8);
    assert_eq!(ranks.start(0, Collective::AllGather, Numbers::zeroed(8), 32), Err(RequestError::Busy));
}

#[test]
fn a_group_that_makes_no_sense_is_refused() {
    let graph = Graph::mesh(RANKS);
    let with = |group: &[u16], parts| {
        let group = group.iter().map(|rank| Rank(*rank)).collect();
        AllGather::new(AllGatherConfig { group, ..gather_config(&graph, 0, parts) }).map(|_| ())
    };
    let direct = parts(Strategy::Direct, 1);
    assert_eq!(with(&[1, 2], direct.clone()), Err(AllGatherConfigError::NotAMember { rank: 0 }));
    assert_eq!(with(&[0, 2, 1], direct.clone()), Err(AllGatherConfigError::Order { found: 1 }));
    assert_eq!(with(&[0, 9], direct), Err(AllGatherConfigError::NoQueuePair { found: 9 }));
    assert_eq!(with(&[0, 1], Vec::new()), Err(AllGatherConfigError::NoParts));
}

#[test]
fn alarms_that_nobody_set_are_harmless() {
    let mut ranks = Ranks::new(&parts(Strategy::MultiWrite, 1), RelayCost::default(), 1);
    let before = ranks.programs[0].clone();
    assert_eq!(ranks.programs[0].handle_alarm(Instant::ZERO, RELAY, &mut ranks.ports[0]), None);
    assert_eq!(ranks.programs[0], before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn collectives_follow_each_other_whoever_is_ahead(
        seed in any::<u64>(),
        which in 0_usize..5,
        lengths in prop::collection::vec(0_usize..=32, 1..4),
    ) {
        let mut ranks = Ranks::new(&all_parts()[which], RelayCost::default(), seed);
        let mut begun = [0; RANKS];
        loop {
            // A rank begins its next collective, or a message moves.
            let rank = ranks.random.below(RANKS);
            let is_idle = ranks.outcomes[rank].len() == begun[rank];
            if ranks.random.below(6) == 0 && is_idle && begun[rank] < lengths.len() {
                let round = begun[rank];
                begun[rank] += 1;
                ranks.gather(rank, seed.wrapping_add(round as u64) >> 8, 4 * lengths[round]);
            } else if !ranks.step() && begun == [lengths.len(); RANKS] {
                break;
            }
        }
        for rank in 0..RANKS {
            prop_assert_eq!(&ranks.outcomes[rank], &vec![Outcome::Done; lengths.len()]);
            prop_assert!(ranks.is_right(rank), "rank {}", rank);
        }
    }
}
