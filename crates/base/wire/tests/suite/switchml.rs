//! SwitchML's header: what it looks like, that nothing is lost on the way, and that any bytes are read or refused.

use proptest::prelude::*;
use quincunx_wire::ParseError;
use quincunx_wire::switchml::{Kind, LENGTH, SwitchMlHeader};

fn any_header() -> impl Strategy<Value = SwitchMlHeader> {
    let kind = prop::sample::select(vec![Kind::Integers, Kind::FixedPoint, Kind::Disagreement]);
    (kind, any::<u8>(), any::<u32>()).prop_map(|(kind, exponent, digest)| SwitchMlHeader {
        kind,
        exponent,
        digest,
    })
}

#[test]
fn kind_exponent_and_digest_lie_where_the_diagram_has_them() {
    let header = SwitchMlHeader { kind: Kind::FixedPoint, exponent: 0x83, digest: 0x0102_0304 };
    assert_eq!(header.to_bytes(), [1, 0x83, 0, 0, 1, 2, 3, 4]);
}

#[test]
fn a_kind_that_there_is_not_is_refused() {
    for kind in 3..=u8::MAX {
        let bytes = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(SwitchMlHeader::parse(&bytes), Err(ParseError::NotRoce));
    }
}

proptest! {
    #[test]
    fn a_header_says_what_was_written(header in any_header(), rest in prop::collection::vec(any::<u8>(), 0..9)) {
        let bytes = [&header.to_bytes()[..], &rest].concat();
        prop_assert_eq!(SwitchMlHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn a_header_that_is_cut_short_is_refused(header in any_header(), length in 0..LENGTH) {
        prop_assert_eq!(SwitchMlHeader::parse(&header.to_bytes()[..length]), Err(ParseError::Truncated));
    }

    #[test]
    fn reserved_bits_say_nothing(header in any_header(), reserved in any::<[u8; 2]>()) {
        let mut bytes = header.to_bytes();
        bytes[2..4].copy_from_slice(&reserved);
        prop_assert_eq!(SwitchMlHeader::parse(&bytes), Ok(header));
    }
}
