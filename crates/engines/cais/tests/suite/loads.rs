//! Micro-function 1 (CAIS III-A3, figure 6): loads that merge, step by step.

use crate::common::*;
use quincunx_cais::*;
use quincunx_engine::PortId;
use quincunx_wire::flit::*;

const PORT: PortId = PortId(0);

#[test]
fn the_first_load_makes_an_entry_that_waits_and_asks_the_home_once() {
    let mut bench = Bench::new(|_| {});
    let sent = bench.load(1, 64, 7);
    let read = FlitHeader::new(NODE, HOME, false, 64, 0, Transaction::Read { length: 4 });
    assert_eq!(sent, [(0, read, vec![])]);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), Some((Status::LoadWait, 1)));
}

#[test]
fn a_load_that_finds_an_entry_which_waits_is_kept_and_the_home_is_not_asked_again() {
    let mut bench = Bench::new(|_| {});
    bench.load(1, 64, 7);
    assert_eq!(bench.load(2, 64, 8), []);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), Some((Status::LoadWait, 2)));
}

#[test]
fn the_data_answer_all_who_wait_each_with_its_own_tag_and_are_cached() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 64, 7).remove(0);
    bench.load(2, 64, 8);
    assert_eq!(bench.fill(&read, 5), [answer(1, 64, 7, 5), answer(2, 64, 8, 5)]);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), Some((Status::LoadReady, 2)));
}

#[test]
fn a_load_that_finds_data_is_answered_at_once_and_the_last_one_frees_the_entry() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 64, 7).remove(0);
    assert_eq!(bench.fill(&read, 5), [answer(1, 64, 7, 5)]);
    assert_eq!(bench.load(2, 64, 8), [answer(2, 64, 8, 5)]);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), Some((Status::LoadReady, 2)));
    assert_eq!(bench.load(3, 64, 9), [answer(3, 64, 9, 5)]);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), None);
    let statistics = bench.unit.statistics(PORT);
    assert_eq!((statistics.loads, statistics.merged_loads, statistics.ended), (3, 2, 1));
    assert_eq!((statistics.entries, statistics.peak), (0, 1));
}

#[test]
fn an_entry_that_all_wait_for_is_free_when_the_data_come() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 64, 7).remove(0);
    bench.load(2, 64, 8);
    bench.load(3, 64, 9);
    assert_eq!(bench.fill(&read, 5).len(), 3);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), None);
}

/// Reads that the home gets when two blocks of accelerator 1 load the same, and then 2 and 3.
fn reads_of_two_blocks_that_load_the_same(mutation: Option<Mutation>) -> usize {
    let mut bench = Bench::new(|config| (config.participants, config.mutation) = (2, mutation));
    let read = bench.load(1, 64, 0).remove(0);
    assert_eq!(bench.load(1, 64, 1), []);
    assert_eq!(bench.fill(&read, 5), [answer(1, 64, 0, 5), answer(1, 64, 1, 5)]);
    let sent = bench.load(2, 64, 2);
    1 + sent.iter().filter(|(_, header, _)| matches!(header.transaction, Transaction::Read { .. })).count()
}

#[test]
fn two_blocks_of_one_accelerator_do_not_end_an_entry_before_another_has_asked() {
    assert_eq!(reads_of_two_blocks_that_load_the_same(None), 1);
    // By the paper's count of requests the entry would be over, and the home asked again.
    assert_eq!(reads_of_two_blocks_that_load_the_same(Some(Mutation::CountsRequests)), 2);
}

#[test]
fn a_load_of_another_length_goes_past_an_entry() {
    let mut bench = Bench::new(|_| {});
    bench.load(1, 64, 7);
    let longer = FlitHeader { transaction: Transaction::Read { length: 8 }, ..load(2, 64, 8) };
    assert_eq!(bench.give(&longer, &[]), [past(longer, &[])]);
    assert_eq!(bench.held, 0, "its buffer is free when it has left");
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), Some((Status::LoadWait, 1)));
}

#[test]
fn an_entry_has_room_for_twice_as_many_who_wait_as_there_are_accelerators() {
    let mut bench = Bench::new(|_| {});
    for tag in 0..8 {
        bench.load(1, 64, tag);
    }
    assert_eq!(bench.load(2, 64, 8), [past(load(2, 64, 8), &[])]);
}

#[test]
fn what_nobody_waits_for_is_dropped_and_changes_nothing() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 64, 7).remove(0).1;
    let right = read.response(Transaction::ReadResponse);
    let before = bench.unit.clone();
    for wrong in [
        FlitHeader { tag: 1, ..right },
        FlitHeader { tag: MAX_TAG, ..right },
        FlitHeader { address: 68, ..right },
        FlitHeader { source: NodeId(1), ..right },
        FlitHeader { inc: true, ..right },
    ] {
        assert_eq!(bench.try_give(&wrong, &[0; 4]), Err(MergeDrop::UnexpectedResponse), "{wrong:?}");
        assert!(bench.unit == before);
    }
    assert_eq!(bench.try_give(&right, &[0; 8]), Err(MergeDrop::UnexpectedResponse));
    bench.give(&right, &[0; 4]);
    assert_eq!(bench.try_give(&right, &[0; 4]), Err(MergeDrop::UnexpectedResponse), "it comes twice");
}

#[test]
fn requests_that_make_no_sense_are_dropped() {
    let mut bench = Bench::new(|_| {});
    let load = load(1, 64, 7);
    let of = |length| FlitHeader { transaction: Transaction::Read { length }, ..load };
    let to = |node| FlitHeader { destination: NodeId(node), ..load };
    for (header, reason) in [
        (of(0), MergeDrop::BadLength),
        (of(129), MergeDrop::BadLength),
        (to(1), MergeDrop::Home),
        (to(4), MergeDrop::Home),
        (to(9), MergeDrop::Home),
        (FlitHeader { transaction: Transaction::Write, ..load }, MergeDrop::UnexpectedTransaction),
    ] {
        assert_eq!(bench.try_give(&header, &[]), Err(reason), "{header:?}");
    }
    let elsewhere = bench.unit.handle_packet(bench.now, PortId(2), &load, &[]);
    assert_eq!(elsewhere, Err(MergeDrop::Source));
}
