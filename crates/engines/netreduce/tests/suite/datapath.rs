//! A group's part of a switch whose ways are planned.

use quincunx_collective::{DataType, LengthOnly, Payload};
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_engine::Frame;
use quincunx_netreduce::{Latencies, NetReduceDatapath, NetReduceDatapathConfig, Shape};
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Aeth, Gid, Operation, Psn, QpNumber, RoceHeader, Syndrome};

use crate::support::{FIRST, LAST, sum_of};

/// What left over which edge and when a timer was set.
#[derive(Default)]
struct Out {
    sent: Vec<(u16, Operation)>,
    timers: Vec<(DatapathTimer, Duration)>,
    drops: Vec<(u16, &'static str)>,
}

impl DatapathSink<LengthOnly> for Out {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, LengthOnly>) {
        self.sent.push((edge, frame.header.operation));
    }
    fn replicate(&mut self, _: LengthOnly, _: Copies<'_>) {
        unreachable!("results have headers of their own");
    }
    fn memory(&mut self) -> GroupMemory<'_, LengthOnly> {
        unreachable!("it has registers of its own");
    }
    fn set_timer(&mut self, timer: DatapathTimer, after: Duration) {
        self.timers.push((timer, after));
    }
    fn cancel_timer(&mut self, _: DatapathTimer) {}
    fn unreachable(&mut self, _: u16) {
        unreachable!("it waits for nobody");
    }
    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        self.drops.push((edge, reason));
    }
}

const RANKS: u16 = 3;
const PAYLOAD: usize = 1024;

fn address(rank: u16) -> Gid {
    Gid::from([10, 0, 0, rank as u8])
}

fn datapath(latencies: Latencies) -> NetReduceDatapath<LengthOnly> {
    let config = NetReduceDatapathConfig {
        shape: Shape::of_ports(RANKS),
        reduction: sum_of(DataType::F32),
        ranks: (0..RANKS).map(address).collect(),
        initial_psn: Psn::new(0xff_ffff),
        latencies,
    };
    NetReduceDatapath::new(config, None).unwrap()
}

/// A rank's frame of a message, numbered from 0.
fn take(datapath: &mut NetReduceDatapath<LengthOnly>, at: u64, rank: u16, number: u32, length: usize) -> Out {
    let operation = if number == 0 { FIRST } else { LAST };
    let psn = Psn::new(0xff_ffff).plus(number);
    let header =
        RoceHeader::new(address(rank), address((rank + 1) % RANKS), QpNumber::new(0x11), psn, operation);
    let payload = LengthOnly::zeroed(length);
    let frame = Frame { header: &header, payload: payload.view(0..length) };
    let mut out = Out::default();
    datapath.handle_frame(Instant::ZERO + Duration::from_nanos(at), rank, frame, &mut out);
    datapath.assert_invariants();
    out
}

#[test]
fn results_leave_over_the_edges_of_the_next_ranks() {
    let mut datapath = datapath(Latencies::default());
    assert!(take(&mut datapath, 0, 0, 0, PAYLOAD).sent.is_empty());
    assert!(take(&mut datapath, 0, 2, 0, PAYLOAD).sent.is_empty());
    let out = take(&mut datapath, 0, 1, 0, PAYLOAD);
    assert_eq!(out.sent, [(1, FIRST), (2, FIRST), (0, FIRST)]);
}

#[test]
fn frames_of_another_length_go_on_as_they_are() {
    let mut datapath = datapath(Latencies::default());
    assert_eq!(take(&mut datapath, 0, 2, 0, PAYLOAD - 4).sent, [(0, FIRST)]);
}

#[test]
fn what_follows_a_lost_first_stays_here() {
    let mut datapath = datapath(Latencies::default());
    let out = take(&mut datapath, 0, 1, 1, PAYLOAD);
    assert_eq!((out.sent, out.drops), (vec![], vec![(1, "unknown")]));
}

#[test]
fn the_first_message_is_told_by_its_number_where_headers_have_no_contents() {
    let mut datapath = datapath(Latencies::default());
    let late = take(&mut datapath, 0, 1, 0, PAYLOAD);
    assert!(late.drops.is_empty());
    let mut later = self::datapath(Latencies::default());
    let header = RoceHeader::new(address(1), address(2), QpNumber::new(0x11), Psn::new(1), FIRST);
    let payload = LengthOnly::zeroed(PAYLOAD);
    let mut out = Out::default();
    let frame = Frame { header: &header, payload: payload.view(0..PAYLOAD) };
    later.handle_frame(Instant::ZERO, 1, frame, &mut out);
    assert_eq!(out.drops, [(1, "gap")]);
}

#[test]
fn answers_take_as_long_as_the_switch_does_and_keep_their_order() {
    let [sum, repeat] = [2200, 800].map(Duration::from_nanos);
    let mut datapath = datapath(Latencies { sum, repeat, forward: Duration::ZERO });
    for rank in 0..RANKS {
        let out = take(&mut datapath, 0, rank, 0, PAYLOAD);
        assert!(out.sent.is_empty());
        assert_eq!(out.timers.len(), usize::from(rank == RANKS - 1));
    }
    let again = take(&mut datapath, 100, 0, 0, PAYLOAD);
    assert_eq!((again.sent.len(), again.timers[0].1), (0, repeat));
    for rank in 0..RANKS {
        take(&mut datapath, 500, rank, 1, PAYLOAD);
    }
    let fire = |datapath: &mut NetReduceDatapath<LengthOnly>, at, timer| {
        let mut out = Out::default();
        datapath.handle_timer(Instant::ZERO + Duration::from_nanos(at), timer, &mut out);
        out
    };
    let [first, second, third] = [0, 1, 2].map(|kind| DatapathTimer { kind, edge: None });
    assert_eq!(Datapath::<LengthOnly>::timers(&datapath), [first, second, third]);
    assert_eq!(fire(&mut datapath, 900, second).sent, [(1, FIRST)]);
    let out = fire(&mut datapath, 2200, first);
    assert_eq!(out.sent, [(1, FIRST), (2, FIRST), (0, FIRST)]);
    assert_eq!(out.timers, [(first, Duration::from_nanos(500))], "the second frames are not through yet");
    assert_eq!(fire(&mut datapath, 2700, first).sent, [(1, LAST), (2, LAST), (0, LAST)]);
    assert!(fire(&mut datapath, 2701, first).sent.is_empty());
}

#[test]
fn acknowledges_and_what_is_not_added_up_take_what_a_forwarded_frame_takes() {
    let forward = Duration::from_nanos(110);
    let mut datapath = datapath(Latencies { forward, ..Latencies::default() });
    let acknowledge = Operation::Acknowledge(Aeth { syndrome: Syndrome::Ack(0), message_sequence: 0 });
    let header = RoceHeader::new(address(2), address(1), QpNumber::new(0x12), Psn::new(0), acknowledge);
    let payload = LengthOnly::zeroed(0);
    let mut out = Out::default();
    let frame = Frame { header: &header, payload: payload.view(0..0) };
    datapath.handle_reply(Instant::ZERO, 1, frame, &mut out);
    let timer = DatapathTimer { kind: 2, edge: None };
    assert_eq!((out.sent, out.timers), (vec![], vec![(timer, forward)]));
    // Another length than those that are added up.
    let short = take(&mut datapath, 10, 2, 0, PAYLOAD - 4);
    assert!(short.sent.is_empty() && short.timers.is_empty(), "it waits behind the first");
    let mut out = Out::default();
    datapath.handle_timer(Instant::ZERO + forward, timer, &mut out);
    assert_eq!((out.sent, out.timers), (vec![(1, acknowledge)], vec![(timer, Duration::from_nanos(10))]));
}

#[test]
fn of_ranks_at_one_address_the_next_one_gets_the_results() {
    let config = NetReduceDatapathConfig {
        shape: Shape::of_ports(RANKS),
        reduction: sum_of(DataType::F32),
        ranks: vec![address(0); RANKS.into()],
        initial_psn: Psn::new(0xff_ffff),
        latencies: Latencies::default(),
    };
    let mut datapath = NetReduceDatapath::<LengthOnly>::new(config, None).unwrap();
    let mut sent = Vec::new();
    for rank in 0..RANKS {
        let header = RoceHeader::new(address(0), address(0), QpNumber::new(0x11), Psn::new(0xff_ffff), FIRST);
        let payload = LengthOnly::zeroed(PAYLOAD);
        let frame = Frame { header: &header, payload: payload.view(0..PAYLOAD) };
        let mut out = Out::default();
        datapath.handle_frame(Instant::ZERO, rank, frame, &mut out);
        sent.extend(out.sent.into_iter().map(|(edge, _)| edge));
    }
    assert_eq!(sent, [1, 2, 0]);
}

#[test]
fn its_buffers_are_nine_kilobytes_a_place_with_eight_ports() {
    let config = NetReduceDatapathConfig {
        shape: Shape::of_ports(8),
        reduction: sum_of(DataType::F32),
        ranks: (0..8).map(address).collect(),
        initial_psn: Psn::new(0),
        latencies: Latencies::default(),
    };
    let datapath = NetReduceDatapath::<LengthOnly>::new(config, None).unwrap();
    assert_eq!(datapath.buffer_bytes(), 512 * 9 * 1024);
}
