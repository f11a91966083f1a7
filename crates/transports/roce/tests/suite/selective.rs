//! Selective reliability as a specification: what is missing is sent again, and nothing else. The test plays the peer.

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, BOB_PSN, MTU, RETRY_TIMEOUT, alice, receive, send, slice};
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

/// A sender of three packets, after a time-out.
fn timed_out() -> Bench {
    let mut bench = selective();
    let region = bench.region(3 * MTU);
    bench.qp.post_send(send(1, slice(region, 0, 3 * MTU)), &bench.memory).unwrap();
    bench.transmit_all();
    bench.fire(QueuePairTimer::Retry);
    bench
}

#[test]
fn after_a_time_out_the_peer_is_asked_by_the_number_of_the_newest_packet() {
    let mut bench = timed_out();
    assert_eq!(bench.transmit_all(), [ALICE_PSN.plus(2)]);
    let (header, payload) = bench.out.frames.last().unwrap();
    assert_eq!(header.operation, Operation::QUESTION);
    assert!(header.acknowledge_request && payload.is_empty());
    assert_eq!(retry(&bench), Some(RETRY_TIMEOUT));
}

#[test]
fn what_the_peer_asks_for_goes_before_a_question() {
    let mut bench = timed_out();
    bench.nak(ALICE_PSN, NakCode::SequenceError);
    assert_eq!(bench.transmit_all(), [ALICE_PSN, ALICE_PSN.plus(2)]);
    let [.., (sent, _), (asked, _)] = &bench.out.frames[..] else { panic!("two frames") };
    assert_eq!([sent, asked].map(|header| header.operation == Operation::QUESTION), [false, true]);
}

#[test]
fn what_arrives_before_it_is_asked_ends_the_question() {
    let mut bench = timed_out();
    bench.ack(ALICE_PSN);
    assert_eq!(bench.transmit_all(), []);
    bench.fire(QueuePairTimer::Retry);
    assert_eq!(bench.transmit_all(), [ALICE_PSN.plus(2)]);
}

#[test]
fn whoever_is_asked_says_what_has_arrived_and_asks_for_what_has_not() {
    let mut bench = selective();
    let region = bench.blank(8 * MTU);
    bench.qp.post_receive(receive(1, slice(region, 0, 8 * MTU)), &bench.memory).unwrap();
    let ask = |bench: &mut Bench, newest| {
        bench.out.frames.clear();
        bench.asking_frame(BOB_PSN.plus(newest), Operation::QUESTION, &[]);
        bench.answers().into_iter().map(|(psn, syndrome, _)| (psn, syndrome)).collect::<Vec<_>>()
    };
    let nak = Syndrome::Nak(NakCode::SequenceError);
    bench.frame(BOB_PSN, Operation::Send(Position::First), &[1; MTU]);
    assert_eq!(ask(&mut bench, 0), [(BOB_PSN, Syndrome::Ack(31))]);
    bench.frame(BOB_PSN.plus(2), Operation::Send(Position::Middle), &[1; MTU]);
    // Number 1 was asked for when number 2 came: that was lost.
    let missing = [(BOB_PSN.plus(1), nak), (BOB_PSN.plus(3), nak)];
    assert_eq!(ask(&mut bench, 3), missing);
}

#[test]
fn no_question_asks_for_more_than_a_window() {
    let mut bench = selective();
    bench.asking_frame(BOB_PSN.plus(1 << 20), Operation::QUESTION, &[]);
    let asked: Vec<_> = bench.answers().iter().map(|&(psn, syndrome, _)| (psn, syndrome)).collect();
    assert_eq!(asked, [0, 1, 2, 3].map(|number| (BOB_PSN.plus(number), SEQUENCE_ERROR)));
}

#[test]
fn what_there_was_no_receive_request_for_is_not_asked_for_by_what_follows() {
    let mut bench = selective();
    for number in 0..2 {
        bench.frame(BOB_PSN.plus(number), Operation::Send(Position::Only), &[1; MTU]);
    }
    let told: Vec<_> = bench.answers().iter().map(|&(psn, syndrome, _)| (psn, syndrome)).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(matches!(told[0], (BOB_PSN, Syndrome::ReceiverNotReady(_))), "{told:?}");
}

/// A sender of messages of one packet, the first of which is answered after 10 us.
fn measured() -> Bench {
    let mut bench = selective();
    let region = bench.region(8 * MTU);
    bench.now = at(1);
    for id in 0..8 {
        bench.qp.post_send(send(id as u64, slice(region, id * MTU, MTU)), &bench.memory).unwrap();
    }
    // The window of four: none asks for an acknowledge but the last one.
    assert_eq!(bench.transmit_all().len(), 4);
    bench.now = at(11);
    bench.ack(ALICE_PSN.plus(3));
    bench
}

fn at(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

fn retry(bench: &Bench) -> Option<Duration> {
    bench.out.armed.get(&QueuePairTimer::Retry).copied()
}

#[test]
fn the_time_out_follows_the_round_trip_time() {
    let mut bench = selective();
    let region = bench.region(MTU);
    bench.qp.post_send(send(1, slice(region, 0, MTU)), &bench.memory).unwrap();
    bench.transmit_all();
    assert_eq!(retry(&bench), Some(RETRY_TIMEOUT));
    let mut bench = measured();
    bench.transmit_all();
    assert_eq!(retry(&bench), Some(Duration::from_micros(15)));
}

#[test]
fn time_outs_use_up_the_retry_budget_when_together_they_are_the_longest() {
    let mut bench = measured();
    // 15, 30 and 60 us are a longest one; then two more of 100 us are allowed.
    for after in [15, 30, 60, 100, 100] {
        bench.transmit_all();
        assert_eq!(retry(&bench), Some(Duration::from_micros(after)));
        assert!(!bench.qp.has_failed());
        bench.fire(QueuePairTimer::Retry);
    }
    assert!(bench.qp.has_failed());
}

#[test]
fn a_lost_request_is_repeated_when_an_answer_would_have_come() {
    let mut bench = selective();
    let region = bench.blank(8 * MTU);
    bench.qp.post_receive(receive(1, slice(region, 0, 8 * MTU)), &bench.memory).unwrap();
    let mut arrive = |micros, number, position| {
        bench.now = at(micros);
        bench.frame(BOB_PSN.plus(number), Operation::Send(position), &[1; MTU]);
        bench.answers().len()
    };
    assert_eq!(arrive(1, 1, Position::Middle), 1);
    // The answer has taken 10 us; one is waited for for 30.
    assert_eq!(arrive(11, 0, Position::First), 1);
    assert_eq!(arrive(12, 3, Position::Middle), 2);
    assert_eq!(arrive(41, 4, Position::Middle), 2);
    assert_eq!(arrive(42, 5, Position::Middle), 3);
}

/// A queue pair that has sent a packet, and has a place for eight of the peer's.
fn both_ways() -> Bench {
    let mut bench = selective();
    let region = bench.blank(9 * MTU);
    bench.now = at(1);
    bench.qp.post_receive(receive(1, slice(region, 0, 8 * MTU)), &bench.memory).unwrap();
    bench.qp.post_send(send(2, slice(region, 8 * MTU, MTU)), &bench.memory).unwrap();
    bench.transmit_all();
    bench
}

/// What it has asked for.
fn asked(bench: &Bench) -> Vec<u32> {
    let naks = bench.answers().into_iter().filter(|(_, syndrome, _)| *syndrome == SEQUENCE_ERROR);
    naks.map(|(psn, ..)| psn.value() - BOB_PSN.value()).collect()
}

fn arrive(bench: &mut Bench, number: u32) {
    let position = if number == 0 { Position::First } else { Position::Middle };
    bench.frame(BOB_PSN.plus(number), Operation::Send(position), &[1; MTU]);
}

#[test]
fn a_time_out_repeats_requests_that_nothing_else_is_the_occasion_for() {
    let mut bench = both_ways();
    arrive(&mut bench, 1);
    assert_eq!(asked(&bench), [0]);
    bench.now = at(1) + RETRY_TIMEOUT / 2;
    bench.fire(QueuePairTimer::Retry);
    assert_eq!(asked(&bench), [0, 0]);
}

#[test]
fn what_comes_again_behind_a_question_shows_that_the_request_before_it_was_lost() {
    for come_again in [0, 2] {
        let mut bench = both_ways();
        arrive(&mut bench, 0);
        arrive(&mut bench, 2);
        arrive(&mut bench, come_again);
        assert_eq!(asked(&bench), [1], "nothing was asked since");
        bench.fire(QueuePairTimer::Retry);
        bench.transmit_all();
        assert_eq!(asked(&bench), [1]);
        arrive(&mut bench, come_again);
        assert_eq!(asked(&bench), [1, 1]);
        arrive(&mut bench, come_again);
        assert_eq!(asked(&bench), [1, 1], "one question, one answer");
    }
}

#[test]
fn a_request_before_one_that_is_answered_before_other_traffic_is_repeated() {
    for is_expedited in [false, true] {
        let mut bench = both_ways();
        arrive(&mut bench, 1);
        bench.now = at(2);
        arrive(&mut bench, 3);
        bench.now = at(12);
        let mut header = bench.peer_header(BOB_PSN.plus(2), Operation::Send(Position::Middle));
        if is_expedited {
            header.expedite();
        }
        bench.header(header, &[1; MTU]);
        // It may have been on its way.
        let expected: &[u32] = if is_expedited { &[0, 2, 0] } else { &[0, 2] };
        assert_eq!(asked(&bench), expected);
    }
}

#[test]
fn an_answer_before_other_traffic_puts_off_the_requests_behind_it() {
    for (is_expedited, expected) in [(false, vec![0, 2, 2]), (true, vec![0, 2])] {
        let mut bench = both_ways();
        arrive(&mut bench, 1);
        arrive(&mut bench, 3);
        bench.now = at(11);
        let mut header = bench.peer_header(BOB_PSN, Operation::Send(Position::First));
        if is_expedited {
            header.expedite();
        }
        bench.header(header, &[1; MTU]);
        // It took 10 us, and an answer is waited for for 30: since the request, or since the last answer.
        bench.now = at(31);
        arrive(&mut bench, 4);
        assert_eq!(asked(&bench), expected);
    }
}

#[test]
fn what_the_peer_asks_for_is_given_a_round_trip_before_the_time_out() {
    let mut bench = measured();
    bench.transmit_all();
    bench.out.armed.clear();
    bench.nak(ALICE_PSN.plus(4), NakCode::SequenceError);
    assert_eq!(retry(&bench), Some(Duration::from_micros(15)));
}

#[test]
fn what_the_peer_asks_for_once_more_does_not_put_the_time_out_off() {
    let mut bench = measured();
    bench.transmit_all();
    let puts_off = |bench: &mut Bench, packet| {
        bench.out.armed.clear();
        bench.nak(ALICE_PSN.plus(packet), NakCode::SequenceError);
        retry(bench).is_some()
    };
    assert_eq!([4, 4, 3, 5].map(|packet| puts_off(&mut bench, packet)), [true, false, false, true]);
    bench.fire(QueuePairTimer::Retry);
    bench.transmit_all();
    assert!(puts_off(&mut bench, 4), "after a time-out all is news");
    bench.ack(ALICE_PSN.plus(4));
    assert!(puts_off(&mut bench, 5), "after progress, too");
}

/// Go-back-N costs a window each time, and peers may be NICs: it waits for as long as it is told to.
#[test]
fn without_selective_reliability_the_time_out_is_as_configured() {
    let retry_timeout = Duration::from_secs(1);
    let mut bench = Bench::new(QueuePairConfig { retry_timeout, ..alice() });
    let region = bench.region(2 * MTU);
    for (id, micros) in [(0, 1), (1, 5)] {
        bench.now = at(micros);
        bench.qp.post_send(send(id, slice(region, id as usize * MTU, MTU)), &bench.memory).unwrap();
        bench.transmit_all();
        assert_eq!(retry(&bench), Some(retry_timeout));
        bench.ack(ALICE_PSN.plus(id as u32));
    }
}
