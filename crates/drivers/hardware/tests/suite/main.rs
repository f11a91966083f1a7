//! A shell script in a simulator's place: each frame that it is told leaves over the edge that it came by.

use std::path::Path;

use quincunx_collective::Numbers;
use quincunx_design::{Copies, Datapath, DatapathSink, DatapathTimer, GroupMemory};
use quincunx_driver_hardware::{Block, Happened, Pace, ProgramError, SimulatedDatapath};
use quincunx_engine::Frame;
use quincunx_units::{Duration, Instant};
use quincunx_wire::{Endpoint, Operation, Position, Psn, QpNumber, RoceHeader};

fn begin(program: &str, does: &str, pace: Pace) -> Result<Block, ProgramError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    Block::begin(&folder.join(program), &format!("group 2 {does}"), pace)
}

fn end(last: u8, qp: u32) -> Endpoint {
    Endpoint { ip: [192, 0, 2, last].into(), qp: QpNumber::new(qp) }
}

/// The frame of a neighbour at 192.0.2.`last` for queue pair `qp` of the switch, 192.0.2.9.
fn header(last: u8, qp: u32) -> RoceHeader {
    let operation = Operation::Send(Position::Only);
    RoceHeader::new(end(last, 0).ip, end(9, 0).ip, QpNumber::new(qp), Psn::new(5), operation)
}

#[derive(Default)]
struct Out {
    left: Vec<(u16, RoceHeader, Vec<u8>)>,
    timers: Vec<DatapathTimer>,
    drops: Vec<(u16, &'static str)>,
}

impl DatapathSink<Numbers> for Out {
    fn transmit(&mut self, edge: u16, frame: Frame<'_, RoceHeader, Numbers>) {
        self.left.push((edge, *frame.header, frame.payload.to_vec()));
    }

    fn replicate(&mut self, payload: &[u8], copies: Copies<'_>) {
        copies(&mut |edge, header| self.transmit(edge, Frame { header, payload }));
    }

    fn memory(&mut self) -> GroupMemory<'_, Numbers> {
        unreachable!("hardware has memory of its own");
    }
    fn set_timer(&mut self, timer: DatapathTimer, _: Duration) {
        self.timers.push(timer);
    }

    fn cancel_timer(&mut self, _: DatapathTimer) {}

    fn unreachable(&mut self, _: u16) {}

    fn drop_frame(&mut self, edge: u16, reason: &'static str) {
        self.drops.push((edge, reason));
    }
}

fn datapath(does: &str) -> SimulatedDatapath {
    let block = begin("simulator.sh", does, Pace::AtOnce).unwrap();
    SimulatedDatapath::new(block, vec![(end(9, 7), end(1, 3)), (end(9, 8), end(2, 4))], 100)
}

/// Two frames come, and the timer fires.
fn turn(datapath: &mut SimulatedDatapath) -> Out {
    let mut out = Out::default();
    for (edge, last) in [(0, 1), (1, 2)] {
        let frame = Frame { header: &header(last, 7), payload: &[last; 8][..] };
        datapath.handle_frame(Instant::ZERO, edge, frame, &mut out);
    }
    for timer in std::mem::take(&mut out.timers) {
        datapath.handle_timer(Instant::ZERO, timer, &mut out);
    }
    out
}

#[test]
fn what_leaves_goes_from_this_end_of_its_edge_to_the_other() {
    let out = turn(&mut datapath("echo"));
    let ends = |(edge, header, payload): &(u16, RoceHeader, Vec<u8>)| {
        (*edge, header.source, header.destination, header.destination_qp, header.psn, payload.clone())
    };
    let expected = |edge: u16, last: u8, qp| {
        (edge, end(9, 0).ip, end(last, 0).ip, QpNumber::new(qp), Psn::new(5), vec![last; 8])
    };
    assert_eq!(out.left.iter().map(ends).collect::<Vec<_>>(), [expected(0, 1, 3), expected(1, 2, 4)]);
    assert_eq!(out.drops, []);
}

#[test]
fn frames_that_come_together_are_one_run_with_their_reasons_of_drops() {
    let out = turn(&mut datapath("drop"));
    assert_eq!(out.drops, [(1, "stale"), (0, "no-room"), (1, "refused"), (0, "by-hardware")]);
    assert_eq!(out.left.len(), 2);
}

#[test]
fn cycles_are_counted_from_the_first_beat_in_to_the_last_one_out_of_each_run() {
    let mut block = begin("simulator.sh", "echo", Pace::Serial).unwrap();
    for _ in 0..2 {
        block.tell(0, &header(1, 7), &[]);
        block.tell(1, &header(2, 7), &[]);
        assert!(block.is_told());
        let left = block.run().unwrap();
        assert!(left.iter().all(|one| matches!(one, Happened::Left { .. })) && left.len() == 2);
        assert!(!block.is_told());
    }
    // From 10 to 41.
    assert_eq!(block.cycles(), 64);
}

#[test]
fn of_hardware_that_has_failed_nothing_more_is_asked() {
    let mut datapath = datapath("fail");
    assert_eq!(turn(&mut datapath).left.len(), 0);
    assert_eq!(turn(&mut datapath).drops, [(0, "hardware-failed"), (1, "hardware-failed")]);
}

#[test]
fn a_program_that_is_none_or_ends_or_refuses_its_group_is_told_with_what_it_was_told() {
    let refusal = |program, does| begin(program, does, Pace::Serial).map(|_| ()).unwrap_err().to_string();
    let absent = refusal("absent", "echo");
    assert!(absent.contains("suite/absent") && absent.contains("simulators.py"), "{absent}");
    let refused = refusal("simulator.sh", "refuse");
    assert!(
        refused.contains("\"group 2 refuse\"") && refused.contains("error expected another group"),
        "{refused}"
    );
    let ended = begin("simulator.sh", "end", Pace::Serial).unwrap().run().unwrap_err().to_string();
    assert!(ended.contains("\"run\", but it has ended"), "{ended}");
}
