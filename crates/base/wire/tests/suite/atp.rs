//! ATP's header and immediate: what they look like, that nothing is lost on the way, and that any bytes are read or refused.

use proptest::prelude::*;
use quincunx_wire::ParseError;
use quincunx_wire::atp::{AtpHeader, AtpTag, AtpTags, LENGTH};
use quincunx_wire::switchml::Kind;

fn any_header() -> impl Strategy<Value = AtpHeader> {
    let kind = prop::sample::select(vec![Kind::Integers, Kind::FixedPoint, Kind::Disagreement]);
    (kind, any::<u8>(), any::<u32>(), any::<u32>()).prop_map(|(kind, exponent, digest, number)| AtpHeader {
        kind,
        exponent,
        digest,
        number,
    })
}

fn of(ranks: u16) -> AtpTags {
    AtpTags::new(ranks).unwrap()
}

#[test]
fn fields_lie_where_the_diagram_has_them() {
    let header =
        AtpHeader { kind: Kind::FixedPoint, exponent: 0x83, digest: 0x0102_0304, number: 0x0506_0708 };
    assert_eq!(header.to_bytes(), [1, 0x83, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(of(8).write(0x5_6789, 0b1000_0001, true), 0xc085_6789, "R 10000001 and 23 bits");
    assert_eq!(of(8).write(0x5_6789, 1, false), 0x0085_6789);
}

#[test]
fn a_kind_that_there_is_not_is_refused() {
    for kind in 3..=u8::MAX {
        let bytes = [kind, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(AtpHeader::parse(&bytes), Err(ParseError::NotRoce));
    }
}

#[test]
fn a_number_is_the_nearest_one_with_its_bits_around_every_wrap() {
    // 30 ranks leave one bit, 8 leave 23.
    assert_eq!(AtpTags::new(31), None);
    assert_eq!((of(30).number_bits(), of(30).all()), (1, 0x3fff_ffff));
    assert_eq!(of(8).nearest(1, 0x7f_ffff), 0x80_0001);
    assert_eq!(of(8).nearest(0x7f_ffff, 0x80_0001), 0x7f_ffff);
    assert_eq!(of(8).nearest(1, u32::MAX), 1);
    assert_eq!(of(8).nearest(0x7f_ffff, 0), u32::MAX);
}

proptest! {
    #[test]
    fn a_header_says_what_was_written(header in any_header(), rest in prop::collection::vec(any::<u8>(), 0..9)) {
        let bytes = [&header.to_bytes()[..], &rest].concat();
        prop_assert_eq!(AtpHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn a_header_that_is_cut_short_is_refused(header in any_header(), length in 0..LENGTH) {
        prop_assert_eq!(AtpHeader::parse(&header.to_bytes()[..length]), Err(ParseError::Truncated));
    }

    #[test]
    fn an_immediate_says_what_was_written(
        ranks in 1u16..31, number in any::<u32>(), workers in any::<u32>(), is_resent in any::<bool>(),
    ) {
        let tags = of(ranks);
        let workers = workers & tags.all();
        let low = number & ((1 << tags.number_bits()) - 1);
        let expected = AtpTag { low, workers, is_resent };
        prop_assert_eq!(tags.read(tags.write(number, workers, is_resent)), expected);
    }

    #[test]
    fn numbers_are_found_again_from_near_ones(
        ranks in 1u16..26, number in any::<u32>(), distance in -16i32..16,
    ) {
        let tags = of(ranks);
        let low = tags.read(tags.write(number, 0, false)).low;
        prop_assert_eq!(tags.nearest(low, number.wrapping_add(distance as u32)), number);
    }
}
