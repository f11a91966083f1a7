//! Setting both directions of a connection to one PSN (EPIC 4.3, group PSN synchronisation, "RoCE-refined").

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, BOB_PSN, alice, receive, send, slice};
use quincunx_engine::verbs::{Completion, RegionId, WorkId};
use quincunx_roce::{DropReason, PostError, QueuePairConfig};
use quincunx_wire::{NakCode, Operation, Position, Psn, Syndrome};

const ONLY: Operation = Operation::Send(Position::Only);
const EMPTY: quincunx_engine::verbs::Slice =
    quincunx_engine::verbs::Slice { region: RegionId(0), offset: 0, length: 0 };

/// A PSN behind the wrap, some way ahead of both directions.
const AHEAD: Psn = Psn::new(40);

fn synchronize(bench: &mut Bench, psn: Psn) -> Result<(), PostError> {
    let done = bench.qp.synchronize(psn, &mut bench.out);
    bench.qp.assert_invariants();
    done
}

#[test]
fn both_directions_go_on_at_the_new_psn() {
    let mut bench = Bench::default_alice();
    synchronize(&mut bench, AHEAD).unwrap();
    assert_eq!((bench.qp.send_psn(), bench.qp.expected_psn()), (AHEAD, AHEAD));
    bench.qp.post_send(send(1, EMPTY), &bench.memory).unwrap();
    assert_eq!(bench.transmit_all(), [AHEAD]);
    bench.ack(AHEAD);
    bench.qp.post_receive(receive(2, EMPTY), &bench.memory).unwrap();
    bench.frame(AHEAD, ONLY, &[]);
    assert_eq!(
        bench.out.completions,
        [
            Completion::Sent { id: WorkId(1) },
            Completion::Received { id: WorkId(2), length: 0, immediate: None }
        ]
    );
}

#[test]
fn frames_of_the_old_numbering_are_duplicates_and_stale() {
    let mut bench = Bench::default_alice();
    synchronize(&mut bench, AHEAD).unwrap();
    bench.qp.post_send(send(1, EMPTY), &bench.memory).unwrap();
    bench.transmit_all();
    bench.frame(BOB_PSN, ONLY, &[]);
    bench.ack(ALICE_PSN);
    assert_eq!(bench.out.drops, [DropReason::Duplicate, DropReason::StaleAcknowledge]);
    assert_eq!(bench.answers(), [(AHEAD.minus(1), Syndrome::Ack(31), 0)]);
}

#[test]
fn it_is_refused_while_sends_are_outstanding() {
    let mut bench = Bench::default_alice();
    bench.qp.post_send(send(1, EMPTY), &bench.memory).unwrap();
    assert_eq!(synchronize(&mut bench, AHEAD), Err(PostError::SendsOutstanding));
    bench.transmit_all();
    assert_eq!(synchronize(&mut bench, AHEAD), Err(PostError::SendsOutstanding));
    assert_eq!(bench.qp.expected_psn(), BOB_PSN);
    bench.ack(ALICE_PSN);
    assert_eq!(synchronize(&mut bench, AHEAD), Ok(()));
}

#[test]
fn it_is_refused_in_the_middle_of_a_message_whose_numbering_it_would_break() {
    let mut bench = Bench::default_alice();
    let region = bench.blank(8);
    bench.qp.post_receive(receive(1, slice(region, 0, 8)), &bench.memory).unwrap();
    bench.frame(BOB_PSN, Operation::Send(Position::First), &[1; 4]);
    assert_eq!(synchronize(&mut bench, AHEAD), Err(PostError::MessageInProgress));
    assert_eq!(synchronize(&mut bench, BOB_PSN.plus(1)), Ok(()));
    bench.frame(BOB_PSN.plus(1), Operation::Send(Position::Last), &[2; 4]);
    assert_eq!(bench.bytes(region, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn it_is_refused_after_a_failure() {
    let mut bench = Bench::default_alice();
    bench.frame(BOB_PSN, Operation::Send(Position::Middle), &[]);
    assert_eq!(synchronize(&mut bench, AHEAD), Err(PostError::Failed));
}

#[test]
fn a_peer_that_went_ahead_is_told_at_once_where_to_go_back_to() {
    let mut bench = Bench::default_alice();
    bench.frame(AHEAD, ONLY, &[]);
    synchronize(&mut bench, AHEAD).unwrap();
    let sequence_error = Syndrome::Nak(NakCode::SequenceError);
    assert_eq!(bench.answers(), [(BOB_PSN, sequence_error, 0), (AHEAD, sequence_error, 0)]);
}

#[test]
fn a_peer_that_did_not_go_ahead_is_told_nothing() {
    let mut bench = Bench::default_alice();
    bench.qp.post_receive(receive(1, EMPTY), &bench.memory).unwrap();
    bench.frame(AHEAD, ONLY, &[]);
    bench.frame(BOB_PSN, ONLY, &[]);
    let before = bench.answers();
    synchronize(&mut bench, AHEAD).unwrap();
    assert_eq!(bench.answers(), before);
}

#[test]
fn a_peer_that_went_ahead_sends_again_without_a_time_out() {
    // Bob is ahead: his packet meets an Alice that has not synchronised yet.
    let mut bob = Bench::new(crate::common::mirrored(QueuePairConfig { retry_count: 0, ..alice() }));
    synchronize(&mut bob, AHEAD).unwrap();
    bob.qp.post_send(send(1, EMPTY), &bob.memory).unwrap();
    assert_eq!(bob.transmit_all(), [AHEAD]);
    // Alice's first answer names the old numbering, her second the new one.
    bob.nak(BOB_PSN, NakCode::SequenceError);
    assert_eq!(bob.transmit_all(), [AHEAD]);
    bob.nak(AHEAD, NakCode::SequenceError);
    assert_eq!(bob.transmit_all(), [AHEAD]);
    bob.ack(AHEAD);
    assert_eq!(bob.out.completions, [Completion::Sent { id: WorkId(1) }]);
}

#[test]
fn steps_of_more_than_half_the_psn_space_go_on_and_on() {
    let mut bench = Bench::default_alice();
    let mut psn = AHEAD;
    for _ in 0..10 {
        psn = psn.plus((1 << 23) + 1);
        synchronize(&mut bench, psn).unwrap();
        bench.frame(psn.minus(1), ONLY, &[]);
    }
    assert_eq!(bench.out.drops, [DropReason::Duplicate; 10]);
    bench.qp.post_send(send(1, EMPTY), &bench.memory).unwrap();
    assert_eq!(bench.transmit_all(), [psn]);
    bench.ack(psn);
    assert_eq!(bench.out.completions, [Completion::Sent { id: WorkId(1) }]);
}
