//! What workers and the server send, and what they make of what comes.

use crate::support::{
    Host, Packet, SHAPE, TIMEOUT, at, elements, floats, integers, packet, rank_of, said, tag, tags, to_floats,
};
use quincunx_atp::{AtpShape, WorkerConfig};
use quincunx_collective::{Collective, DataType, ReduceOp, Reduction};
use quincunx_engine::verbs::{
    CollectiveRequest, Completion, Failure, Outcome, QpIndex, RequestError, UNLIMITED_RETRIES, WorkId,
};
use quincunx_wire::atp::{AtpHeader, LENGTH};
use quincunx_wire::switchml::Kind;

const ALL: u32 = 0b111;

fn worker(values: &[i32]) -> Host {
    let mut host = Host::new(rank_of(1, SHAPE), DataType::I32, &integers(values));
    host.start(at(0));
    host
}

/// Rank 0 where the server adds its part.
fn server(values: &[i32]) -> Host {
    let shape = AtpShape { server_sends: false, ..SHAPE };
    let mut host = Host::new(rank_of(0, shape), DataType::I32, &integers(values));
    host.start(at(0));
    host
}

/// The result of a packet where all ranks contribute the same, with this exponent as the largest.
fn result_with(sent: &Packet, exponent: u8) -> Packet {
    let header = AtpHeader { exponent, ..said(sent) };
    let sum: Vec<i32> = elements(sent).iter().map(|element| element * 3).collect();
    let immediate = tags(SHAPE).write(header.number, ALL, false);
    (immediate, [&header.to_bytes()[..], &integers(&sum)].concat())
}

fn result(sent: &Packet) -> Packet {
    result_with(sent, said(sent).exponent)
}

fn numbers(packets: &[Packet]) -> Vec<u32> {
    packets.iter().map(|packet| said(packet).number).collect()
}

fn failed(failure: Failure) -> Option<Outcome> {
    Some(Outcome::Failed { qp: QpIndex(0), failure })
}

/// What other ranks contribute, to a server whose rank asks for the same.
fn part(host: &Host, number: u32, workers: u32, is_resent: bool, values: &[i32]) -> Packet {
    let (_, sum) = packet(number, workers, is_resent, values);
    let header = AtpHeader { digest: digest(host), ..AtpHeader::parse(&sum).unwrap() };
    let payload = [&header.to_bytes()[..], &integers(values)].concat();
    (tags(SHAPE).write(number, workers, is_resent), payload)
}

/// What ranks must agree on, as a worker with the same vector says it.
fn digest(host: &Host) -> u32 {
    let mut worker = worker(&vec![0; host.result().len() / 4]);
    said(&worker.packets(at(0))[0]).digest
}

#[test]
fn a_window_of_packets_is_under_way_each_with_its_rank_in_the_bitmap() {
    let mut host = worker(&(1..=12).collect::<Vec<_>>());
    let sent = host.packets(at(0));
    assert_eq!(numbers(&sent), [0, 1, 2, 3]);
    assert_eq!(elements(&sent[1]), [3, 4]);
    assert!(sent.iter().all(|packet| (tag(packet).workers, tag(packet).is_resent) == (2, false)));
}

#[test]
fn the_window_moves_on_with_the_oldest_result() {
    let mut host = worker(&(1..=14).collect::<Vec<_>>());
    let sent = host.packets(at(0));
    host.arrive(at(0), 0, &result(&sent[1]));
    assert_eq!(host.packets(at(0)), [], "the oldest has none");
    host.arrive(at(0), 0, &result(&sent[0]));
    assert_eq!(numbers(&host.packets(at(0))), [4, 5]);
}

#[test]
fn it_ends_with_the_last_result_in_whatever_order_they_come() {
    let mut host = worker(&[1, 2, 3]);
    let sent = host.packets(at(0));
    host.arrive(at(0), 0, &result(&sent[1]));
    assert_eq!(host.outcome, None);
    host.arrive(at(0), 0, &result(&sent[0]));
    assert_eq!((host.outcome, host.result()), (Some(Outcome::Done), integers(&[3, 6, 9])));
}

#[test]
fn packets_are_numbered_through_all_collectives() {
    let mut host = worker(&[1, 2, 3]);
    for expected in [[0, 1], [2, 3], [4, 5]] {
        assert_eq!(host.ask(at(0), host.request()), Err(RequestError::Busy));
        let sent = host.packets(at(0));
        assert_eq!(numbers(&sent), expected);
        sent.iter().for_each(|packet| host.arrive(at(0), 0, &result(packet)));
        assert_eq!(host.outcome, Some(Outcome::Done));
        host.start(at(0));
    }
}

#[test]
fn a_result_that_nobody_waits_for_is_nothing() {
    let mut host = worker(&(1..=12).collect::<Vec<_>>());
    let sent = host.packets(at(0));
    host.arrive(at(0), 0, &result(&sent[0]));
    host.packets(at(0));
    let before = host.result();
    // The same again; of no packet that is under way; of two numbers.
    let other = |number| (tags(SHAPE).write(number, ALL, false), result(&sent[1]).1);
    let far = packet(1 << 20, ALL, false, &[9, 9]);
    for nothing in [result(&sent[0]), packet(5, ALL, false, &[9, 9]), far, other(2), other(1 << 20)] {
        host.arrive(at(0), 0, &nothing);
        assert_eq!((host.result(), host.packets(at(0)), host.outcome), (before.clone(), vec![], None));
    }
    host.arrive(at(0), 0, &result(&sent[1]));
    assert_ne!(host.result(), before);
}

#[test]
fn three_later_results_say_that_a_packet_is_lost() {
    let mut host = worker(&(1..=20).collect::<Vec<_>>());
    let sent = host.packets(at(0));
    for later in [2, 1] {
        host.arrive(at(0), 0, &result(&sent[later]));
        assert_eq!(host.packets(at(0)), []);
    }
    host.arrive(at(0), 0, &result(&sent[3]));
    let again = host.packets(at(0));
    assert_eq!((numbers(&again), elements(&again[0])), (vec![0], vec![1, 2]));
    assert!(tag(&again[0]).is_resent);
    host.arrive(at(0), 0, &result(&sent[0]));
    assert_eq!(numbers(&host.packets(at(0))), [4, 5, 6, 7]);
}

#[test]
fn what_waits_too_long_is_sent_again_as_it_was_and_says_so() {
    let mut host = worker(&[1, 2, 3, 4]);
    let sent = host.packets(at(0));
    assert_eq!(host.verbs.alarms, [TIMEOUT]);
    host.time_out(at(1));
    let again = host.packets(at(1));
    assert_eq!(numbers(&again), [0, 1]);
    assert!(again.iter().zip(&sent).all(|(again, sent)| again.1 == sent.1 && tag(again).is_resent));
}

#[test]
fn a_packet_is_not_put_where_one_waits_to_leave() {
    let mut host = worker(&(1..=12).collect::<Vec<_>>());
    let sent = host.packets(at(0));
    host.time_out(at(1));
    // The copy of packet 0 is still here when its result comes.
    host.arrive(at(1), 0, &result(&sent[0]));
    assert_eq!(host.leave_one(at(1)).1.1, sent[0].1);
    let rest = host.packets(at(1));
    assert_eq!(numbers(&rest), [1, 2, 3, 4]);
    assert_eq!(elements(&rest[3]), [9, 10]);
}

#[test]
fn the_longer_nothing_comes_the_longer_it_waits() {
    let config = WorkerConfig { retries: UNLIMITED_RETRIES, ..rank_of(1, SHAPE) };
    let mut host = Host::new(config, DataType::I32, &integers(&[1]));
    host.start(at(0));
    let (mut now, mut waits) = (at(0), Vec::new());
    for _ in 0..9 {
        let wait = *host.verbs.alarms.last().unwrap();
        waits.push(wait.as_picos() / TIMEOUT.as_picos());
        now = now + wait;
        host.time_out(now);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
}

#[test]
fn after_so_many_time_outs_in_a_row_the_group_has_failed() {
    // Rank 0 beside its server, too, though it sends nothing.
    for mut host in [worker(&[1]), server(&[1])] {
        for count in 1..=3 {
            host.time_out(at(100 * count));
            assert_eq!(host.outcome, None);
        }
        host.time_out(at(400));
        assert_eq!(host.outcome, failed(Failure::RetryExceeded));
        assert_eq!(host.ask(at(401), host.request()), Err(RequestError::GroupFailed));
        host.outcome = None;
        host.complete(at(402), QpIndex(0), Completion::Failed { id: WorkId(0), failure: Failure::Flushed });
        host.time_out(at(500));
        assert_eq!(host.outcome, None, "it ends once");
    }
}

#[test]
fn an_opening_agrees_on_the_exponent_of_the_piece_behind_it() {
    let mut host = Host::new(rank_of(1, SHAPE), DataType::F32, &floats(&[1.0, -6.0, 0.25]));
    host.start(at(0));
    let opening = host.packets(at(0));
    assert_eq!(numbers(&opening), [0, 1]);
    assert!(opening.iter().all(|packet| elements(packet).is_empty()));
    assert_eq!([0, 1].map(|packet| said(&opening[packet]).exponent), [129, 125]);
    // In order: the second piece's exponent is here, the first one's is not.
    host.arrive(at(0), 0, &result(&opening[1]));
    assert_eq!(host.packets(at(0)), []);
    host.arrive(at(0), 0, &result_with(&opening[0], 133));
    let sent = host.packets(at(0));
    assert_eq!((numbers(&sent), said(&sent[0]).kind), (vec![2, 3], Kind::FixedPoint));
    // Below 2^7, four of which make 2^30 at most.
    assert_eq!(elements(&sent[0]), [1 << 21, -6 << 21]);
    sent.iter().for_each(|packet| host.arrive(at(0), 0, &result(packet)));
    assert_eq!((host.outcome, to_floats(&host.result())), (Some(Outcome::Done), vec![3.0, -18.0, 0.75]));
}

#[test]
fn a_barrier_is_an_all_reduce_of_nothing() {
    let mut host = Host::new(rank_of(1, SHAPE), DataType::F16, &[]);
    let request = CollectiveRequest { collective: Collective::Barrier, ..host.request() };
    assert_eq!(host.ask(at(0), request), Ok(()));
    let sent = host.packets(at(0));
    assert_eq!((numbers(&sent), sent[0].1.len(), said(&sent[0]).kind), (vec![0], LENGTH, Kind::Integers));
    host.arrive(at(0), 0, &result(&sent[0]));
    assert_eq!(host.outcome, Some(Outcome::Done));
}

#[test]
fn a_result_of_ranks_that_disagree_ends_the_group() {
    let changes: [fn(AtpHeader) -> AtpHeader; 2] = [
        |said| AtpHeader { kind: Kind::Disagreement, ..said },
        |said| AtpHeader { digest: said.digest ^ 1, ..said },
    ];
    for change in changes {
        let mut host = worker(&[1, 2]);
        let mut told = result(&host.packets(at(0))[0]);
        let header = change(said(&told)).to_bytes();
        told.1[..LENGTH].copy_from_slice(&header);
        host.arrive(at(0), 0, &told);
        assert_eq!(host.outcome, failed(Failure::Disagreement));
        assert_eq!(host.result(), integers(&[0, 0]), "nobody is told of a result");
    }
}

#[test]
fn a_result_of_another_length_ends_the_group() {
    let mut host = worker(&[1, 2]);
    let mut short = result(&host.packets(at(0))[0]);
    short.1.truncate(LENGTH + 4);
    host.arrive(at(0), 0, &short);
    assert_eq!(host.outcome, failed(Failure::InvalidRequest));
    let mut host = worker(&[1, 2]);
    host.complete(at(0), QpIndex(0), Completion::Received { id: WorkId(0), length: 0, immediate: None });
    assert_eq!(host.outcome, failed(Failure::InvalidRequest), "a packet has an immediate");
}

#[test]
fn what_the_switch_cannot_do_is_refused_and_nothing_is_sent() {
    let mut host = Host::new(rank_of(1, SHAPE), DataType::I32, &integers(&[1, 2]));
    let request = host.request();
    let max = Reduction { op: ReduceOp::Max, data_type: DataType::I32 };
    let refused = host.ask(at(0), CollectiveRequest { reduction: max, ..request });
    assert!(matches!(refused, Err(RequestError::Reduction { .. })));
    let found = Collective::AllGather;
    let refused = host.ask(at(0), CollectiveRequest { collective: found, ..request });
    assert_eq!(refused, Err(RequestError::NotOffered { found }));
    assert!(host.verbs.sends.is_empty());
}

#[test]
fn the_server_adds_its_own_part_and_sends_the_result_of_all() {
    let mut host = server(&[1, 2, 3]);
    assert_eq!(host.packets(at(0)), [], "its own part is a packet of nobody's");
    let sum = part(&host, 0, 0b110, false, &[10, 20]);
    host.arrive(at(0), 0, &sum);
    let sent = host.packets(at(0));
    assert_eq!((numbers(&sent), elements(&sent[0])), (vec![0], vec![11, 22]));
    assert_eq!((tag(&sent[0]).workers, tag(&sent[0]).is_resent), (ALL, false));
    let sum = part(&host, 1, 0b110, false, &[30]);
    host.arrive(at(0), 0, &sum);
    assert_eq!((host.outcome, host.result()), (Some(Outcome::Done), integers(&[11, 22, 33])));
}

#[test]
fn what_comes_before_its_rank_asks_for_anything_is_kept() {
    let shape = AtpShape { server_sends: false, ..SHAPE };
    let mut host = Host::new(rank_of(0, shape), DataType::I32, &integers(&[1, 2]));
    let sum = part(&host, 0, 0b110, false, &[10, 20]);
    host.arrive(at(0), 0, &sum);
    assert_eq!(host.packets(at(0)), []);
    host.start(at(0));
    assert_eq!((host.outcome, host.result()), (Some(Outcome::Done), integers(&[11, 22])));
    assert_eq!(host.packets(at(0)).len(), 1);
}

#[test]
fn where_it_sends_its_part_goes_through_the_switch_and_the_result_comes_back_that_way() {
    let mut host = Host::new(rank_of(0, SHAPE), DataType::I32, &integers(&[1, 2]));
    host.start(at(0));
    let [(1, sent)] = &host.leave(at(0))[..] else { panic!("a packet through the second queue pair") };
    assert_eq!((tag(sent).workers, elements(sent)), (1, vec![1, 2]));
    let sum = part(&host, 0, ALL, false, &[11, 22]);
    host.arrive(at(0), 0, &sum);
    let [(0, answer)] = &host.leave(at(0))[..] else { panic!("a result through the first") };
    assert_eq!(host.outcome, None);
    host.arrive(at(0), 1, answer);
    assert_eq!((host.outcome, host.result()), (Some(Outcome::Done), integers(&[11, 22])));
}

#[test]
fn parts_are_added_up_if_nobody_is_in_two_of_them() {
    let mut host = server(&[1]);
    let parts = [(0b010, 10), (0b010, 10), (0b001, 1), (0b100, 100)];
    for (workers, value) in parts {
        assert_eq!(host.packets(at(0)), [], "before {workers:#b}");
        let part = part(&host, 0, workers, true, &[value]);
        host.arrive(at(0), 0, &part);
    }
    assert_eq!(host.result(), integers(&[111]));
}

#[test]
fn a_part_that_has_all_that_is_there_and_more_takes_its_place() {
    let mut host = Host::new(rank_of(0, SHAPE), DataType::I32, &integers(&[1]));
    host.start(at(0));
    host.leave(at(0));
    for (workers, value) in [(0b010, 10), (0b110, 110), (0b011, 11), (ALL, 111)] {
        let part = part(&host, 0, workers, false, &[value]);
        host.arrive(at(0), 0, &part);
    }
    assert_eq!(elements(&host.packets(at(0))[0]), [111]);
}

#[test]
fn a_part_that_has_some_of_what_is_there_and_not_all_changes_nothing() {
    let mut host = Host::new(rank_of(0, SHAPE), DataType::I32, &integers(&[1]));
    host.start(at(0));
    host.leave(at(0));
    for (workers, value) in [(0b110, 110), (0b011, 11), (0b100, 100), (0b001, 1)] {
        let part = part(&host, 0, workers, true, &[value]);
        host.arrive(at(0), 0, &part);
    }
    assert_eq!(elements(&host.packets(at(0))[0]), [111]);
}

#[test]
fn a_result_is_sent_again_to_who_asks_again_and_only_then() {
    let mut host = server(&[1]);
    let sum = part(&host, 0, 0b110, false, &[110]);
    host.arrive(at(0), 0, &sum);
    let first = host.packets(at(0));
    host.arrive(at(0), 0, &sum);
    assert_eq!(host.packets(at(0)), [], "a copy");
    let again = part(&host, 0, 0b010, true, &[10]);
    host.arrive(at(0), 0, &again);
    host.arrive(at(0), 0, &again);
    assert_eq!(host.packets(at(0)), first, "once, though two ask before it leaves");
    host.arrive(at(0), 0, &again);
    assert_eq!(host.packets(at(0)), first);
}

#[test]
fn sums_of_two_windows_are_kept_and_what_lies_further_back_is_late() {
    let mut host = server(&(0..18).collect::<Vec<_>>());
    for number in 0..8 {
        let sum = part(&host, number, 0b110, false, &[10, 10]);
        host.arrive(at(0), 0, &sum);
    }
    host.packets(at(0));
    let asked = |host: &mut Host, number| {
        let again = part(host, number, 0b010, true, &[10, 10]);
        host.arrive(at(0), 0, &again);
        numbers(&host.packets(at(0)))
    };
    for number in [0, 3, 7] {
        // Rank 0 is at 8, which has the place of 0.
        assert_eq!(asked(&mut host, number), if number == 0 { vec![] } else { vec![number] });
    }
    let sum = part(&host, 8, 0b110, false, &[10, 10]);
    host.arrive(at(0), 0, &sum);
    assert_eq!((numbers(&host.packets(at(0))), host.outcome), (vec![8], Some(Outcome::Done)));
    assert!(asked(&mut host, 0).is_empty(), "it is late");
    assert_eq!(asked(&mut host, 8), [8], "and took nobody's place");
}

/// A peer that runs ahead does not push out what others wait for.
#[test]
fn a_sum_that_is_not_whole_keeps_its_place() {
    let mut host = server(&[1]);
    let ahead = part(&host, 8, 0b110, false, &[9]);
    host.arrive(at(0), 0, &ahead);
    let sum = part(&host, 0, 0b110, false, &[110]);
    host.arrive(at(0), 0, &sum);
    assert_eq!((host.outcome, host.result()), (Some(Outcome::Done), integers(&[111])));
}

#[test]
fn ranks_that_ask_for_different_things_are_told_by_the_server() {
    let mut host = server(&[1]);
    let mut other = part(&host, 0, 0b110, false, &[110]);
    let header = AtpHeader { digest: 0, ..said(&other) }.to_bytes();
    other.1[..LENGTH].copy_from_slice(&header);
    host.arrive(at(0), 0, &other);
    assert_eq!(host.outcome, failed(Failure::Disagreement));
    assert_eq!(said(&host.packets(at(0))[0]).kind, Kind::Disagreement);
    assert_eq!(host.result(), integers(&[0]));
}
