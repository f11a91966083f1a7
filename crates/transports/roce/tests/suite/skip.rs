//! Skipping numbers in one direction of a connection (EPIC 4.3, group PSN synchronisation, "RoCE-refined").

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, BOB_PSN, alice, receive, send, slice};
use quincunx_engine::verbs::{Completion, RegionId, WorkId};
use quincunx_roce::{DropReason, PostError, QueuePairConfig, Reliability};
use quincunx_units::Packets;
use quincunx_wire::{NakCode, Operation, Position, Psn, Syndrome};

const ONLY: Operation = Operation::Send(Position::Only);
const EMPTY: quincunx_engine::verbs::Slice =
    quincunx_engine::verbs::Slice { region: RegionId(0), offset: 0, length: 0 };
const SEQUENCE_ERROR: Syndrome = Syndrome::Nak(NakCode::SequenceError);

/// Numbers that are skipped: enough for both directions to wrap.
const GAP: u32 = 40;

fn skip(bench: &mut Bench, sends: u32, receives: u32) -> Result<(), PostError> {
    let done = bench.qp.skip(sends, receives, &mut bench.out);
    bench.qp.assert_invariants();
    done
}

fn post(bench: &mut Bench, id: u64) {
    bench.qp.post_send(send(id, EMPTY), &bench.memory).unwrap();
}

fn expect(bench: &mut Bench, id: u64) {
    bench.qp.post_receive(receive(id, EMPTY), &bench.memory).unwrap();
}

#[test]
fn each_direction_goes_on_behind_what_it_skips() {
    let mut bench = Bench::default_alice();
    skip(&mut bench, GAP, 2 * GAP).unwrap();
    let (send_psn, expected) = (ALICE_PSN.plus(GAP), BOB_PSN.plus(2 * GAP));
    assert_eq!((bench.qp.send_psn(), bench.qp.expected_psn()), (send_psn, expected));
    post(&mut bench, 1);
    assert_eq!(bench.transmit_all(), [send_psn]);
    bench.ack(send_psn);
    expect(&mut bench, 2);
    bench.frame(expected, ONLY, &[]);
    assert_eq!(
        bench.out.completions,
        [
            Completion::Sent { id: WorkId(1) },
            Completion::Received { id: WorkId(2), length: 0, immediate: None }
        ]
    );
}

#[test]
fn what_was_posted_before_keeps_its_numbers_and_asks_for_its_acknowledge() {
    let mut bench = Bench::default_alice();
    post(&mut bench, 1);
    skip(&mut bench, 1, 0).unwrap();
    post(&mut bench, 2);
    assert_eq!(bench.transmit_all(), [ALICE_PSN, ALICE_PSN.plus(2)]);
    assert!(bench.out.frames.iter().all(|(header, _)| header.acknowledge_request));
    bench.ack(ALICE_PSN);
    assert_eq!(bench.out.completions, [Completion::Sent { id: WorkId(1) }]);
    bench.ack(ALICE_PSN.plus(2));
    assert_eq!(bench.out.completions.len(), 2);
}

#[test]
fn the_window_reaches_over_what_is_skipped() {
    let mut bench = Bench::new(QueuePairConfig { window: Packets::new(3), ..alice() });
    post(&mut bench, 1);
    skip(&mut bench, 3, 0).unwrap();
    post(&mut bench, 2);
    assert_eq!(bench.transmit_all(), [ALICE_PSN]);
    bench.ack(ALICE_PSN);
    assert_eq!(bench.transmit_all(), [ALICE_PSN.plus(4)]);
}

#[test]
fn an_acknowledge_in_what_is_skipped_is_one_of_what_comes_before() {
    let mut bench = Bench::new(QueuePairConfig { window: Packets::new(8), ..alice() });
    post(&mut bench, 1);
    skip(&mut bench, 3, 0).unwrap();
    post(&mut bench, 2);
    bench.transmit_all();
    bench.ack(ALICE_PSN.plus(2));
    assert_eq!(bench.out.completions, [Completion::Sent { id: WorkId(1) }]);
    bench.nak(ALICE_PSN.plus(2), NakCode::SequenceError);
    assert_eq!(bench.transmit_all(), [ALICE_PSN.plus(4)]);
}

#[test]
fn a_selective_request_for_what_is_skipped_brings_nothing() {
    let mut bench = Bench::new(QueuePairConfig { reliability: Reliability::Selective, ..alice() });
    post(&mut bench, 1);
    skip(&mut bench, 3, 0).unwrap();
    post(&mut bench, 2);
    bench.transmit_all();
    bench.nak(ALICE_PSN.plus(2), NakCode::SequenceError);
    assert_eq!(bench.transmit_all(), []);
    assert_eq!(bench.out.drops, [DropReason::StaleAcknowledge]);
}

#[test]
fn receives_skip_behind_the_message_that_was_posted_last() {
    let mut bench = Bench::default_alice();
    expect(&mut bench, 1);
    skip(&mut bench, 0, GAP).unwrap();
    expect(&mut bench, 2);
    assert_eq!(bench.qp.expected_psn(), BOB_PSN);
    bench.frame(BOB_PSN, ONLY, &[]);
    assert_eq!(bench.qp.expected_psn(), BOB_PSN.plus(1 + GAP));
    bench.frame(BOB_PSN.plus(1 + GAP), ONLY, &[]);
    assert_eq!(bench.out.completions.len(), 2);
}

#[test]
fn acknowledges_name_what_was_executed_not_what_is_skipped_behind_it() {
    let mut bench = Bench::default_alice();
    expect(&mut bench, 1);
    skip(&mut bench, 0, GAP).unwrap();
    bench.frame(BOB_PSN, ONLY, &[]);
    bench.frame(BOB_PSN, ONLY, &[]);
    assert_eq!(bench.out.drops, [DropReason::Duplicate]);
    assert_eq!(bench.answers().last(), Some(&(BOB_PSN, Syndrome::Ack(31), 1)));
}

#[test]
fn receives_may_skip_in_the_middle_of_a_message() {
    let mut bench = Bench::default_alice();
    let region = bench.blank(8);
    bench.qp.post_receive(receive(1, slice(region, 0, 8)), &bench.memory).unwrap();
    bench.frame(BOB_PSN, Operation::Send(Position::First), &[1; 4]);
    skip(&mut bench, 0, GAP).unwrap();
    bench.frame(BOB_PSN.plus(1), Operation::Send(Position::Last), &[2; 4]);
    assert_eq!(bench.bytes(region, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(bench.qp.expected_psn(), BOB_PSN.plus(2 + GAP));
}

#[test]
fn it_is_refused_after_a_failure() {
    let mut bench = Bench::default_alice();
    bench.frame(BOB_PSN, Operation::Send(Position::Middle), &[]);
    assert_eq!(skip(&mut bench, 1, 1), Err(PostError::Failed));
}

#[test]
fn a_peer_that_went_ahead_is_told_at_once_where_to_go_back_to() {
    let mut bench = Bench::default_alice();
    let ahead = BOB_PSN.plus(GAP);
    bench.frame(ahead, ONLY, &[]);
    skip(&mut bench, 0, GAP).unwrap();
    assert_eq!(bench.answers(), [(BOB_PSN, SEQUENCE_ERROR, 0), (ahead, SEQUENCE_ERROR, 0)]);
}

#[test]
fn what_came_early_is_kept_and_its_first_packet_asked_for_once_more() {
    let selective = QueuePairConfig { reliability: Reliability::Selective, ..alice() };
    let mut bench = Bench::new(selective);
    let ahead = BOB_PSN.plus(2);
    bench.frame(ahead, ONLY, &[]);
    bench.frame(ahead.plus(1), ONLY, &[]);
    skip(&mut bench, 0, 2).unwrap();
    assert_eq!(bench.answers().last(), Some(&(ahead, SEQUENCE_ERROR, 0)));
    expect(&mut bench, 1);
    expect(&mut bench, 2);
    bench.frame(ahead, ONLY, &[]);
    assert_eq!(bench.out.completions.len(), 2);
}

#[test]
fn a_peer_that_did_not_go_ahead_is_told_nothing() {
    let mut bench = Bench::default_alice();
    expect(&mut bench, 1);
    bench.frame(BOB_PSN.plus(GAP), ONLY, &[]);
    bench.frame(BOB_PSN, ONLY, &[]);
    let before = bench.answers();
    skip(&mut bench, 0, GAP).unwrap();
    assert_eq!(bench.answers(), before);
}

#[test]
fn a_peer_that_went_ahead_sends_again_without_a_time_out() {
    // Bob is ahead: his packet meets an Alice that has not skipped yet.
    let mut bob = Bench::new(crate::common::mirrored(QueuePairConfig { retry_count: 0, ..alice() }));
    skip(&mut bob, GAP, 0).unwrap();
    let ahead = BOB_PSN.plus(GAP);
    post(&mut bob, 1);
    assert_eq!(bob.transmit_all(), [ahead]);
    // Alice's first answer names the number before the gap, her second the one behind it.
    bob.nak(BOB_PSN, NakCode::SequenceError);
    assert_eq!(bob.transmit_all(), [ahead]);
    bob.nak(ahead, NakCode::SequenceError);
    assert_eq!(bob.transmit_all(), [ahead]);
    bob.ack(ahead);
    assert_eq!(bob.out.completions, [Completion::Sent { id: WorkId(1) }]);
}

#[test]
fn gaps_of_more_than_half_the_psn_space_go_on_and_on() {
    let mut bench = Bench::default_alice();
    let gap = (1 << 23) + 1;
    let mut psn = BOB_PSN;
    for _ in 0..10 {
        psn = psn.plus(gap);
        skip(&mut bench, gap, gap).unwrap();
        bench.frame(psn.minus(1), ONLY, &[]);
    }
    assert_eq!(bench.out.drops, [DropReason::Duplicate; 10]);
    post(&mut bench, 1);
    let sent: Psn = bench.qp.send_psn().minus(1);
    assert_eq!(bench.transmit_all(), [sent]);
    bench.ack(sent);
    assert_eq!(bench.out.completions, [Completion::Sent { id: WorkId(1) }]);
}

#[test]
fn a_message_that_the_peer_skips_leaves_its_place_to_the_next_one() {
    let mut bench = Bench::default_alice();
    expect(&mut bench, 1);
    bench.qp.skip_next(Packets::new(GAP), &mut bench.out).unwrap();
    bench.qp.assert_invariants();
    let expected = BOB_PSN.plus(GAP);
    assert_eq!(bench.qp.expected_psn(), expected);
    bench.frame(expected, ONLY, &[]);
    assert_eq!(bench.out.completions, [Completion::Received { id: WorkId(1), length: 0, immediate: None }]);
}

#[test]
fn nothing_is_skipped_inside_a_message() {
    let mut bench = Bench::default_alice();
    let length = 2 * alice().mtu;
    let region = bench.blank(length);
    let sink = slice(region, 0, length);
    bench.qp.post_receive(receive(1, sink), &bench.memory).unwrap();
    bench.frame(BOB_PSN, Operation::Send(Position::First), &vec![0; alice().mtu]);
    assert_eq!(bench.qp.skip_next(Packets::new(GAP), &mut bench.out), Err(PostError::MessageInProgress));
    assert_eq!(bench.qp.expected_psn(), BOB_PSN.plus(1));
}
