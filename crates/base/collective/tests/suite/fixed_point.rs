//! Numbers in fixed point: what is lost on the way to integers and back, and that sums saturate.

use proptest::prelude::*;
use quincunx_collective::{FixedPoint, NOT_FINITE, Numbers, Payload, largest_exponent};

fn bytes<T, const N: usize>(values: &[T], of: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(of).collect()
}

fn of_values(values: &[f32]) -> Vec<u8> {
    bytes(values, |value| value.to_le_bytes())
}

/// Adds up what ranks have as a switch does, in a block that they agree on the exponent of.
fn sum(ranks: &[f32]) -> (FixedPoint, f32) {
    let scale = FixedPoint::for_block(largest_exponent(&of_values(ranks)), ranks.len() as u16);
    let mut sum = Numbers::zeroed(4);
    for value in ranks {
        sum.add_saturating(0, Numbers::to_fixed_point(scale, &value.to_le_bytes()).bytes());
    }
    let value = Numbers::from_fixed_point(scale, sum.bytes());
    (scale, f32::from_le_bytes(value.bytes().try_into().unwrap()))
}

#[test]
fn whole_numbers_are_exact() {
    for ranks in [[1.0, -3.0, 4.0], [0.0; 3], [1e6, 2e6, -7.0]] {
        assert_eq!(sum(&ranks).1, ranks.iter().sum::<f32>());
    }
}

#[test]
fn ties_go_to_the_even_integer() {
    let scale = FixedPoint::new(0);
    assert_eq!([0.5, 1.5, 2.5, -0.5, -1.5].map(|value| scale.integer(value)), [0, 2, 2, 0, -2]);
}

#[test]
fn what_no_integer_holds_saturates_and_does_not_wrap() {
    let scale = FixedPoint::new(8);
    let huge = f32::MAX;
    assert_eq!([huge, -huge, f32::NAN].map(|value| scale.integer(value)), [i32::MAX, i32::MIN, 0]);
    let mut sum = Numbers::from(i32::MAX.to_le_bytes().to_vec());
    sum.add_saturating(0, &1i32.to_le_bytes());
    assert_eq!(sum.bytes(), i32::MAX.to_le_bytes());
    let mut sum = Numbers::from(i32::MIN.to_le_bytes().to_vec());
    sum.add_saturating(0, &(-1i32).to_le_bytes());
    assert_eq!(sum.bytes(), i32::MIN.to_le_bytes());
}

#[test]
fn the_largest_exponent_is_that_of_the_largest_magnitude() {
    assert_eq!(largest_exponent(&of_values(&[0.5, -2.0, 1.0])), 128);
    assert_eq!(largest_exponent(&of_values(&[0.0, -0.0])), 0);
    assert_eq!(largest_exponent(&[]), 0);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert_eq!(largest_exponent(&of_values(&[1.0, bad])), NOT_FINITE);
    }
}

#[test]
fn every_exponent_and_number_of_ranks_has_a_scale() {
    for exponent in 0..NOT_FINITE {
        for ranks in [1, 2, 3, 64, 1024, u16::MAX] {
            let scale = FixedPoint::for_block(exponent, ranks);
            let largest = f32::from_bits(u32::from(exponent) << 23 | 0x7f_ffff);
            let sum = i64::from(scale.integer(largest)) * i64::from(ranks);
            assert!(sum <= 1 << 30, "{ranks} of {largest} are {sum}");
            // Of more ranks each has fewer bits.
            assert!(exponent == 0 || sum > 1 << 28, "{ranks} of {largest} have bits left: {sum}");
        }
    }
}

fn finite() -> impl Strategy<Value = f32> {
    // Of a few ranks, whose sum binary32 holds, too.
    any::<f32>().prop_filter("a finite number", |value| value.is_finite() && value.abs() < 1e37)
}

proptest! {
    #[test]
    fn a_sum_is_within_the_bound_and_half_a_step_of_binary32(ranks in prop::collection::vec(finite(), 1..9)) {
        let (scale, found) = sum(&ranks);
        let expected: f64 = ranks.iter().map(|value| f64::from(*value)).sum();
        let rounding = f64::from(found.abs()) * f64::from(f32::EPSILON) / 2.0 + f64::from(f32::from_bits(1));
        let error = (f64::from(found) - expected).abs();
        prop_assert!(error <= scale.error_bound(ranks.len() as u16) + rounding, "{error} of {found}");
    }

    #[test]
    fn the_bound_is_small_beside_the_largest_value(ranks in prop::collection::vec(finite(), 1..9)) {
        let largest = ranks.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        prop_assume!(largest >= f32::MIN_POSITIVE);
        let scale = FixedPoint::for_block(largest_exponent(&of_values(&ranks)), ranks.len() as u16);
        // Eight ranks: 27 bits for each.
        prop_assert!(scale.error_bound(ranks.len() as u16) <= f64::from(largest) * 2f64.powi(-23));
    }
}
