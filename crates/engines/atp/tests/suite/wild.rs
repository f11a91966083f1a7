//! Whatever a peer sends, nothing panics, and the work of a call is bounded.

use crate::support::{Host, SHAPE, Switch, at, integers, rank_of, tags};
use proptest::prelude::*;
use quincunx_atp::AtpShape;
use quincunx_collective::DataType;
use quincunx_engine::verbs::Outcome;
use quincunx_wire::atp::AtpHeader;
use quincunx_wire::switchml::Kind;

/// Numbers that meet, and any others.
fn any_number() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0u32..12, 1 => u32::MAX - 4..=u32::MAX, 1 => any::<u32>()]
}

/// Immediate and payload that fit together, nearly do, or are anything.
fn any_packet() -> impl Strategy<Value = (u32, Vec<u8>)> {
    let kinds = prop::sample::select(vec![Kind::Integers, Kind::FixedPoint, Kind::Disagreement]);
    let framed = (any_number(), 0u32..8, any::<bool>(), kinds, any::<u8>(), 0u32..2, 0usize..3).prop_map(
        |(number, workers, is_resent, kind, exponent, digest, words)| {
            let header = AtpHeader { kind, exponent, digest, number };
            let payload = [header.to_bytes().to_vec(), vec![1; 4 * words]].concat();
            (tags(SHAPE).write(number, workers, is_resent), payload)
        },
    );
    prop_oneof![4 => framed, 1 => (any::<u32>(), prop::collection::vec(any::<u8>(), 0..21))]
}

proptest! {
    #[test]
    fn a_switch_takes_anything(
        frames in prop::collection::vec((0u16..5, any_packet()), 0..80), aggregators in 1u32..5,
    ) {
        let mut switch = Switch::new(AtpShape { aggregators, ..SHAPE });
        for (edge, packet) in frames {
            let out = switch.take(edge, &packet);
            prop_assert!(out.packets.len() + out.drops.len() <= 3, "{out:?}");
        }
    }

    #[test]
    fn a_rank_takes_anything_that_fits_its_place(
        rank in 0u16..2, server_sends in any::<bool>(), length in 0usize..12, is_float in any::<bool>(),
        packets in prop::collection::vec((any_packet(), any::<bool>(), 0u16..2), 0..80),
    ) {
        let data_type = if is_float { DataType::F32 } else { DataType::I32 };
        let shape = AtpShape { server_sends, ..SHAPE };
        let mut host = Host::new(rank_of(rank, shape), data_type, &integers(&vec![1; length]));
        let queue_pairs = host.rank.queue_pairs();
        host.start(at(0));
        for (step, (packet, times_out, qp)) in packets.into_iter().enumerate() {
            let now = at(step as u64);
            let sent = host.leave(now).len();
            prop_assert!(sent <= 16, "{sent} packets in a step");
            if matches!(host.outcome, Some(Outcome::Failed { .. })) {
                break;
            }
            if times_out {
                host.time_out(now);
            } else if packet.1.len() <= 20 {
                host.arrive(now, qp % queue_pairs, &packet);
            }
        }
    }
}
