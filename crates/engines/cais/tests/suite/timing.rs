//! The time-out (CAIS III-A4) and the time that the unit takes.

use crate::common::*;
use quincunx_cais::*;
use quincunx_engine::PortId;
use quincunx_units::Duration;

const PORT: PortId = PortId(0);
const HALF: Duration = Duration::from_nanos(500);

#[test]
fn a_sum_that_nobody_adds_to_goes_home_after_the_time_out() {
    let mut bench = Bench::new(|_| {});
    bench.reduce(1, 64, 1);
    assert_eq!(bench.pass(HALF), []);
    bench.reduce(2, 64, 2);
    assert_eq!(bench.pass(HALF), [], "the second one was an access");
    assert_eq!(bench.pass(HALF), [sum(64, 2, 3)]);
    assert_eq!(bench.unit.statistics(PORT).timed_out, 1);
    let statistics = bench.unit.statistics(PORT);
    assert_eq!((statistics.partial_sums, statistics.waited), (1, HALF));
}

#[test]
fn a_load_with_data_ends_after_the_time_out_and_one_that_waits_outlives_it() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 0, 7).remove(0);
    bench.load(1, 64, 8);
    bench.fill(&read, 5);
    assert_eq!(bench.pass(TIMEOUT), []);
    assert_eq!(bench.unit.session(PORT, 0, Kind::Load), None);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Load), Some((Status::LoadWait, 1)));
}

#[test]
fn the_timer_is_armed_for_the_oldest_entry_that_can_end_and_only_once() {
    let mut bench = Bench::new(|_| {});
    bench.unit.handle_packet(bench.now, PortId(1), &load(1, 0, 7), &[]).unwrap();
    assert_eq!(bench.unit.arm(bench.now), None, "a load that waits has no time-out");
    let header = reduction(1, 64, 1);
    bench.unit.handle_packet(bench.now, PortId(1), &header, &[0; 4]).unwrap();
    assert_eq!(bench.unit.arm(bench.now), Some(TIMEOUT));
    assert_eq!(bench.unit.arm(bench.now), None);
    bench.now = bench.now + HALF;
    bench.unit.handle_packet(bench.now, PortId(2), &reduction(2, 64, 1), &[0; 4]).unwrap();
    assert_eq!(bench.unit.arm(bench.now), None, "it looks again when it fires");
    bench.now = bench.now + HALF;
    bench.unit.handle_timer(bench.now);
    assert_eq!(bench.unit.arm(bench.now), Some(HALF));
}

#[test]
fn a_group_waits_longer_than_an_entry_that_comes_after_it() {
    let mut bench = Bench::new(|config| config.group_timeout = TIMEOUT * 4);
    bench.sync(1, 0, PRE_LAUNCH);
    bench.pass(HALF);
    bench.reduce(1, 64, 1);
    assert_eq!(bench.pass(TIMEOUT), [sum(64, 1, 1)], "the timer was armed for the group, which is due later");
    assert_eq!(bench.pass(TIMEOUT * 2), []);
    assert_eq!(bench.pass(HALF).len(), 1, "the group is released");
    assert_eq!(bench.unit.group_statistics().timed_out, 1);
}

#[test]
fn a_driver_without_a_clock_lets_all_be_due() {
    let mut bench = Bench::new(|_| {});
    bench.reduce(1, 64, 1);
    assert_eq!(bench.fire(), [sum(64, 1, 1)]);
}

#[test]
fn what_the_unit_sends_takes_its_latency_and_keeps_its_buffer() {
    let latency = Duration::from_nanos(10);
    let mut bench = Bench::new(|config| (config.latency, config.participants) = (latency, 1));
    assert_eq!(bench.reduce(1, 64, 1), []);
    assert_eq!(bench.held_at(PortId(1), reduction(1, 64, 1).channel().unwrap()), 1);
    assert_eq!(bench.pass(Duration::from_nanos(9)), []);
    assert_eq!(bench.pass(Duration::from_nanos(1)), [sum(64, 1, 1)]);
    assert_eq!(bench.held, 0);
}

#[test]
fn a_time_out_that_drops_its_sum_is_not_what_the_unit_does() {
    let mut bench = Bench::new(|config| config.mutation = Some(Mutation::TimeoutDropsPartial));
    bench.reduce(1, 64, 1);
    assert_eq!(bench.pass(TIMEOUT), []);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Reduction), None);
}
