//! Whatever a peer sends, nothing panics, and the work of a call is bounded.

use crate::support::{Host, Switch, at, integers, worker_of};
use proptest::prelude::*;
use quincunx_collective::DataType;
use quincunx_wire::switchml::{Kind, SwitchMlHeader};

fn any_payload() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![Kind::Integers, Kind::FixedPoint, Kind::Disagreement]);
    let header = (kinds, any::<u8>(), 0u32..3)
        .prop_map(|(kind, exponent, digest)| SwitchMlHeader { kind, exponent, digest }.to_bytes().to_vec());
    let bytes = || prop::collection::vec(any::<u8>(), 0..21);
    let framed = (header, 0usize..3).prop_map(|(header, words)| [header, vec![1; 4 * words]].concat());
    prop_oneof![bytes(), framed.clone(), framed]
}

/// Numbers that meet in the slots, and any others.
fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![0u32..12, u32::MAX - 4..=u32::MAX, any::<u32>()]
}

proptest! {
    #[test]
    fn a_switch_takes_anything(
        frames in prop::collection::vec((0u16..4, any_number(), any_payload()), 0..60),
    ) {
        let mut switch = Switch::new(3, None);
        for (rank, number, payload) in frames {
            let header = Switch::header(rank, number);
            let out = switch.take_frame(rank, &header, &payload);
            prop_assert!(out.packets.len() + out.drops.len() <= 3, "{out:?}");
        }
    }

    #[test]
    fn a_rank_takes_anything_that_fits_its_place(
        length in 0usize..12, packets in prop::collection::vec((any_number(), any_payload(), any::<bool>()), 0..60),
        is_float in any::<bool>(),
    ) {
        let data_type = if is_float { DataType::F32 } else { DataType::I32 };
        let mut host = Host::new(worker_of(3), data_type, &integers(&vec![1; length]));
        host.start(at(0)).unwrap();
        for (step, (number, payload, times_out)) in packets.into_iter().enumerate() {
            host.leave(at(step as u64));
            if host.outcome.is_some() {
                break;
            }
            let fits = payload.len() <= 16;
            if times_out {
                host.time_out(at(step as u64));
            } else if fits {
                host.arrive(at(step as u64), &(number, payload));
            }
        }
    }
}
