//! What a Mode-I switch, where connections end, takes in, adds up, sends and refuses (EPIC 4.2), at the root of a star of two ranks with
//! windows of two messages of two packets.

use crate::common::verbs::Posted;
use crate::common::{all_reduce, config, control};
use quincunx_collective::{LengthOnly, Rank};
use quincunx_engine::verbs::{Completion, Failure, Outcome, Program, QpIndex, WorkId};
use quincunx_epic::mode_i::ModeI;
use quincunx_epic::{GroupConfig, Mode, Pattern};
use quincunx_units::{Instant, Packets};
use quincunx_wire::Operation;

/// Bytes of a message.
const MESSAGE: usize = 16;

/// A switch, and what it has posted.
struct Bench {
    switch: ModeI,
    posted: Posted,
}

fn star() -> GroupConfig {
    GroupConfig { mode: Mode::I, window: Packets::new(4), message: Packets::new(2), ..config() }
}

impl Bench {
    fn new() -> Self {
        Self::with(star())
    }

    fn with(config: GroupConfig) -> Self {
        let mut bench = Self { switch: ModeI::new(config).expect("valid"), posted: Posted::default() };
        bench.switch.initialise(&mut bench.posted);
        bench
    }

    fn complete(&mut self, rank: u16, completion: Completion) -> Option<Outcome> {
        let outcome =
            self.switch.handle_completion(Instant::ZERO, QpIndex(rank), completion, &mut self.posted);
        Program::<LengthOnly>::assert_invariants(&self.switch);
        outcome
    }

    fn received(&mut self, rank: u16, length: usize, immediate: Option<u32>) -> Option<Outcome> {
        self.complete(rank, Completion::Received { id: WorkId(0), length, immediate })
    }

    fn sent(&mut self, rank: u16) -> Option<Outcome> {
        self.complete(rank, Completion::Sent { id: WorkId(0) })
    }

    /// The messages sent since the last call: to whom, and of what length.
    fn sends(&mut self) -> Vec<(u16, usize)> {
        self.posted.sends.drain(..).map(|(qp, request)| (qp.0, request.source.length)).collect()
    }

    /// The places for messages posted since the last call: from whom, and at which offset of the rank's buffers.
    fn places(&mut self) -> Vec<(u16, usize)> {
        self.posted.receives.drain(..).map(|(qp, sink)| (qp.0, sink.offset)).collect()
    }
}

fn immediate(operation: Operation) -> Option<u32> {
    match operation {
        Operation::SendOnlyImmediate(immediate) => Some(immediate),
        _ => None,
    }
}

const REFUSED: Failure = Failure::InvalidRequest;

fn failed(rank: u16, failure: Failure) -> Option<Outcome> {
    Some(Outcome::Failed { qp: QpIndex(rank), failure })
}

#[test]
fn a_window_of_messages_is_received_from_each_rank_and_as_many_buffers_are_counted() {
    let mut bench = Bench::new();
    assert_eq!(bench.places(), [(0, 0), (0, MESSAGE), (1, 0), (1, MESSAGE)]);
    // A buffer for each rank and two pipes, of two messages, and the degrees of the pipes.
    assert_eq!(bench.switch.buffer_bytes(), 4 * 2 * MESSAGE + 2 * 2 * 4);
}

#[test]
fn a_sum_leaves_when_all_have_sent_and_places_are_posted_again() {
    let mut bench = Bench::new();
    bench.places();
    let control = immediate(all_reduce(3));
    bench.received(0, 0, control);
    assert_eq!((bench.sends(), bench.places()), (vec![], vec![(0, 0)]));
    bench.received(0, MESSAGE, None);
    assert_eq!((bench.sends(), bench.places()), (vec![], vec![(0, MESSAGE)]));
    bench.received(1, 0, control);
    assert_eq!((bench.sends(), bench.places()), (vec![(0, 0), (1, 0)], vec![(1, 0)]));
    bench.received(1, MESSAGE, None);
    assert_eq!((bench.sends(), bench.places()), (vec![(0, MESSAGE), (1, MESSAGE)], vec![(1, MESSAGE)]));
}

#[test]
fn a_slot_is_used_again_when_all_have_acknowledged_what_was_in_it() {
    let mut bench = Bench::new();
    let control = immediate(all_reduce(5));
    // The control message and three of data: the third finds no slot.
    for rank in 0..2 {
        bench.received(rank, 0, control);
        bench.received(rank, MESSAGE, None);
        bench.received(rank, MESSAGE, None);
    }
    assert_eq!(bench.sends().len(), 4);
    bench.sent(0);
    assert_eq!(bench.sends(), []);
    bench.sent(1);
    assert_eq!(bench.sends(), [(0, MESSAGE), (1, MESSAGE)]);
}

#[test]
fn collectives_follow_each_other_in_the_same_buffers() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        for (length, immediate) in [(0, immediate(all_reduce(2))), (MESSAGE, None)] {
            bench.received(0, length, immediate);
            bench.received(1, length, immediate);
            assert_eq!(bench.sends(), [(0, length), (1, length)]);
            bench.sent(0);
            bench.sent(1);
        }
    }
}

#[test]
fn a_switch_below_another_sends_its_sum_up_and_the_result_down() {
    let mut below = GroupConfig { parent: Some(1), ..star() };
    below.edges[1].rank = None;
    let mut bench = Bench::with(below);
    for _ in 0..5 {
        let control = immediate(all_reduce(0));
        bench.received(0, 0, control);
        assert_eq!(bench.sends(), [(1, 0)]);
        bench.sent(1);
        bench.received(1, 0, control);
        assert_eq!(bench.sends(), [(0, 0)]);
        bench.sent(0);
    }
}

#[test]
fn a_broken_connection_ends_the_group_and_the_switch_says_which_and_why() {
    let mut bench = Bench::new();
    let failure = Completion::Failed { id: WorkId(0), failure: Failure::RetryExceeded };
    assert_eq!(bench.complete(1, failure), failed(1, Failure::RetryExceeded));
    // Whatever comes after that is nobody's business any more.
    assert_eq!(bench.received(0, 0, immediate(all_reduce(1))), None);
    assert_eq!(bench.sends(), []);
}

#[test]
fn messages_that_make_no_sense_end_the_group() {
    let first = |message: (usize, Option<u32>)| Bench::new().received(0, message.0, message.1);
    // No control message, one that is none, one of a root that is no rank, one from where it does not come.
    assert_eq!(first((MESSAGE, None)), failed(0, REFUSED));
    assert_eq!(first((0, Some(u32::MAX >> 2))), failed(0, REFUSED));
    assert_eq!(first((0, immediate(control(Pattern::Reduce { root: Rank(2) }, 1)))), failed(0, REFUSED));
    assert_eq!(first((0, immediate(control(Pattern::Broadcast { root: Rank(1) }, 1)))), failed(0, REFUSED));
    // A control message in the middle, and contributions that differ.
    let mut bench = Bench::new();
    bench.received(0, 0, immediate(all_reduce(3)));
    assert_eq!(bench.received(0, 0, immediate(all_reduce(3))), failed(0, REFUSED));
    let mut bench = Bench::new();
    bench.received(0, 0, immediate(all_reduce(3)));
    assert_eq!(bench.received(1, 0, immediate(all_reduce(4))), failed(1, Failure::Disagreement));
    // Half an element.
    let mut bench = Bench::new();
    bench.received(0, 0, immediate(all_reduce(3)));
    assert_eq!(bench.received(0, 6, None), failed(0, REFUSED));
    let mut bench = Bench::new();
    for rank in 0..2 {
        bench.received(rank, 0, immediate(all_reduce(3)));
    }
    bench.received(0, MESSAGE, None);
    assert_eq!(bench.received(1, 8, None), failed(1, Failure::Disagreement));
}

#[test]
fn a_peer_may_not_write_to_the_switch() {
    let target =
        quincunx_engine::verbs::Slice { region: quincunx_engine::verbs::RegionId(0), offset: 0, length: 0 };
    let written = Completion::Written { id: WorkId(0), target, immediate: 0 };
    assert_eq!(Bench::new().complete(0, written), failed(0, REFUSED));
}
