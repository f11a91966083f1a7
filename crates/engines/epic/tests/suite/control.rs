//! What the 32 bits of a control message say (EPIC 3.3.2).

use proptest::prelude::*;
use quincunx_collective::{DataType, Rank, ReduceOp, Reduction};
use quincunx_epic::{ControlMessage, MAX_RANKS, Pattern};

fn any_message() -> impl Strategy<Value = ControlMessage> {
    let root = (0..MAX_RANKS).prop_map(Rank);
    let pattern = prop_oneof![
        Just(Pattern::AllReduce),
        root.clone().prop_map(|root| Pattern::Reduce { root }),
        root.prop_map(|root| Pattern::Broadcast { root }),
    ];
    let op = prop::sample::select(vec![ReduceOp::Sum, ReduceOp::Min, ReduceOp::Max]);
    let data_type = prop::sample::select(vec![DataType::F32, DataType::F16, DataType::Bf16, DataType::I32]);
    (pattern, op, data_type, any::<u16>()).prop_map(|(pattern, op, data_type, data_packets)| ControlMessage {
        pattern,
        reduction: Reduction { op, data_type },
        data_packets,
    })
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
    let message =
        ControlMessage { pattern: Pattern::Broadcast { root: Rank(0x3a5) }, reduction, data_packets: 0x1234 };
    assert_eq!(message.encode(), 2 << 30 | 2 << 28 | 3 << 26 | 0x3a5 << 16 | 0x1234);
}

#[test]
fn an_all_reduce_with_a_root_and_patterns_and_operations_that_do_not_exist_are_not_understood() {
    let all_reduce_with_root = 1 << 16;
    let fourth_pattern = 3 << 30;
    let fourth_operation = 3 << 28;
    for bits in [all_reduce_with_root, fourth_pattern, fourth_operation] {
        assert_eq!(ControlMessage::decode(bits), None, "{bits:#x}");
    }
}
