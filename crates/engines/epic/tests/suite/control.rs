//! What the 32 bits of a control message say (EPIC 3.3.2).

use proptest::prelude::*;
use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};
use quincunx_epic::{Agreement, ControlMessage, MAX_DATA_PACKETS, MAX_RANKS, Pattern};

fn any_message() -> impl Strategy<Value = ControlMessage> {
    let root = (0..MAX_RANKS).prop_map(Rank);
    let flow = prop_oneof![
        (0..1_u16 << 9).prop_map(|detail| (Pattern::AllReduce, Agreement::Detail(detail))),
        root.clone().prop_map(|root| (Pattern::Reduce { root }, Agreement::Follows)),
        root.prop_map(|root| (Pattern::Broadcast { root }, Agreement::Follows)),
    ];
    let reduction = prop::sample::select(Reduction::all().collect::<Vec<_>>());
    let message = |((pattern, agreement), reduction, data_packets)| ControlMessage {
        pattern,
        reduction,
        data_packets,
        agreement,
    };
    let data_type = prop::sample::select(DataType::ALL.to_vec());
    let gather = |(detail, data_type, packets)| ControlMessage::gather(detail, data_type, packets);
    prop_oneof![
        (0..1_u16 << 8, data_type, 0..=MAX_DATA_PACKETS).prop_map(gather),
        (flow, reduction, 0..=MAX_DATA_PACKETS).prop_map(message),
        (0..1_u32 << 30).prop_map(ControlMessage::confirmation),
    ]
}

proptest! {
    #[test]
    fn what_is_said_is_understood(message in any_message()) {
        prop_assert_eq!(ControlMessage::decode(message.encode()), Some(message));
    }

    #[test]
    fn whatever_is_understood_is_said_in_the_same_bits(bits: u32) {
        if let Some(message) = ControlMessage::decode(bits) {
            prop_assert_eq!(message.encode(), bits);
        }
    }
}

#[test]
fn pattern_operation_type_root_and_packets_follow_each_other_from_the_top() {
    let reduction = Reduction { op: ReduceOp::Max, data_type: DataType::I32 };
    let pattern = Pattern::Broadcast { root: Rank(0x3a5) };
    let message = ControlMessage { pattern, reduction, data_packets: 0x1234, agreement: Agreement::Follows };
    assert_eq!(message.encode(), 2 << 30 | 2 << 27 | 3 << 23 | 0x3a5 << 13 | 0x1234);
}

#[test]
fn an_all_reduce_says_its_detail_in_place_of_a_root_and_a_confirmation_its_digest_alone() {
    let reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::F32 };
    let (pattern, agreement) = (Pattern::AllReduce, Agreement::Detail(0xa5));
    let message = ControlMessage { pattern, reduction, data_packets: 7, agreement };
    assert_eq!(message.encode(), 0xa5 << 13 | 7);
    assert_eq!(ControlMessage::confirmation(0x2345_6789).encode(), 3 << 30 | 0x2345_6789);
}

#[test]
fn an_all_gather_combines_bits_and_says_the_type_of_its_elements() {
    let message = ControlMessage::gather(0xa5, DataType::Bf16, 7);
    assert_eq!(message.encode(), 5 << 27 | 2 << 23 | (1 << 9 | 0xa5) << 13 | 7);
    assert_eq!(message.reduction, Reduction { op: ReduceOp::BitOr, data_type: DataType::U8 });
    assert_eq!(message.pattern, Pattern::AllReduce);
}

#[test]
fn what_does_not_exist_or_is_not_defined_is_not_understood() {
    let all_gather_by_sum = 1 << 22;
    let all_gather_that_scatters = 5 << 27 | 1 << 22 | 1 << 21;
    let eighth_operation = 7 << 27;
    let sixteenth_type = 15 << 23;
    let bits_of_binary32 = 4 << 27;
    let maximum_of_blocks = 2 << 27 | 13 << 23;
    let bits = [
        all_gather_by_sum,
        all_gather_that_scatters,
        eighth_operation,
        sixteenth_type,
        bits_of_binary32,
        maximum_of_blocks,
    ];
    for bits in bits {
        assert_eq!(ControlMessage::decode(bits), None, "{bits:#x}");
    }
}
