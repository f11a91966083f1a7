//! Packets of the memory fabric: what is written is read back, what is cut short is refused, flits are counted.

use crate::parse_flit;
use proptest::prelude::*;
use quincunx_wire::flit::*;

fn transactions() -> impl Strategy<Value = Transaction> {
    prop_oneof![
        Just(Transaction::Credit),
        any::<u16>().prop_map(|length| Transaction::Read { length }),
        Just(Transaction::ReadResponse),
        Just(Transaction::Write),
        Just(Transaction::WriteResponse),
        any::<u64>().prop_map(|operand| Transaction::Add { operand }),
        any::<u64>().prop_map(|operand| Transaction::Store { operand }),
        any::<u16>().prop_map(|length| Transaction::MultimemLoadReduce { length }),
        Just(Transaction::MultimemStore),
        any::<u64>().prop_map(|operand| Transaction::MultimemAdd { operand }),
        any::<u64>().prop_map(|destinations| Transaction::MultiWrite { destinations }),
        Just(Transaction::Reduce),
        Just(Transaction::MultimemReduce),
        Just(Transaction::Sync),
        Just(Transaction::Release),
    ]
}

prop_compose! {
    fn packets()(
        source in 0..=MAX_NODE,
        destination in 0..=MAX_NODE,
        inc in any::<bool>(),
        notify in any::<bool>(),
        address in 0..=MAX_ADDRESS,
        tag in 0..=MAX_TAG,
        transaction in transactions(),
        channel in 0..Channel::COUNT,
        credits in 0..=MAX_CREDITS,
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) -> (FlitHeader, Vec<u8>) {
        let credit = CreditReturn { channel: Channel::ALL[channel], packets: credits };
        let header = FlitHeader {
            credit,
            notify,
            ..FlitHeader::new(NodeId(source), NodeId(destination), inc, address, tag, transaction)
        };
        (header, if transaction.carries_data() { payload } else { Vec::new() })
    }
}

fn emitted(header: &FlitHeader, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.emitted_length(payload.len())];
    header.emit(payload, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_back((header, payload) in packets()) {
        let bytes = emitted(&header, &payload);
        prop_assert_eq!(FlitHeader::parse(&bytes), Ok((header, &payload[..])));
    }

    #[test]
    fn any_bytes_are_refused_or_say_the_same_after_they_were_written_again(
        bytes in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        parse_flit::check(&bytes);
    }

    #[test]
    fn a_packet_with_wrong_bytes_is_refused_or_says_the_same_after_it_was_written_again(
        (header, payload) in packets(),
        wrong in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = emitted(&header, &payload);
        for (at, byte) in wrong {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        parse_flit::check(&bytes);
    }

    #[test]
    fn a_packet_cut_short_is_refused((header, payload) in packets(), cut in any::<prop::sample::Index>()) {
        let bytes = emitted(&header, &payload);
        let cut = cut.index(bytes.len());
        prop_assert_eq!(FlitHeader::parse(&bytes[..cut]), Err(FlitError::Truncated));
    }

    #[test]
    fn a_packet_with_more_behind_it_is_refused((header, payload) in packets()) {
        let mut bytes = emitted(&header, &payload);
        bytes.push(0);
        prop_assert_eq!(FlitHeader::parse(&bytes), Err(FlitError::Trailing));
    }

    #[test]
    fn any_bytes_parse_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok((header, payload)) = FlitHeader::parse(&bytes) {
            let again = emitted(&header, payload);
            prop_assert_eq!(FlitHeader::parse(&again), Ok((header, payload)));
        }
    }
}

#[test]
fn unknown_kinds_channels_and_operands_are_refused() {
    let header = FlitHeader::new(NodeId(1), NodeId(2), false, 3, 4, Transaction::Add { operand: 5 });
    let right = emitted(&header, &[]);
    let refusal = |at: usize, value: u8| {
        let mut bytes = right.clone();
        bytes[at] = value;
        FlitHeader::parse(&bytes).expect_err("a refusal")
    };
    assert_eq!(refusal(0, 0xf0), FlitError::UnknownKind);
    assert_eq!(refusal(11, 7), FlitError::WordLength);
    assert_eq!(refusal(15, 0x80), FlitError::UnknownChannel);
}

#[test]
fn each_direction_of_an_all_reduce_carries_ten_flits_for_128_bytes() {
    // SCIN 4.1: header of one flit, reads and write responses of a single flit; hence 360 of 450 GB/s are payload.
    let flits = |transaction, payload| FlitFormat::DGX.flits(transaction, payload);
    let up = flits(Transaction::ReadResponse, 128) + flits(Transaction::WriteResponse, 0);
    let down = flits(Transaction::Write, 128) + flits(Transaction::Read { length: 128 }, 0);
    assert_eq!((up, down), (10, 10));
}

#[test]
fn a_packet_of_the_prototype_is_129_flits_of_32_bytes() {
    assert_eq!(FlitFormat::PROTOTYPE.wire_bytes(Transaction::Write, 4096), 129 * 32);
}

#[test]
fn credits_alone_take_no_flits() {
    assert_eq!(FlitFormat::DGX.flits(Transaction::Credit, 0), 0);
    assert_eq!(FlitHeader::new(NodeId(0), NodeId(1), true, 0, 0, Transaction::Credit).channel(), None);
}

#[test]
fn the_destinations_of_a_multiwrite_stand_between_its_header_and_its_payload() {
    let transaction = Transaction::MultiWrite { destinations: 0b1010 };
    let header = FlitHeader::new(NodeId(1), NodeId(2), false, 3, 40, transaction);
    let bytes = emitted(&header, &[7; 4]);
    assert_eq!(bytes[..2], [0xa0, 0x00]);
    assert_eq!(bytes[10..12], [0, 4], "its length is that of the payload");
    assert_eq!(bytes[16..], [0, 0, 0, 0, 0, 0, 0, 0b1010, 7, 7, 7, 7]);
    // 8 bytes more than a write, so that a full packet takes a flit more.
    assert_eq!(FlitFormat::PROTOTYPE.wire_bytes(transaction, 4096), 130 * 32);
}
