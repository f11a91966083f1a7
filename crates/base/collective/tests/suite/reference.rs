//! The reference results against a calculation by hand, and the names and factors of the primitives.

use proptest::prelude::*;
use quincunx_collective::{
    Collective, DataType, Fold, Numbers, Op, Payload, Provenance, Rank, ReduceOp, Reduction, exact, noise,
    pattern, reduce_in_order, reduce_in_tree, reference, wrong_elements,
};

const I32_SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const F32_SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };

fn i32s(values: &[i32]) -> Numbers {
    Numbers::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn inputs() -> [Numbers; 3] {
    [i32s(&[1, 2, 3]), i32s(&[10, 20, 30]), i32s(&[100, 200, 300])]
}

fn nothing() -> Numbers {
    i32s(&[])
}

#[test]
fn all_reduce_gives_everybody_the_sum() {
    assert_eq!(reference(Collective::AllReduce, I32_SUM, &inputs()), vec![i32s(&[111, 222, 333]); 3]);
}

#[test]
fn reduce_gives_the_root_the_sum() {
    let outputs = reference(Collective::Reduce { root: Rank(1) }, I32_SUM, &inputs());
    assert_eq!(outputs, [nothing(), i32s(&[111, 222, 333]), nothing()]);
}

#[test]
fn broadcast_gives_everybody_the_vector_of_the_root() {
    let outputs = reference(Collective::Broadcast { root: Rank(2) }, I32_SUM, &inputs());
    assert_eq!(outputs, vec![i32s(&[100, 200, 300]); 3]);
}

#[test]
fn barrier_moves_no_data() {
    assert_eq!(reference(Collective::Barrier, I32_SUM, &[nothing(), nothing()]), [nothing(), nothing()]);
}

#[test]
fn reduce_scatter_gives_each_rank_its_part_of_the_sum() {
    let outputs = reference(Collective::ReduceScatter, I32_SUM, &inputs());
    assert_eq!(outputs, [i32s(&[111]), i32s(&[222]), i32s(&[333])]);
}

#[test]
fn all_gather_gives_everybody_all_vectors_in_rank_order() {
    let outputs = reference(Collective::AllGather, I32_SUM, &inputs());
    assert_eq!(outputs, vec![i32s(&[1, 2, 3, 10, 20, 30, 100, 200, 300]); 3]);
}

#[test]
fn min_and_max_pick_elements() {
    let inputs = [i32s(&[-5, 7]), i32s(&[3, -9])];
    let min = Reduction { op: ReduceOp::Min, data_type: DataType::I32 };
    let max = Reduction { op: ReduceOp::Max, data_type: DataType::I32 };
    assert_eq!(reference(Collective::AllReduce, min, &inputs)[0], i32s(&[-5, -9]));
    assert_eq!(reference(Collective::AllReduce, max, &inputs)[0], i32s(&[3, 7]));
}

#[test]
fn all_reduce_of_provenance_counts_every_rank_once() {
    let inputs: Vec<_> = (0..5).map(|rank| Provenance::of_rank(Rank(rank), 8)).collect();
    assert_eq!(reference(Collective::AllReduce, F32_SUM, &inputs), vec![Provenance::of_all(5, 8); 5]);
}

#[test]
fn the_order_of_a_sum_shows_in_its_last_digits() {
    let inputs: Vec<_> = (0..8).map(|seed| noise(seed, 4096, DataType::F32)).collect();
    let forth: Vec<_> = (0..8).map(Rank).collect();
    let back: Vec<_> = (0..8).rev().map(Rank).collect();
    let (forth, back) = (reduce_in_order(&forth, F32_SUM, &inputs), reduce_in_order(&back, F32_SUM, &inputs));
    assert!(wrong_elements(&forth, &back, DataType::F32) > 100);
}

#[test]
fn a_tree_sums_within_its_subtrees_first() {
    // In f32, 2^24 + 1 is 2^24: what is added first decides.
    let inputs =
        [[16_777_216.0f32], [1.0], [1.0]].map(|value| Numbers::from(value[0].to_le_bytes().to_vec()));
    let leaf = |rank| Fold::Rank(Rank(rank));
    let flat = Fold::Node(vec![leaf(0), leaf(1), leaf(2)]);
    let deep = Fold::Node(vec![leaf(0), Fold::Node(vec![leaf(1), leaf(2)])]);
    assert_eq!(reduce_in_tree(&flat, F32_SUM, &inputs).bytes(), 16_777_216.0f32.to_le_bytes());
    assert_eq!(reduce_in_tree(&deep, F32_SUM, &inputs).bytes(), 16_777_218.0f32.to_le_bytes());
}

#[test]
fn wrong_elements_are_counted_to_the_bit() {
    let nan = |payload: u32| f32::from_bits(0x7fc0_0000 | payload);
    let vector = |values: &[f32]| {
        Numbers::from(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    };
    let expected = vector(&[1.0, 0.0, nan(0), nan(0), 5.0]);
    assert_eq!(wrong_elements(&expected, &expected, DataType::F32), 0);
    assert_eq!(wrong_elements(&expected, &vector(&[1.0, -0.0, nan(0), nan(1), 5.0]), DataType::F32), 2);
    assert_eq!(wrong_elements(&expected, &vector(&[1.0, 0.0]), DataType::F32), 3);
}

/// Bytes of whole elements, a few of them numbers.
fn sample(reduction: Reduction) -> usize {
    200_usize.next_multiple_of(reduction.data_type.size())
}

proptest! {
    #[test]
    fn samples_of_64_ranks_combine_to_the_same_in_every_order(
        order in Just((0..64).map(Rank).collect::<Vec<_>>()).prop_shuffle(),
        reduction in proptest::sample::select(Reduction::all().collect::<Vec<_>>()),
    ) {
        let inputs: Vec<_> = (0..64).map(|rank| exact(Rank(rank), sample(reduction), reduction)).collect();
        prop_assert_eq!(&reduce_in_order(&order, reduction, &inputs), &reference(Collective::AllReduce, reduction, &inputs)[0]);
    }
}

#[test]
fn a_sample_may_be_longer_than_any_counter_of_16_bits() {
    for op in [ReduceOp::Sum, ReduceOp::Product] {
        let reduction = Reduction { op, data_type: DataType::U8 };
        let longest = exact(Rank(0), 100_000, reduction);
        assert_eq!(longest.view(0..1000), exact(Rank(0), 1000, reduction).bytes());
        assert_ne!(longest.view(65_536..66_536), longest.view(0..1000));
    }
}

#[test]
fn every_sum_and_product_of_samples_shows_who_is_missing() {
    for reduction in Reduction::all().filter(|one| matches!(one.op, ReduceOp::Sum | ReduceOp::Product)) {
        let inputs: Vec<_> = (0..9).map(|rank| exact(Rank(rank), sample(reduction), reduction)).collect();
        let order: Vec<Rank> = (0..9).map(Rank).collect();
        let whole = reduce_in_order(&order, reduction, &inputs);
        for missing in 0..9 {
            let others: Vec<Rank> = order.iter().copied().filter(|rank| rank.0 != missing).collect();
            let wrong =
                wrong_elements(&whole, &reduce_in_order(&others, reduction, &inputs), reduction.data_type);
            assert!(wrong > 0, "{} of {} without rank {missing}", reduction.op, reduction.data_type);
        }
    }
}

#[test]
fn a_pattern_means_the_same_numbers_in_every_type() {
    let integers = pattern(Rank(9), 4 * 50, DataType::I32);
    let value = |index: usize| i32::from_le_bytes(integers.bytes()[4 * index..][..4].try_into().unwrap());
    let (floats, halves) = (pattern(Rank(9), 4 * 50, DataType::F32), pattern(Rank(9), 2 * 50, DataType::F16));
    for index in 0..50 {
        assert!((-3..=4).contains(&value(index)));
        assert_eq!(floats.bytes()[4 * index..][..4], (value(index) as f32).to_le_bytes());
        assert_eq!(halves.bytes()[2 * index..][..2], half::f16::from_f32(value(index) as f32).to_le_bytes());
    }
    assert_ne!(pattern(Rank(9), 64, DataType::I32), pattern(Rank(8), 64, DataType::I32));
}

#[test]
fn noise_follows_its_seed() {
    assert_eq!(noise(7, 64, DataType::F16), noise(7, 64, DataType::F16));
    assert_ne!(noise(7, 64, DataType::F16), noise(8, 64, DataType::F16));
}

#[test]
fn bus_factors_are_those_of_nccl_tests() {
    let factors = Collective::PRIMITIVES.map(|collective| collective.bus_factor(8));
    assert_eq!(factors, [1.75, 1.0, 1.0, 1.0, 0.875, 0.875]);
}

#[test]
fn names_read_back_as_what_they_name() {
    for collective in Collective::PRIMITIVES.into_iter().chain([Collective::Dispatch, Collective::Combine]) {
        assert_eq!(collective.to_string().parse(), Ok(collective));
    }
    for data_type in DataType::ALL {
        assert_eq!(data_type.to_string().parse(), Ok(data_type));
    }
    for op in ReduceOp::ALL {
        assert_eq!(op.to_string().parse(), Ok(op));
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let error = "mean".parse::<ReduceOp>().unwrap_err();
    assert_eq!(error.to_string(), "expected one of sum, min, max, prod, band, bor, bxor, found \"mean\"");
    assert_eq!("avg".parse(), Ok(Op::Average));
}

#[test]
fn a_root_is_set_where_there_is_one() {
    assert_eq!(Collective::PRIMITIVES[1].with_root(Rank(3)).root(), Some(Rank(3)));
    assert_eq!(Collective::AllGather.with_root(Rank(3)).root(), None);
}

#[test]
#[should_panic(expected = "expected a root below 3")]
fn a_root_outside_the_group_has_no_reference() {
    reference(Collective::Broadcast { root: Rank(3) }, I32_SUM, &inputs());
}

#[test]
fn lengths_have_a_reference_too() {
    let inputs = [quincunx_collective::LengthOnly::new(12); 3];
    let outputs = reference(Collective::AllGather, F32_SUM, &inputs);
    assert!(outputs.iter().all(|output| output.length() == 36));
}
