//! Sequence numbers that wrap: every case of four bits, and 24 bits around the wrap.

use proptest::prelude::*;
use quincunx_wire::{Psn, SequenceNumber};

type Tiny = SequenceNumber<4>;

/// All sixteen numbers of four bits.
fn all() -> impl Iterator<Item = Tiny> {
    (0..16).map(Tiny::new)
}

#[test]
fn a_number_keeps_its_low_bits() {
    for value in 0..64 {
        assert_eq!(Tiny::new(value).value(), value % 16);
        assert_eq!(Tiny::from_count(u64::from(value)), Tiny::new(value));
    }
}

#[test]
fn counting_on_wraps_and_counting_back_undoes_it() {
    for from in all() {
        for count in 0..40 {
            assert_eq!(from.plus(count).value(), (from.value() + count) % 16);
            assert_eq!(from.plus(count).minus(count), from);
        }
    }
}

#[test]
fn a_longer_counter_that_begins_at_a_number_wraps_with_it() {
    for from in all() {
        let counted: Vec<u32> = (0..16).map(|count| from.extended().wrapping_add(count)).collect();
        let wraps = counted.windows(2).filter(|pair| pair[1] == 0).count();
        assert_eq!(wraps, usize::from(from.value() >= 8), "numbers of the upper half lie before zero");
        assert!((0..16).all(|count| counted[count as usize] % 16 == from.plus(count).value()));
    }
}

#[test]
fn the_distance_leads_from_one_to_the_other_the_shorter_way() {
    for (from, to) in all().flat_map(|from| all().map(move |to| (from, to))) {
        let distance = to.distance_from(from);
        assert!((-8..8).contains(&distance), "{from:?} to {to:?} is {distance}");
        assert_eq!(from.plus(distance as u32), to);
    }
}

#[test]
fn the_distance_back_is_the_opposite_except_half_way_round() {
    for (from, to) in all().flat_map(|from| all().map(move |to| (from, to))) {
        match to.distance_from(from) {
            -8 => assert_eq!(from.distance_from(to), -8),
            distance => assert_eq!(from.distance_from(to), -distance),
        }
    }
}

#[test]
fn the_order_within_half_the_space_is_the_order_of_counts() {
    for start in 0u64..32 {
        for ahead in 0..8 {
            for further in 0..8 - ahead {
                let (a, b, c) = (
                    Tiny::from_count(start),
                    Tiny::from_count(start + ahead),
                    Tiny::from_count(start + ahead + further),
                );
                assert_eq!(b.distance_from(a) as u64, ahead);
                assert_eq!(c.distance_from(b) as u64, further);
                assert_eq!(c.distance_from(a) as u64, ahead + further);
            }
        }
    }
}

#[test]
fn a_count_is_found_again_from_any_count_near_it() {
    for count in 0u64..64 {
        for near in count.saturating_sub(7)..=count + 8 {
            assert_eq!(Tiny::from_count(count).to_count_near(near), count, "near {near}");
        }
    }
}

#[test]
fn a_count_is_never_below_zero() {
    // 15 is one before 0 and 15 after it; only the second is a count.
    assert_eq!(Tiny::new(15).to_count_near(0), 15);
    for number in all() {
        let count = number.to_count_near(0);
        assert_eq!(Tiny::from_count(count), number);
    }
}

#[test]
fn numbers_of_the_widest_kind_work_too() {
    type Wide = SequenceNumber<32>;
    assert_eq!(Wide::new(u32::MAX).plus(1), Wide::new(0));
    assert_eq!(Wide::new(0).distance_from(Wide::new(u32::MAX)), 1);
}

proptest! {
    #[test]
    fn a_psn_near_the_wrap_is_found_again(
        round in 1u64..1 << 30,
        step in -1000i64..1000,
        offset in -(1i64 << 23) + 1..1 << 23,
    ) {
        let count = (round << 24).checked_add_signed(step).unwrap();
        let near = count.checked_add_signed(offset).unwrap();
        prop_assert_eq!(Psn::from_count(count).to_count_near(near), count);
        prop_assert_eq!(Psn::from_count(near).distance_from(Psn::from_count(count)), offset as i32);
    }

    #[test]
    fn a_psn_wraps_after_24_bits(before in 0u32..1000, after in 0u32..1000) {
        let psn = Psn::new((1 << 24) - 1 - before).plus(before + 1 + after);
        prop_assert_eq!(psn, Psn::new(after));
        prop_assert_eq!(psn.minus(after + 1), Psn::new(0x00ff_ffff));
    }
}
