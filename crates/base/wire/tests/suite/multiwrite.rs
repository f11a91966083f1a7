//! Bitmaps of destinations: what they look like, and that nothing is lost on the way.

use proptest::prelude::*;
use quincunx_wire::ParseError;
use quincunx_wire::multiwrite::{BitmapView, Destinations, MAX_RANKS, UnknownRank, bitmap_length};

fn set(ranks: &[u16]) -> Destinations {
    let mut destinations = Destinations::NONE;
    ranks.iter().for_each(|&rank| destinations.insert(rank));
    destinations
}

fn emitted(destinations: &Destinations, ranks: u16) -> Vec<u8> {
    let mut bytes = vec![0xee; bitmap_length(ranks)];
    destinations.emit(ranks, &mut bytes);
    bytes
}

#[test]
fn an_immediate_holds_32_ranks_and_the_payload_the_others_in_whole_words() {
    assert_eq!([32, 33, 64, 128, 1000, 1024].map(bitmap_length), [0, 8, 8, 16, 128, 128]);
}

#[test]
fn for_1024_ranks_it_takes_3_13_percent_of_a_payload_of_4_kb() {
    // 3.125, exactly; the paper rounds up.
    assert_eq!(bitmap_length(1024) * 100_000, 4096 * 3_125);
}

#[test]
fn the_lowest_bit_of_an_immediate_is_rank_0() {
    assert_eq!(set(&[0, 1, 3, 31]).to_immediate(), Some(0x8000_000b));
    assert_eq!(Destinations::from_immediate(0x8000_000b), set(&[0, 1, 3, 31]));
    assert_eq!(set(&[32]).to_immediate(), None);
}

#[test]
fn in_a_payload_words_come_in_order_each_big_endian() {
    assert_eq!(emitted(&set(&[0, 9, 32, 63]), 64), [0, 0, 2, 1, 0x80, 0, 0, 1]);
    assert_eq!(emitted(&set(&[127]), 128), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0]);
}

#[test]
fn a_rank_that_the_group_does_not_have_is_named() {
    assert_eq!(set(&[2, 8, 9]).check(9), Err(UnknownRank { ranks: 9, found: 9 }));
    assert_eq!(set(&[2, 8]).check(9), Ok(()));
}

#[test]
fn a_bitmap_that_is_cut_short_is_refused_at_every_length() {
    let bytes = emitted(&set(&[77]), 128);
    for length in 0..bytes.len() {
        assert_eq!(BitmapView::split(&bytes[..length], 128).unwrap_err(), ParseError::Truncated);
    }
    assert!(BitmapView::split(&bytes, MAX_RANKS + 1).is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again_whatever_stood_there(
        (ranks, chosen) in (1..=MAX_RANKS).prop_flat_map(|ranks| (Just(ranks), prop::collection::btree_set(0..ranks, 0..40))),
        rest in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let destinations = set(&chosen.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(destinations.iter().collect::<Vec<_>>(), chosen.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(destinations.len(), chosen.len());
        if bitmap_length(ranks) == 0 {
            prop_assert_eq!(destinations.to_immediate().map(Destinations::from_immediate), Some(destinations));
        } else {
            let bytes = [emitted(&destinations, ranks), rest.clone()].concat();
            let (view, after) = BitmapView::split(&bytes, ranks).unwrap();
            prop_assert_eq!(Destinations::parse(&view), destinations);
            prop_assert_eq!(after, &rest[..]);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..160), ranks in any::<u16>()) {
        if let Ok((view, _)) = BitmapView::split(&bytes, ranks) {
            let _ = Destinations::parse(&view).check(ranks);
        }
    }

    #[test]
    fn a_rank_taken_out_is_out(chosen in prop::collection::btree_set(0..MAX_RANKS, 1..40)) {
        let mut destinations = set(&chosen.iter().copied().collect::<Vec<_>>());
        for &rank in &chosen {
            prop_assert!(destinations.remove(rank));
            prop_assert!(!destinations.contains(rank) && !destinations.remove(rank));
        }
        prop_assert!(destinations.is_empty());
    }
}
