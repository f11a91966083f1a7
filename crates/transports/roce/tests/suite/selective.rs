//! Selective reliability as a specification: what is missing is sent again, and nothing else. The test plays the peer.

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, BOB_PSN, MTU, alice, receive, send, slice};
use quincunx_engine::verbs::{Completion, WorkId};
use quincunx_roce::{DropReason, QueuePairConfig, QueuePairTimer, Reliability};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{NakCode, Operation, Position, Syndrome};

const SEQUENCE_ERROR: Syndrome = Syndrome::Nak(NakCode::SequenceError);

fn selective() -> Bench {
    Bench::new(QueuePairConfig { reliability: Reliability::Selective, ..alice() })
}

#[test]
fn packets_that_come_early_are_kept_and_each_missing_one_is_asked_for_once() {
    let mut bench = selective();
    let region = bench.blank(16);
    bench.qp.post_receive(receive(1, slice(region, 0, 16)), &bench.memory).unwrap();
    bench.frame(BOB_PSN, Operation::Send(Position::First), &[1; MTU]);
    bench.frame(BOB_PSN.plus(3), Operation::Send(Position::Last), &[4; MTU]);
    let asked: Vec<_> = bench.answers().iter().map(|&(psn, syndrome, _)| (psn, syndrome)).collect();
    assert_eq!(asked, [(BOB_PSN.plus(1), SEQUENCE_ERROR), (BOB_PSN.plus(2), SEQUENCE_ERROR)]);
    bench.frame(BOB_PSN.plus(2), Operation::Send(Position::Middle), &[3; MTU]);
    bench.frame(BOB_PSN.plus(1), Operation::Send(Position::Middle), &[2; MTU]);
    let done = Completion::Received { id: WorkId(1), length: 16, immediate: None };
    assert_eq!(bench.out.completions, [done]);
    assert_eq!(bench.bytes(region, 16), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4]);
    assert_eq!(bench.answers().len(), 2);
}

#[test]
fn what_stays_missing_is_asked_for_once_more_when_half_the_time_out_has_passed() {
    let mut bench = selective();
    let timeout = bench.qp.config().retry_timeout;
    bench.frame(BOB_PSN.plus(1), Operation::Send(Position::Middle), &[1; MTU]);
    assert_eq!(bench.answers().len(), 1);
    bench.now = Instant::ZERO + (timeout / 2 - Duration::from_picos(1));
    bench.frame(BOB_PSN.plus(2), Operation::Send(Position::Middle), &[2; MTU]);
    assert_eq!(bench.answers().len(), 1);
    bench.now = Instant::ZERO + timeout / 2;
    bench.frame(BOB_PSN.plus(3), Operation::Send(Position::Last), &[3; MTU]);
    let asked: Vec<_> = bench.answers().iter().map(|&(psn, syndrome, _)| (psn, syndrome)).collect();
    assert_eq!(asked, [(BOB_PSN, SEQUENCE_ERROR); 2]);
}

#[test]
fn an_early_packet_beyond_the_window_is_dropped_and_asked_for_later() {
    let mut bench = selective();
    bench.frame(BOB_PSN.plus(4), Operation::Send(Position::Middle), &[1; MTU]);
    assert_eq!((bench.answers().len(), &bench.out.drops[..]), (0, &[DropReason::OutOfSequence][..]));
}

#[test]
fn what_was_turned_away_is_asked_for_as_soon_as_there_is_room_and_once() {
    let mut bench = selective();
    let region = bench.blank(8 * MTU);
    for id in 0..8 {
        let sink = slice(region, id * MTU, MTU);
        bench.qp.post_receive(receive(id as u64, sink), &bench.memory).unwrap();
    }
    let send = |bench: &mut Bench, number: u32| {
        bench.frame(BOB_PSN.plus(number), Operation::Send(Position::Only), &[number as u8; MTU]);
    };
    let asked = |bench: &Bench| -> Vec<_> {
        let naks = bench.answers().into_iter().filter(|(_, syndrome, _)| *syndrome == SEQUENCE_ERROR);
        naks.map(|(psn, ..)| psn).collect()
    };
    // Others on the same connection are ahead: the window of four ends before the sixth packet.
    send(&mut bench, 5);
    assert_eq!(asked(&bench), []);
    send(&mut bench, 0);
    assert_eq!(asked(&bench), [1, 2, 3, 4].map(|number| BOB_PSN.plus(number)));
    send(&mut bench, 1);
    assert_eq!(asked(&bench)[4..], [BOB_PSN.plus(5)]);
    for number in [2, 3, 4, 5] {
        send(&mut bench, number);
    }
    assert_eq!((asked(&bench).len(), bench.out.completions.len()), (5, 6));
}

#[test]
fn only_what_the_peer_asks_for_goes_out_again_and_before_anything_new() {
    let mut bench = selective();
    let region = bench.region(7 * MTU);
    bench.qp.post_send(send(1, slice(region, 0, 7 * MTU)), &bench.memory).unwrap();
    // The window of four is full.
    assert_eq!(bench.transmit_all().len(), 4);
    bench.ack(ALICE_PSN);
    bench.nak(ALICE_PSN.plus(2), NakCode::SequenceError);
    assert_eq!(bench.transmit_all(), [ALICE_PSN.plus(2), ALICE_PSN.plus(4)]);
}

#[test]
fn a_request_for_one_packet_acknowledges_none_before_it() {
    let mut bench = selective();
    let region = bench.region(2 * MTU);
    for id in 0..2 {
        let piece = slice(region, id * MTU, MTU);
        bench.qp.post_send(send(id as u64, piece), &bench.memory).unwrap();
    }
    bench.transmit_all();
    bench.nak(ALICE_PSN.plus(1), NakCode::SequenceError);
    assert_eq!(bench.out.completions, []);
}

#[test]
fn a_time_out_sends_the_oldest_packet_alone() {
    let mut bench = selective();
    let region = bench.region(3 * MTU);
    bench.qp.post_send(send(1, slice(region, 0, 3 * MTU)), &bench.memory).unwrap();
    bench.transmit_all();
    bench.ack(ALICE_PSN);
    bench.fire(QueuePairTimer::Retry);
    assert_eq!(bench.transmit_all(), [ALICE_PSN.plus(1)]);
}
