//! The group sync table (CAIS III-B3), and boundaries.

use crate::common::*;
use quincunx_cais::*;
use quincunx_engine::PortId;
use quincunx_wire::flit::*;

fn release(to: u16, group: u64, point: u32) -> Sent {
    (to, FlitHeader::new(NODE, NodeId(to), true, group, point, Transaction::Release), vec![])
}

fn all(group: u64, point: u32) -> Vec<Sent> {
    (0..4).map(|to| release(to, group, point)).collect()
}

#[test]
fn all_are_released_when_the_last_of_a_group_has_come() {
    let mut bench = Bench::new(|_| {});
    for from in [2, 0, 3] {
        assert_eq!(bench.sync(from, 5, PRE_LAUNCH), []);
    }
    assert_eq!(bench.sync(1, 5, PRE_LAUNCH), all(5, PRE_LAUNCH));
    // The entry is free: the group may come again.
    assert_eq!(bench.sync(1, 5, PRE_LAUNCH), []);
}

#[test]
fn groups_and_points_are_counted_by_themselves() {
    let mut bench = Bench::new(|config| config.groups = 3);
    for from in 0..3 {
        for (group, point) in [(5, PRE_LAUNCH), (5, PRE_ACCESS), (6, PRE_LAUNCH)] {
            assert_eq!(bench.sync(from, group, point), []);
        }
    }
    assert_eq!(bench.sync(3, 5, PRE_ACCESS), all(5, PRE_ACCESS));
}

#[test]
fn where_the_table_is_full_a_sync_is_answered_at_once() {
    let mut bench = Bench::new(|_| {});
    bench.sync(0, 1, PRE_LAUNCH);
    bench.sync(0, 2, PRE_LAUNCH);
    assert_eq!(bench.sync(0, 3, PRE_LAUNCH), [release(0, 3, PRE_LAUNCH)]);
    assert_eq!(bench.sync(1, 1, PRE_LAUNCH), [], "what is in the table is counted still");
    assert_eq!(bench.unit.group_statistics().uncoordinated, 1);
}

#[test]
fn a_group_that_waits_too_long_is_released_so_that_nobody_waits_for_ever() {
    // Its first member may have been answered while the table was full.
    let mut bench = Bench::new(|_| {});
    bench.sync(0, 1, PRE_LAUNCH);
    bench.sync(2, 1, PRE_LAUNCH);
    assert_eq!(bench.pass(TIMEOUT), [release(0, 1, PRE_LAUNCH), release(2, 1, PRE_LAUNCH)]);
    assert_eq!(bench.unit.group_statistics().timed_out, 1);
}

#[test]
fn a_sync_twice_or_of_no_stream_is_dropped() {
    let mut bench = Bench::new(|_| {});
    bench.sync(0, 1, PRE_LAUNCH);
    let sync = |group, point| FlitHeader::new(NodeId(0), NODE, true, group, point, Transaction::Sync);
    assert_eq!(bench.try_give(&sync(1, PRE_LAUNCH), &[]), Err(MergeDrop::Sync));
    assert_eq!(bench.try_give(&sync(1, BOUNDARY), &[]), Err(MergeDrop::Sync));
    bench.sync(0, 0, BOUNDARY);
    assert_eq!(bench.try_give(&sync(0, BOUNDARY), &[]), Err(MergeDrop::Sync));
    let elsewhere = FlitHeader { destination: NodeId(1), ..sync(2, PRE_LAUNCH) };
    assert_eq!(bench.try_give(&elsewhere, &[]), Err(MergeDrop::UnexpectedTransaction));
}

#[test]
fn at_a_boundary_all_cached_data_are_forgotten_and_what_waits_is_not() {
    let mut bench = Bench::new(|config| config.entries = 3);
    let read = bench.load(1, 0, 7).remove(0);
    bench.fill(&read, 5);
    bench.load(1, 64, 8);
    bench.reduce(1, 128, 1);
    for from in 0..3 {
        assert_eq!(bench.sync(from, 0, BOUNDARY), []);
    }
    assert_eq!(bench.sync(3, 0, BOUNDARY), all(0, BOUNDARY));
    assert_eq!(bench.unit.session(PortId(0), 0, Kind::Load), None);
    assert_eq!(bench.unit.session(PortId(0), 64, Kind::Load), Some((Status::LoadWait, 1)));
    assert_eq!(bench.unit.session(PortId(0), 128, Kind::Reduction), Some((Status::Reduction, 1)));
}

/// A request that asks to hear of the others.
fn asking(header: FlitHeader) -> FlitHeader {
    FlitHeader { notify: true, ..header }
}

#[test]
fn who_asks_hears_when_all_others_have_loaded_from_the_address() {
    let mut bench = Bench::new(|_| {});
    bench.give(&asking(load(1, 64, 7)), &[]);
    // A second load by the same is no other.
    assert_eq!(bench.give(&asking(load(1, 64, 8)), &[]), []);
    assert_eq!(bench.load(2, 64, 9), []);
    assert_eq!(bench.give(&asking(load(3, 64, 1)), &[]), [release(1, 64, LOADED), release(3, 64, LOADED)]);
}

#[test]
fn who_asks_hears_when_all_others_have_loaded_what_is_cached() {
    let mut bench = Bench::new(|_| {});
    let read = bench.give(&asking(load(1, 64, 7)), &[]).remove(0);
    assert_eq!(bench.fill(&read, 5), [answer(1, 64, 7, 5)], "the others have not asked");
    bench.load(2, 64, 8);
    assert_eq!(bench.load(3, 64, 9), [release(1, 64, LOADED), answer(3, 64, 9, 5)]);
}

#[test]
fn who_asks_hears_when_all_others_have_added_to_the_address() {
    let mut bench = Bench::new(|_| {});
    let add = |from| asking(reduction(from, 64, 1));
    assert_eq!(bench.give(&add(1), &[1, 0, 0, 0]), []);
    assert_eq!(bench.give(&add(3), &[2, 0, 0, 0]), []);
    let sent = bench.give(&reduction(2, 64, 1), &[3, 0, 0, 0]);
    assert_eq!(sent, [sum(64, 3, 6), release(1, 64, ADDED), release(3, 64, ADDED)]);
}

#[test]
fn who_asks_hears_at_once_of_an_address_that_the_table_has_no_room_for() {
    let mut bench = Bench::new(|_| {});
    bench.load(1, 0, 1);
    bench.load(1, 64, 2);
    let past_it = asking(load(2, 128, 3));
    let sent = bench.give(&past_it, &[]);
    assert_eq!(sent, [past(load(2, 128, 3), &[]), release(2, 128, LOADED)]);
}

#[test]
fn who_asks_hears_at_once_where_its_contribution_is_whole_by_itself() {
    let mut bench = Bench::new(|config| config.participants = 1);
    let sent = bench.give(&asking(reduction(1, 64, 1)), &[1, 0, 0, 0]);
    assert_eq!(sent, [sum(64, 1, 1), release(1, 64, ADDED)]);
}

#[test]
fn who_asks_hears_when_an_entry_ends_before_the_others_have_come() {
    // By an eviction, by the time-out, at a boundary.
    let mut bench = Bench::new(|_| {});
    bench.give(&asking(reduction(1, 0, 1)), &[1, 0, 0, 0]);
    bench.reduce(1, 64, 2);
    assert_eq!(bench.reduce(1, 128, 3), [sum(0, 1, 1), release(1, 0, ADDED)]);
    let mut bench = Bench::new(|_| {});
    bench.give(&asking(reduction(1, 0, 1)), &[1, 0, 0, 0]);
    assert_eq!(bench.pass(TIMEOUT), [sum(0, 1, 1), release(1, 0, ADDED)]);
    let mut bench = Bench::new(|_| {});
    let read = bench.give(&asking(load(1, 0, 7)), &[]).remove(0);
    bench.fill(&read, 5);
    (0..3).for_each(|from| assert_eq!(bench.sync(from, 0, BOUNDARY), []));
    let sent = bench.sync(3, 0, BOUNDARY);
    assert!(sent.contains(&release(1, 0, LOADED)), "{sent:?}");
}

#[test]
fn a_boundary_has_no_time_out() {
    let mut bench = Bench::new(|_| {});
    bench.sync(0, 0, BOUNDARY);
    assert_eq!(bench.pass(TIMEOUT), []);
}
