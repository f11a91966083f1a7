//! What the switch adds up, and what it answers and drops.

use crate::support::{FIRST_PSN, Out, Packet, SHAPE, Switch, elements, end_of, integers};
use quincunx_collective::Numbers;
use quincunx_design::Datapath;
use quincunx_switchml::{PoolShape, PoolShapeError, Pools, PoolsConfig};
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::switchml::{Kind, LENGTH, SwitchMlHeader};
use quincunx_wire::{Deth, Operation, QpNumber, RoceHeader};

const SAID: SwitchMlHeader = SwitchMlHeader { kind: Kind::Integers, exponent: 0, digest: 7 };

fn packet_that_says(said: SwitchMlHeader, number: u32, values: &[i32]) -> Packet {
    (number, [&said.to_bytes()[..], &integers(values)].concat())
}

fn packet(number: u32, values: &[i32]) -> Packet {
    packet_that_says(SAID, number, values)
}

/// Nothing is sent, and it is said why.
#[track_caller]
fn dropped(out: &Out) -> &'static str {
    let ([], [(_, reason)]) = (&out.packets[..], &out.drops[..]) else { panic!("it is dropped: {out:?}") };
    reason
}

fn said(packet: &Packet) -> SwitchMlHeader {
    SwitchMlHeader::parse(&packet.1).unwrap()
}

#[test]
fn the_sum_goes_to_all_when_the_last_rank_has_contributed() {
    let mut switch = Switch::new(3, None);
    for rank in [2, 0] {
        let out = switch.take(rank, &packet(0, &[i32::from(rank), 10]));
        assert!(out.packets.is_empty() && out.drops.is_empty(), "{out:?}");
    }
    let out = switch.take(1, &packet(0, &[1, 10]));
    let sent: Vec<_> = out.packets.iter().map(|(rank, packet)| (*rank, packet.0, elements(packet))).collect();
    assert_eq!(sent, [0, 1, 2].map(|rank| (rank, 0, vec![3, 30])));
}

#[test]
fn an_answer_is_a_datagram_to_its_rank_with_the_number_of_the_piece() {
    let mut switch = Switch::new(2, None);
    switch.take(0, &packet(3, &[1]));
    let out = switch.take(1, &packet(3, &[1]));
    for (rank, header) in (0..2).zip(&out.headers) {
        let [local, remote] = end_of(rank);
        assert_eq!((header.source, header.destination), (local.ip, remote.ip));
        assert_eq!((header.destination_qp, header.psn), (remote.qp, FIRST_PSN.plus(3)));
        let Operation::DatagramSendOnlyImmediate(deth, 3) = header.operation else { panic!("{header:?}") };
        assert_eq!(deth.source_qp, local.qp);
    }
}

#[test]
fn what_comes_again_before_the_sum_is_whole_is_counted_once() {
    let mut switch = Switch::new(2, None);
    switch.take(0, &packet(0, &[5]));
    assert_eq!(dropped(&switch.take(0, &packet(0, &[5]))), "added up already");
    let out = switch.take(1, &packet(0, &[6]));
    assert_eq!(elements(&out.packets[0].1), [11]);
}

#[test]
fn who_has_missed_a_sum_gets_it_alone_while_the_slots_next_one_is_made() {
    let mut switch = Switch::new(2, None);
    switch.take(0, &packet(0, &[5]));
    switch.take(1, &packet(0, &[6]));
    switch.take(0, &packet(2, &[7]));
    let out = switch.take(1, &packet(0, &[6]));
    let [(1, answer)] = &out.packets[..] else { panic!("rank 1 is answered: {out:?}") };
    assert_eq!((answer.0, elements(answer)), (0, vec![11]));
    let out = switch.take(1, &packet(2, &[8]));
    assert_eq!(elements(&out.packets[0].1), [15]);
}

#[test]
fn what_is_late_by_two_uses_of_its_slot_is_dropped() {
    let mut switch = Switch::new(2, None);
    for number in [0, 2] {
        switch.take(0, &packet(number, &[1]));
        switch.take(1, &packet(number, &[1]));
    }
    assert_eq!(dropped(&switch.take(0, &packet(0, &[1]))), "late");
    switch.take(0, &packet(4, &[3]));
    let out = switch.take(1, &packet(4, &[4]));
    assert_eq!(elements(&out.packets[0].1), [7]);
}

#[test]
fn numbers_wrap_and_the_slot_goes_on() {
    let mut switch = Switch::new(2, None);
    for number in [u32::MAX - 1, 0, 2] {
        switch.take(0, &packet(number, &[1]));
        let out = switch.take(1, &packet(number, &[number as i32]));
        assert_eq!(elements(&out.packets[0].1), [1 + number as i32], "piece {number}");
        assert_eq!(dropped(&switch.take(0, &packet(number.wrapping_sub(2), &[1]))), "late");
    }
}

#[test]
fn slots_do_not_mix() {
    let mut switch = Switch::new(2, None);
    switch.take(0, &packet(0, &[1]));
    switch.take(0, &packet(1, &[10]));
    assert_eq!(elements(&switch.take(1, &packet(1, &[20])).packets[0].1), [30]);
    assert_eq!(elements(&switch.take(1, &packet(0, &[2])).packets[0].1), [3]);
}

#[test]
fn integers_wrap_and_numbers_in_fixed_point_saturate() {
    for (kind, expected) in [(Kind::Integers, i32::MIN), (Kind::FixedPoint, i32::MAX)] {
        let mut switch = Switch::new(2, None);
        let said = SwitchMlHeader { kind, ..SAID };
        switch.take(0, &packet_that_says(said, 0, &[i32::MAX]));
        let out = switch.take(1, &packet_that_says(said, 0, &[1]));
        assert_eq!(elements(&out.packets[0].1), [expected]);
    }
}

#[test]
fn a_sum_says_the_largest_exponent_of_all() {
    let mut switch = Switch::new(3, None);
    let mut last = Out::default();
    for (rank, exponent) in [(0, 3), (1, 200), (2, 4)] {
        last = switch.take(rank, &packet_that_says(SwitchMlHeader { exponent, ..SAID }, 0, &[1]));
    }
    assert!(last.packets.iter().all(|(_, packet)| said(packet).exponent == 200));
}

#[test]
fn ranks_that_ask_for_different_things_are_all_told_and_told_again() {
    let others = [
        packet_that_says(SwitchMlHeader { digest: 8, ..SAID }, 0, &[1]),
        packet_that_says(SwitchMlHeader { kind: Kind::FixedPoint, ..SAID }, 0, &[1]),
        packet(0, &[1, 2]),
        packet(0, &[]),
    ];
    for other in others {
        let mut switch = Switch::new(3, None);
        switch.take(0, &packet(0, &[1]));
        switch.take(1, &other);
        let out = switch.take(2, &packet(0, &[1]));
        assert_eq!(out.packets.len(), 3);
        assert!(out.packets.iter().all(|(_, packet)| said(packet).kind == Kind::Disagreement));
        let again = switch.take(1, &other);
        assert_eq!(said(&again.packets[0].1).kind, Kind::Disagreement);
    }
}

#[test]
fn what_is_no_piece_of_its_rank_is_dropped() {
    let mut switch = Switch::new(2, None);
    let (number, payload) = packet(0, &[1]);
    let header = Switch::header(0, number);
    let source_qp = end_of(0)[1].qp;
    let of_other = Deth { queue_key: COLLECTIVE_QUEUE, source_qp: QpNumber::new(99) };
    for (operation, reason) in [
        (Operation::SendOnlyImmediate(0), "no datagram"),
        (Operation::DatagramSendOnlyImmediate(Deth { queue_key: 0, source_qp }, 0), "not from its rank"),
        (Operation::DatagramSendOnlyImmediate(of_other, 0), "not from its rank"),
    ] {
        let header = RoceHeader { operation, ..header };
        assert_eq!(dropped(&switch.take_frame(0, &header, &payload)), reason);
    }
    for (payload, reason) in [
        (vec![0; LENGTH - 4], "no whole elements"),
        (vec![0; LENGTH + 2], "no whole elements"),
        (vec![0; LENGTH + SHAPE.piece + 4], "no whole elements"),
        (vec![9; LENGTH], "no header"),
        (packet_that_says(SwitchMlHeader { kind: Kind::Disagreement, ..SAID }, 0, &[1]).1, "no contribution"),
    ] {
        assert_eq!(dropped(&switch.take(0, &(0, payload))), reason);
    }
    let mut out = Out::default();
    let frame = quincunx_engine::Frame { header: &header, payload: &payload[..] };
    switch.0.handle_frame(quincunx_units::Instant::ZERO, 9, frame, &mut out);
    assert_eq!(dropped(&out), "no such rank");
}

#[test]
fn a_rank_that_runs_ahead_of_its_slot_changes_no_sum() {
    let mut switch = Switch::new(2, None);
    switch.take(0, &packet(0, &[1]));
    assert_eq!(dropped(&switch.take(0, &packet(2, &[9]))), "ahead of the slot's sum");
    assert_eq!(dropped(&switch.take(0, &packet(4, &[9]))), "another piece than the slot's");
    assert_eq!(elements(&switch.take(1, &packet(0, &[2])).packets[0].1), [3]);
}

#[test]
fn a_pool_has_two_sums_for_each_slot() {
    let switch = Switch::new(2, None);
    assert_eq!(Datapath::<Numbers>::buffer_bytes(&switch.0), 2 * 2 * 8);
}

#[test]
fn a_pool_that_cannot_be_is_refused_in_a_line() {
    let made = |slots, piece| {
        let shape = PoolShape { slots, piece };
        let config = PoolsConfig { shape, edges: vec![end_of(0)], initial_psn: FIRST_PSN, mutation: None };
        Pools::<Numbers>::new(config).map(drop)
    };
    for slots in [0, 3, 1 << 23] {
        assert_eq!(made(slots, 8), Err(PoolShapeError::Slots(slots)));
    }
    for piece in [0, 6, 4092] {
        assert_eq!(made(2, piece), Err(PoolShapeError::Piece(piece)));
    }
    assert_eq!(
        PoolShapeError::Piece(4096).to_string(),
        "expected packets of whole 4-byte elements up to 4088 bytes, found 4096; choose 1024"
    );
    assert_eq!(made(1, 4088), Ok(()));
}
