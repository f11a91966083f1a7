//! What the queue pair does in each state at each event, as a table that is part of the documentation. The table is
//! made by asking the code; this test fails when the two differ.

use crate::common::bench::Bench;
use crate::common::{ALICE_PSN, BOB_PSN, MTU, alice, receive, send, slice};
use quincunx_engine::verbs::{Completion, RegionId};
use quincunx_roce::{QueuePairConfig, QueuePairTimer};
use quincunx_units::Instant;
use quincunx_wire::{NakCode, Operation, Position, Psn, Reth, Syndrome};
use std::fmt::Write;

const FIRST: Operation = Operation::Send(Position::First);
const MIDDLE: Operation = Operation::Send(Position::Middle);
const LAST: Operation = Operation::Send(Position::Last);
const ONLY: Operation = Operation::Send(Position::Only);

/// Something that happens to a bench.
type Event = (&'static str, fn(&mut Bench));

/// A name and how to get there.
type State = (&'static str, fn() -> Bench);

/// Renders what `event` makes of `state`, as `name_of` sees it afterwards.
fn cell(state: State, event: Event, name_of: fn(&Bench) -> &'static str) -> String {
    let mut bench = state.1();
    assert_eq!(name_of(&bench), state.0, "the bench is not in the state that it is named after");
    bench.out.frames.clear();
    bench.out.completions.clear();
    bench.out.drops.clear();
    let wanted = bench.qp.wants_transmit();
    event.1(&mut bench);

    let mut parts = Vec::new();
    for (header, _) in &bench.out.frames {
        parts.push(match header.operation {
            Operation::Acknowledge(aeth) => match aeth.syndrome {
                Syndrome::Ack(_) => "ACK".to_string(),
                Syndrome::ReceiverNotReady(_) => "RNR".to_string(),
                Syndrome::Nak(code) => format!("NAK {code:?}"),
            },
            _ => "packet".to_string(),
        });
    }
    for completion in &bench.out.completions {
        parts.push(match completion {
            Completion::Sent { .. } => "sent".to_string(),
            Completion::Received { .. } => "received".to_string(),
            Completion::Written { .. } => "written".to_string(),
            Completion::Failed { failure, .. } => format!("fails {failure:?}"),
        });
    }
    parts.extend(bench.out.drops.iter().map(|reason| format!("drops {reason:?}")));
    if !wanted && bench.qp.wants_transmit() {
        parts.push("will send".to_string());
    }
    let after = name_of(&bench);
    if after != state.0 {
        parts.push(format!("to {after}"));
    }
    if parts.is_empty() { "-".to_string() } else { parts.join(", ") }
}

fn table(states: &[State], events: &[Event], name_of: fn(&Bench) -> &'static str) -> String {
    let mut text = String::from("| event |");
    for (name, _) in states {
        write!(text, " {name} |").unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(states.len()));
    text.push('\n');
    for &event in events {
        write!(text, "| {} |", event.0).unwrap();
        for &state in states {
            write!(text, " {} |", cell(state, event, name_of)).unwrap();
        }
        text.push('\n');
    }
    text
}

/// A bench that has sent and completed one packet.
fn quiet() -> Bench {
    let mut bench = Bench::new(QueuePairConfig { retry_count: 1, rnr_retry_count: 1, ..alice() });
    let region = bench.region(64);
    bench.qp.post_send(send(1, slice(region, 0, MTU)), &bench.memory).unwrap();
    bench.transmit_all();
    bench.ack(ALICE_PSN);
    bench
}

/// Two messages of one packet each are on the wire, with PSNs 1 and 2.
fn sending() -> Bench {
    let mut bench = quiet();
    for id in [2, 3] {
        bench.qp.post_send(send(id, slice(RegionId(0), 0, MTU)), &bench.memory).unwrap();
    }
    bench.transmit_all();
    bench
}

fn waiting() -> Bench {
    let mut bench = sending();
    bench.answer(sent_psn(1), Syndrome::ReceiverNotReady(1));
    bench
}

fn failed() -> Bench {
    let mut bench = sending();
    bench.nak(sent_psn(1), NakCode::RemoteOperational);
    bench
}

fn sent_psn(index: u32) -> Psn {
    ALICE_PSN.plus(index)
}

fn requester_state(bench: &Bench) -> &'static str {
    if bench.qp.has_failed() {
        "Failed"
    } else if bench.out.armed.contains_key(&QueuePairTimer::ReceiverNotReady) {
        "Waiting"
    } else if bench.qp.wants_transmit() || bench.out.armed.contains_key(&QueuePairTimer::Retry) {
        "Sending"
    } else {
        "Idle"
    }
}

fn requester_table() -> String {
    let states: [State; 4] =
        [("Idle", quiet), ("Sending", sending), ("Waiting", waiting), ("Failed", failed)];
    let events: [Event; 11] = [
        ("a send is posted", |bench| {
            let request = send(9, slice(RegionId(0), 0, MTU));
            bench.qp.post_send(request, &bench.memory).ok();
        }),
        ("transmit slot", |bench| bench.qp.transmit(Instant::ZERO, &bench.memory, &mut bench.out)),
        ("ACK of some", |bench| bench.ack(sent_psn(1))),
        ("ACK of all", |bench| bench.ack(sent_psn(2))),
        ("ACK from before", |bench| bench.ack(sent_psn(0))),
        ("NAK SequenceError at the second", |bench| bench.nak(sent_psn(2), NakCode::SequenceError)),
        ("NAK SequenceError from before", |bench| bench.nak(sent_psn(0), NakCode::SequenceError)),
        ("RNR at the oldest", |bench| bench.answer(sent_psn(1), Syndrome::ReceiverNotReady(1))),
        ("NAK RemoteAccess at the second", |bench| bench.nak(sent_psn(2), NakCode::RemoteAccess)),
        ("Retry fires", |bench| bench.fire(QueuePairTimer::Retry)),
        ("ReceiverNotReady fires", |bench| bench.fire(QueuePairTimer::ReceiverNotReady)),
    ];
    table(&states, &events, requester_state)
}

/// A bench that has one receive request and has taken one Send before.
fn between() -> Bench {
    let mut bench = Bench::default_alice();
    let region = bench.blank(64);
    for id in [1, 2] {
        bench.qp.post_receive(receive(id, slice(region, 0, 3 * MTU)), &bench.memory).unwrap();
    }
    bench.frame(BOB_PSN, ONLY, &[]);
    bench
}

fn between_and_told() -> Bench {
    let mut bench = between();
    bench.frame(received_psn(5), ONLY, &[]);
    bench
}

fn receiving() -> Bench {
    let mut bench = between();
    bench.frame(received_psn(1), FIRST, &[1; MTU]);
    bench
}

fn receiving_and_told() -> Bench {
    let mut bench = receiving();
    bench.frame(received_psn(5), ONLY, &[]);
    bench
}

fn refused() -> Bench {
    let mut bench = between();
    bench.frame(received_psn(1), MIDDLE, &[]);
    bench
}

fn received_psn(index: u32) -> Psn {
    BOB_PSN.plus(index)
}

/// The responder's state, found by trying what a copy would do.
fn responder_state(bench: &Bench) -> &'static str {
    if bench.qp.has_failed() {
        return "Failed";
    }
    let expected = bench.qp.expected_psn();
    let answers = |psn, operation, payload| {
        let mut copy = Bench::default_alice();
        copy.memory = bench.memory.clone();
        copy.qp = bench.qp.clone();
        copy.frame(psn, operation, payload);
        copy.answers()
    };
    let is_told = answers(expected.plus(1), ONLY, &[]).is_empty();
    let is_between = !answers(expected, MIDDLE, &[1; MTU]).is_empty();
    match (is_between, is_told) {
        (true, false) => "Between",
        (true, true) => "Between, told",
        (false, false) => "Receiving",
        (false, true) => "Receiving, told",
    }
}

/// Hands in the packet that comes next in sequence.
fn next(bench: &mut Bench, operation: Operation, payload: &[u8]) {
    bench.asking_frame(bench.qp.expected_psn(), operation, payload);
}

fn responder_table() -> String {
    let states: [State; 5] = [
        ("Between", between),
        ("Between, told", between_and_told),
        ("Receiving", receiving),
        ("Receiving, told", receiving_and_told),
        ("Failed", refused),
    ];
    let events: [Event; 9] = [
        ("First", |bench| next(bench, FIRST, &[1; MTU])),
        ("Middle", |bench| next(bench, MIDDLE, &[1; MTU])),
        ("Last", |bench| next(bench, LAST, &[1; MTU])),
        ("Only", |bench| next(bench, ONLY, &[1; MTU])),
        ("Only, but no receive request is left", |bench| {
            next(bench, ONLY, &[]);
            bench.out.frames.clear();
            bench.out.completions.clear();
            bench.out.drops.clear();
            next(bench, ONLY, &[]);
        }),
        ("Write Only outside memory", |bench| {
            let reth = Reth { virtual_address: 0, remote_key: 9, dma_length: 1 };
            next(bench, Operation::WriteOnly(reth), &[1]);
        }),
        ("Read", |bench| {
            let reth = Reth { virtual_address: 0, remote_key: 0, dma_length: 1 };
            next(bench, Operation::ReadRequest(reth), &[]);
        }),
        ("an earlier PSN", |bench| bench.asking_frame(received_psn(0), ONLY, &[])),
        ("a later PSN", |bench| bench.asking_frame(received_psn(6), ONLY, &[])),
    ];
    table(&states, &events, responder_state)
}

#[test]
fn the_documented_table_is_what_the_code_does() {
    let actual = format!(
        "Requester, with a packet acknowledged and, but for Idle, two more on the wire:\n\n{}\n\
         Responder, with one receive request; packets are next in sequence and ask for an acknowledge where nothing \
         else is said, and \"told\" means that the peer knows that it must go back:\n\n{}",
        requester_table(),
        responder_table()
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/transitions.md");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, &actual).expect("the table is writable");
    }
    let documented = std::fs::read_to_string(path).expect("the table is there");
    assert_eq!(actual, documented, "run with UPDATE_SNAPSHOTS=1 and review the difference");
}
