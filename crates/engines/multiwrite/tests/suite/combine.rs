//! Combine: what ranks have made of the tokens of a dispatch comes back to where each came from, once from each, and is added up there.

use crate::common::experts::{ExpertsSetup, Ranks, SLOTS, SUM, TOKEN, all_routes, only};
use quincunx_collective::{
    Collective, DataType, Numbers, Payload, Provenance, Rank, Routes, noise, reference_combine,
};
use quincunx_engine::verbs::{Completion, Failure, Outcome, QpIndex, RegionId, RequestError, Slice, WorkId};

const RANKS: usize = 8;

/// Ranks that have dispatched a batch, whatever was in it.
fn dispatched<P: Payload>(setup: ExpertsSetup, routes: &[Routes]) -> Ranks<P> {
    let mut ranks = Ranks::new(setup);
    let inputs: Vec<P> = routes.iter().map(|of| P::zeroed(of.tokens() * TOKEN)).collect();
    ranks.dispatch_all(routes, &inputs);
    ranks.assert_done(1);
    ranks.crossed.fill(0);
    ranks
}

#[test]
fn each_contribution_to_a_token_is_added_exactly_once() {
    for relays in [false, true] {
        let routes = all_routes(RANKS);
        let mut ranks = dispatched(ExpertsSetup::new(relays), &routes);
        let places: Vec<Provenance> =
            (0..RANKS as u16).map(|rank| Provenance::of_rank(Rank(rank), ranks.places())).collect();
        ranks.combine_all(&routes, &places);
        ranks.assert_done(2);
        for (rank, routes) in routes.iter().enumerate() {
            for (token, of) in routes.iter().enumerate() {
                for other in (0..RANKS as u16).map(Rank) {
                    let count = ranks.output(rank).count(token * TOKEN, other);
                    assert_eq!(
                        count,
                        u8::from(of.contains(&other)),
                        "rank {other} in token {token} of {rank}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_have_the_same_bits_whoever_comes_first() {
    let routes = all_routes(RANKS);
    for seed in 1..20 {
        let mut ranks = dispatched(ExpertsSetup { seed, ..ExpertsSetup::new(true) }, &routes);
        let places: Vec<Numbers> =
            (0..RANKS as u64).map(|rank| noise(rank, ranks.places(), DataType::F32)).collect();
        ranks.combine_all(&routes, &places);
        for (rank, routes) in routes.iter().enumerate() {
            let sums = reference_combine(routes, &places, Rank(rank as u16), SLOTS, TOKEN, SUM);
            assert!(ranks.output(rank) == sums, "rank {rank}, seed {seed}");
        }
    }
}

#[test]
fn a_result_crosses_once_and_by_itself_even_where_its_token_came_over_a_relay() {
    let routes = only(1, RANKS, &[&[0, 4, 6, 7]]);
    for relays in [false, true] {
        let mut ranks: Ranks<Numbers> = dispatched(ExpertsSetup::new(relays), &routes);
        let places = vec![Numbers::zeroed(ranks.places()); RANKS];
        ranks.combine_all(&routes, &places);
        ranks.assert_done(2);
        assert_eq!(ranks.crossed, [0, 0, 0, 0, 1, 0, 1, 1], "relays: {relays}");
    }
}

#[test]
fn results_may_be_shorter_than_tokens() {
    let routes = all_routes(RANKS);
    let mut ranks: Ranks<Numbers> = dispatched(ExpertsSetup::new(true), &routes);
    let short = 4;
    let places: Vec<Numbers> =
        (0..RANKS as u64).map(|rank| noise(rank, RANKS * SLOTS * short, DataType::F32)).collect();
    for (rank, routes) in routes.iter().enumerate() {
        ranks.start(rank, Collective::Combine, places[rank].clone(), routes.tokens() * short).unwrap();
    }
    ranks.run();
    ranks.assert_done(2);
    let sums = reference_combine(&routes[2], &places, Rank(2), SLOTS, short, SUM);
    assert!(ranks.output(2) == sums);
}

#[test]
fn a_batch_may_be_combined_more_than_once() {
    let routes = all_routes(RANKS);
    let mut ranks: Ranks<Numbers> = dispatched(ExpertsSetup::new(true), &routes);
    let places: Vec<Numbers> =
        (0..RANKS as u64).map(|rank| noise(rank, ranks.places(), DataType::F32)).collect();
    ranks.combine_all(&routes, &places);
    let first = ranks.output(3);
    ranks.combine_all(&routes, &places);
    ranks.assert_done(3);
    assert!(ranks.output(3) == first);
}

#[test]
fn ranks_that_do_not_do_the_same_fail_and_nobody_waits_for_ever() {
    let routes = all_routes(RANKS);
    let mut ranks: Ranks<Numbers> = dispatched(ExpertsSetup::new(true), &routes);
    for (rank, routes) in routes.iter().enumerate() {
        let tokens = routes.tokens() * TOKEN;
        if rank == 3 {
            ranks.dispatch(rank, routes, Numbers::zeroed(tokens));
        } else {
            ranks.start(rank, Collective::Combine, Numbers::zeroed(ranks.places()), tokens).unwrap();
        }
    }
    ranks.run();
    for (rank, outcomes) in ranks.outcomes.iter().enumerate() {
        let last = outcomes.last().unwrap();
        assert!(matches!(last, Outcome::Failed { failure: Failure::InvalidRequest, .. }), "rank {rank}");
    }
}

#[test]
fn a_result_from_a_rank_that_never_got_the_token_fails_the_combine() {
    // Token 0 of rank 0 is for the ranks 0, 1 and 3.
    let routes = all_routes(RANKS);
    let heard =
        |count: u32| Completion::Received { id: WorkId(0), length: 0, immediate: Some(1 << 30 | count) };
    let result = |rank: usize| Completion::Written {
        id: WorkId(0),
        target: Slice { region: RegionId(0), offset: rank * SLOTS * TOKEN, length: TOKEN },
        immediate: 1,
    };
    for (from, wrong) in [(2_usize, result(2)), (1, heard(0)), (1, heard(SLOTS as u32))] {
        for is_early in [false, true] {
            let mut ranks: Ranks<Numbers> = dispatched(ExpertsSetup::new(true), &routes);
            let qp: QpIndex = ranks.graph.table(0).queue_pair(Rank(from as u16)).unwrap();
            let places = Numbers::zeroed(ranks.places());
            if is_early {
                ranks.complete(0, qp, wrong);
            }
            ranks.start(0, Collective::Combine, places, SLOTS * TOKEN).unwrap();
            if !is_early {
                ranks.complete(0, qp, wrong);
            }
            let failed = Outcome::Failed { qp, failure: Failure::InvalidRequest };
            assert_eq!(ranks.outcomes[0][1..], [failed], "{wrong:?} from {from}, early: {is_early}");
        }
    }
}

#[test]
fn results_are_whole_elements() {
    let routes = all_routes(RANKS);
    let mut ranks: Ranks<Numbers> = dispatched(ExpertsSetup::new(true), &routes);
    let refused = ranks.start(0, Collective::Combine, Numbers::zeroed(RANKS * SLOTS * 6), SLOTS * 6);
    assert_eq!(refused, Err(RequestError::Element { element: 4, found: 6 }));
}
