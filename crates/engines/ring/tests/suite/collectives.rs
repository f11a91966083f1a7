//! All six primitives by the algorithms that have them, in every group size, against their references.

use crate::common::{ProgramGroup, lengths};
use proptest::prelude::*;
use quincunx_collective::{
    Collective, DataType, Fold, LengthOnly, Numbers, Payload, Provenance, Rank, ReduceOp, Reduction, exact,
    noise, reduce_in_order, reduce_in_tree, reference,
};
use quincunx_engine::Terms;
use quincunx_engine::verbs::CollectiveRequest;
use quincunx_ring::{Algorithm, Pace, tree_neighbours};

const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Ring, Algorithm::Tree, Algorithm::DoubleTree, Algorithm::HalvingDoubling, Algorithm::Direct];
const F32_SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

/// One collective: its inputs, and what must come out.
struct Case<P> {
    collective: Collective,
    reduction: Reduction,
    inputs: Vec<P>,
    expected: Vec<P>,
}

fn case<P: Payload>(
    collective: Collective,
    reduction: Reduction,
    ranks: usize,
    bytes: usize,
    input: impl Fn(Rank, usize) -> P,
) -> Case<P> {
    let inputs: Vec<P> =
        (0..ranks).map(|rank| input(Rank(rank as u16), lengths(collective, rank, ranks, bytes).0)).collect();
    // Ranks whose input nobody looks at bring none; the reference wants none of them either.
    let expected = reference(collective, reduction, &inputs);
    Case { collective, reduction, inputs, expected }
}

/// Runs cases one after the other on one group and compares every output.
fn run<P: Payload>(group: &mut ProgramGroup<P>, cases: &[Case<P>]) {
    let ranks = group.hosts.len();
    let mut requests = Vec::new();
    for case in cases {
        let request = |rank: usize| {
            let input = group.register(rank, case.inputs[rank].clone());
            let output = group.register(rank, P::zeroed(case.expected[rank].length()));
            CollectiveRequest {
                collective: case.collective,
                reduction: case.reduction,
                input,
                output,
                terms: Terms::WHOLE,
            }
        };
        requests.push((0..ranks).map(request).collect::<Vec<_>>());
    }
    group.run(&requests);
    for (case, requests) in cases.iter().zip(&requests) {
        for (rank, request) in requests.iter().enumerate() {
            let found = group.read(rank, request.output);
            assert!(found == case.expected[rank], "{} of {ranks} at rank {rank}: {found:?}", case.collective);
            assert!(group.read(rank, request.input) == case.inputs[rank], "the input of rank {rank} changed");
        }
    }
}

/// All that an algorithm has, with each root.
fn all_roots(algorithm: Algorithm, ranks: usize) -> impl Iterator<Item = Collective> {
    algorithm.collectives().iter().flat_map(move |collective| {
        let roots = if collective.root().is_some() { ranks } else { 1 };
        (0..roots).map(move |root| collective.with_root(Rank(root as u16)))
    })
}

#[test]
fn every_rank_contributes_once_in_every_primitive_group_size_and_root() {
    for algorithm in ALGORITHMS {
        for ranks in 1..=9 {
            for (seed, collective) in all_roots(algorithm, ranks).enumerate() {
                // Neither the group size nor the chunk divides 13 elements.
                let case = case(collective, F32_SUM, ranks, 4 * 13, Provenance::of_rank);
                run(&mut ProgramGroup::new(algorithm, ranks, 8, 2, seed as u64), &[case]);
            }
        }
    }
}

#[test]
fn vectors_of_no_bytes_and_of_fewer_elements_than_ranks_work() {
    for algorithm in ALGORITHMS {
        for &collective in algorithm.collectives() {
            for bytes in [0, 4, 8] {
                let case = case(collective, F32_SUM, 5, bytes, Provenance::of_rank);
                run(&mut ProgramGroup::new(algorithm, 5, 4, 3, 1), &[case]);
            }
        }
    }
}

/// A quarter of a rank's part was a piece of whole elements of 4 bytes: half an element of 8 was added.
#[test]
fn pieces_are_whole_elements_of_eight_bytes_too() {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F64 };
    for algorithm in ALGORITHMS {
        for elements in [4 * 4098, 8 * 4098, 32 * 1025] {
            let input = |rank, length| exact(rank, length, reduction);
            let case = case(Collective::AllReduce, reduction, 4, 8 * elements, input);
            run(&mut ProgramGroup::new(algorithm, 4, 64 * 1024, 16, 1), &[case]);
        }
    }
}

#[test]
fn lengths_alone_take_the_same_way() {
    for algorithm in ALGORITHMS {
        for &collective in algorithm.collectives() {
            let case = case(collective, F32_SUM, 6, 1000, |_, length| LengthOnly::new(length));
            run(&mut ProgramGroup::new(algorithm, 6, 64, 4, 1), &[case]);
        }
    }
}

fn collective(ranks: usize) -> impl Strategy<Value = Collective> {
    (0..Collective::PRIMITIVES.len(), 0..ranks as u16)
        .prop_map(|(index, root)| Collective::PRIMITIVES[index].with_root(Rank(root)))
}

fn setting() -> impl Strategy<Value = (usize, Vec<(Collective, usize)>)> {
    (1usize..=9).prop_flat_map(|ranks| {
        (Just(ranks), proptest::collection::vec((collective(ranks), 0usize..60), 1..6))
    })
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    proptest::sample::select(&ALGORITHMS[..])
}

fn pace() -> impl Strategy<Value = Pace> {
    proptest::sample::select(&[Pace::Eager, Pace::Lockstep][..])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn collectives_in_sequence_give_the_reference_results(
        algorithm in algorithm(), (ranks, collectives) in setting(), seed in any::<u64>(),
        chunk in 1u64..6, window in 2u16..6, pace in pace(),
        reduction in proptest::sample::select(Reduction::all().collect::<Vec<_>>()),
    ) {
        let data_type = reduction.data_type;
        let cases: Vec<_> = collectives
            .iter()
            .filter(|(collective, _)| algorithm.offers(*collective))
            .map(|(collective, elements)| {
                let bytes = elements * data_type.size();
                case(*collective, reduction, ranks, bytes, |rank, length| exact(rank, length, reduction))
            })
            .collect();
        run(&mut ProgramGroup::paced(pace, algorithm, ranks, chunk * data_type.size().max(4) as u64, window, seed), &cases);
    }

    #[test]
    fn contributions_are_counted_once_in_any_interleaving(
        algorithm in algorithm(), (ranks, collectives) in setting(), seed in any::<u64>(),
        chunk in 1u64..6, window in 2u16..6, pace in pace(),
    ) {
        let cases: Vec<_> = collectives
            .iter()
            .filter(|(collective, _)| algorithm.offers(*collective))
            .map(|(collective, elements)| {
                case(*collective, F32_SUM, ranks, 4 * elements, Provenance::of_rank)
            })
            .collect();
        run(&mut ProgramGroup::paced(pace, algorithm, ranks, 4 * chunk, window, seed), &cases);
    }

    #[test]
    fn direct_combines_in_rank_order(ranks in 1usize..=9, elements in 0usize..60, root in 0u16..9, seed in any::<u64>()) {
        let root = Rank(root % ranks as u16);
        for collective in [Collective::AllReduce, Collective::Reduce { root }, Collective::ReduceScatter] {
            let case = case(collective, F32_SUM, ranks, 4 * elements, |rank, length| {
                noise(u64::from(rank.0) ^ seed, length, DataType::F32)
            });
            run(&mut ProgramGroup::new(Algorithm::Direct, ranks, 16, 4, seed), &[case]);
        }
    }

    #[test]
    fn a_ring_combines_from_the_rank_after_the_root_around_to_the_root(
        ranks in 1usize..=9, elements in 0usize..60, root in 0u16..9, seed in any::<u64>(),
    ) {
        let root = root % ranks as u16;
        let order: Vec<_> = (1..=ranks as u16).map(|step| Rank((root + step) % ranks as u16)).collect();
        let mut case = noise_reduce(ranks, elements, Rank(root), seed);
        case.expected[usize::from(root)] = reduce_in_order(&order, F32_SUM, &case.inputs);
        run(&mut ProgramGroup::new(Algorithm::Ring, ranks, 16, 4, seed), &[case]);
    }

    #[test]
    fn a_tree_combines_own_then_child_after_child(
        ranks in 1usize..=9, elements in 0usize..60, root in 0u16..9, seed in any::<u64>(),
    ) {
        let root = Rank(root % ranks as u16);
        let mut case = noise_reduce(ranks, elements, root, seed);
        case.expected[root.index()] = reduce_in_tree(&subtree(root, None, ranks as u16), F32_SUM, &case.inputs);
        run(&mut ProgramGroup::new(Algorithm::Tree, ranks, 16, 4, seed), &[case]);
    }
}

fn noise_reduce(ranks: usize, elements: usize, root: Rank, seed: u64) -> Case<Numbers> {
    case(Collective::Reduce { root }, F32_SUM, ranks, 4 * elements, |rank, length| {
        noise(u64::from(rank.0) ^ seed, length, DataType::F32)
    })
}

fn subtree(rank: Rank, above: Option<Rank>, ranks: u16) -> Fold {
    let children = tree_neighbours(rank, ranks).filter(|neighbour| Some(*neighbour) != above);
    let own = Fold::Rank(rank);
    Fold::Node(std::iter::once(own).chain(children.map(|child| subtree(child, Some(rank), ranks))).collect())
}

#[test]
fn a_ring_sends_the_least_that_hosts_can_and_only_to_the_next_rank() {
    let (ranks, bytes) = (8, 8 * 1024);
    let case = case(Collective::AllReduce, F32_SUM, ranks, bytes, |_, length| LengthOnly::new(length));
    let mut group = ProgramGroup::new(Algorithm::Ring, ranks, 64, 8, 3);
    run(&mut group, &[case]);
    for rank in 0..ranks {
        for peer in (0..ranks).filter(|peer| *peer != rank) {
            let expected = if peer == (rank + 1) % ranks { 2 * bytes * (ranks - 1) / ranks } else { 0 };
            assert_eq!(group.sent(rank, peer).1, expected, "from {rank} to {peer}");
        }
    }
}

#[test]
fn a_tree_sends_to_neighbours_alone() {
    let ranks = 9;
    let cases: Vec<_> = all_roots(Algorithm::Tree, ranks)
        .map(|collective| case(collective, F32_SUM, ranks, 64, |_, length| LengthOnly::new(length)))
        .collect();
    let mut group = ProgramGroup::new(Algorithm::Tree, ranks, 64, 8, 3);
    run(&mut group, &cases);
    for rank in 0..ranks {
        for peer in (0..ranks).filter(|peer| *peer != rank) {
            let neighbour =
                tree_neighbours(Rank(rank as u16), ranks as u16).any(|other| other.index() == peer);
            assert_eq!(group.sent(rank, peer).0 > 0, neighbour, "from {rank} to {peer}");
        }
    }
}

#[test]
fn two_trees_send_no_more_than_two_vectors_each_way_and_a_rank_sends_to_four_at_most() {
    for ranks in [2, 3, 5, 8, 9] {
        let bytes = 8 * 1024;
        let case = case(Collective::AllReduce, F32_SUM, ranks, bytes, |_, length| LengthOnly::new(length));
        let mut group = ProgramGroup::new(Algorithm::DoubleTree, ranks, 64, 8, 3);
        run(&mut group, &[case]);
        for rank in 0..ranks {
            let peers = || (0..ranks).filter(|peer| *peer != rank);
            let [sent, received]: [usize; 2] = [
                peers().map(|peer| group.sent(rank, peer).1).sum(),
                peers().map(|peer| group.sent(peer, rank).1).sum(),
            ];
            assert!(sent <= 2 * bytes && received <= 2 * bytes, "{rank} of {ranks}: {sent} and {received}");
            assert!(peers().filter(|&peer| group.sent(rank, peer).0 > 0).count() <= 4, "{rank} of {ranks}");
        }
    }
}

#[test]
fn slots_are_registered_once() {
    let mut group = ProgramGroup::new(Algorithm::Direct, 3, 64, 4, 3);
    let cases = || {
        Collective::PRIMITIVES
            .map(|collective| case(collective, F32_SUM, 3, 96, |_, length| LengthOnly::new(length)))
    };
    run(&mut group, &cases());
    let register = |group: &mut ProgramGroup<LengthOnly>| group.register(0, LengthOnly::new(0)).region.0;
    let before = register(&mut group);
    run(&mut group, &cases());
    // Six collectives registered an input and an output each; the program nothing.
    assert_eq!(register(&mut group), before + 13);
}
