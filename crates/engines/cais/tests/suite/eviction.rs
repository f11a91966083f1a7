//! What happens where a table is full (CAIS III-A4).

use crate::common::*;
use quincunx_cais::*;
use quincunx_engine::PortId;
use quincunx_wire::flit::*;

const PORT: PortId = PortId(0);

fn status(bench: &Bench, address: u64, kind: Kind) -> Option<Status> {
    bench.unit.session(PORT, address, kind).map(|(status, _)| status)
}

#[test]
fn the_reduction_that_was_not_accessed_for_longest_sends_its_partial_sum_home() {
    let mut bench = Bench::new(|_| {});
    bench.reduce(1, 0, 1);
    bench.reduce(1, 64, 2);
    bench.reduce(2, 0, 4);
    assert_eq!(bench.reduce(1, 128, 8), [sum(64, 1, 2)]);
    assert_eq!(bench.held, 0, "whoever wants room waits until the sum has left");
    assert_eq!(bench.reduce(3, 0, 16), [sum(0, 3, 21)]);
    assert_eq!(bench.unit.statistics(PORT).evicted, 1);
}

#[test]
fn what_comes_after_an_eviction_begins_a_new_sum() {
    let mut bench = Bench::new(|config| config.entries = 1);
    bench.reduce(1, 0, 1);
    bench.reduce(2, 0, 2);
    assert_eq!(bench.reduce(1, 64, 9), [sum(0, 2, 3)]);
    assert_eq!(bench.reduce(3, 0, 4), [sum(64, 1, 9)]);
    assert_eq!(bench.unit.session(PORT, 0, Kind::Reduction), Some((Status::Reduction, 1)));
}

#[test]
fn a_load_with_data_is_evicted_and_nobody_misses_an_answer() {
    let mut bench = Bench::new(|config| config.entries = 1);
    let read = bench.load(1, 0, 7).remove(0);
    bench.fill(&read, 5);
    let again = bench.load(2, 64, 8);
    assert_eq!(again[0].1.transaction, Transaction::Read { length: 4 });
    assert_eq!(status(&bench, 0, Kind::Load), None);
    // Whoever comes later asks anew.
    bench.fill(&again[0], 6);
    assert_eq!(bench.load(3, 0, 9)[0].1.address, 0);
}

#[test]
fn a_load_that_finds_data_makes_its_entry_the_last_that_was_accessed() {
    let mut bench = Bench::new(|_| {});
    for (address, tag) in [(0, 7), (64, 8)] {
        let read = bench.load(1, address, tag).remove(0);
        bench.fill(&read, 5);
    }
    bench.load(2, 0, 9);
    bench.load(1, 128, 10);
    assert_eq!(status(&bench, 64, Kind::Load), None, "the one that was not accessed for longest");
    assert_eq!(status(&bench, 0, Kind::Load), Some(Status::LoadReady));
}

#[test]
fn a_load_that_waits_is_not_evicted_and_a_load_goes_past_the_unit() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 0, 7).remove(0);
    bench.reduce(1, 64, 1);
    assert_eq!(bench.load(2, 128, 8), [past(load(2, 128, 8), &[])]);
    assert_eq!(bench.held, 0);
    // Nothing else was evicted for it.
    assert_eq!(status(&bench, 64, Kind::Reduction), Some(Status::Reduction));
    assert_eq!(bench.fill(&read, 5), [answer(1, 0, 7, 5)]);
    let statistics = bench.unit.statistics(PORT);
    assert_eq!((statistics.bypassed, statistics.evicted), (1, 0));
}

#[test]
fn a_reduction_goes_past_a_table_whose_oldest_entry_waits_with_its_count() {
    let mut bench = Bench::new(|config| config.entries = 1);
    bench.load(1, 0, 7);
    let double = reduction(2, 64, 2);
    assert_eq!(bench.give(&double, &[3, 0, 0, 0]), [past(double, &[3, 0, 0, 0])]);
}

#[test]
fn data_that_come_are_an_access() {
    let mut bench = Bench::new(|_| {});
    let read = bench.load(1, 0, 7).remove(0);
    bench.reduce(1, 64, 1);
    bench.fill(&read, 5);
    assert_eq!(bench.reduce(1, 128, 2), [sum(64, 1, 1)]);
    assert_eq!(status(&bench, 0, Kind::Load), Some(Status::LoadReady));
}

#[test]
fn a_table_without_a_bound_evicts_nothing() {
    let mut bench = Bench::new(|config| config.entries = 0);
    for line in 0..5000 {
        assert_eq!(
            bench.unit.handle_packet(bench.now, PortId(1), &reduction(1, line * 128, 1), &[0; 4]),
            Ok(quincunx_design::Buffer::Free)
        );
    }
    assert_eq!(bench.sent(), []);
    assert_eq!(bench.unit.statistics(PORT).peak, 5000);
    assert_eq!(bench.unit.buffer_bytes(), 5000 * 128);
}

#[test]
fn each_broken_rule_of_eviction_does_what_it_says() {
    let evicted = |mutation| {
        let mut bench = Bench::new(|config| (config.entries, config.mutation) = (1, Some(mutation)));
        bench.reduce(1, 0, 1);
        bench.reduce(1, 64, 2)
    };
    assert_eq!(evicted(Mutation::EvictionDropsPartial), []);
    assert_eq!(evicted(Mutation::PartialCountsAll), [sum(0, 3, 1)]);
    let mut waiting = Bench::new(|config| {
        (config.entries, config.mutation) = (1, Some(Mutation::EvictsWaiting));
    });
    let read = waiting.load(1, 0, 7).remove(0);
    waiting.load(2, 64, 8);
    let late = read.1.response(Transaction::ReadResponse);
    assert_eq!(waiting.try_give(&late, &[0; 4]), Err(MergeDrop::UnexpectedResponse));
}
