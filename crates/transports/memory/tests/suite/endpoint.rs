//! An accelerator's memory: what it serves and when, and what its own requests bring.

use quincunx_collective::{DataType, Numbers, Rank, ReduceOp, Reduction};
use quincunx_engine::PortId;
use quincunx_engine::shared_memory::{MemoryEvent, SharedMemory, Span, WordId};
use quincunx_memory::{Endpoint, EndpointConfig, MemoryDrop, Scatter, UNSOLICITED};
use quincunx_units::{Duration, Instant};
use quincunx_wire::flit::*;

const LINK: PortId = PortId(0);
const SWITCH: NodeId = NodeId(9);
const SUM: Reduction = Reduction { op: ReduceOp::Sum, data_type: DataType::I32 };
const LATENCY: Duration = Duration::from_nanos(30);

fn endpoint(scatter: Option<Scatter>) -> Endpoint<Numbers> {
    let mut endpoint = Endpoint::<Numbers>::new(EndpointConfig {
        rank: Rank(3),
        switches: vec![SWITCH],
        memory: 1024,
        words: 2,
        format: FlitFormat::DGX,
        response_latency: LATENCY,
        scatter,
        load_window: 2,
        add_rate: None,
        reduction: Some(SUM),
    });
    endpoint.memory().bytes_mut().iter_mut().zip(0..).for_each(|(byte, number)| *byte = number as u8);
    endpoint
}

fn to_it(address: u64, tag: u32, transaction: Transaction) -> FlitHeader {
    FlitHeader::new(SWITCH, NodeId(3), true, address, tag, transaction)
}

fn at(nanos: u64) -> Instant {
    Instant::ZERO + Duration::from_nanos(nanos)
}

/// What it sends on its only link until `now`: headers and payloads.
fn sent(endpoint: &mut Endpoint<Numbers>, now: Instant) -> Vec<(FlitHeader, Vec<u8>)> {
    endpoint.advance(now, LINK);
    let mut packets = Vec::new();
    while let Some(channel) = Channel::ALL.into_iter().find(|channel| endpoint.ready(LINK).contains(*channel))
    {
        let (header, payload) = endpoint.next_packet(LINK, channel);
        packets.push((header, payload.to_vec()));
        endpoint.assert_invariants();
    }
    packets
}

#[test]
fn a_read_is_answered_with_the_bytes_after_the_latency() {
    let mut endpoint = endpoint(None);
    let read = to_it(100, 77, Transaction::Read { length: 4 });
    endpoint.handle_packet(at(0), LINK, &read, &[]).expect("a read inside");
    assert_eq!(endpoint.arm(at(0), LINK), Some(LATENCY));
    assert_eq!(sent(&mut endpoint, at(29)), []);
    assert_eq!(
        sent(&mut endpoint, at(30)),
        [(read.response(Transaction::ReadResponse), vec![100, 101, 102, 103])]
    );
}

#[test]
fn a_write_is_there_at_once_and_answered_after_the_latency() {
    let mut endpoint = endpoint(None);
    let write = to_it(8, 5, Transaction::Write);
    endpoint.handle_packet(at(0), LINK, &write, &[9, 9]).expect("a write inside");
    assert_eq!(endpoint.contents().bytes()[7..11], [7, 9, 9, 10]);
    assert_eq!(sent(&mut endpoint, at(30)), [(write.response(Transaction::WriteResponse), vec![])]);
}

#[test]
fn words_are_added_to_and_set_without_an_answer() {
    let mut endpoint = endpoint(None);
    for (transaction, value) in [
        (Transaction::Add { operand: 5 }, 5),
        (Transaction::Add { operand: 2 }, 7),
        (Transaction::Store { operand: 1 }, 1),
    ] {
        endpoint.handle_packet(at(0), LINK, &to_it(word_address(1), 0, transaction), &[]).expect("a word");
        assert_eq!(endpoint.next_event(), Some(MemoryEvent::Changed { word: WordId(1), value }));
    }
    assert_eq!(sent(&mut endpoint, at(100)), []);
}

#[test]
fn responses_stray_from_their_order_by_the_seed_and_none_is_lost() {
    let order = |seed| {
        let mut endpoint = endpoint(Some(Scatter { seed, spread: Duration::from_nanos(100) }));
        for tag in 0..20 {
            let read = to_it(0, tag, Transaction::Read { length: 1 });
            endpoint.handle_packet(at(0), LINK, &read, &[]).expect("a read inside");
        }
        let tags: Vec<u32> = sent(&mut endpoint, at(130)).into_iter().map(|(header, _)| header.tag).collect();
        tags
    };
    let mut sorted = order(1);
    assert_ne!(sorted, order(2));
    assert_eq!(sorted, order(1));
    assert_ne!(sorted, (0..20).collect::<Vec<_>>());
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_long_write_goes_in_packets_and_the_fence_waits_for_all() {
    let mut endpoint = endpoint(None);
    endpoint.write(LINK, Rank(1), Span { offset: 0, length: 300 }, 500);
    endpoint.fence();
    let packets = sent(&mut endpoint, at(0));
    let shapes: Vec<_> = packets.iter().map(|(header, bytes)| (header.address, bytes.len())).collect();
    assert_eq!(shapes, [(500, 128), (628, 128), (756, 44)]);
    for (header, _) in packets {
        assert_eq!(endpoint.next_event(), None);
        let answer = header.response(Transaction::WriteResponse);
        endpoint.handle_packet(at(9), LINK, &answer, &[]).expect("an answer");
    }
    assert_eq!(endpoint.next_event(), Some(MemoryEvent::Fenced));
}

#[test]
fn a_fence_with_nothing_before_it_is_through_at_once() {
    let mut endpoint = endpoint(None);
    endpoint.fence();
    assert_eq!(endpoint.next_event(), Some(MemoryEvent::Fenced));
}

#[test]
fn reduced_loads_are_bounded_by_the_window() {
    let mut endpoint = endpoint(None);
    endpoint.reduced_load(LINK, Span { offset: 0, length: 512 });
    let first = sent(&mut endpoint, at(0));
    assert_eq!(first.len(), 2);
    let answer = first[0].0.response(Transaction::ReadResponse);
    endpoint.handle_packet(at(9), LINK, &answer, &[1; 128]).expect("an answer");
    assert_eq!(
        endpoint.next_event(),
        Some(MemoryEvent::Loaded { link: LINK, span: Span { offset: 0, length: 128 } })
    );
    assert_eq!(sent(&mut endpoint, at(9)).len(), 1);
}

#[test]
fn what_makes_no_sense_is_dropped_for_a_reason() {
    let mut endpoint = endpoint(None);
    let mut reason = |header: FlitHeader, payload: &[u8]| {
        endpoint.handle_packet(at(0), LINK, &header, payload).expect_err("a drop")
    };
    let elsewhere = FlitHeader { destination: NodeId(4), ..to_it(0, 0, Transaction::Write) };
    assert_eq!(reason(elsewhere, &[1]), MemoryDrop::NoRoute);
    assert_eq!(reason(to_it(1020, 0, Transaction::Read { length: 5 }), &[]), MemoryDrop::NoSuchAddress);
    assert_eq!(reason(to_it(0, 0, Transaction::Read { length: 129 }), &[]), MemoryDrop::BadLength);
    assert_eq!(reason(to_it(1023, 0, Transaction::Write), &[1, 2]), MemoryDrop::NoSuchAddress);
    assert_eq!(
        reason(to_it(word_address(2), 0, Transaction::Add { operand: 1 }), &[]),
        MemoryDrop::NoSuchAddress
    );
    assert_eq!(reason(to_it(0, 1, Transaction::WriteResponse), &[]), MemoryDrop::UnexpectedResponse);
    assert_eq!(reason(to_it(0, 1, Transaction::ReadResponse), &[]), MemoryDrop::UnexpectedResponse);
    assert_eq!(reason(to_it(0, 1, Transaction::MultimemStore), &[1]), MemoryDrop::UnexpectedTransaction);
}

#[test]
fn what_nobody_asked_for_is_sent_in_one_packet_and_taken_without_effect() {
    let mut endpoint = endpoint(None);
    endpoint.send_unsolicited(LINK, Rank(5), 3, 99);
    let header = FlitHeader::new(NodeId(3), NodeId(5), false, 99, UNSOLICITED, Transaction::ReadResponse);
    assert_eq!(sent(&mut endpoint, at(0)), [(header, vec![0, 1, 2])]);

    let (memory, to_us) = (endpoint.contents().clone(), FlitHeader { destination: NodeId(3), ..header });
    endpoint.handle_packet(at(0), LINK, &to_us, &[7, 7, 7]).expect("it is taken");
    assert_eq!(endpoint.next_event(), None);
    assert_eq!(endpoint.contents(), &memory);
    assert_eq!(sent(&mut endpoint, at(100)), []);
}

#[test]
fn a_merged_load_fills_its_place_whatever_order_its_packets_come_in() {
    let mut endpoint = endpoint(None);
    endpoint.merged_load(LINK, Rank(1), 512, Span { offset: 256, length: 130 });
    let asked = sent(&mut endpoint, at(0));
    let reads: Vec<_> =
        asked.iter().map(|(header, _)| (header.address, header.transaction, header.inc)).collect();
    let read = |length| Transaction::Read { length };
    assert_eq!(reads, [(512, read(128), true), (640, read(2), true)]);
    for (at_last, (header, _)) in asked.iter().rev().enumerate() {
        // One is answered by the switch, the other by the home, which the switch has let it pass to.
        let answer = FlitHeader { inc: at_last == 0, ..header.response(Transaction::ReadResponse) };
        let length = if at_last == 0 { 2 } else { 128 };
        endpoint.handle_packet(at(1), LINK, &answer, &vec![7; length]).expect("an answer");
        let twice = endpoint.handle_packet(at(1), LINK, &answer, &vec![7; length]);
        assert_eq!(twice, Err(MemoryDrop::UnexpectedResponse));
        let span = Span { offset: if at_last == 0 { 384 } else { 256 }, length };
        assert_eq!(endpoint.next_event(), Some(MemoryEvent::Loaded { link: LINK, span }));
        endpoint.assert_invariants();
    }
    assert_eq!(&endpoint.memory().bytes()[256..386], &[7; 130]);
}

#[test]
fn a_merged_load_takes_no_answer_of_somebody_else_or_of_another_length() {
    let mut endpoint = endpoint(None);
    endpoint.merged_load(LINK, Rank(1), 512, Span { offset: 256, length: 4 });
    let answer = sent(&mut endpoint, at(0))[0].0.response(Transaction::ReadResponse);
    let wrong = [
        FlitHeader { source: NodeId(2), ..answer },
        FlitHeader { address: 516, ..answer },
        FlitHeader { tag: 2, ..answer },
    ];
    for header in wrong {
        let dropped = endpoint.handle_packet(at(1), LINK, &header, &[0; 4]);
        assert_eq!(dropped, Err(MemoryDrop::UnexpectedResponse), "{header:?}");
    }
    let long = endpoint.handle_packet(at(1), LINK, &answer, &[0; 8]);
    assert_eq!(long, Err(MemoryDrop::UnexpectedResponse));
    endpoint.handle_packet(at(1), LINK, &answer, &[0; 4]).expect("the answer");
}

#[test]
fn what_is_sent_to_be_added_is_added_and_its_contributions_are_told() {
    let mut endpoint = endpoint(None);
    endpoint.handle_packet(at(0), LINK, &to_it(0, 3, Transaction::Reduce), &[1, 1, 1, 1]).expect("a sum");
    assert_eq!(&endpoint.memory().bytes()[..4], &[1, 2, 3, 4]);
    let span = Span { offset: 0, length: 4 };
    assert_eq!(endpoint.next_event(), Some(MemoryEvent::Contributed { span, contributions: 3 }));
    for (tag, length) in [(0, 4), (1, 6), (1, 0)] {
        let dropped =
            endpoint.handle_packet(at(0), LINK, &to_it(0, tag, Transaction::Reduce), &vec![0; length]);
        assert_eq!(dropped, Err(MemoryDrop::BadLength), "{tag} {length}");
    }
}

#[test]
fn a_merged_reduction_says_that_one_contribution_is_in_it() {
    let mut endpoint = endpoint(None);
    endpoint.merged_reduce(LINK, Rank(1), Span { offset: 1, length: 4 }, 64);
    let header = FlitHeader::new(NodeId(3), NodeId(1), true, 64, 1, Transaction::Reduce);
    assert_eq!(sent(&mut endpoint, at(0)), [(header, vec![1, 2, 3, 4])]);
}

#[test]
fn a_sync_goes_to_the_switch_and_its_release_is_told() {
    let mut endpoint = endpoint(None);
    endpoint.synchronise(LINK, 5, 1);
    let header = FlitHeader::new(NodeId(3), SWITCH, true, 5, 1, Transaction::Sync);
    assert_eq!(sent(&mut endpoint, at(0)), [(header, vec![])]);
    let release = header.response(Transaction::Release);
    endpoint.handle_packet(at(1), LINK, &release, &[]).expect("a release");
    assert_eq!(endpoint.next_event(), Some(MemoryEvent::Released { link: LINK, group: 5, point: 1 }));
}
