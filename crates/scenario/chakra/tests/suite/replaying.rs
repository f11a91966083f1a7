//! When nodes run: streams, meetings, rooflines, and who waits forever.

use quincunx_chakra::{
    Communication, Cost, Exchange, Machine, Node, Operation, RankTimes, Replay, ReplayError, Trace, Work,
    replay,
};
use quincunx_collective::{Collective, Rank};
use quincunx_units::{BitRate, ByteCount, Duration, FlopRate};
use std::cell::RefCell;
use std::convert::Infallible;

use crate::samples::{all_reduce, collective, compute, node, on_host, receive, send, trace};

const fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A million operations a microsecond, a thousand bytes a microsecond.
fn machine() -> Machine {
    Machine { rate: FlopRate::new(1_000_000_000_000).unwrap(), memory: BitRate::new(8_000_000_000).unwrap() }
}

/// Every byte takes a microsecond.
fn by_size(communication: &Communication) -> Result<Duration, Infallible> {
    Ok(us(communication.size.bytes()))
}

fn run(traces: &[Vec<Node>]) -> Replay {
    let traces: Vec<Trace> = traces.iter().cloned().map(trace).collect();
    replay(&traces.iter().collect::<Vec<_>>(), machine(), by_size).unwrap()
}

fn refused(traces: &[Vec<Node>]) -> String {
    let traces: Vec<Trace> = traces.iter().cloned().map(trace).collect();
    let error = replay(&traces.iter().collect::<Vec<_>>(), machine(), by_size).unwrap_err().to_string();
    assert!(!error.contains('\n') && error.contains("expected") && error.contains("found"), "{error}");
    error
}

/// Two ranks with the same nodes.
fn both(nodes: Vec<Node>) -> [Vec<Node>; 2] {
    [nodes.clone(), nodes]
}

/// When a node of a rank ran, in microseconds.
fn ran(replay: &Replay, rank: usize, id: u64) -> (f64, f64) {
    let span = replay.spans[rank].iter().find(|span| span.id == id).expect("it ran");
    (span.begin.as_micros_f64(), span.end.as_micros_f64())
}

#[test]
fn a_node_begins_when_all_before_it_are_over() {
    let done = run(&[vec![
        compute(1, &[], 3),
        on_host(compute(2, &[], 5)),
        Node { control: vec![2], ..compute(3, &[1], 1) },
    ]]);
    assert_eq!(ran(&done, 0, 3), (5.0, 6.0));
    assert_eq!(done.time, us(6));
}

#[test]
fn an_accelerator_does_one_node_at_a_time_the_lowest_id_first() {
    let done = run(&[vec![compute(9, &[], 1), compute(4, &[], 2), compute(6, &[], 4)]]);
    assert_eq!([4, 6, 9].map(|id| ran(&done, 0, id)), [(0.0, 2.0), (2.0, 6.0), (6.0, 7.0)]);
}

#[test]
fn host_and_accelerator_work_side_by_side() {
    let done = run(&[vec![on_host(compute(1, &[], 3)), compute(2, &[], 5), on_host(compute(3, &[], 4))]]);
    let RankTimes { time, compute, host, .. } = done.ranks[0];
    assert_eq!((time, compute, host), (us(7), us(5), us(7)));
}

#[test]
fn a_computation_without_a_duration_takes_the_longer_of_arithmetic_and_memory() {
    let cost = |operations, traffic: Option<u64>| {
        let cost = Cost { operations, traffic: traffic.map(ByteCount::new) };
        run(&[vec![node(1, &[], Work::Compute(cost))]]).time
    };
    assert_eq!(cost(Some(3_000_000), Some(2_000)), us(3));
    assert_eq!(cost(Some(3_000_000), Some(5_000)), us(5));
    assert_eq!(cost(Some(2_000_000), None), us(2));
    assert_eq!(cost(None, None), Duration::ZERO);
}

#[test]
fn a_recorded_duration_counts_more_than_a_roofline() {
    let cost = Cost { operations: Some(9_000_000), traffic: None };
    let work = node(1, &[], Work::Compute(cost));
    assert_eq!(run(&[vec![Node { duration: us(4), ..work }]]).time, us(4));
}

#[test]
fn loads_and_stores_take_memory_and_the_accelerators_turn() {
    let size = ByteCount::new(2_000);
    let done = run(&[vec![
        node(1, &[], Work::Load(size)),
        compute(2, &[], 3),
        Node { duration: us(7), ..node(3, &[], Work::Store(size)) },
    ]]);
    assert_eq!([1, 2, 3].map(|id| ran(&done, 0, id)), [(0.0, 2.0), (2.0, 5.0), (5.0, 12.0)]);
}

#[test]
fn metadata_takes_no_time_and_no_turn() {
    let described = Node { duration: us(50), ..node(2, &[], Work::Metadata) };
    let done = run(&[vec![compute(1, &[], 3), described, on_host(compute(3, &[2], 1))]]);
    assert_eq!(ran(&done, 0, 3), (0.0, 1.0));
}

#[test]
fn a_collective_begins_when_the_last_rank_has_come() {
    let rank = |micros| vec![compute(1, &[], micros), all_reduce(2, &[1], 10), compute(3, &[2], 1)];
    let done = run(&[rank(3), rank(8), rank(5)]);
    for rank in 0..3 {
        assert_eq!(ran(&done, rank, 2), (8.0, 18.0));
        assert_eq!(done.ranks[rank].time, us(19));
    }
}

#[test]
fn what_of_the_communication_nothing_hides_is_exposed() {
    let done = run(&both(vec![
        compute(1, &[], 2),
        all_reduce(2, &[1], 10),
        compute(3, &[1], 4),
        compute(4, &[2], 1),
    ]));
    let RankTimes { time, compute, communication, exposed, .. } = done.ranks[0];
    assert_eq!((time, compute, communication, exposed), (us(13), us(7), us(10), us(6)));
}

#[test]
fn a_host_hides_no_communication() {
    let done = run(&both(vec![on_host(compute(1, &[], 20)), all_reduce(2, &[], 10)]));
    assert_eq!(done.ranks[0].exposed, us(10));
}

#[test]
fn a_rank_is_in_one_collective_at_a_time_the_lowest_id_first() {
    let done = run(&both(vec![all_reduce(5, &[], 3), all_reduce(2, &[], 4)]));
    assert_eq!((ran(&done, 1, 2), ran(&done, 1, 5)), ((0.0, 4.0), (4.0, 7.0)));
}

#[test]
fn who_waits_in_one_group_goes_on_in_another() {
    let group = |id, name, bytes| collective(id, &[], Collective::AllReduce, bytes, Some(name));
    let late = |id, after: &[u64], name| collective(id, after, Collective::AllReduce, 4, Some(name));
    let done = run(&[
        vec![group(1, "all", 4), group(2, "pair", 3)],
        vec![group(1, "all", 4), group(2, "pair", 3)],
        vec![compute(1, &[], 20), late(2, &[1], "all")],
    ]);
    assert_eq!((ran(&done, 0, 2), ran(&done, 0, 1)), ((0.0, 3.0), (20.0, 24.0)));
}

#[test]
fn groups_with_no_rank_in_common_do_not_wait_for_each_other() {
    let of = |name| vec![collective(1, &[], Collective::AllGather, 5, Some(name))];
    let done = run(&[of("a"), of("b"), of("a"), of("b")]);
    assert_eq!(done.time, us(5));
}

#[test]
fn whoever_knows_the_network_is_asked_for_members_operation_and_size() {
    let asked = RefCell::new(Vec::new());
    let broadcast = Collective::Broadcast { root: Rank(2) };
    let group = vec![collective(1, &[], broadcast, 64, Some("odd")), send(2, &[1], 2, 9)];
    let other = vec![collective(1, &[], broadcast, 64, Some("odd")), receive(2, &[1], 0, 9)];
    let traces = [trace(group), trace(vec![]), trace(other)];
    let known = |communication: &Communication| {
        asked.borrow_mut().push(communication.clone());
        Ok::<_, Infallible>(us(1))
    };
    replay(&traces.iter().collect::<Vec<_>>(), machine(), known).unwrap();
    let members = vec![Rank(0), Rank(2)];
    let exchange = Exchange::Collective(Operation::Collective(broadcast));
    let expected = [
        Communication { exchange, size: ByteCount::new(64), members: members.clone() },
        Communication { exchange: Exchange::Message, size: ByteCount::new(9), members },
    ];
    assert_eq!(asked.into_inner(), expected);
}

#[test]
fn a_collective_of_one_rank_takes_no_time_and_asks_nobody() {
    let alone = trace(vec![all_reduce(1, &[], 1 << 30)]);
    let done = replay(&[&alone], machine(), |_| -> Result<Duration, String> { panic!("asked") }).unwrap();
    assert_eq!(done.time, Duration::ZERO);
}

#[test]
fn collectives_meet_in_the_order_of_ids_not_of_the_file() {
    let done = run(&[
        vec![all_reduce(1, &[], 2), all_reduce(8, &[], 6)],
        vec![all_reduce(40, &[], 6), all_reduce(30, &[], 2)],
    ]);
    assert_eq!((ran(&done, 1, 30), ran(&done, 1, 40)), ((0.0, 2.0), (2.0, 8.0)));
}

#[test]
fn a_message_begins_when_both_ends_are_ready() {
    let done = run(&[
        vec![compute(1, &[], 3), send(2, &[1], 1, 4)],
        vec![compute(1, &[], 5), receive(2, &[1], 0, 4)],
    ]);
    assert_eq!((ran(&done, 0, 2), ran(&done, 1, 2)), ((5.0, 9.0), (5.0, 9.0)));
}

#[test]
fn a_rank_sends_and_receives_at_once_but_one_message_each() {
    let exchange = |peer| {
        vec![send(1, &[], peer, 4), receive(2, &[], peer, 4), send(3, &[], peer, 5), receive(4, &[], peer, 5)]
    };
    let done = run(&[exchange(1), exchange(0)]);
    assert_eq!([1, 2, 3, 4].map(|id| ran(&done, 0, id)), [(0.0, 4.0), (0.0, 4.0), (4.0, 9.0), (4.0, 9.0)]);
}

#[test]
fn messages_with_other_tags_do_not_meet() {
    let tagged = |node: Node, number| {
        let work = match node.work {
            Work::Send { peer, size, .. } => Work::Send { peer, tag: number, size },
            Work::Receive { peer, size, .. } => Work::Receive { peer, tag: number, size },
            other => other,
        };
        Node { work, ..node }
    };
    let done = run(&[
        vec![tagged(send(1, &[], 1, 3), 9), tagged(send(2, &[1], 1, 5), 5)],
        vec![tagged(receive(1, &[], 0, 5), 5), tagged(receive(2, &[], 0, 3), 9)],
    ]);
    assert_eq!((ran(&done, 1, 2), ran(&done, 1, 1)), ((0.0, 3.0), (3.0, 8.0)));
}

#[test]
fn a_message_waits_for_a_collective_of_either_end() {
    let group = |id| collective(id, &[], Collective::AllReduce, 6, Some("pair"));
    let done = run(&[vec![group(1), send(5, &[], 2, 2)], vec![group(1)], vec![receive(5, &[], 0, 2)]]);
    assert_eq!(ran(&done, 2, 5), (6.0, 8.0));
}

#[test]
fn bytes_count_collectives_and_what_is_sent() {
    let done = run(&[
        vec![all_reduce(1, &[], 6), send(2, &[1], 1, 2)],
        vec![all_reduce(1, &[], 6), receive(2, &[1], 0, 2)],
    ]);
    assert_eq!([0, 1].map(|rank| done.ranks[rank].bytes), [8, 6].map(ByteCount::new));
}

#[test]
fn the_slowest_is_the_first_rank_of_those_that_are_done_last() {
    let done = run(&[vec![compute(1, &[], 1)], vec![compute(1, &[], 3)], vec![compute(1, &[], 3)]]);
    assert_eq!((done.slowest(), done.time), (1, us(3)));
}

#[test]
fn what_ends_together_is_over_before_anything_begins() {
    // At 2 us an accelerator is free, for which 9 waits, and a collective is over, for which 6 waits.
    let done =
        run(&both(vec![all_reduce(1, &[], 2), compute(5, &[], 2), compute(6, &[1], 1), compute(9, &[], 1)]));
    assert_eq!((ran(&done, 0, 6), ran(&done, 0, 9)), ((2.0, 3.0), (3.0, 4.0)));
}

#[test]
fn of_collectives_that_all_are_ready_for_the_one_with_the_lowest_id_of_any_rank_comes_first() {
    let of = |id, name| collective(id, &[], Collective::AllReduce, 4, Some(name));
    let done = run(&[vec![of(1, "a"), of(5, "b")], vec![of(40, "a"), of(6, "b")]]);
    assert_eq!((ran(&done, 0, 1), ran(&done, 0, 5)), ((0.0, 4.0), (4.0, 8.0)));
}

#[test]
fn a_group_may_do_several_collectives() {
    let of = |id| collective(id, &[], Collective::AllReduce, 4, Some("a"));
    assert_eq!(run(&both(vec![of(1), of(2)])).time, us(8));
}

#[test]
fn what_is_sent_and_received_at_once_counts_once() {
    let done = run(&[
        vec![send(1, &[], 1, 10), receive(2, &[], 2, 3)],
        vec![receive(1, &[], 0, 10)],
        vec![compute(1, &[], 2), send(2, &[1], 0, 3)],
    ]);
    assert_eq!(ran(&done, 0, 2), (2.0, 5.0));
    assert_eq!(done.ranks[0].communication, us(10));
}

#[test]
fn every_computation_during_a_communication_hides_a_part_of_it() {
    let done = run(&both(vec![
        all_reduce(1, &[], 10),
        on_host(compute(2, &[], 1)),
        compute(3, &[2], 1),
        on_host(compute(4, &[3], 2)),
        compute(5, &[4], 2),
    ]));
    assert_eq!(done.ranks[0].exposed, us(7));
}

#[test]
fn ranks_that_wait_forever_are_named_with_their_nodes() {
    let error = refused(&[vec![all_reduce(4, &[], 64)], vec![all_reduce(9, &[], 64)], vec![]]);
    assert!(error.contains("rank 0 at node 4 \"node 4\" (all_reduce of 64B) for 2"), "{error}");
    assert!(error.contains("rank 1 at node 9"), "{error}");
}

#[test]
fn a_circle_over_two_ranks_is_found() {
    let error = refused(&[
        vec![receive(1, &[], 1, 8), send(2, &[1], 1, 8)],
        vec![receive(1, &[], 0, 8), send(2, &[1], 0, 8)],
    ]);
    assert!(
        error.contains("rank 0 at node 1 \"node 1\" (a message of 8B from rank 1 to rank 0) for 1"),
        "{error}"
    );
}

#[test]
fn of_many_that_wait_the_first_are_named_and_the_rest_counted() {
    let mut traces = vec![vec![all_reduce(1, &[], 4)]; 7];
    traces.push(vec![]);
    let error = refused(&traces);
    assert!(
        error.contains("rank 3 at") && !error.contains("rank 4 at") && error.contains("3 more"),
        "{error}"
    );
}

#[test]
fn ranks_that_do_different_things_are_refused_before_anything_runs() {
    let different = |one: Node, other: Node| refused(&[vec![one], vec![other]]);
    let error = different(all_reduce(1, &[], 64), all_reduce(2, &[], 32));
    assert!(
        error.contains(
            "rank 1, node 2: expected all_reduce of 64B as at node 1 of rank 0, found all_reduce of 32B"
        ),
        "{error}"
    );
    let error = different(all_reduce(1, &[], 64), collective(1, &[], Collective::AllGather, 64, None));
    assert!(error.contains("found all_gather of 64B"), "{error}");
    let rooted = |root| collective(1, &[], Collective::Reduce { root: Rank(root) }, 64, None);
    let error = different(rooted(0), rooted(1));
    assert!(error.contains("reduce of 64B with root 0") && error.contains("with root 1"), "{error}");
    assert!(different(send(1, &[], 1, 4), receive(1, &[], 0, 5)).contains("found a message of 5B"));
}

#[test]
fn peers_and_roots_are_ranks_of_the_traces() {
    assert!(
        refused(&[vec![send(3, &[], 2, 4)], vec![]])
            .contains("rank 0, node 3: expected another rank of 2, found 2")
    );
    assert!(refused(&[vec![receive(3, &[], 0, 4)], vec![]]).contains("found 0"), "from itself");
    let root = Collective::Reduce { root: Rank(1) };
    let error = refused(&[vec![collective(3, &[], root, 4, Some("even"))], vec![]]);
    assert!(error.contains("group \"even\", found 1"), "{error}");
}

#[test]
fn without_a_trace_there_is_nothing_to_replay() {
    let none = replay(&[], machine(), by_size).unwrap_err();
    assert_eq!(none, ReplayError::NoTraces);
    assert!(none.to_string().contains("found none"));
}

#[test]
fn what_the_network_says_is_told_with_rank_and_node() {
    let traces = [trace(vec![]), trace(vec![send(5, &[], 2, 4)]), trace(vec![receive(6, &[], 1, 4)])];
    let error =
        replay(&traces.iter().collect::<Vec<_>>(), machine(), |_| Err("no such way".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "rank 1, node 5: no such way");
}

#[test]
fn the_same_traces_give_the_same_times() {
    let rank = |seed: u64| -> Vec<Node> {
        let mut nodes: Vec<Node> = (0..40).map(|id| compute(id, &[], 1 + (id * seed) % 7)).collect();
        nodes.extend((40..60).map(|id| all_reduce(id, &[(id * seed) % 40], 1 + id % 5)));
        nodes
    };
    let traces = [rank(3), rank(5), rank(11)];
    assert_eq!(run(&traces), run(&traces));
}
