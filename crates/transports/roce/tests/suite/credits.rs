//! Credits as a specification: how many messages a sender begins by what its receiver has told (InfiniBand Architecture 9.7.7.2).

use crate::common::bench::Bench;
use crate::common::links::{Links, Trouble};
use crate::common::{ALICE_PSN, BOB_PSN, MTU, alice, receive, send, slice, write};
use quincunx_engine::verbs::{Completion, RegionId, WorkId};
use quincunx_roce::{DropReason, INFINITE_RNR_RETRIES, QueuePairConfig};
use quincunx_units::{Instant, Packets};
use quincunx_wire::aeth::credit_code;
use quincunx_wire::{Aeth, Operation, Position, Psn, Syndrome};

fn with_credits() -> QueuePairConfig {
    QueuePairConfig { credits: true, window: Packets::new(16), ..alice() }
}

fn psn(index: u32) -> Psn {
    ALICE_PSN.plus(index)
}

fn psns(indices: impl IntoIterator<Item = u32>) -> Vec<Psn> {
    indices.into_iter().map(psn).collect()
}

/// Posts messages of so many packets.
fn post(bench: &mut Bench, region: RegionId, packets: &[usize]) {
    for &packets in packets {
        let request = send(9, slice(region, 0, packets * MTU));
        bench.qp.post_send(request, &bench.memory).expect("the slice is registered");
    }
}

/// Everything up to packet `index` has arrived, which were so many messages, and there are receive requests for so many more.
fn tell(bench: &mut Bench, index: u32, messages: u32, requests: usize) {
    let aeth = Aeth { syndrome: Syndrome::Ack(credit_code(requests)), message_sequence: messages };
    bench.frame(psn(index), Operation::Acknowledge(aeth), &[]);
}

/// A bench whose peer has taken a message, and told of so many receive requests; that was packet 0.
fn told(requests: usize) -> (Bench, RegionId) {
    let mut bench = Bench::new(with_credits());
    let region = bench.region(64);
    post(&mut bench, region, &[1]);
    assert_eq!(bench.transmit_all(), psns([0]));
    tell(&mut bench, 0, 1, requests);
    (bench, region)
}

#[test]
fn as_many_messages_are_sent_as_the_peer_has_told_of_and_the_last_one_asks() {
    let (mut bench, region) = told(2);
    post(&mut bench, region, &[1; 5]);
    assert_eq!(bench.transmit_all(), psns([1, 2]));
    assert!(bench.out.frames.last().unwrap().0.acknowledge_request);
    tell(&mut bench, 2, 3, 2);
    assert_eq!(bench.transmit_all(), psns([3, 4]));
}

#[test]
fn where_the_peer_has_none_left_one_packet_finds_out_when_it_has() {
    let (mut bench, region) = told(0);
    post(&mut bench, region, &[3, 1]);
    assert_eq!(bench.transmit_all(), psns([1]));
    assert!(bench.out.frames.last().unwrap().0.acknowledge_request);
    // The message that arrives has its receive request.
    tell(&mut bench, 1, 1, 1);
    assert_eq!(bench.transmit_all(), psns([2, 3]));
    tell(&mut bench, 3, 2, 0);
    assert_eq!(bench.transmit_all(), psns([4]));
}

#[test]
fn what_was_sent_before_anything_was_told_does_not_wait_for_a_time_out() {
    let mut bench = Bench::new(QueuePairConfig { acknowledge_every: Packets::new(2), ..with_credits() });
    let region = bench.region(64);
    post(&mut bench, region, &[1; 3]);
    // The second asks, the third leaves the asking to the next.
    post(&mut bench, region, &[1; 3]);
    for _ in 0..3 {
        bench.qp.transmit(Instant::ZERO, &bench.memory, &mut bench.out);
    }
    assert!(!bench.out.frames.last().unwrap().0.acknowledge_request);
    tell(&mut bench, 1, 2, 1);
    assert_eq!(bench.transmit_all(), psns([3]));
    assert!(bench.out.frames.last().unwrap().0.acknowledge_request);
}

#[test]
fn what_was_told_once_is_not_taken_back() {
    let (mut bench, region) = told(4);
    // An older acknowledge, late.
    tell(&mut bench, 0, 1, 0);
    post(&mut bench, region, &[1; 6]);
    assert_eq!(bench.transmit_all(), psns([1, 2, 3, 4]));
    tell(&mut bench, 1, 1, 0);
    tell(&mut bench, 4, 5, 0);
    assert_eq!(bench.transmit_all(), psns([5]), "one packet, to find out");
}

#[test]
fn writes_need_no_receive_request() {
    let (mut bench, region) = told(0);
    let request = write(9, slice(region, 0, 3 * MTU), region, 0);
    bench.qp.post_send(request, &bench.memory).expect("the slice is registered");
    assert_eq!(bench.transmit_all(), psns([1, 2, 3]));
}

#[test]
fn a_peer_that_keeps_no_count_is_sent_to_as_before() {
    let (mut bench, region) = told(0);
    post(&mut bench, region, &[1]);
    assert_eq!(bench.transmit_all(), psns([1]));
    bench.frame(
        psn(1),
        Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(31), message_sequence: 2 }),
        &[],
    );
    post(&mut bench, region, &[1; 5]);
    assert_eq!(bench.transmit_all(), psns([2, 3, 4, 5, 6]));
}

#[test]
fn acknowledges_tell_of_the_receive_requests_that_are_left() {
    for (credits, said) in [(true, 3), (false, 31)] {
        let mut bench = Bench::new(QueuePairConfig { credits, ..alice() });
        let region = bench.region(64);
        for id in 0..4 {
            bench
                .qp
                .post_receive(receive(id, slice(region, 0, MTU)), &bench.memory)
                .expect("it is registered");
        }
        bench.asking_frame(BOB_PSN, Operation::Send(Position::Only), &[1, 2, 3, 4]);
        assert_eq!(bench.answers(), [(BOB_PSN, Syndrome::Ack(said), 1)]);
    }
}

#[test]
fn a_peer_that_was_told_of_none_is_told_of_the_next_without_asking() {
    for (credits, told) in [(true, vec![(BOB_PSN, Syndrome::Ack(2), 1)]), (false, vec![])] {
        let mut bench = Bench::new(QueuePairConfig { credits, ..alice() });
        let region = bench.region(64);
        let post = |bench: &mut Bench, id| {
            let request = receive(id, slice(region, 0, MTU));
            bench.qp.post_receive(request, &bench.memory).expect("it is registered");
        };
        post(&mut bench, 0);
        bench.asking_frame(BOB_PSN, Operation::Send(Position::Only), &[1, 2, 3, 4]);
        assert_eq!(bench.answers().len(), 1);
        bench.out.frames.clear();
        assert!(!bench.qp.wants_transmit());
        post(&mut bench, 1);
        post(&mut bench, 2);
        bench.transmit_all();
        assert_eq!(bench.answers(), told);
        assert!(!bench.qp.wants_transmit(), "it is told once");
    }
}

#[test]
fn who_takes_messages_without_telling_knows_what_the_peer_thinks() {
    let mut bench = Bench::new(QueuePairConfig { credits: true, ..alice() });
    let region = bench.region(64);
    let post = |bench: &mut Bench, id| {
        let request = receive(id, slice(region, 0, MTU));
        bench.qp.post_receive(request, &bench.memory).expect("it is registered");
    };
    post(&mut bench, 0);
    post(&mut bench, 1);
    // It is told of one more, which the second message uses up without asking.
    bench.asking_frame(BOB_PSN, Operation::Send(Position::Only), &[1, 2, 3, 4]);
    bench.frame(BOB_PSN.plus(1), Operation::Send(Position::Only), &[1, 2, 3, 4]);
    post(&mut bench, 2);
    assert!(bench.qp.wants_transmit());
}

#[test]
fn while_a_message_arrives_its_own_acknowledge_tells() {
    let mut bench = Bench::new(QueuePairConfig { credits: true, ..alice() });
    let region = bench.region(64);
    let post = |bench: &mut Bench, id| {
        let request = receive(id, slice(region, 0, 2 * MTU));
        bench.qp.post_receive(request, &bench.memory).expect("it is registered");
    };
    post(&mut bench, 0);
    bench.asking_frame(BOB_PSN, Operation::Send(Position::Only), &[1, 2, 3, 4]);
    post(&mut bench, 1);
    bench.transmit_all();
    bench.frame(BOB_PSN.plus(1), Operation::Send(Position::First), &[0; MTU]);
    post(&mut bench, 2);
    assert!(!bench.qp.wants_transmit());
    bench.frame(BOB_PSN.plus(2), Operation::Send(Position::Last), &[0; MTU]);
    assert!(bench.qp.wants_transmit());
}

#[test]
fn news_of_receive_requests_is_no_stale_acknowledge_and_ends_the_wait_for_them() {
    let (mut bench, region) = told(0);
    post(&mut bench, region, &[1]);
    assert_eq!(bench.transmit_all(), psns([1]), "one packet, to find out");
    post(&mut bench, region, &[1; 3]);
    tell(&mut bench, 0, 1, 3);
    assert_eq!(bench.transmit_all(), psns([2, 3]));
    assert_eq!(bench.out.drops, []);
    tell(&mut bench, 0, 1, 3);
    assert_eq!(bench.out.drops, [DropReason::StaleAcknowledge], "that was known");
}

/// Two hosts; the receiver has one receive request at a time, and posts the next one when a message has come.
#[test]
fn a_slow_receiver_is_sent_no_more_than_a_packet_that_it_cannot_take() {
    let dropped = [false, true].map(|credits| {
        let config = QueuePairConfig { rnr_retry_count: INFINITE_RNR_RETRIES, credits, ..with_credits() };
        let mut links = Links::new(config, Trouble::default(), 1);
        let (source, sink) = (links.nodes[0].register(vec![7; 64]), links.nodes[1].register(vec![0; 64]));
        for id in 0..8 {
            links.nodes[0].post_send(send(id, slice(source, 0, 2 * MTU)));
        }
        for id in 0..8 {
            links.nodes[1].post_receive(receive(id, slice(sink, 0, 64)));
            links.run_for(crate::common::RETRY_TIMEOUT * 10);
        }
        links.run(10_000);
        let received = |id| Completion::Received { id: WorkId(id), length: 2 * MTU, immediate: None };
        assert_eq!(links.nodes[1].completions, (0..8).map(received).collect::<Vec<_>>());
        let behind = |reason: &&DropReason| **reason == DropReason::OutOfSequence;
        links.nodes[1].drops.iter().filter(behind).count()
    });
    assert!(dropped[0] > 40, "without credits what comes behind is dropped, {dropped:?}");
    // What was sent before the first acknowledge.
    assert!(dropped[1] <= 14, "{dropped:?}");
}
