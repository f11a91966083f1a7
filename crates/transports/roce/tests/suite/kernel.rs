//! The Linux kernel's RoCE, replayed: put in the place of either end of a captured conversation, a queue pair says what
//! that end said, in the same order, and takes what the other end says.

use crate::common::{Bytes, receive, send, slice};
use quincunx_engine::verbs::{Completion, WorkId};
use quincunx_roce::{QueuePairConfig, Reliability};
use quincunx_units::{Duration, Instant, Packets};
use quincunx_wire::{Endpoint, Gid, Operation, Psn, QpNumber, RoceHeader, parse_frame};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// Bytes of a full packet in the captures.
const MTU: usize = 1024;

const KERNEL: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 10)));
const OTHER_KERNEL: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 11)));
const USER_SPACE: Gid = Gid::of(IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)));

/// The frames of a capture of `vectors/`: after 24 bytes, each has 16 bytes of its own, the captured length at the ninth.
fn capture(name: &str) -> Vec<(RoceHeader, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../vectors").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut rest = &bytes[24..];
    let mut frames = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (_, header, payload) = parse_frame(&rest[16..16 + length]).expect("the vectors are valid");
        frames.push((header, payload.to_vec()));
        rest = &rest[16 + length..];
    }
    frames
}

/// What is compared of a frame. Traffic class, source port and migration state are every sender's own choice.
fn essence(header: &RoceHeader, payload: &[u8]) -> (Operation, Psn, bool, QpNumber, Vec<u8>) {
    (header.operation, header.psn, header.acknowledge_request, header.destination_qp, payload.to_vec())
}

const fn is_answer(header: &RoceHeader) -> bool {
    matches!(header.operation, Operation::Acknowledge(_))
}

/// Plays `ours` in a conversation of Sends of `length` bytes each. Returns how many each side sent.
fn play(
    conversation: &[(RoceHeader, Vec<u8>)],
    ours: Endpoint,
    theirs: Endpoint,
    length: usize,
) -> [usize; 2] {
    let first_psn = |source| {
        let mut frames = conversation.iter().map(|(header, _)| header);
        frames.find(|header| header.source == source && !is_answer(header)).expect("each side sends").psn
    };
    let config = QueuePairConfig {
        local: ours,
        remote: theirs,
        mtu: MTU,
        send_psn: first_psn(ours.ip),
        expected_psn: first_psn(theirs.ip),
        acknowledge_every: Packets::new(100),
        retry_timeout: Duration::from_millis(60),
        retry_count: 7,
        rnr_timer: 12,
        rnr_retry_count: 7,
        credits: false,
        window: Packets::new(64),
        congestion_window: false,
        remote_write: true,
        reliability: Reliability::GoBackN,
        rate: None,
        mutation: None,
    };
    let mut bench = crate::common::bench::Bench::new(config);
    let packets = length / MTU;
    let sink = bench.blank(length);
    let (mut sent, mut received) = (0, 0);
    bench.qp.post_receive(receive(0, slice(sink, 0, length)), &bench.memory).unwrap();
    let mut arriving: Vec<u8> = Vec::new();
    let mut said = VecDeque::new();
    let mut index = 0;
    while index < conversation.len() {
        let (header, payload) = &conversation[index];
        index += 1;
        if header.source == theirs.ip {
            bench.header(*header, payload);
            arriving.extend(payload);
            said.extend(bench.out.frames.drain(..));
            if arriving.len() == length {
                assert_eq!(bench.bytes(sink, length), arriving);
                arriving.clear();
                received += 1;
                bench
                    .qp
                    .post_receive(receive(received as u64, slice(sink, 0, length)), &bench.memory)
                    .unwrap();
            }
            continue;
        }
        if said.is_empty() {
            // Our end speaks by itself: its application posted a message.
            let message: Vec<u8> = conversation[index - 1..][..packets]
                .iter()
                .flat_map(|(_, payload)| payload.clone())
                .collect();
            let source = bench.memory.register(Bytes(message));
            bench.qp.post_send(send(1_000 + sent as u64, slice(source, 0, length)), &bench.memory).unwrap();
            sent += 1;
            while bench.qp.wants_transmit() {
                bench.qp.transmit(Instant::ZERO, &bench.memory, &mut bench.out);
            }
            said.extend(bench.out.frames.drain(..));
        }
        let (our_header, our_payload) = said.pop_front().expect("a frame was just queued");
        assert_eq!(essence(&our_header, &our_payload), essence(header, payload), "frame {index}");
    }
    assert!(said.is_empty() && bench.out.drops.is_empty() && bench.out.armed.is_empty());
    let completed = |is_send: bool| {
        let of_kind = |c: &&Completion| matches!(c, Completion::Sent { .. }) == is_send;
        bench.out.completions.iter().filter(of_kind).copied().collect::<Vec<_>>()
    };
    let all_sent: Vec<_> = (0..sent).map(|id| Completion::Sent { id: WorkId(1_000 + id as u64) }).collect();
    let all_received: Vec<_> = (0..received)
        .map(|id| Completion::Received { id: WorkId(id as u64), length, immediate: None })
        .collect();
    assert_eq!((completed(true), completed(false)), (all_sent, all_received));
    [sent, received]
}

const fn endpoint(ip: Gid, qp: u32) -> Endpoint {
    Endpoint { ip, qp: QpNumber::new(qp) }
}

#[test]
fn in_the_place_of_the_kernel_we_answer_a_user_space_peer_as_it_did() {
    let frames = capture("rxe-rc-send.pcap");
    let counts = play(&frames, endpoint(KERNEL, 0x11), endpoint(USER_SPACE, 0x123), MTU);
    assert_eq!(counts, [20, 20]);
}

#[test]
fn in_the_place_of_the_user_space_peer_the_kernel_completes_our_sends() {
    let frames = capture("rxe-rc-send.pcap");
    let counts = play(&frames, endpoint(USER_SPACE, 0x123), endpoint(KERNEL, 0x11), MTU);
    assert_eq!(counts, [20, 20]);
}

#[test]
fn in_the_place_of_either_kernel_we_cut_and_answer_long_messages_as_it_did() {
    // The capture holds whole only the first message each way, of four packets and an acknowledge.
    let mut frames = capture("rxe.pcap");
    frames.truncate(10);
    let (one, other) = (endpoint(KERNEL, 0x11), endpoint(OTHER_KERNEL, 0x11));
    assert_eq!(play(&frames, one, other, 4 * MTU), [1, 1]);
    assert_eq!(play(&frames, other, one, 4 * MTU), [1, 1]);
}
