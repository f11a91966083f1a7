//! What the switch makes of what comes.

use crate::support::{FIRST_PSN, Out, Packet, SHAPE, Switch, elements, end_of, packet, said, tag, tags};
use quincunx_atp::AtpShape;
use quincunx_design::Datapath;
use quincunx_wire::atp::{AtpHeader, LENGTH};
use quincunx_wire::deth::COLLECTIVE_QUEUE;
use quincunx_wire::switchml::Kind;
use quincunx_wire::{Deth, Operation};

const SERVER: u16 = 0;
/// Rank 0 as a worker.
const RANK_0: u16 = 3;
const ALL: u32 = 0b111;

/// One aggregator for all numbers.
fn crowded() -> Switch {
    Switch::new(AtpShape { aggregators: 1, ..SHAPE })
}

fn of(number: u32, rank: u16) -> Packet {
    packet(number, 1 << rank, false, &[1 << rank, number as i32])
}

fn again(number: u32, rank: u16) -> Packet {
    packet(number, 1 << rank, true, &[1 << rank, number as i32])
}

fn result(number: u32) -> Packet {
    packet(number, ALL, false, &[7, 0])
}

fn nothing(out: &Out) -> bool {
    out.packets.is_empty() && out.drops.is_empty()
}

fn to_server(out: &Out) -> &Packet {
    let [(SERVER, packet)] = &out.packets[..] else { panic!("one packet to the server, found {out:?}") };
    packet
}

#[test]
fn a_whole_sum_goes_to_the_server_with_all_workers_in_its_bitmap() {
    let mut switch = Switch::new(SHAPE);
    assert!(nothing(&switch.take(1, &of(5, 1))));
    assert!(nothing(&switch.take(RANK_0, &of(5, 0))));
    let out = switch.take(2, &of(5, 2));
    let sum = to_server(&out);
    assert_eq!((tag(sum).workers, tag(sum).is_resent, said(sum).number), (ALL, false, 5));
    assert_eq!(elements(sum), [7, 15]);
    assert_eq!(switch.0.held(), 1, "until the result is here");
    let [local, remote] = end_of(SERVER);
    let header = out.headers[0];
    assert_eq!((header.source, header.destination, header.destination_qp), (local.ip, remote.ip, remote.qp));
    let Operation::DatagramSendOnlyImmediate(deth, immediate) = header.operation else {
        panic!("a datagram")
    };
    assert_eq!(deth, Deth { queue_key: COLLECTIVE_QUEUE, source_qp: local.qp });
    assert_eq!(header.psn, FIRST_PSN.plus(immediate));
}

#[test]
fn without_rank_0_the_sum_of_the_others_is_whole() {
    let mut switch = Switch::new(AtpShape { server_sends: false, ..SHAPE });
    assert!(nothing(&switch.take(1, &of(5, 1))));
    let out = switch.take(2, &of(5, 2));
    assert_eq!(tag(to_server(&out)).workers, 0b110);
}

#[test]
fn a_result_frees_its_aggregator_and_goes_to_all_workers() {
    let mut switch = Switch::new(SHAPE);
    switch.take(1, &of(5, 1));
    let out = switch.take(SERVER, &result(5));
    let edges: Vec<u16> = out.packets.iter().map(|(edge, _)| *edge).collect();
    assert_eq!((edges, switch.0.held()), (vec![1, 2, RANK_0], 0));
    assert!(out.packets.iter().all(|(_, packet)| *packet == result(5)));
}

#[test]
fn a_result_of_another_number_frees_nothing() {
    let mut switch = crowded();
    switch.take(1, &of(5, 1));
    assert_eq!(switch.take(SERVER, &result(4)).packets.len(), 3, "it goes to all the same");
    assert_eq!(switch.0.held(), 1);
}

#[test]
fn what_comes_twice_counts_once() {
    let mut switch = Switch::new(SHAPE);
    switch.take(1, &of(5, 1));
    assert_eq!(switch.take(1, &of(5, 1)).drops, [(1, "added up already")]);
    switch.take(RANK_0, &of(5, 0));
    let out = switch.take(2, &of(5, 2));
    assert_eq!(elements(to_server(&out)), [7, 15]);
    assert_eq!(switch.take(2, &of(5, 2)).drops, [(2, "added up already")], "whole or not");
}

#[test]
fn a_packet_that_finds_another_number_there_goes_on_as_it_is() {
    let mut switch = crowded();
    switch.take(1, &of(5, 1));
    for number in [6, 8, 4, 1] {
        let out = switch.take(2, &of(number, 2));
        assert_eq!(to_server(&out), &of(number, 2));
    }
    assert!(nothing(&switch.take(2, &of(5, 2))), "it is still the first one's");
}

#[test]
fn a_number_takes_over_from_one_that_is_a_window_before_it() {
    let mut switch = crowded();
    switch.take(1, &of(5, 1));
    assert!(nothing(&switch.take(2, &of(9, 2))), "rank 2 has the result of 5");
    assert!(nothing(&switch.take(1, &of(9, 1))));
    assert_eq!(to_server(&switch.take(1, &of(5, 1))), &of(5, 1), "what was there is late");
    let out = switch.take(RANK_0, &of(9, 0));
    assert_eq!(elements(to_server(&out)), [7, 27]);
}

#[test]
fn numbers_wrap() {
    let mut switch = crowded();
    switch.take(1, &of(u32::MAX, 1));
    assert_eq!(to_server(&switch.take(2, &of(2, 2))), &of(2, 2));
    assert!(nothing(&switch.take(2, &of(3, 2))));
}

#[test]
fn what_is_sent_again_takes_along_what_there_is_and_frees_the_aggregator() {
    let mut switch = Switch::new(SHAPE);
    switch.take(1, &of(5, 1));
    switch.take(2, &of(5, 2));
    let out = switch.take(1, &again(5, 1));
    let [(SERVER, partial), (SERVER, packet)] = &out.packets[..] else {
        panic!("two packets, found {out:?}")
    };
    assert_eq!(
        (tag(partial).workers, tag(partial).is_resent, elements(partial)),
        (0b110, false, vec![6, 10])
    );
    assert_eq!(packet, &again(5, 1));
    assert_eq!(switch.0.held(), 0);
    assert_eq!(to_server(&switch.take(1, &again(5, 1))), &again(5, 1), "it takes no aggregator");
    assert_eq!(switch.0.held(), 0);
}

#[test]
fn what_is_sent_again_leaves_other_numbers_alone() {
    let mut switch = crowded();
    switch.take(1, &of(5, 1));
    for number in [6, 4, 9, 100] {
        assert_eq!(to_server(&switch.take(2, &again(number, 2))), &again(number, 2));
    }
    assert_eq!(switch.0.held(), 1);
}

#[test]
fn numbers_in_fixed_point_saturate_and_integers_wrap() {
    for (kind, expected) in [(Kind::FixedPoint, i32::MAX), (Kind::Integers, i32::MIN)] {
        let mut switch = Switch::new(AtpShape { server_sends: false, ..SHAPE });
        let with = |mut packet: Packet| {
            let header = AtpHeader { kind, ..said(&packet) }.to_bytes();
            packet.1[..LENGTH].copy_from_slice(&header);
            packet
        };
        switch.take(1, &with(packet(0, 2, false, &[i32::MAX])));
        let out = switch.take(2, &with(packet(0, 4, false, &[1])));
        assert_eq!(elements(to_server(&out)), [expected]);
    }
}

#[test]
fn the_largest_exponent_is_that_of_the_sum() {
    for order in [[1u16, 2], [2, 1]] {
        let mut switch = Switch::new(AtpShape { server_sends: false, ..SHAPE });
        let with = |rank: u16| {
            let mut packet = of(0, rank);
            let exponent = rank as u8 * 100;
            let header = AtpHeader { exponent, ..said(&packet) }.to_bytes();
            packet.1[..LENGTH].copy_from_slice(&header);
            packet
        };
        switch.take(order[0], &with(order[0]));
        let out = switch.take(order[1], &with(order[1]));
        assert_eq!(said(to_server(&out)).exponent, 200);
    }
}

#[test]
fn ranks_that_ask_for_different_things_get_no_sum_and_the_server_hears_of_it() {
    let changes: [fn(AtpHeader) -> AtpHeader; 2] = [
        |said| AtpHeader { kind: Kind::FixedPoint, ..said },
        |said| AtpHeader { digest: said.digest ^ 1, ..said },
    ];
    for change in changes {
        let mut switch = Switch::new(AtpShape { server_sends: false, ..SHAPE });
        switch.take(1, &of(0, 1));
        let mut other = of(0, 2);
        let header = change(said(&other)).to_bytes();
        other.1[..LENGTH].copy_from_slice(&header);
        let out = switch.take(2, &other);
        assert_eq!(said(to_server(&out)).kind, Kind::Disagreement);
    }
    let mut switch = Switch::new(AtpShape { server_sends: false, ..SHAPE });
    switch.take(1, &of(0, 1));
    let out = switch.take(2, &packet(0, 4, false, &[1]));
    assert_eq!(said(to_server(&out)).kind, Kind::Disagreement, "of another length");
}

#[test]
fn what_is_no_packet_of_its_edge_is_dropped() {
    let mut switch = Switch::new(SHAPE);
    let disagreement = {
        let mut packet = of(5, 1);
        packet.1[0] = 2;
        packet
    };
    let two_numbers = (tags(SHAPE).write(6, 2, false), of(5, 1).1);
    for (edge, packet, reason) in [
        (1, of(5, 2), "of another worker"),
        (1, packet(5, 0b110, false, &[1]), "of another worker"),
        (1, packet(5, 0, false, &[1]), "of nobody"),
        (RANK_0, of(5, 1), "of another worker"),
        (1, disagreement, "no contribution"),
        (1, two_numbers, "of two numbers"),
        (1, (of(5, 1).0, vec![0; LENGTH - 1]), "no whole elements"),
        (1, (of(5, 1).0, vec![0; LENGTH + 2]), "no whole elements"),
        (1, (of(5, 1).0, vec![9; LENGTH + 4]), "no header"),
        (1, packet(5, 2, false, &[1, 2, 3]), "too long"),
    ] {
        assert_eq!(switch.take(edge, &packet).drops, [(edge, reason)]);
    }
    assert_eq!(switch.take(4, &of(5, 1)).drops, [(4, "no such edge")]);
    let mut header = Switch::header(1, of(5, 1).0);
    let Operation::DatagramSendOnlyImmediate(deth, immediate) = header.operation else {
        panic!("a datagram")
    };
    for deth in [Deth { queue_key: 1, ..deth }, Deth { source_qp: end_of(2)[1].qp, ..deth }] {
        header.operation = Operation::DatagramSendOnlyImmediate(deth, immediate);
        assert_eq!(switch.take_frame(1, &header, &of(5, 1).1).drops, [(1, "not from its rank")]);
    }
    header.operation = Operation::SendOnlyImmediate(immediate);
    assert_eq!(switch.take_frame(1, &header, &of(5, 1).1).drops, [(1, "no datagram")]);
    assert_eq!(switch.0.held(), 0);
}

#[test]
fn no_two_numbers_of_a_window_meet_in_four_times_as_many_aggregators() {
    let shape = AtpShape { window: 256, aggregators: 1024, ..SHAPE };
    for first in [0, 1000, u32::MAX - 100] {
        let mut switch = Switch::new(shape);
        for number in 0..256u32 {
            let number = first.wrapping_add(number);
            let header = AtpHeader { kind: Kind::Integers, exponent: 0, digest: 7, number };
            switch.take(1, &(tags(shape).write(number, 2, false), header.to_bytes().to_vec()));
        }
        assert_eq!(switch.0.held(), 256, "from {first} on");
    }
}

#[test]
fn its_memory_is_a_packet_for_each_aggregator() {
    assert_eq!(Switch::new(SHAPE).0.buffer_bytes(), 16 * 8);
}
