//! What a rank sends, and what it makes of what comes.

use crate::support::{
    Host, Packet, SHAPE, TIMEOUT, at, at_point, elements, floats, integers, to_floats, worker_of,
};
use quincunx_collective::{Collective, DataType, Rank, ReduceOp, Reduction};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, QpIndex, RequestError, Slice, UNLIMITED_RETRIES, WorkId,
};
use quincunx_switchml::WorkerConfig;
use quincunx_wire::switchml::{Kind, LENGTH, SwitchMlHeader};

const RANKS: u16 = 4;

fn of_integers(values: &[i32]) -> Host {
    Host::new(worker_of(RANKS), DataType::I32, &integers(values))
}

fn of_floats(values: &[f32]) -> Host {
    Host::new(worker_of(RANKS), DataType::F32, &floats(values))
}

fn said(packet: &Packet) -> SwitchMlHeader {
    SwitchMlHeader::parse(&packet.1).unwrap()
}

/// The result of a packet where all ranks contribute the same, with this exponent as the largest.
fn result_with(packet: &Packet, exponent: u8) -> Packet {
    let header = SwitchMlHeader { exponent, ..said(packet) };
    let sum: Vec<i32> = elements(packet).iter().map(|element| element * i32::from(RANKS)).collect();
    (packet.0, [&header.to_bytes()[..], &integers(&sum)].concat())
}

fn result(packet: &Packet) -> Packet {
    result_with(packet, said(packet).exponent)
}

fn numbers(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| packet.0).collect()
}

fn failed(failure: Failure) -> Option<Outcome> {
    Some(Outcome::Failed { qp: QpIndex(0), failure })
}

#[test]
fn as_many_packets_are_under_way_as_there_are_slots() {
    let mut host = of_integers(&[1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(host.start(at(0)), Ok(None));
    let sent = host.leave(at(0));
    assert_eq!(numbers(&sent), [0, 1]);
    assert_eq!(elements(&sent[0]), [1, 2]);
    assert_eq!(elements(&sent[1]), [3, 4]);
}

#[test]
fn a_result_lets_the_next_packet_of_its_slot_go() {
    let mut host = of_integers(&[1, 2, 3, 4, 5, 6, 7]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    host.arrive(at(0), &result(&sent[1]));
    let next = host.leave(at(0));
    assert_eq!((numbers(&next), elements(&next[0])), (vec![3], vec![7]));
    host.arrive(at(0), &result(&sent[0]));
    let last = host.leave(at(0));
    assert_eq!((numbers(&last), elements(&last[0])), (vec![2], vec![5, 6]));
}

#[test]
fn it_ends_with_the_last_result_in_whatever_order_they_come() {
    let mut host = of_integers(&[1, 2, 3]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    host.arrive(at(0), &result(&sent[1]));
    assert_eq!(host.outcome, None);
    host.arrive(at(0), &result(&sent[0]));
    assert_eq!(host.outcome, Some(Outcome::Done));
    assert_eq!(host.result(), integers(&[4, 8, 12]));
}

#[test]
fn packets_are_numbered_through_all_collectives() {
    let mut host = of_integers(&[1, 2, 3]);
    for expected in [[0, 1], [2, 3], [4, 5]] {
        host.start(at(0)).unwrap();
        assert_eq!(host.start(at(0)), Err(RequestError::Busy));
        let sent = host.leave(at(0));
        let mut found = numbers(&sent);
        found.sort_unstable();
        assert_eq!(found, expected);
        sent.iter().for_each(|packet| host.arrive(at(0), &result(packet)));
        assert_eq!(host.outcome, Some(Outcome::Done));
    }
}

#[test]
fn a_result_that_nobody_waits_for_is_nothing() {
    let mut host = of_integers(&[1, 2, 3, 4, 5, 6]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    host.arrive(at(0), &result(&sent[0]));
    let next = host.leave(at(0));
    let before = host.result();
    // Of its slot, too, and of a number that is the awaited one in its low byte or half.
    for number in [0, 8, next[0].0 + (1 << 8), next[0].0 + (1 << 16)] {
        host.arrive(at(0), &(number, result(&next[0]).1));
        assert_eq!((host.result(), host.leave(at(0)), host.outcome), (before.clone(), vec![], None));
    }
    host.arrive(at(0), &result(&next[0]));
    host.arrive(at(0), &result(&sent[1]));
    assert_eq!(host.outcome, Some(Outcome::Done));
}

#[test]
fn an_opening_agrees_on_the_exponent_of_the_piece_behind_it() {
    let mut host = of_floats(&[1.0, -6.0, 0.25, 0.0, 100.0]);
    host.start(at(0)).unwrap();
    let opening = host.leave(at(0));
    assert_eq!(numbers(&opening), [0, 1]);
    assert!(opening.iter().all(|packet| elements(packet).is_empty()));
    assert_eq!([0, 1].map(|packet| said(&opening[packet]).exponent), [129, 125]);
    // Another rank has something larger.
    host.arrive(at(0), &result_with(&opening[0], 133));
    let sent = host.leave(at(0));
    assert_eq!((numbers(&sent), said(&sent[0]).exponent), (vec![2], 133), "100 is 1.5625 times 2^6");
    // Below 2^7, four of which make 2^30 at most.
    assert_eq!(elements(&sent[0]), [1 << 21, -6 << 21]);
    host.arrive(at(0), &result(&sent[0]));
    assert_eq!(to_floats(&host.result())[..2], [4.0, -24.0]);
}

#[test]
fn a_piece_waits_for_its_exponent_and_for_its_slot() {
    // One piece less than slots: what brings its exponent is in another slot.
    let mut host = of_floats(&[1.0]);
    host.start(at(0)).unwrap();
    let opening = host.leave(at(0));
    assert_eq!(numbers(&opening), [0]);
    host.arrive(at(0), &result(&opening[0]));
    let sent = host.leave(at(0));
    assert_eq!(numbers(&sent), [1]);
    host.arrive(at(0), &result(&sent[0]));
    assert_eq!((host.outcome, to_floats(&host.result())), (Some(Outcome::Done), vec![4.0]));
}

#[test]
fn what_is_not_finite_at_one_rank_is_nan_at_all() {
    let mut host = of_floats(&[1.0, 2.0]);
    host.start(at(0)).unwrap();
    let opening = host.leave(at(0));
    host.arrive(at(0), &result_with(&opening[0], u8::MAX));
    let sent = host.leave(at(0));
    assert_eq!(elements(&sent[0]), [0, 0]);
    host.arrive(at(0), &result(&sent[0]));
    assert!(to_floats(&host.result()).iter().all(|value| value.is_nan()));
    assert_eq!(host.outcome, Some(Outcome::Done));
}

#[test]
fn where_the_point_is_said_there_is_no_opening_and_what_is_too_large_saturates() {
    let config = WorkerConfig { scale: at_point(16), ..worker_of(RANKS) };
    let mut host = Host::new(config, DataType::F32, &floats(&[1.5, 1e9]));
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    assert_eq!((numbers(&sent), elements(&sent[0])), (vec![0], vec![3 << 15, i32::MAX]));
    assert_eq!(said(&sent[0]).kind, Kind::FixedPoint);
}

#[test]
fn nothing_is_a_packet_without_elements() {
    let mut host = of_integers(&[]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    assert_eq!((numbers(&sent), sent[0].1.len()), (vec![0], LENGTH));
    host.arrive(at(0), &result(&sent[0]));
    assert_eq!(host.outcome, Some(Outcome::Done));
}

#[test]
fn a_barrier_is_an_all_reduce_of_nothing_whatever_type_it_is_said_to_have() {
    let digests = [DataType::I32, DataType::F32, DataType::F16].map(|data_type| {
        let mut host = Host::new(worker_of(RANKS), data_type, &[]);
        let request = CollectiveRequest { collective: Collective::Barrier, ..host.request() };
        assert_eq!(host.ask(at(0), request), Ok(None));
        let sent = host.leave(at(0));
        assert_eq!((numbers(&sent), sent[0].1.len()), (vec![0], LENGTH));
        host.arrive(at(0), &result(&sent[0]));
        assert_eq!(host.outcome, Some(Outcome::Done));
        (said(&sent[0]).kind, said(&sent[0]).digest)
    });
    assert!(digests.iter().all(|said| *said == digests[0]), "{digests:?}");
    let mut all_reduce = of_integers(&[]);
    all_reduce.start(at(0)).unwrap();
    assert_ne!(said(&all_reduce.leave(at(0))[0]).digest, digests[0].1);
}

#[test]
fn what_waits_too_long_is_sent_again_as_it_was() {
    let mut host = of_integers(&[1, 2, 3, 4]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    assert_eq!(host.verbs.alarms, [TIMEOUT]);
    host.time_out(at(1));
    assert_eq!(host.leave(at(1)), sent);
}

#[test]
fn only_what_waits_too_long_is_sent_again() {
    let mut host = of_integers(&[1, 2, 3, 4, 5, 6]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    let later = at(0) + TIMEOUT / 2;
    host.arrive(later, &result(&sent[0]));
    host.leave(later);
    host.time_out(at(1));
    assert_eq!(host.leave(at(1)), sent[1..], "it has waited as long");
    host.time_out(at(2));
    assert_eq!(numbers(&host.leave(at(2))), [2]);
}

#[test]
fn an_alarm_for_what_has_come_meanwhile_sends_nothing() {
    let mut host = of_integers(&[1, 2, 3, 4, 5, 6]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    let later = at(0) + TIMEOUT / 2;
    sent.iter().for_each(|packet| host.arrive(later, &result(packet)));
    let last = host.leave(later);
    host.time_out(at(1));
    assert_eq!(host.leave(at(1)), []);
    assert_eq!(host.verbs.alarms, [TIMEOUT / 2], "it is set for the one that waits");
    host.arrive(at(1), &result(&last[0]));
    assert_eq!(host.outcome, Some(Outcome::Done));
    host.time_out(at(2));
    assert!(host.verbs.alarms.is_empty(), "nothing waits");
}

#[test]
fn a_packet_is_not_put_where_one_waits_to_leave() {
    let mut host = of_integers(&[1, 2, 3, 4, 5, 6]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    host.time_out(at(1));
    // The copy of packet 0 is still here when its result comes.
    host.arrive(at(1), &result(&sent[0]));
    assert_eq!(host.leave_one(at(1)), sent[0]);
    let rest = host.leave(at(1));
    assert_eq!(rest[0], sent[1]);
    assert_eq!((rest[1].0, elements(&rest[1])), (2, vec![5, 6]));
}

#[test]
fn the_longer_nothing_comes_the_longer_it_waits() {
    let config = WorkerConfig { retries: UNLIMITED_RETRIES, ..worker_of(RANKS) };
    let mut host = Host::new(config, DataType::I32, &integers(&[1]));
    host.start(at(0)).unwrap();
    let mut now = at(0);
    let mut waits = Vec::new();
    for _ in 0..9 {
        let wait = *host.verbs.alarms.last().unwrap();
        waits.push(wait.as_picos() / TIMEOUT.as_picos());
        now = now + wait;
        host.time_out(now);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
    let sent = host.leave(now);
    host.arrive(now, &result(&sent[0]));
    host.start(now).unwrap();
    host.time_out(now + TIMEOUT * 64);
    assert_eq!(host.verbs.alarms, [TIMEOUT * 2], "what came begins it anew");
}

#[test]
fn a_result_begins_the_waits_anew_though_others_are_missing() {
    let mut host = of_integers(&[1, 2, 3, 4]);
    host.start(at(0)).unwrap();
    let sent = host.leave(at(0));
    for count in 1..=3 {
        host.time_out(at(100 * count));
        host.leave(at(100 * count));
    }
    host.arrive(at(301), &result(&sent[0]));
    for count in 4..=6 {
        host.time_out(at(100 * count));
        assert_eq!(host.outcome, None, "three more time-outs");
    }
    host.time_out(at(700));
    assert_eq!(host.outcome, failed(Failure::RetryExceeded));
}

#[test]
fn after_so_many_time_outs_in_a_row_the_group_has_failed() {
    let mut host = of_integers(&[1]);
    host.start(at(0)).unwrap();
    for count in 1..=3 {
        host.time_out(at(100 * count));
        assert_eq!(host.outcome, None);
    }
    host.time_out(at(400));
    assert_eq!(host.outcome, failed(Failure::RetryExceeded));
    assert_eq!(host.start(at(401)), Err(RequestError::GroupFailed));
    host.outcome = None;
    host.break_queue_pair(Failure::Flushed);
    host.time_out(at(500));
    assert_eq!(host.outcome, None, "it ends once");
}

#[test]
fn a_sum_of_ranks_that_disagree_ends_the_group() {
    let changes: [fn(SwitchMlHeader) -> SwitchMlHeader; 2] = [
        |said| SwitchMlHeader { kind: Kind::Disagreement, ..said },
        |said| SwitchMlHeader { digest: said.digest ^ 1, ..said },
    ];
    for change in changes {
        let mut host = of_integers(&[1, 2]);
        host.start(at(0)).unwrap();
        let mut told = result(&host.leave(at(0))[0]);
        let header = change(said(&told)).to_bytes();
        told.1[..LENGTH].copy_from_slice(&header);
        host.arrive(at(0), &told);
        assert_eq!(host.outcome, failed(Failure::Disagreement));
        assert_eq!(host.result(), integers(&[0, 0]), "nobody is told of a result");
    }
}

#[test]
fn a_result_that_makes_no_sense_ends_the_group() {
    for payload in [vec![], vec![0; LENGTH - 4], vec![9; LENGTH + SHAPE.piece]] {
        let mut host = of_integers(&[1, 2]);
        host.start(at(0)).unwrap();
        host.arrive(at(0), &(0, payload));
        assert_eq!(host.outcome, failed(Failure::InvalidRequest));
    }
    let mut host = of_integers(&[1, 2]);
    host.start(at(0)).unwrap();
    let mut short = result(&host.leave(at(0))[0]);
    short.1.truncate(LENGTH + 4);
    host.arrive(at(0), &short);
    assert_eq!(host.outcome, failed(Failure::InvalidRequest));
    let mut host = of_integers(&[1, 2]);
    let length = 0;
    host.complete(at(0), Completion::Received { id: WorkId(0), length, immediate: None });
    assert_eq!(host.outcome, failed(Failure::InvalidRequest), "a piece has a number");
}

#[test]
fn what_ranks_must_agree_on_is_in_every_packet() {
    let digest = |data_type, length| {
        let mut host = Host::new(worker_of(RANKS), data_type, &vec![0; length]);
        host.start(at(0)).unwrap();
        let digests: Vec<u32> = host.leave(at(0)).iter().map(|packet| said(packet).digest).collect();
        assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
        digests[0]
    };
    let mut digests = [
        digest(DataType::I32, 0),
        digest(DataType::I32, 4),
        digest(DataType::I32, 32),
        digest(DataType::F32, 32),
    ];
    digests.sort_unstable();
    assert!(digests.windows(2).all(|pair| pair[0] != pair[1]), "{digests:?}");
}

#[test]
fn what_the_switch_cannot_do_is_refused_and_nothing_is_sent() {
    let mut host = of_integers(&[1, 2]);
    let request = host.request();
    let with = |op, data_type| CollectiveRequest { reduction: Reduction { op, data_type }, ..request };
    let refused = host.ask(at(0), with(ReduceOp::Max, DataType::I32)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "expected sum of f32, found max of i32; set the group up for that, or choose another design"
    );
    assert!(matches!(
        host.ask(at(0), with(ReduceOp::Sum, DataType::F16)),
        Err(RequestError::Reduction { .. })
    ));
    for found in [Collective::AllGather, Collective::Reduce { root: Rank(0) }] {
        let asked = CollectiveRequest { collective: found, ..request };
        assert_eq!(host.ask(at(0), asked), Err(RequestError::NotOffered { found }));
    }
    let asked = CollectiveRequest { output: request.input, ..request };
    assert!(matches!(host.ask(at(0), asked), Err(RequestError::SameRegion { .. })));
    let short = Slice { length: 4, ..request.output };
    let asked = CollectiveRequest { output: short, ..request };
    assert!(matches!(host.ask(at(0), asked), Err(RequestError::Length { .. })));
    assert!(host.verbs.sends.is_empty());
}
