//! Whatever frames, timers and commands come, nothing panics, the invariants hold, and every request that was taken
//! gets at most one completion: all of them once the queue pair has failed.

use crate::common::bench::Bench;
use crate::common::{ALICE, ALICE_PSN, BOB, BOB_PSN, MTU, alice, receive, slice};
use proptest::prelude::*;
use quincunx_engine::verbs::{Completion, RegionId, SendRequest, Verb, WorkId};
use quincunx_roce::QueuePairTimer;
use quincunx_wire::{
    Aeth, AtomicEth, NakCode, Operation, Position, Psn, QpNumber, Reth, RoceHeader, Syndrome,
};
use std::collections::BTreeSet;

/// Bytes of the one region.
const REGION: usize = 24;

#[derive(Clone, Debug)]
enum Step {
    Frame { header: RoceHeader, length: usize },
    Timer(QueuePairTimer),
    Send { is_write: bool, length: usize, immediate: Option<u32> },
    Receive { length: usize },
    Transmit,
    Skip { sends: u32, receives: u32 },
}

fn reth() -> impl Strategy<Value = Reth> {
    (prop_oneof![8 => 0..32_u64, 1 => any::<u64>()], 0..2_u32, prop_oneof![8 => 0..32_u32, 1 => any::<u32>()])
        .prop_map(|(virtual_address, remote_key, dma_length)| Reth {
            virtual_address,
            remote_key,
            dma_length,
        })
}

fn syndrome() -> impl Strategy<Value = Syndrome> {
    prop_oneof![
        4 => any::<u8>().prop_map(Syndrome::Ack),
        2 => any::<u8>().prop_map(Syndrome::ReceiverNotReady),
        3 => Just(Syndrome::Nak(NakCode::SequenceError)),
        1 => prop_oneof![
            Just(NakCode::InvalidRequest),
            Just(NakCode::RemoteAccess),
            Just(NakCode::RemoteOperational)
        ]
        .prop_map(Syndrome::Nak),
    ]
}

fn request_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        prop_oneof![
            Just(Position::First),
            Just(Position::Middle),
            Just(Position::Last),
            Just(Position::Only)
        ]
        .prop_map(Operation::Send),
        any::<u32>().prop_map(Operation::SendLastImmediate),
        any::<u32>().prop_map(Operation::SendOnlyImmediate),
        reth().prop_map(Operation::WriteFirst),
        Just(Operation::WriteMiddle),
        Just(Operation::WriteLast),
        any::<u32>().prop_map(Operation::WriteLastImmediate),
        reth().prop_map(Operation::WriteOnly),
        (reth(), any::<u32>()).prop_map(|(reth, immediate)| Operation::WriteOnlyImmediate(reth, immediate)),
        reth().prop_map(Operation::ReadRequest),
        (any::<u64>(), any::<u64>()).prop_map(|(swap_or_add, compare)| {
            Operation::CompareSwap(AtomicEth { virtual_address: 0, remote_key: 0, swap_or_add, compare })
        }),
    ]
}

fn answer_operation() -> impl Strategy<Value = Operation> {
    let aeth = || {
        (syndrome(), any::<u32>())
            .prop_map(|(syndrome, message_sequence)| Aeth { syndrome, message_sequence })
    };
    prop_oneof![
        9 => aeth().prop_map(Operation::Acknowledge),
        1 => prop_oneof![
            aeth().prop_map(Operation::ReadResponseOnly),
            Just(Operation::ReadResponseMiddle),
            (aeth(), any::<u64>()).prop_map(|(aeth, value)| Operation::AtomicAcknowledge(aeth, value)),
            Just(Operation::CongestionNotification),
        ],
    ]
}

/// A PSN that is mostly close to `start`.
fn psn(start: Psn) -> impl Strategy<Value = Psn> {
    prop_oneof![
        9 => (0..12_u32).prop_map(move |step| start.minus(2).plus(step)),
        1 => any::<u32>().prop_map(Psn::new),
    ]
}

fn header() -> impl Strategy<Value = RoceHeader> {
    let request = (psn(BOB_PSN), request_operation());
    let answer = (psn(ALICE_PSN), answer_operation());
    let origin = prop_oneof![19 => Just((BOB.ip, ALICE.qp)), 1 => Just((ALICE.ip, QpNumber::new(0)))];
    (prop_oneof![request, answer], origin, any::<bool>()).prop_map(
        |((psn, operation), (source, qp), acknowledge_request)| RoceHeader {
            acknowledge_request,
            ..RoceHeader::new(source, ALICE.ip, qp, psn, operation)
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![3 => Just(MTU), 2 => 0..=MTU + 1];
    prop_oneof![
        12 => (header(), length).prop_map(|(header, length)| Step::Frame { header, length }),
        1 => Just(Step::Timer(QueuePairTimer::Retry)),
        1 => Just(Step::Timer(QueuePairTimer::ReceiverNotReady)),
        3 => (any::<bool>(), 0..=REGION, proptest::option::of(any::<u32>()))
            .prop_map(|(is_write, length, immediate)| Step::Send { is_write, length, immediate }),
        3 => (0..=REGION).prop_map(|length| Step::Receive { length }),
        6 => Just(Step::Transmit),
        1 => (0..6_u32, 0..6_u32).prop_map(|(sends, receives)| Step::Skip { sends, receives }),
    ]
}

/// The request that `completion` ends.
const fn work(completion: &Completion) -> WorkId {
    match *completion {
        Completion::Sent { id }
        | Completion::Received { id, .. }
        | Completion::Written { id, .. }
        | Completion::Failed { id, .. } => id,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_sequence_of_steps_is_survived(steps in proptest::collection::vec(step(), 1..60)) {
        let mut bench = Bench::new(alice());
        let region = bench.region(REGION);
        let mut taken = BTreeSet::new();
        for (index, step) in steps.into_iter().enumerate() {
            let id = index as u64;
            match step {
                Step::Frame { header, length } => bench.header(header, &[0xaa; MTU + 1][..length]),
                Step::Timer(timer) => bench.fire(timer),
                Step::Send { is_write, length, immediate } => {
                    let verb = match is_write {
                        true => Verb::Write { remote_address: 0, remote_key: RegionId(0).0 },
                        false => Verb::Send,
                    };
                    let source = slice(region, 0, length);
                    let request = SendRequest { id: WorkId(id), verb, source, immediate };
                    if bench.qp.post_send(request, &bench.memory).is_ok() {
                        taken.insert(WorkId(id));
                    }
                }
                Step::Receive { length } => {
                    if bench.qp.post_receive(receive(id, slice(region, 0, length)), &bench.memory).is_ok() {
                        taken.insert(WorkId(id));
                    }
                }
                Step::Transmit => bench.qp.transmit(quincunx_units::Instant::ZERO, &bench.memory, &mut bench.out),
                Step::Skip { sends, receives } => {
                    let _: Result<(), _> = bench.qp.skip(sends, receives, &mut bench.out);
                }
            }
            bench.qp.assert_invariants();
        }
        let ended: Vec<_> = bench.out.completions.iter().map(work).collect();
        let distinct: BTreeSet<_> = ended.iter().copied().collect();
        prop_assert_eq!(distinct.len(), ended.len(), "a request ended twice");
        prop_assert!(distinct.is_subset(&taken), "a request ended that was not taken");
        if bench.qp.has_failed() {
            prop_assert_eq!(distinct, taken, "a failed queue pair keeps requests");
            prop_assert!(bench.out.armed.is_empty(), "a failed queue pair runs timers");
        }
    }
}
