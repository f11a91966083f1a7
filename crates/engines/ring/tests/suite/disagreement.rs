//! One rank asks for something else than the others: nobody is told of a result, in any order of messages.

use crate::common::{ProgramGroup, config, lengths};
use quincunx_collective::{Collective, DataType, LengthOnly, Rank, ReduceOp, Reduction};
use quincunx_engine::Terms;
use quincunx_engine::verbs::{CollectiveRequest, Failure, Outcome};
use quincunx_ring::{Algorithm, Config, Mutation};

const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Ring, Algorithm::Tree, Algorithm::DoubleTree, Algorithm::HalvingDoubling, Algorithm::Direct];
const BYTES: usize = 24;

/// What a rank asks for, before it has buffers.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Wish {
    collective: Collective,
    reduction: Reduction,
    bytes: usize,
    terms: Terms,
}

fn wish(collective: Collective, bytes: usize) -> Wish {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    Wish { collective, reduction, bytes, terms: Terms::WHOLE }
}

/// Everything that a rank may ask for in place of `wish`.
fn others(wish: Wish) -> Vec<Wish> {
    let mut others = Vec::new();
    for collective in Collective::PRIMITIVES {
        others.push(Wish { collective, ..wish });
        others.push(Wish { collective: collective.with_root(Rank(1)), ..wish });
    }
    let Reduction { op, data_type } = wish.reduction;
    others.push(Wish { reduction: Reduction { op, data_type: DataType::I32 }, ..wish });
    others.push(Wish { reduction: Reduction { op: ReduceOp::Max, data_type }, ..wish });
    others.push(Wish { terms: Terms { averages: true, ..Terms::WHOLE }, ..wish });
    others.push(Wish { terms: Terms { padding: 4, ..Terms::WHOLE }, ..wish });
    others.push(Wish { terms: Terms { continues: true, ..Terms::WHOLE }, ..wish });
    others.extend([0, 4, 8, BYTES, BYTES + 4, 2 * BYTES].map(|bytes| Wish { bytes, ..wish }));
    let says_nothing = |other: &Wish| match wish.collective {
        // What combines nothing has no operation, and a Barrier has no type and no length.
        Collective::Barrier => other.collective == Collective::Barrier && other.terms == wish.terms,
        collective if !collective.reduces() => {
            let reduction = Reduction { op, ..other.reduction };
            Wish { reduction, ..*other } == wish
        }
        _ => *other == wish,
    };
    others.retain(|other| !says_nothing(other));
    others
}

fn request(group: &mut ProgramGroup<LengthOnly>, rank: usize, wish: Wish) -> CollectiveRequest {
    let Wish { collective, reduction, bytes, terms } = wish;
    let [input, output] = <[usize; 2]>::from(lengths(collective, rank, group.hosts.len(), bytes))
        .map(|length| group.register(rank, LengthOnly::new(length)));
    CollectiveRequest { collective, reduction, input, output, terms }
}

/// What becomes of a group in which `odd` asks for `other`.
fn run(
    algorithm: Algorithm,
    ranks: usize,
    (wish, other, odd): (Wish, Wish, usize),
    (mutation, confirm): (Option<Mutation>, bool),
    seed: u64,
) -> (Vec<usize>, Vec<(usize, Outcome)>) {
    let config = |rank| Config { confirm, ..config(algorithm, rank, ranks, 8, 2) };
    let mut group = ProgramGroup::of(&config, ranks, seed);
    if let Some(mutation) = mutation {
        group.hosts.iter_mut().for_each(|host| host.program.break_rule(mutation));
    }
    let requests: Vec<Vec<CollectiveRequest>> = (0..2)
        .map(|collective| {
            let wish_of = |rank| if rank == odd && collective == 0 { other } else { wish };
            (0..ranks).map(|rank| request(&mut group, rank, wish_of(rank))).collect()
        })
        .collect();
    group.run_out(&requests)
}

/// The algorithms that have all of these.
fn offering(wishes: &[Wish]) -> impl Iterator<Item = Algorithm> {
    ALGORITHMS.into_iter().filter(|one| wishes.iter().all(|wish| one.offers(wish.collective)))
}

fn every_case(mut check: impl FnMut(Algorithm, usize, (Wish, Wish, usize), u64)) {
    let rooted = Collective::PRIMITIVES.into_iter().filter(|one| one.root().is_some());
    let collectives = Collective::PRIMITIVES.into_iter().chain(rooted.map(|one| one.with_root(Rank(1))));
    for (collective, bytes) in collectives.flat_map(|one| [0, 4, BYTES].map(|bytes| (one, bytes))) {
        let wish = wish(collective, bytes);
        for other in others(wish) {
            for (algorithm, ranks) in
                offering(&[wish, other]).flat_map(|one| [2, 3, 5].map(|ranks| (one, ranks)))
            {
                for odd in 0..ranks {
                    check(algorithm, ranks, (wish, other, odd), odd as u64);
                }
            }
        }
    }
}

#[test]
fn nobody_is_told_of_a_result() {
    every_case(|algorithm, ranks, case, seed| {
        let (finished, failed) = run(algorithm, ranks, case, (None, true), seed);
        assert!(finished.iter().all(|count| *count == 0), "{algorithm} of {ranks}, {case:?}: {finished:?}");
        for (rank, outcome) in failed {
            let failure = Failure::Disagreement;
            assert!(
                matches!(outcome, Outcome::Failed { failure: found, .. } if found == failure),
                "{algorithm} of {ranks}, {case:?}: rank {rank} says {outcome:?}"
            );
        }
    });
}

#[test]
fn each_rule_is_needed() {
    for rules in [(Some(Mutation::IgnoresDisagreement), true), (None, false)] {
        let mut wrong = 0;
        every_case(|algorithm, ranks, case, seed| {
            let (finished, _) = run(algorithm, ranks, case, rules, seed);
            wrong += usize::from(finished.iter().any(|count| *count > 0));
        });
        assert!(wrong > 0, "{rules:?} make no difference");
    }
}
