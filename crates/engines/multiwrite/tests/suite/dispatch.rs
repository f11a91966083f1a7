//! Dispatch over MultiWrite: two servers, each token to the ranks of its experts, over a relay in the other server or to each by itself.

use crate::common::experts::{ExpertsSetup, Ranks, SLOTS, SUM, TOKEN, all_routes, only, routes};
use crate::common::{Graph, Port, config};
use proptest::prelude::*;
use quincunx_collective::{
    Collective, DataType, LengthOnly, Numbers, Payload, Rank, Routes, noise, reference_combine,
    reference_dispatch,
};
use quincunx_engine::Terms;
use quincunx_engine::routing::Routed;
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, Program, QpIndex, RegionId, RequestError, Slice, WorkId,
};
use quincunx_multiwrite::{
    Experts, ExpertsConfig, ExpertsConfigError, RELAY, RelayCost, Table, Window, WriterConfig,
};
use quincunx_units::{Duration, Instant};

const RANKS: usize = 8;

fn inputs(routes: &[Routes], seed: u64) -> Vec<Numbers> {
    let input =
        |(rank, of): (usize, &Routes)| noise(seed << 8 | rank as u64, of.tokens() * TOKEN, DataType::F32);
    routes.iter().enumerate().map(input).collect()
}

fn dispatched(setup: ExpertsSetup, routes: &[Routes]) -> Ranks<Numbers> {
    let (mut ranks, inputs) = (Ranks::new(setup), inputs(routes, 1));
    ranks.dispatch_all(routes, &inputs);
    ranks.assert_done(1);
    for rank in 0..ranks.ranks() {
        let expected = reference_dispatch(routes, &inputs, Rank(rank as u16), SLOTS, TOKEN);
        assert!(ranks.output(rank) == expected, "rank {rank}, relays: {}", setup.relays);
    }
    ranks
}

#[test]
fn every_token_lies_at_the_ranks_of_its_experts_and_nowhere_else() {
    for relays in [false, true] {
        dispatched(ExpertsSetup::new(relays), &all_routes(RANKS));
    }
}

#[test]
fn a_token_crosses_once_over_a_relay_and_once_for_each_rank_without() {
    let routes = only(1, RANKS, &[&[0, 4, 6, 7]]);
    for (relays, crossings) in [(true, 1), (false, 3)] {
        assert_eq!(dispatched(ExpertsSetup::new(relays), &routes).crossed[1], crossings, "relays: {relays}");
    }
}

#[test]
fn a_token_with_no_expert_on_another_server_does_not_cross() {
    for relays in [false, true] {
        let ranks = dispatched(ExpertsSetup::new(relays), &only(1, RANKS, &[&[0, 1, 2], &[1]]));
        assert_eq!(ranks.crossed, [0; RANKS], "relays: {relays}");
    }
}

#[test]
fn a_rank_without_tokens_sends_announcements_or_nothing_until_it_has_all_that_comes() {
    let routes = only(1, RANKS, &[&[0, 4]]);
    for (announces, messages) in [(true, 7), (false, 0)] {
        let mut ranks: Ranks<Numbers> = Ranks::new(ExpertsSetup { announces, ..ExpertsSetup::new(false) });
        let inputs = inputs(&routes, 1);
        ranks.dispatch(0, &routes[0], inputs[0].clone());
        let sent: usize = ranks.ports[0].lines.iter().map(|line| line.sends.len()).sum();
        assert_eq!(sent, messages, "announces: {announces}");
        (1..RANKS).for_each(|rank| ranks.dispatch(rank, &routes[rank], inputs[rank].clone()));
        ranks.run();
        ranks.assert_done(1);
    }
}

#[test]
fn without_announcements_a_rank_must_be_told_how_many_tokens_come_and_more_fail_the_dispatch() {
    let setup = ExpertsSetup { announces: false, ..ExpertsSetup::new(true) };
    let mut ranks: Ranks<Numbers> = Ranks::new(setup);
    let refused = RequestError::NoIncoming { ranks: RANKS as u16, found: 0 };
    assert_eq!(ranks.route(0, &routes(&[&[3]])), Err(refused));
    let many = only(1, RANKS, &[&[0][..]; SLOTS + 1]);
    let too_many = RequestError::Tokens { most: SLOTS, found: SLOTS + 1 };
    assert_eq!(ranks.route(0, &many[0]), Err(too_many), "of another");
    let routes = only(1, RANKS, &[&[0]]);
    ranks.dispatch(0, &routes[0], Numbers::zeroed(0));
    let qp = ranks.graph.table(0).queue_pair(Rank(1)).unwrap();
    let token = |slot: usize| Completion::Written {
        id: WorkId(0),
        target: Slice { region: RegionId(0), offset: (SLOTS + slot) * TOKEN, length: TOKEN },
        immediate: 1,
    };
    ranks.complete(0, qp, token(0));
    assert_eq!(ranks.outcomes[0], []);
    // The rank waits for the end: what comes now is of the next dispatch, for which it expects nothing.
    ranks.complete(0, qp, token(1));
    let mut early: Ranks<Numbers> = Ranks::new(setup);
    (0..2).for_each(|slot| early.complete(0, qp, token(slot)));
    early.route(0, &routes[0]).unwrap();
    early.start(0, Collective::Dispatch, Numbers::zeroed(0), early.places()).unwrap();
    assert_eq!(early.outcomes[0], [Outcome::Failed { qp, failure: Failure::Miscounted }]);
}

/// Eight ranks without announcements, of which `wrong` expects `expected` tokens of rank 1; the others expect what comes.
fn miscounted(wrong: usize, expected: &[&[u16]], combines: bool) -> Ranks<Numbers> {
    let setup = ExpertsSetup { announces: false, ..ExpertsSetup::new(true) };
    let mut ranks: Ranks<Numbers> = Ranks::new(setup);
    let mut routes = only(1, RANKS, &[&[0, 4], &[0], &[wrong as u16]]);
    routes[wrong] = only(1, RANKS, expected)[wrong].clone();
    let inputs = inputs(&only(1, RANKS, &[&[0, 4], &[0], &[wrong as u16]]), 1);
    if combines {
        let right = only(1, RANKS, &[&[wrong as u16]]);
        ranks.dispatch_all(&right, &inputs_of(&right));
        ranks.assert_done(1);
        ranks.outcomes.iter_mut().for_each(Vec::clear);
    }
    ranks.dispatch_all(&routes, &inputs);
    ranks
}

fn inputs_of(routes: &[Routes]) -> Vec<Numbers> {
    inputs(routes, 2)
}

#[test]
fn a_rank_that_expects_fewer_tokens_than_come_ends_the_dispatch_and_nobody_takes_it_for_whole() {
    let ranks = miscounted(3, &[], false);
    assert!(matches!(ranks.outcomes[3][..], [Outcome::Failed { failure: Failure::Miscounted, .. }]));
    let qp = ranks.graph.table(3).queue_pair(Rank(1)).unwrap();
    assert!(matches!(ranks.outcomes[3][..], [Outcome::Failed { qp: found, .. }] if found == qp), "of rank 1");
}

#[test]
fn a_token_too_many_is_told_as_such_while_others_are_missing() {
    let mut ranks: Ranks<Numbers> = Ranks::new(ExpertsSetup { announces: false, ..ExpertsSetup::new(true) });
    let all = [&[][..], &[&[0][..]], &[&[0]], &[], &[], &[], &[], &[]].map(routes);
    let all = Routes::with_incoming(all.into());
    ranks.dispatch(0, &all[0], Numbers::zeroed(0));
    let qp = ranks.graph.table(0).queue_pair(Rank(1)).unwrap();
    for slot in 0..2 {
        let target = Slice { region: RegionId(0), offset: (SLOTS + slot) * TOKEN, length: TOKEN };
        ranks.complete(0, qp, Completion::Written { id: WorkId(0), target, immediate: 1 });
    }
    assert_eq!(ranks.outcomes[0], [Outcome::Failed { qp, failure: Failure::Miscounted }]);
}

#[test]
fn a_rank_that_expects_more_tokens_than_come_ends_the_dispatch_when_all_have_waited() {
    for combines in [false, true] {
        let ranks = miscounted(3, &[&[3], &[3]], combines);
        let qp = ranks.graph.table(3).queue_pair(Rank(1)).unwrap();
        assert_eq!(ranks.outcomes[3], [Outcome::Failed { qp, failure: Failure::Miscounted }]);
        assert!(ranks.outcomes.iter().all(|outcomes| !outcomes.contains(&Outcome::Done)), "{combines}");
    }
}

#[test]
fn what_ranks_say_that_wait_is_no_fault_where_numbers_are_right() {
    let setup = ExpertsSetup { announces: false, ..ExpertsSetup::new(true) };
    let (routes, mut ranks) = (all_routes(RANKS), Ranks::<Numbers>::new(setup));
    let inputs = inputs(&routes, 1);
    // One comes late: the others have waited, in the first collective and in the second.
    for round in 1..=2 {
        (0..7).for_each(|rank| ranks.dispatch(rank, &routes[rank], inputs[rank].clone()));
        ranks.run();
        assert!(ranks.ports.iter().all(|port| port.alarms.is_empty()), "all have fired");
        ranks.dispatch(7, &routes[7], inputs[7].clone());
        ranks.run();
        ranks.assert_done(round);
    }
}

#[test]
fn a_batch_of_nothing_ends_at_all_ranks() {
    dispatched(ExpertsSetup::new(true), &vec![Routes::default(); RANKS]);
}

#[test]
fn a_relay_that_takes_its_time_changes_nothing_but_that() {
    let cost = RelayCost { message: Duration::from_nanos(1), copy: Duration::from_nanos(1) };
    dispatched(ExpertsSetup { cost, ..ExpertsSetup::new(true) }, &all_routes(RANKS));
}

#[test]
fn in_large_groups_tokens_take_their_ranks_with_them() {
    for relays in [false, true] {
        dispatched(ExpertsSetup { members: 20, ..ExpertsSetup::new(relays) }, &all_routes(40));
    }
}

#[test]
fn a_rank_of_1024_writes_a_token_with_its_ranks_to_the_relay_and_ends_when_all_have_told() {
    const ALL: u16 = 1024;
    let to = |rank: u16| QpIndex(rank - 1);
    let ways = |rank: u16| match rank {
        0 => vec![],
        1..512 => vec![to(rank)],
        _ => vec![to(512), to(rank)],
    };
    let table = Table::new(Rank(0), ALL, (1..ALL).map(Rank).collect(), (0..ALL).map(ways).collect()).unwrap();
    let window = Window::new(ALL, 1, TOKEN);
    let writer = WriterConfig { table, window, receives: 1, cost: RelayCost::default() };
    let config =
        ExpertsConfig { writer, preparation: Duration::ZERO, announces: true, patience: Duration::ZERO };
    let mut program = Experts::new(config).unwrap();
    let mut port: Port<Numbers> = Port::new(usize::from(ALL) - 1);
    program.initialise(&mut port);
    program.route(&routes(&[&[1, 512, 1023]])).unwrap();
    let mut buffer = |length| {
        let region = port.memory.register(Numbers::zeroed(length));
        Slice { region, offset: 0, length }
    };
    let (input, output) = (buffer(TOKEN), buffer(usize::from(ALL) * TOKEN));
    let request = CollectiveRequest {
        collective: Collective::Dispatch,
        reduction: SUM,
        input,
        output,
        terms: Terms::WHOLE,
    };
    let mut outcomes: Vec<Outcome> =
        program.start(Instant::ZERO, request, &mut port).unwrap().into_iter().collect();
    let sent = |rank: u16| port.lines[usize::from(to(rank).0)].sends.iter().map(|send| send.source.length);
    assert_eq!(
        [1, 512, 1023, 2].map(|rank| sent(rank).collect::<Vec<_>>()),
        [
            vec![0, TOKEN],
            // The bitmap goes with it.
            vec![0, 128 + TOKEN],
            vec![0],
            vec![0],
        ]
    );
    for immediate in [0, 1 << 31 | request.digest(TOKEN, 30)] {
        for rank in 1..ALL {
            let line = usize::from(to(rank).0);
            let heard = Completion::Received { id: WorkId(0), length: 0, immediate: Some(immediate) };
            let done = port.lines[line].sends.drain(..).map(|send| Completion::Sent { id: send.id });
            for completion in done.chain([heard]).collect::<Vec<_>>() {
                outcomes.extend(program.handle_completion(Instant::ZERO, to(rank), completion, &mut port));
            }
        }
    }
    assert_eq!(outcomes, [Outcome::Done]);
}

#[test]
fn nobody_is_done_while_somebody_has_not_begun() {
    let routes = all_routes(RANKS);
    let (mut ranks, inputs) = (Ranks::new(ExpertsSetup::new(true)), inputs(&routes, 1));
    (0..7).for_each(|rank| ranks.dispatch(rank, &routes[rank], inputs[rank].clone()));
    ranks.run();
    assert!(ranks.outcomes.iter().all(Vec::is_empty));
    ranks.dispatch(7, &routes[7], inputs[7].clone());
    ranks.run();
    ranks.assert_done(1);
}

#[test]
fn a_relay_that_dies_fails_the_dispatch_and_no_part_of_it_counts_as_whole() {
    let routes = all_routes(RANKS);
    let (mut ranks, inputs) = (Ranks::new(ExpertsSetup::new(true)), inputs(&routes, 1));
    ranks.ports[4].lines.clear();
    (0..4).for_each(|rank| ranks.dispatch(rank, &routes[rank], inputs[rank].clone()));
    let to_relay = ranks.graph.table(0).queue_pair(Rank(4)).unwrap();
    let id = ranks.ports[0].lines[usize::from(to_relay.0)].sends[0].id;
    ranks.complete(0, to_relay, Completion::Failed { id, failure: Failure::RetryExceeded });
    assert_eq!(ranks.outcomes[0], [Outcome::Failed { qp: to_relay, failure: Failure::RetryExceeded }]);
    ranks.run();
    assert!(ranks.outcomes[1..].iter().all(|outcomes| !outcomes.contains(&Outcome::Done)));
    let again = ranks.start(0, Collective::Dispatch, Numbers::zeroed(0), 0);
    assert_eq!(again, Err(RequestError::GroupFailed));
}

#[test]
fn what_was_not_announced_fails_the_dispatch() {
    let heard = |count| Completion::Received { id: WorkId(0), length: 0, immediate: Some(count) };
    let token = |slot: usize, length| Completion::Written {
        id: WorkId(0),
        target: Slice { region: RegionId(0), offset: (SLOTS + slot) * TOKEN, length },
        immediate: 1,
    };
    let all_here = heard(u32::MAX);
    for wrong in [
        vec![token(0, TOKEN), token(0, TOKEN)],
        vec![heard(0), token(0, TOKEN)],
        vec![token(0, TOKEN), heard(0)],
        vec![heard(1), heard(1)],
        vec![heard(SLOTS as u32 + 1)],
        vec![token(0, TOKEN - 1)],
        vec![all_here, all_here, all_here],
        // It combines.
        vec![heard(1 << 30)],
        vec![Completion::Received { id: WorkId(0), length: 1, immediate: None }],
    ] {
        for early in 0..=wrong.len() {
            let mut ranks = Ranks::new(ExpertsSetup::new(true));
            let qp = ranks.graph.table(0).queue_pair(Rank(1)).unwrap();
            wrong[..early].iter().for_each(|completion| ranks.complete(0, qp, *completion));
            ranks.route(0, &routes(&[&[3]])).unwrap();
            let begun = ranks.start(0, Collective::Dispatch, Numbers::zeroed(TOKEN), ranks.places());
            wrong[early..].iter().for_each(|completion| ranks.complete(0, qp, *completion));
            let failed = Outcome::Failed { qp, failure: Failure::InvalidRequest };
            // What makes no sense whatever runs ends the group before the dispatch can begin.
            let is_refused = begun == Err(RequestError::GroupFailed);
            assert!(is_refused || ranks.outcomes[0] == [failed], "{wrong:?}, {early} of it early");
        }
    }
}

#[test]
fn what_a_rank_does_not_offer_is_refused_and_nothing_has_changed() {
    let mut ranks: Ranks<Numbers> = Ranks::new(ExpertsSetup::new(true));
    let (input, output) = (SLOTS * TOKEN, ranks.places());
    let refused = |ranks: &mut Ranks<Numbers>, collective, [input, output]: [usize; 2], refusal| {
        let before = ranks.programs[0].clone();
        assert_eq!(ranks.start(0, collective, Numbers::zeroed(input), output), Err(refusal));
        assert_eq!(ranks.programs[0], before);
    };
    refused(&mut ranks, Collective::Dispatch, [input, output], RequestError::NoRouting);
    refused(&mut ranks, Collective::Combine, [output, input], RequestError::NoRouting);
    ranks.route(0, &all_routes(RANKS)[0]).unwrap();
    let length = |what, expected, found| RequestError::Length { what, expected, found };
    let not_offered = RequestError::NotOffered { found: Collective::Barrier };
    refused(&mut ranks, Collective::Barrier, [0, 0], not_offered);
    let dispatch = Collective::Dispatch;
    refused(&mut ranks, dispatch, [input - 4, output], length("an input", input, input - 4));
    refused(&mut ranks, dispatch, [input, output + 4], length("an output", output, output + 4));
    // A token longer than a slot.
    refused(&mut ranks, dispatch, [input, 2 * output], length("an output", output, 2 * output));
    ranks.start(0, dispatch, Numbers::zeroed(input), output).unwrap();
    refused(&mut ranks, dispatch, [input, output], RequestError::Busy);
}

#[test]
fn a_routing_is_good_for_one_dispatch() {
    let mut ranks = dispatched(ExpertsSetup::new(true), &all_routes(RANKS));
    let again = ranks.start(0, Collective::Dispatch, Numbers::zeroed(SLOTS * TOKEN), ranks.places());
    assert_eq!(again, Err(RequestError::NoRouting));
}

#[test]
fn a_routing_that_makes_no_sense_is_refused_in_a_line() {
    let mut ranks: Ranks<Numbers> = Ranks::new(ExpertsSetup::new(true));
    let too_many = [&[1_u16][..]; SLOTS + 1];
    for (tokens, refusal) in [
        (&too_many[..], RequestError::Tokens { most: SLOTS, found: SLOTS + 1 }),
        (&[&[1], &[]], RequestError::NoRank { token: 1 }),
        (&[&[8]], RequestError::NoSuchRank { ranks: 8, token: 0, found: 8 }),
    ] {
        assert!(!refusal.to_string().contains('\n'));
        assert_eq!(ranks.route(0, &routes(tokens)), Err(refusal));
    }
}

#[test]
fn a_large_group_needs_memory_with_contents() {
    let mut ranks: Ranks<LengthOnly> = Ranks::new(ExpertsSetup { members: 17, ..ExpertsSetup::new(true) });
    ranks.route(0, &routes(&[&[1]])).unwrap();
    let refused = ranks.start(0, Collective::Dispatch, LengthOnly::new(TOKEN), ranks.places());
    assert_eq!(refused, Err(RequestError::NoContents { most: 32, found: 34 }));
}

#[test]
fn a_set_up_that_makes_no_sense_is_refused_in_a_line() {
    let line = Graph::line(RANKS);
    let writer = config(&line, 0, SLOTS, TOKEN);
    let unconnected =
        ExpertsConfig { writer, preparation: Duration::ZERO, announces: true, patience: Duration::ZERO };
    let refusal = ExpertsConfigError::NoQueuePair { found: 2 };
    assert_eq!(Experts::new(unconnected).map(|_| ()), Err(refusal));
    assert!(!refusal.to_string().contains('\n'));
    let mut empty = ExpertsSetup::new(true).config(&Graph::mesh(RANKS), 0);
    empty.writer.window = Window::new(RANKS as u16, SLOTS, 0);
    assert_eq!(Experts::new(empty).map(|_| ()), Err(ExpertsConfigError::EmptyToken));
}

#[test]
fn alarms_that_nobody_set_are_harmless() {
    let mut ranks: Ranks<Numbers> = Ranks::new(ExpertsSetup::new(true));
    let before = ranks.programs[0].clone();
    assert_eq!(ranks.programs[0].handle_alarm(Instant::ZERO, RELAY, &mut ranks.ports[0]), None);
    assert_eq!(ranks.programs[0], before);
}

/// A batch of any routes for each of eight ranks.
fn any_batch() -> impl Strategy<Value = Vec<Routes>> {
    let ranks =
        |mask: &u32| (0..RANKS as u16).filter(|rank| mask & 1 << rank != 0).map(Rank).collect::<Vec<_>>();
    let of = prop::collection::vec(1_u32..256, 0..=SLOTS)
        .prop_map(move |masks| masks.iter().map(ranks).collect::<Routes>());
    prop::collection::vec(of, RANKS).prop_map(Routes::with_incoming)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn batches_follow_each_other_out_and_back_whoever_is_ahead(
        seed in any::<u64>(),
        relays in any::<bool>(),
        announces in any::<bool>(),
        batches in prop::collection::vec(any_batch(), 1..4),
    ) {
        let mut ranks: Ranks<Numbers> = Ranks::new(ExpertsSetup { seed, announces, ..ExpertsSetup::new(relays) });
        let rounds = 2 * batches.len();
        let all: Vec<_> = batches.iter().zip(0..).map(|(routes, round)| inputs(routes, seed >> 8 ^ round)).collect();
        let mut begun = [0; RANKS];
        let mut got: Vec<Vec<Numbers>> = vec![Vec::new(); RANKS];
        loop {
            // A rank begins what comes next, or a message moves. What it has made of its tokens are the tokens themselves.
            prop_assert!(ranks.outcomes.iter().flatten().all(|outcome| *outcome == Outcome::Done), "{:?}", ranks.outcomes);
            let rank = ranks.random.below(RANKS);
            let is_idle = ranks.outcomes[rank].len() == begun[rank];
            if is_idle && got[rank].len() < begun[rank] {
                let output = ranks.output(rank);
                got[rank].push(output);
            } else if ranks.random.below(6) == 0 && is_idle && begun[rank] < rounds {
                let (batch, combines) = (begun[rank] / 2, begun[rank] % 2 == 1);
                let routes = &batches[batch][rank];
                if combines {
                    let places = got[rank][2 * batch].clone();
                    ranks.start(rank, Collective::Combine, places, routes.tokens() * TOKEN).unwrap();
                } else {
                    ranks.dispatch(rank, routes, all[batch][rank].clone());
                }
                begun[rank] += 1;
            } else if !ranks.step() && got.iter().all(|got| got.len() == rounds) {
                break;
            }
        }
        ranks.assert_done(rounds);
        for (batch, (routes, inputs)) in batches.iter().zip(&all).enumerate() {
            let places: Vec<_> = (0..RANKS as u16)
                .map(|rank| reference_dispatch(routes, inputs, Rank(rank), SLOTS, TOKEN))
                .collect();
            for (rank, got) in got.iter().enumerate() {
                prop_assert!(got[2 * batch] == places[rank], "rank {}, batch {}", rank, batch);
                let number = Rank(rank as u16);
                let sums = reference_combine(&routes[rank], &places, number, SLOTS, TOKEN, SUM);
                prop_assert!(got[2 * batch + 1] == sums, "rank {}, batch {}", rank, batch);
            }
        }
    }
}
