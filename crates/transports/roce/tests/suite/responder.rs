//! The responder as a specification: one rule a test. The test plays the peer.

use crate::common::bench::Bench;
use crate::common::{ALICE, BOB, BOB_PSN, MTU, alice, receive, send, slice};
use quincunx_engine::verbs::{Completion, Failure, RegionId, WorkId};
use quincunx_roce::{DropReason, QueuePairConfig};
use quincunx_units::{Duration, Instant};
use quincunx_wire::aeth::receiver_not_ready_delay;
use quincunx_wire::{
    Aeth, AtomicEth, Deth, NakCode, Operation, Position, Psn, QpNumber, Reth, RoceHeader, Syndrome,
};

const FIRST: Operation = Operation::Send(Position::First);
const MIDDLE: Operation = Operation::Send(Position::Middle);
const LAST: Operation = Operation::Send(Position::Last);
const ONLY: Operation = Operation::Send(Position::Only);
const ACK: Syndrome = Syndrome::Ack(31);
const SEQUENCE_ERROR: Syndrome = Syndrome::Nak(NakCode::SequenceError);
const INVALID_REQUEST: Syndrome = Syndrome::Nak(NakCode::InvalidRequest);
const REMOTE_ACCESS: Syndrome = Syndrome::Nak(NakCode::RemoteAccess);

/// The PSN of Bob's packet number `index`.
fn psn(index: u32) -> Psn {
    BOB_PSN.plus(index)
}

fn received(id: u64, length: usize) -> Completion {
    Completion::Received { id: WorkId(id), length, immediate: None }
}

fn failed(id: u64, failure: Failure) -> Completion {
    Completion::Failed { id: WorkId(id), failure }
}

fn reth(region: RegionId, virtual_address: u64, dma_length: u32) -> Reth {
    Reth { virtual_address, remote_key: region.0, dma_length }
}

/// A bench whose Alice has posted receives of these lengths, numbered from 1, in a row in the region returned.
fn posted(lengths: &[usize]) -> (Bench, RegionId) {
    let mut bench = Bench::default_alice();
    let region = bench.blank(64);
    let mut offset = 0;
    for (index, &length) in lengths.iter().enumerate() {
        let request = receive(index as u64 + 1, slice(region, offset, length));
        bench.qp.post_receive(request, &bench.memory).expect("the slice is registered");
        offset += length;
    }
    (bench, region)
}

#[test]
fn a_send_fills_the_oldest_receive_request() {
    let (mut bench, region) = posted(&[12, 4]);
    bench.frame(psn(0), FIRST, &[1, 2, 3, 4]);
    bench.frame(psn(1), MIDDLE, &[5, 6, 7, 8]);
    assert_eq!(bench.out.completions, []);
    bench.frame(psn(2), LAST, &[9]);
    bench.frame(psn(3), ONLY, &[10, 11]);
    assert_eq!(bench.out.completions, [received(1, 9), received(2, 2)]);
    assert_eq!(bench.bytes(region, 14), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 10, 11]);
}

#[test]
fn an_immediate_comes_with_the_completion() {
    let (mut bench, _) = posted(&[8, 0]);
    bench.frame(psn(0), FIRST, &[1, 2, 3, 4]);
    bench.frame(psn(1), Operation::SendLastImmediate(7), &[5]);
    bench.frame(psn(2), Operation::SendOnlyImmediate(8), &[]);
    assert_eq!(
        bench.out.completions,
        [
            Completion::Received { id: WorkId(1), length: 5, immediate: Some(7) },
            Completion::Received { id: WorkId(2), length: 0, immediate: Some(8) }
        ]
    );
}

#[test]
fn only_a_packet_that_asks_is_acknowledged() {
    let (mut bench, _) = posted(&[12]);
    bench.frame(psn(0), FIRST, &[0; MTU]);
    assert_eq!(bench.answers(), []);
    bench.asking_frame(psn(1), MIDDLE, &[0; MTU]);
    assert_eq!(bench.answers(), [(psn(1), ACK, 0)]);
}

#[test]
fn the_message_sequence_number_counts_completed_messages() {
    let (mut bench, region) = posted(&[4, 4]);
    bench.asking_frame(psn(0), ONLY, &[]);
    bench.asking_frame(psn(1), Operation::WriteOnly(reth(region, 0, 1)), &[1]);
    bench.asking_frame(psn(2), ONLY, &[]);
    assert_eq!(bench.answers(), [(psn(0), ACK, 1), (psn(1), ACK, 2), (psn(2), ACK, 3)]);
}

#[test]
fn answers_carry_the_addresses_of_the_connection() {
    let (mut bench, _) = posted(&[4]);
    bench.asking_frame(psn(0), ONLY, &[]);
    let (header, payload) = &bench.out.frames[0];
    assert_eq!((header.source, header.destination), (ALICE.ip, BOB.ip));
    assert_eq!((header.destination_qp, header.source_port), (BOB.qp, 4791));
    assert!(payload.is_empty() && !header.acknowledge_request);
}

#[test]
fn a_gap_is_answered_once_with_the_expected_psn() {
    let (mut bench, region) = posted(&[12]);
    bench.frame(psn(0), FIRST, &[1; MTU]);
    bench.frame(psn(2), LAST, &[3; MTU]);
    bench.frame(psn(3), ONLY, &[4; MTU]);
    assert_eq!(bench.answers(), [(psn(1), SEQUENCE_ERROR, 0)]);
    assert_eq!(bench.out.drops, [DropReason::OutOfSequence; 2]);
    assert_eq!(bench.bytes(region, 8), [1, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn a_packet_in_sequence_makes_the_next_gap_heard() {
    let (mut bench, _) = posted(&[12]);
    bench.frame(psn(1), MIDDLE, &[0; MTU]);
    bench.frame(psn(0), FIRST, &[0; MTU]);
    bench.frame(psn(2), LAST, &[0; MTU]);
    assert_eq!(bench.answers(), [(psn(0), SEQUENCE_ERROR, 0), (psn(1), SEQUENCE_ERROR, 0)]);
}

#[test]
fn a_duplicate_is_acknowledged_again_and_not_executed_again() {
    let (mut bench, region) = posted(&[4, 4]);
    bench.frame(psn(0), ONLY, &[1; MTU]);
    bench.frame(psn(1), FIRST, &[2; MTU]);
    bench.frame(psn(0), ONLY, &[3; MTU]);
    assert_eq!(bench.answers(), [(psn(1), ACK, 1)]);
    assert_eq!(bench.out.drops, [DropReason::Duplicate]);
    assert_eq!(bench.out.completions, [received(1, 4)]);
    assert_eq!(bench.bytes(region, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn a_send_without_a_receive_request_is_told_to_wait_and_does_not_advance() {
    let mut bench = Bench::new(QueuePairConfig { rnr_timer: 12, ..alice() });
    let region = bench.blank(4);
    bench.asking_frame(psn(0), ONLY, &[1; MTU]);
    assert_eq!(bench.answers(), [(psn(0), Syndrome::ReceiverNotReady(12), 0)]);
    assert_eq!(bench.out.drops, [DropReason::ReceiverNotReady]);
    bench.qp.post_receive(receive(1, slice(region, 0, 4)), &bench.memory).unwrap();
    bench.asking_frame(psn(0), ONLY, &[1; MTU]);
    assert_eq!(bench.out.completions, [received(1, 4)]);
}

#[test]
fn receiver_not_ready_is_said_again_when_the_packet_comes_again() {
    let (mut bench, _) = posted(&[]);
    bench.frame(psn(0), ONLY, &[]);
    bench.frame(psn(0), ONLY, &[]);
    assert_eq!(bench.answers(), [(psn(0), Syndrome::ReceiverNotReady(1), 0); 2]);
}

/// Sends the packet again after each wait, for so long; the waits.
fn waits(bench: &mut Bench, index: u32, lasts: Duration) -> Vec<Duration> {
    let (begun, mut waits) = (bench.now, Vec::new());
    while bench.now < begun + lasts {
        bench.frame(psn(index), ONLY, &[]);
        let Some((_, Syndrome::ReceiverNotReady(code), _)) = bench.answers().pop() else { break };
        waits.push(receiver_not_ready_delay(code));
        bench.now = bench.now + receiver_not_ready_delay(code);
    }
    waits
}

#[test]
fn the_longer_a_peer_waits_for_a_receive_request_the_longer_it_is_to_wait() {
    let (mut bench, region) = posted(&[]);
    bench.now = Instant::ZERO + Duration::from_secs(3);
    let told = waits(&mut bench, 0, Duration::from_secs(1));
    let shortest = Duration::from_micros(10);
    let mut waited = Duration::ZERO;
    for wait in &told {
        assert!(*wait <= shortest.max(waited / 8), "{wait} after {waited}");
        waited += *wait;
    }
    assert_eq!(told.last(), Some(&Duration::from_micros(640)), "and not longer than that");
    let within = |limit| {
        told.iter()
            .scan(Duration::ZERO, |sum, wait| {
                *sum += *wait;
                Some(*sum)
            })
            .filter(|sum| *sum <= limit)
            .count()
    };
    // They were 100 and 1000 when each was of 10 us.
    assert_eq!([1, 10].map(|millis| within(Duration::from_millis(millis))), [34, 58]);

    // Of the next packet it is as of the first.
    bench.qp.post_receive(receive(1, slice(region, 0, 4)), &bench.memory).unwrap();
    bench.frame(psn(0), ONLY, &[]);
    assert_eq!(waits(&mut bench, 1, Duration::from_micros(50)), [shortest; 5]);
}

#[test]
fn a_wait_is_never_shorter_than_what_the_queue_pair_is_set_to() {
    let mut bench = Bench::new(QueuePairConfig { rnr_timer: 16, ..alice() });
    let told = waits(&mut bench, 0, Duration::from_secs(1));
    assert!(told.iter().all(|wait| *wait == receiver_not_ready_delay(16)));
}

#[test]
fn packets_behind_one_that_was_told_to_wait_are_dropped_in_silence() {
    let (mut bench, _) = posted(&[]);
    bench.frame(psn(0), ONLY, &[]);
    bench.frame(psn(1), ONLY, &[]);
    assert_eq!(bench.answers().len(), 1);
    assert_eq!(bench.out.drops, [DropReason::ReceiverNotReady, DropReason::OutOfSequence]);
}

#[test]
fn a_message_longer_than_its_receive_request_is_refused() {
    let (mut bench, region) = posted(&[6, 64 - 6]);
    bench.frame(psn(0), FIRST, &[1; MTU]);
    bench.frame(psn(1), LAST, &[2; MTU]);
    assert_eq!(bench.answers(), [(psn(1), INVALID_REQUEST, 0)]);
    assert_eq!(bench.out.completions, [failed(1, Failure::Length), failed(2, Failure::Flushed)]);
    assert_eq!(bench.bytes(region, 8), [1, 1, 1, 1, 0, 0, 0, 0]);
    assert!(bench.qp.has_failed());
}

#[test]
fn a_refusal_ends_the_sends_too() {
    let (mut bench, region) = posted(&[1]);
    bench.qp.post_send(send(5, slice(region, 0, 4)), &bench.memory).unwrap();
    bench.transmit_all();
    bench.frame(psn(0), ONLY, &[0; 2]);
    assert_eq!(bench.out.completions, [failed(5, Failure::Flushed), failed(1, Failure::Length)]);
    assert!(bench.out.armed.is_empty());
}

/// Hands in `packets` in sequence: the last of them must be refused as senseless, with nothing written by it.
fn assert_senseless(packets: &[(Operation, usize)]) {
    let (mut bench, region) = posted(&[32]);
    for (index, &(operation, length)) in packets.iter().enumerate() {
        bench.frame(psn(index as u32), operation, &[index as u8; 9][..length]);
    }
    let at = psn(packets.len() as u32 - 1);
    assert_eq!(bench.answers(), [(at, INVALID_REQUEST, 0)], "{packets:?}");
    assert_eq!(bench.out.drops, [DropReason::Refused]);
    assert_eq!(bench.out.completions, [failed(1, Failure::Flushed)]);
    assert!(bench.qp.has_failed());
    assert!(packets.len() > 1 || bench.bytes(region, 32) == [0; 32]);
}

#[test]
fn first_and_middle_packets_must_be_full() {
    assert_senseless(&[(FIRST, MTU - 1)]);
    assert_senseless(&[(FIRST, MTU + 1)]);
    assert_senseless(&[(FIRST, MTU), (MIDDLE, MTU - 1)]);
}

#[test]
fn a_last_packet_must_hold_something_and_fit() {
    assert_senseless(&[(FIRST, MTU), (LAST, 0)]);
    assert_senseless(&[(FIRST, MTU), (LAST, MTU + 1)]);
    assert_senseless(&[(ONLY, MTU + 1)]);
}

#[test]
fn a_message_must_begin_with_its_beginning() {
    assert_senseless(&[(MIDDLE, MTU)]);
    assert_senseless(&[(LAST, MTU)]);
    assert_senseless(&[(Operation::WriteMiddle, MTU)]);
    assert_senseless(&[(Operation::WriteLast, MTU)]);
}

#[test]
fn a_message_must_end_before_the_next_begins() {
    assert_senseless(&[(FIRST, MTU), (FIRST, MTU)]);
    assert_senseless(&[(FIRST, MTU), (ONLY, 0)]);
    assert_senseless(&[(FIRST, MTU), (Operation::WriteOnly(reth(RegionId(0), 0, 4)), MTU)]);
}

#[test]
fn a_message_must_be_of_one_kind() {
    assert_senseless(&[(FIRST, MTU), (Operation::WriteMiddle, MTU)]);
    assert_senseless(&[(FIRST, MTU), (Operation::WriteLastImmediate(1), MTU)]);
    assert_senseless(&[(Operation::WriteFirst(reth(RegionId(0), 0, 8)), MTU), (LAST, MTU)]);
}

#[test]
fn reads_and_atomics_are_refused() {
    let atomic = AtomicEth { virtual_address: 0, remote_key: 0, swap_or_add: 0, compare: 0 };
    assert_senseless(&[(Operation::ReadRequest(reth(RegionId(0), 0, 4)), 0)]);
    assert_senseless(&[(Operation::CompareSwap(atomic), 0)]);
    assert_senseless(&[(Operation::FetchAdd(atomic), 0)]);
}

#[test]
fn the_packets_of_a_write_must_make_up_its_length() {
    let region = RegionId(0);
    assert_senseless(&[(Operation::WriteOnly(reth(region, 0, 3)), 4)]);
    assert_senseless(&[(Operation::WriteOnly(reth(region, 0, 5)), 4)]);
    assert_senseless(&[(Operation::WriteFirst(reth(region, 0, 4)), MTU)]);
    assert_senseless(&[(Operation::WriteFirst(reth(region, 0, 7)), MTU), (Operation::WriteLast, 2)]);
    assert_senseless(&[(Operation::WriteFirst(reth(region, 0, 7)), MTU), (Operation::WriteLast, 4)]);
    assert_senseless(&[(Operation::WriteFirst(reth(region, 0, 8)), MTU), (Operation::WriteMiddle, MTU)]);
}

#[test]
fn a_write_goes_to_the_region_of_its_key_at_the_offset_of_its_address() {
    let mut bench = Bench::default_alice();
    let _other = bench.blank(4);
    let region = bench.blank(12);
    bench.frame(psn(0), Operation::WriteFirst(reth(region, 1, 9)), &[1, 2, 3, 4]);
    bench.frame(psn(1), Operation::WriteMiddle, &[5, 6, 7, 8]);
    bench.frame(psn(2), Operation::WriteLast, &[9]);
    bench.asking_frame(psn(3), Operation::WriteOnly(reth(region, 11, 1)), &[10]);
    assert_eq!(bench.bytes(region, 12), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 10]);
    assert_eq!(bench.out.completions, []);
    assert_eq!(bench.answers(), [(psn(3), ACK, 2)]);
}

#[test]
fn a_write_outside_registered_memory_is_refused() {
    for (key, address, length) in [(0, 9, 8), (0, u64::MAX, 8), (1, 0, 8), (0, 0, u32::MAX)] {
        let mut bench = Bench::default_alice();
        let region = bench.blank(16);
        let reth = Reth { virtual_address: address, remote_key: key, dma_length: length };
        bench.frame(psn(0), Operation::WriteFirst(reth), &[1; MTU]);
        assert_eq!(bench.answers(), [(psn(0), REMOTE_ACCESS, 0)]);
        assert_eq!(bench.bytes(region, 16), [0; 16]);
        assert!(bench.qp.has_failed());
    }
}

#[test]
fn without_remote_write_any_write_is_refused_and_nothing_is_written() {
    for length in [0, 4] {
        for operation in [Operation::WriteOnly, |reth| Operation::WriteOnlyImmediate(reth, 7)] {
            let mut bench = Bench::new(QueuePairConfig { remote_write: false, ..alice() });
            let region = bench.blank(8);
            bench.qp.post_receive(receive(1, slice(region, 4, 4)), &bench.memory).unwrap();
            bench.frame(psn(0), operation(reth(region, 0, length)), &[1; MTU][..length as usize]);
            assert_eq!(bench.answers(), [(psn(0), REMOTE_ACCESS, 0)]);
            assert_eq!(bench.bytes(region, 8), [0; 8]);
            assert!(bench.qp.has_failed());
        }
    }
}

#[test]
fn a_write_into_a_region_released_meanwhile_is_refused() {
    let mut bench = Bench::default_alice();
    let region = bench.blank(8);
    bench.frame(psn(0), Operation::WriteFirst(reth(region, 0, 8)), &[1; MTU]);
    bench.memory.release(region);
    bench.frame(psn(1), Operation::WriteLast, &[1; MTU]);
    assert_eq!(bench.answers(), [(psn(1), REMOTE_ACCESS, 0)]);
}

#[test]
fn a_write_of_nothing_may_name_anything() {
    let mut bench = Bench::default_alice();
    bench.asking_frame(psn(0), Operation::WriteOnly(reth(RegionId(77), u64::MAX, 0)), &[]);
    assert_eq!(bench.answers(), [(psn(0), ACK, 1)]);
}

#[test]
fn a_write_with_immediate_consumes_a_receive_request_and_reports_all_that_it_wrote() {
    let (mut bench, region) = posted(&[0]);
    bench.frame(psn(0), Operation::WriteFirst(reth(region, 2, 6)), &[1; MTU]);
    bench.frame(psn(1), Operation::WriteLastImmediate(7), &[2; 2]);
    assert_eq!(
        bench.out.completions,
        [Completion::Written { id: WorkId(1), target: slice(region, 2, 6), immediate: 7 }]
    );
    assert_eq!(bench.bytes(region, 9), [0, 0, 1, 1, 1, 1, 2, 2, 0]);
}

#[test]
fn a_write_with_immediate_of_nothing_reports_where_it_would_be() {
    let (mut bench, region) = posted(&[0]);
    bench.frame(psn(0), Operation::WriteOnlyImmediate(reth(region, 5, 0), 7), &[]);
    assert_eq!(
        bench.out.completions,
        [Completion::Written { id: WorkId(1), target: slice(region, 5, 0), immediate: 7 }]
    );
}

#[test]
fn a_write_with_immediate_waits_for_its_receive_request_at_the_last_packet() {
    let (mut bench, region) = posted(&[]);
    bench.frame(psn(0), Operation::WriteFirst(reth(region, 0, 5)), &[1; MTU]);
    bench.frame(psn(1), Operation::WriteLastImmediate(7), &[2]);
    assert_eq!(bench.answers(), [(psn(1), Syndrome::ReceiverNotReady(1), 0)]);
    bench.qp.post_receive(receive(1, slice(region, 0, 0)), &bench.memory).unwrap();
    bench.frame(psn(1), Operation::WriteLastImmediate(7), &[2]);
    assert_eq!(
        bench.out.completions,
        [Completion::Written { id: WorkId(1), target: slice(region, 0, 5), immediate: 7 }]
    );
}

#[test]
fn a_write_without_immediate_needs_no_receive_request() {
    let (mut bench, region) = posted(&[4]);
    bench.frame(psn(0), Operation::WriteOnly(reth(region, 0, 4)), &[1; MTU]);
    bench.frame(psn(1), ONLY, &[2]);
    assert_eq!(bench.out.completions, [received(1, 1)]);
}

#[test]
fn frames_of_other_connections_are_dropped() {
    let (mut bench, _) = posted(&[4]);
    let header = RoceHeader::new(BOB.ip, ALICE.ip, ALICE.qp, psn(0), ONLY);
    bench.header(RoceHeader { destination_qp: QpNumber::new(0x99), ..header }, &[]);
    bench.header(RoceHeader { destination: BOB.ip, ..header }, &[]);
    bench.header(RoceHeader { source: ALICE.ip, ..header }, &[]);
    assert_eq!(bench.out.drops, [DropReason::NotForUs, DropReason::NotForUs, DropReason::WrongSource]);
    assert_eq!(bench.out.completions, []);
}

#[test]
fn answers_to_reads_and_atomics_and_datagrams_are_dropped() {
    let (mut bench, _) = posted(&[4]);
    let aeth = Aeth { syndrome: ACK, message_sequence: 0 };
    let unexpected = [
        Operation::ReadResponseFirst(aeth),
        Operation::ReadResponseMiddle,
        Operation::ReadResponseLast(aeth),
        Operation::ReadResponseOnly(aeth),
        Operation::AtomicAcknowledge(aeth, 0),
        Operation::DatagramSendOnly(Deth { queue_key: 0, source_qp: BOB.qp }),
        Operation::DatagramSendOnlyImmediate(Deth { queue_key: 0, source_qp: BOB.qp }, 0),
    ];
    for operation in unexpected {
        bench.frame(psn(0), operation, &[]);
    }
    assert_eq!(bench.out.drops, [DropReason::Unexpected; 7]);
    assert!(!bench.qp.has_failed());
}

#[test]
fn a_congestion_notification_where_the_rate_is_fixed_is_dropped() {
    let (mut bench, _) = posted(&[]);
    bench.frame(psn(0), Operation::CongestionNotification, &[]);
    bench.frame(psn(0), Operation::CongestionNotification, &[]);
    assert_eq!(bench.out.drops, [DropReason::NoRateControl; 2]);
}

#[test]
fn expected_psns_wrap_at_24_bits() {
    let (mut bench, _) = posted(&[0, 0, 0, 0]);
    for value in [0x00ff_fffd, 0x00ff_fffe, 0x00ff_ffff, 0] {
        bench.frame(Psn::new(value), ONLY, &[]);
    }
    assert_eq!(bench.out.completions, [1, 2, 3, 4].map(|id| received(id, 0)));
    bench.frame(Psn::new(0x00ff_ffff), ONLY, &[]);
    assert_eq!(bench.answers(), [(Psn::new(0), ACK, 4)]);
}
