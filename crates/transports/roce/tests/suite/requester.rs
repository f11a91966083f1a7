//! The requester as a specification: one rule a test. The test plays the peer.

use crate::common::bench::Bench;
use crate::common::{ALICE, ALICE_PSN, BOB, MTU, RETRY_TIMEOUT, alice, receive, send, slice, write};
use quincunx_engine::verbs::{Completion, Failure, RegionId, SendRequest, WorkId};
use quincunx_roce::{DropReason, INFINITE_RNR_RETRIES, PostError, QueuePairConfig, QueuePairTimer};
use quincunx_units::{Duration, Packets};
use quincunx_wire::{NakCode, Operation, Position, Psn, Reth, Syndrome};

/// The PSN of Alice's packet number `index`.
fn psn(index: u32) -> Psn {
    ALICE_PSN.plus(index)
}

fn psns(indices: impl IntoIterator<Item = u32>) -> Vec<Psn> {
    indices.into_iter().map(psn).collect()
}

fn sent(id: u64) -> Completion {
    Completion::Sent { id: WorkId(id) }
}

fn failed(id: u64, failure: Failure) -> Completion {
    Completion::Failed { id: WorkId(id), failure }
}

/// A bench whose Alice has posted messages of so many packets, numbered from 1.
fn posted(config: QueuePairConfig, packets: &[usize]) -> Bench {
    let mut bench = Bench::new(config);
    let region = bench.region(64);
    for (index, &packets) in packets.iter().enumerate() {
        let request = send(index as u64 + 1, slice(region, 0, packets * MTU));
        bench.qp.post_send(request, &bench.memory).expect("the slice is registered");
    }
    bench
}

fn operations(bench: &Bench) -> Vec<Operation> {
    bench.out.frames.iter().map(|(header, _)| header.operation).collect()
}

fn payloads(bench: &Bench) -> Vec<&[u8]> {
    bench.out.frames.iter().map(|(_, payload)| payload.as_slice()).collect()
}

fn acknowledge_requests(bench: &Bench) -> Vec<bool> {
    bench.out.frames.iter().map(|(header, _)| header.acknowledge_request).collect()
}

#[test]
fn frames_carry_the_addresses_of_the_connection() {
    let mut bench = posted(alice(), &[1]);
    bench.transmit_all();
    let (header, _) = &bench.out.frames[0];
    assert_eq!((header.source, header.destination), (ALICE.ip, BOB.ip));
    assert_eq!((header.destination_qp, header.source_port), (BOB.qp, 4791));
}

#[test]
fn a_send_is_cut_into_first_middle_and_last_packets() {
    let mut bench = Bench::default_alice();
    let region = bench.region(16);
    bench.qp.post_send(send(1, slice(region, 1, 2 * MTU + 1)), &bench.memory).unwrap();
    assert_eq!(bench.transmit_all(), psns(0..3));
    assert_eq!(operations(&bench), [Position::First, Position::Middle, Position::Last].map(Operation::Send));
    assert_eq!(payloads(&bench), [&[1, 2, 3, 4][..], &[5, 6, 7, 8], &[9]]);
}

#[test]
fn a_message_of_one_full_packet_is_an_only_packet() {
    let mut bench = posted(alice(), &[1]);
    bench.transmit_all();
    assert_eq!(operations(&bench), [Operation::Send(Position::Only)]);
    assert_eq!(payloads(&bench), [&[0, 1, 2, 3]]);
}

#[test]
fn a_message_of_no_bytes_is_one_only_packet_and_needs_no_region() {
    let mut bench = Bench::default_alice();
    bench.qp.post_send(send(1, slice(RegionId(9), 0, 0)), &bench.memory).unwrap();
    assert_eq!(bench.transmit_all(), psns([0]));
    assert_eq!(operations(&bench), [Operation::Send(Position::Only)]);
    assert_eq!(payloads(&bench), [&[] as &[u8]]);
}

#[test]
fn an_immediate_rides_on_the_last_packet_of_a_send() {
    let mut bench = Bench::default_alice();
    let region = bench.region(16);
    let long = SendRequest { immediate: Some(7), ..send(1, slice(region, 0, 2 * MTU)) };
    let short = SendRequest { immediate: Some(8), ..send(2, slice(region, 0, 1)) };
    bench.qp.post_send(long, &bench.memory).unwrap();
    bench.qp.post_send(short, &bench.memory).unwrap();
    bench.transmit_all();
    assert_eq!(
        operations(&bench),
        [Operation::Send(Position::First), Operation::SendLastImmediate(7), Operation::SendOnlyImmediate(8)]
    );
}

#[test]
fn the_first_packet_of_a_write_says_where_and_how_much() {
    let mut bench = Bench::default_alice();
    let region = bench.region(16);
    let request = write(1, slice(region, 0, 2 * MTU + 1), RegionId(5), 0x100);
    bench.qp.post_send(request, &bench.memory).unwrap();
    let request = write(2, slice(region, 0, 2), RegionId(5), 0x200);
    bench.qp.post_send(request, &bench.memory).unwrap();
    bench.transmit_all();
    let reth = |virtual_address, dma_length| Reth { virtual_address, remote_key: 5, dma_length };
    assert_eq!(
        operations(&bench),
        [
            Operation::WriteFirst(reth(0x100, 9)),
            Operation::WriteMiddle,
            Operation::WriteLast,
            Operation::WriteOnly(reth(0x200, 2))
        ]
    );
}

#[test]
fn an_immediate_rides_on_the_last_packet_of_a_write() {
    let mut bench = Bench::default_alice();
    let region = bench.region(16);
    for (id, length) in [(1, MTU + 1), (2, 0)] {
        let request = write(id, slice(region, 0, length), RegionId(5), 0);
        let request = SendRequest { immediate: Some(id as u32), ..request };
        bench.qp.post_send(request, &bench.memory).unwrap();
    }
    bench.transmit_all();
    let reth = |dma_length| Reth { virtual_address: 0, remote_key: 5, dma_length };
    assert_eq!(
        operations(&bench),
        [
            Operation::WriteFirst(reth(5)),
            Operation::WriteLastImmediate(1),
            Operation::WriteOnlyImmediate(reth(0), 2)
        ]
    );
}

#[test]
fn every_nth_packet_of_a_message_and_its_last_ask_for_an_acknowledge() {
    let config = QueuePairConfig { acknowledge_every: Packets::new(2), window: Packets::new(9), ..alice() };
    let mut bench = posted(config, &[5]);
    bench.transmit_all();
    assert_eq!(acknowledge_requests(&bench), [false, true, false, true, true]);
}

#[test]
fn a_short_message_that_another_follows_at_once_leaves_the_asking_to_it() {
    let config = QueuePairConfig { acknowledge_every: Packets::new(2), window: Packets::new(9), ..alice() };
    let mut bench = posted(config, &[1, 1, 1]);
    bench.transmit_all();
    // The second is the second packet since anybody asked, the third is the last of all.
    assert_eq!(acknowledge_requests(&bench), [false, true, true]);
}

#[test]
fn the_packet_that_fills_the_window_asks_for_an_acknowledge() {
    let mut bench = posted(alice(), &[6]);
    assert_eq!(bench.transmit_all(), psns(0..4));
    assert_eq!(acknowledge_requests(&bench), [false, false, false, true]);
}

#[test]
fn a_transmit_slot_sends_at_most_one_packet() {
    let mut bench = posted(alice(), &[3]);
    bench.qp.transmit(quincunx_units::Instant::ZERO, &bench.memory, &mut bench.out);
    assert_eq!(bench.out.frames.len(), 1);
}

#[test]
fn an_acknowledge_opens_the_window() {
    let mut bench = posted(alice(), &[6]);
    bench.transmit_all();
    assert!(!bench.qp.wants_transmit());
    bench.ack(psn(1));
    assert_eq!(bench.transmit_all(), psns(4..6));
}

#[test]
fn one_acknowledge_completes_all_messages_before_it_in_order() {
    let mut bench = posted(alice(), &[1, 1, 1, 1]);
    bench.transmit_all();
    bench.ack(psn(2));
    assert_eq!(bench.out.completions, [sent(1), sent(2), sent(3)]);
}

#[test]
fn a_message_completes_only_when_its_last_packet_is_acknowledged() {
    let mut bench = posted(alice(), &[2]);
    bench.transmit_all();
    bench.ack(psn(0));
    assert_eq!(bench.out.completions, []);
    bench.ack(psn(1));
    assert_eq!(bench.out.completions, [sent(1)]);
}

#[test]
fn an_acknowledge_of_what_was_acknowledged_or_never_sent_is_stale() {
    let mut bench = posted(alice(), &[2, 4]);
    bench.transmit_all();
    bench.ack(psn(1));
    for stale in [psn(0).minus(1), psn(0), psn(1), psn(4), psn(5), psn(1 << 23)] {
        bench.ack(stale);
    }
    assert_eq!(bench.out.drops, [DropReason::StaleAcknowledge; 6]);
    assert_eq!(bench.out.completions, [sent(1)]);
}

#[test]
fn a_sequence_error_sends_again_from_its_psn_and_acknowledges_everything_before() {
    let mut bench = posted(alice(), &[1, 3]);
    bench.transmit_all();
    bench.nak(psn(2), NakCode::SequenceError);
    assert_eq!(bench.out.completions, [sent(1)]);
    assert_eq!(bench.transmit_all(), psns(2..4));
}

#[test]
fn a_packet_sent_again_is_the_same_packet() {
    let mut bench = posted(alice(), &[1, 3]);
    bench.transmit_all();
    let before = bench.out.frames.clone();
    bench.nak(psn(0), NakCode::SequenceError);
    bench.out.frames.clear();
    bench.transmit_all();
    assert_eq!(bench.out.frames, before);
}

#[test]
fn a_sequence_error_from_before_the_window_sends_everything_outstanding_again() {
    let mut bench = posted(alice(), &[1, 3]);
    bench.transmit_all();
    bench.ack(psn(1));
    bench.nak(psn(0), NakCode::SequenceError);
    assert_eq!(bench.transmit_all(), psns(2..4));
    assert_eq!(bench.out.completions, [sent(1)]);
}

#[test]
fn a_sequence_error_for_a_packet_never_sent_is_stale() {
    let mut bench = posted(alice(), &[2]);
    bench.transmit_all();
    bench.nak(psn(2), NakCode::SequenceError);
    assert_eq!(bench.out.drops, [DropReason::StaleAcknowledge]);
    assert_eq!(bench.transmit_all(), []);
}

#[test]
fn an_acknowledge_overtaken_by_a_retransmission_spares_the_packets_it_covers() {
    let mut bench = posted(alice(), &[4]);
    bench.transmit_all();
    bench.nak(psn(0), NakCode::SequenceError);
    bench.ack(psn(2));
    assert_eq!(bench.transmit_all(), psns([3]));
}

#[test]
fn a_time_out_sends_everything_outstanding_again() {
    let mut bench = posted(alice(), &[1, 3]);
    bench.transmit_all();
    bench.ack(psn(0));
    bench.fire(QueuePairTimer::Retry);
    assert_eq!(bench.transmit_all(), psns(1..4));
}

#[test]
fn the_retry_timer_runs_while_packets_are_outstanding() {
    let mut bench = posted(alice(), &[2]);
    assert!(bench.out.armed.is_empty());
    bench.transmit_all();
    assert_eq!(bench.out.armed.get(&QueuePairTimer::Retry), Some(&RETRY_TIMEOUT));
    bench.ack(psn(0));
    assert_eq!(bench.out.armed.get(&QueuePairTimer::Retry), Some(&RETRY_TIMEOUT));
    bench.ack(psn(1));
    assert!(bench.out.armed.is_empty());
}

#[test]
fn a_retransmission_is_watched_by_the_timer_again() {
    let mut bench = posted(alice(), &[1]);
    bench.transmit_all();
    bench.fire(QueuePairTimer::Retry);
    bench.transmit_all();
    assert!(bench.out.armed.contains_key(&QueuePairTimer::Retry));
}

#[test]
fn an_expiry_that_was_cancelled_does_nothing() {
    let mut bench = posted(alice(), &[1, 1]);
    bench.fire(QueuePairTimer::Retry);
    bench.fire(QueuePairTimer::ReceiverNotReady);
    assert_eq!(bench.transmit_all(), psns(0..2));
    bench.ack(psn(1));
    for _ in 0..5 {
        bench.fire(QueuePairTimer::Retry);
    }
    assert!(!bench.qp.has_failed());
    assert_eq!(bench.transmit_all(), []);
}

#[test]
fn silence_beyond_the_retry_count_fails_the_oldest_message_and_flushes_the_rest() {
    let mut bench = posted(alice(), &[1, 1]);
    let region = bench.blank(4);
    bench.qp.post_receive(receive(9, slice(region, 0, 4)), &bench.memory).unwrap();
    for _ in 0..2 {
        bench.transmit_all();
        bench.fire(QueuePairTimer::Retry);
        assert_eq!(bench.out.completions, []);
    }
    bench.transmit_all();
    bench.fire(QueuePairTimer::Retry);
    assert_eq!(
        bench.out.completions,
        [failed(1, Failure::RetryExceeded), failed(2, Failure::Flushed), failed(9, Failure::Flushed)]
    );
    assert!(bench.qp.has_failed());
}

#[test]
fn progress_restores_the_retry_budget() {
    let mut bench = posted(alice(), &[3]);
    for index in 0..3 {
        for _ in 0..2 {
            bench.transmit_all();
            bench.fire(QueuePairTimer::Retry);
        }
        bench.transmit_all();
        bench.ack(psn(index));
    }
    assert_eq!(bench.out.completions, [sent(1)]);
}

#[test]
fn sequence_errors_do_not_use_up_the_retry_budget() {
    let mut bench = posted(alice(), &[2]);
    for _ in 0..10 {
        bench.transmit_all();
        bench.nak(psn(0), NakCode::SequenceError);
    }
    assert!(!bench.qp.has_failed());
}

#[test]
fn a_failed_queue_pair_takes_no_work_sends_nothing_and_runs_no_timer() {
    let mut bench = posted(alice(), &[6]);
    bench.transmit_all();
    bench.nak(psn(0), NakCode::RemoteOperational);
    let empty = slice(RegionId(0), 0, 0);
    assert_eq!(bench.qp.post_send(send(9, empty), &bench.memory), Err(PostError::Failed));
    assert_eq!(bench.qp.post_receive(receive(9, empty), &bench.memory), Err(PostError::Failed));
    assert!(!bench.qp.wants_transmit());
    assert!(bench.out.armed.is_empty());
    bench.ack(psn(0));
    assert_eq!(bench.out.drops, [DropReason::Failed]);
}

#[test]
fn a_refusal_fails_the_message_of_its_packet_after_completing_those_before() {
    for (code, failure) in [
        (NakCode::InvalidRequest, Failure::InvalidRequest),
        (NakCode::RemoteAccess, Failure::RemoteAccess),
        (NakCode::RemoteOperational, Failure::RemoteOperational),
    ] {
        let mut bench = posted(alice(), &[1, 1, 1]);
        bench.transmit_all();
        bench.nak(psn(1), code);
        assert_eq!(bench.out.completions, [sent(1), failed(2, failure), failed(3, Failure::Flushed)]);
    }
}

#[test]
fn a_refusal_of_nothing_outstanding_is_stale() {
    let mut bench = posted(alice(), &[1, 1]);
    bench.transmit_all();
    bench.ack(psn(0));
    bench.nak(psn(0), NakCode::InvalidRequest);
    bench.nak(psn(2), NakCode::InvalidRequest);
    assert_eq!(bench.out.drops, [DropReason::StaleAcknowledge; 2]);
    assert!(!bench.qp.has_failed());
}

#[test]
fn receiver_not_ready_waits_the_coded_time_and_then_sends_again() {
    let mut bench = posted(alice(), &[1, 2]);
    bench.transmit_all();
    bench.answer(psn(1), Syndrome::ReceiverNotReady(14));
    assert_eq!(bench.out.completions, [sent(1)]);
    assert!(!bench.qp.wants_transmit());
    assert_eq!(
        bench.out.armed.iter().collect::<Vec<_>>(),
        [(&QueuePairTimer::ReceiverNotReady, &Duration::from_micros(1_280))]
    );
    bench.fire(QueuePairTimer::ReceiverNotReady);
    assert_eq!(bench.transmit_all(), psns(1..3));
    assert!(bench.out.armed.contains_key(&QueuePairTimer::Retry));
}

#[test]
fn receiver_not_ready_beyond_the_retry_count_fails_the_message() {
    let mut bench = posted(alice(), &[1, 1]);
    for _ in 0..2 {
        bench.transmit_all();
        bench.answer(psn(0), Syndrome::ReceiverNotReady(1));
        bench.fire(QueuePairTimer::ReceiverNotReady);
    }
    bench.transmit_all();
    bench.answer(psn(0), Syndrome::ReceiverNotReady(1));
    assert_eq!(
        bench.out.completions,
        [failed(1, Failure::ReceiverNotReadyRetryExceeded), failed(2, Failure::Flushed)]
    );
    assert!(bench.out.armed.is_empty());
}

#[test]
fn progress_restores_the_receiver_not_ready_budget() {
    let mut bench = posted(alice(), &[1, 1]);
    for index in 0..2 {
        for _ in 0..2 {
            bench.transmit_all();
            bench.answer(psn(index), Syndrome::ReceiverNotReady(1));
            bench.fire(QueuePairTimer::ReceiverNotReady);
        }
        bench.transmit_all();
        bench.ack(psn(index));
    }
    assert_eq!(bench.out.completions, [sent(1), sent(2)]);
}

#[test]
fn a_receiver_not_ready_retry_count_of_seven_means_for_ever() {
    let mut bench = posted(QueuePairConfig { rnr_retry_count: INFINITE_RNR_RETRIES, ..alice() }, &[1]);
    for _ in 0..50 {
        bench.transmit_all();
        bench.answer(psn(0), Syndrome::ReceiverNotReady(1));
        bench.fire(QueuePairTimer::ReceiverNotReady);
    }
    assert!(!bench.qp.has_failed());
}

#[test]
fn a_second_answer_during_the_wait_costs_no_retry() {
    let mut bench = posted(alice(), &[1]);
    bench.transmit_all();
    for _ in 0..9 {
        bench.answer(psn(0), Syndrome::ReceiverNotReady(1));
    }
    assert_eq!(bench.out.drops, [DropReason::StaleAcknowledge; 8]);
    assert!(!bench.qp.has_failed());
}

#[test]
fn an_acknowledge_during_the_wait_ends_it() {
    let mut bench = posted(alice(), &[1, 1]);
    bench.transmit_all();
    bench.answer(psn(0), Syndrome::ReceiverNotReady(1));
    bench.ack(psn(0));
    assert!(!bench.out.armed.contains_key(&QueuePairTimer::ReceiverNotReady));
    assert_eq!(bench.transmit_all(), psns([1]));
}

#[test]
fn a_sequence_error_during_the_wait_does_not_end_it() {
    let mut bench = posted(alice(), &[2]);
    bench.transmit_all();
    bench.answer(psn(0), Syndrome::ReceiverNotReady(1));
    bench.nak(psn(0), NakCode::SequenceError);
    assert!(!bench.qp.wants_transmit());
}

#[test]
fn psns_wrap_at_24_bits() {
    let mut bench = posted(alice(), &[4]);
    let values: Vec<_> = bench.transmit_all().iter().map(|psn| psn.value()).collect();
    assert_eq!(values, [0x00ff_fffe, 0x00ff_ffff, 0, 1]);
    bench.ack(Psn::new(1));
    assert_eq!(bench.out.completions, [sent(1)]);
}

#[test]
fn a_slice_outside_registered_memory_is_refused_at_the_post() {
    let mut bench = Bench::default_alice();
    let region = bench.region(8);
    for bad in [slice(region, 5, 4), slice(region, usize::MAX, 2), slice(RegionId(7), 0, 1)] {
        let refused = Err(PostError::NotRegistered(bad));
        assert_eq!(bench.qp.post_send(send(1, bad), &bench.memory), refused);
        assert_eq!(bench.qp.post_receive(receive(1, bad), &bench.memory), refused);
    }
    assert!(!bench.qp.wants_transmit());
}

#[test]
fn a_message_of_more_than_two_to_the_31_bytes_is_refused() {
    let mut bench = Bench::default_alice();
    let length = (1 << 31) + 1;
    let refused = bench.qp.post_send(send(1, slice(RegionId(0), 0, length)), &bench.memory);
    assert_eq!(refused, Err(PostError::TooLong(length)));
}
