//! Micro-function 2 (CAIS III-A3, figure 6): reductions that merge.

use crate::common::*;
use quincunx_cais::*;
use quincunx_engine::PortId;
use quincunx_wire::flit::*;

const PORT: PortId = PortId(0);

#[test]
fn contributions_are_added_up_and_the_sum_goes_home_when_all_are_there() {
    let mut bench = Bench::new(|_| {});
    assert_eq!(bench.reduce(1, 64, 1), []);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Reduction), Some((Status::Reduction, 1)));
    assert_eq!(bench.reduce(2, 64, 2), []);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Reduction), Some((Status::Reduction, 2)));
    assert_eq!(bench.reduce(3, 64, 4), [sum(64, 3, 7)]);
    assert_eq!(bench.unit.session(PORT, 64, Kind::Reduction), None);
    assert_eq!(bench.held, 0, "the last one's buffer is free when the sum has left");
}

#[test]
fn what_is_a_sum_already_counts_as_many_as_are_in_it() {
    let mut bench = Bench::new(|_| {});
    bench.reduce(1, 64, 1);
    assert_eq!(bench.give(&reduction(2, 64, 2), &[2, 0, 0, 0]), [sum(64, 3, 3)]);
}

#[test]
fn what_is_whole_by_itself_takes_no_entry() {
    let mut bench = Bench::new(|config| config.participants = 1);
    assert_eq!(bench.reduce(1, 64, 1), [sum(64, 1, 1)]);
    assert_eq!(bench.unit.statistics(PORT).peak, 0);
}

#[test]
fn a_sum_that_left_early_would_leave_the_rest_alone() {
    let mut bench = Bench::new(|config| config.mutation = Some(Mutation::ReleasesEarly));
    bench.reduce(1, 64, 1);
    assert_eq!(bench.reduce(2, 64, 2), [sum(64, 3, 3)]);
    assert_eq!(bench.reduce(3, 64, 4), [], "where the rule is kept the sum would be whole");
}

#[test]
fn a_load_and_a_reduction_of_one_address_have_entries_of_their_own() {
    let merged = |mutation| {
        let mut bench = Bench::new(|config| config.mutation = mutation);
        bench.reduce(1, 64, 1);
        let sent = bench.load(2, 64, 0);
        (sent, bench.unit.session(PORT, 64, Kind::Load))
    };
    let read = FlitHeader::new(NODE, HOME, false, 64, 1, Transaction::Read { length: 4 });
    assert_eq!(merged(None), (vec![(0, read, vec![])], Some((Status::LoadWait, 1))));
    // If the type were not looked at, the load would get what has been added up so far.
    assert_eq!(merged(Some(Mutation::IgnoresType)), (vec![answer(2, 64, 0, 1)], None));
}

#[test]
fn homes_have_tables_of_their_own() {
    let mut bench = Bench::new(|_| {});
    bench.reduce(1, 64, 1);
    let other = FlitHeader { destination: NodeId(1), ..reduction(2, 64, 1) };
    bench.give(&other, &[2, 0, 0, 0]);
    assert_eq!(bench.unit.session(PortId(1), 64, Kind::Reduction), Some((Status::Reduction, 1)));
    assert_eq!(bench.unit.session(PORT, 64, Kind::Reduction), Some((Status::Reduction, 1)));
}

#[test]
fn a_reduction_of_another_length_goes_past_an_entry() {
    let mut bench = Bench::new(|_| {});
    bench.reduce(1, 64, 1);
    let longer = reduction(2, 64, 1);
    assert_eq!(bench.give(&longer, &[0; 8]), [past(longer, &[0; 8])]);
    assert_eq!(bench.held, 0);
}

#[test]
fn reductions_that_make_no_sense_are_dropped() {
    let mut bench = Bench::new(|_| {});
    for (contributions, length, reason) in [
        (0, 4, MergeDrop::Contributions),
        (4, 4, MergeDrop::Contributions),
        (1, 0, MergeDrop::BadLength),
        (1, 6, MergeDrop::BadLength),
        (1, 132, MergeDrop::BadLength),
    ] {
        let header = reduction(1, 64, contributions);
        assert_eq!(bench.try_give(&header, &vec![0; length]), Err(reason), "{contributions} {length}");
    }
    let own = FlitHeader { destination: NodeId(1), ..reduction(1, 64, 1) };
    assert_eq!(bench.try_give(&own, &[0; 4]), Err(MergeDrop::Home));
}
