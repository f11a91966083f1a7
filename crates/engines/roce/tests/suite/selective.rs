//! Selective reliability as a specification: what is missing is sent again, and nothing else. The test plays the peer.

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, BOB_PSN, MTU, alice, receive, send, slice};
use quincunx_engine::verbs::{Completion, WorkId};
use quincunx_roce::{DropReason, QueuePairConfig, QueuePairTimer, Reliability};
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
fn an_early_packet_beyond_the_window_is_dropped_and_asked_for_later() {
    let mut bench = selective();
    bench.frame(BOB_PSN.plus(4), Operation::Send(Position::Middle), &[1; MTU]);
    assert_eq!((bench.answers().len(), &bench.out.drops[..]), (0, &[DropReason::OutOfSequence][..]));
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
