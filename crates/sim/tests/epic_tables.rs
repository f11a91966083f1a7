//! EPIC's tables 25, 26, 28, 29 and 30 up to 256 KB a rank, some of table 31 and of table 35, as times: published in whole
//! microseconds, so a figure is met within 10 % or one of them.

use quincunx_collective::{Collective, DataType, Rank, ReduceOp, Reduction};
use quincunx_control::Retry;
use quincunx_fabric::LinkProperties;
use quincunx_roce::RateConfig;
use quincunx_sim::packet_fabric::{Background, Case, Congestion, Contents, LossyLinks, Setup, simulate};
use quincunx_units::{BitRate, ByteCount, Duration, Probability};

fn preset(name: &str) -> Setup {
    Setup::preset(name).expect("a preset of the paper")
}

const KIB: u64 = 1 << 10;
const REDUCE: Collective = Collective::Reduce { root: Rank(0) };
const BROADCAST: Collective = Collective::Broadcast { root: Rank(0) };

fn time(setup: &Setup, design: &str, collective: Collective, size: u64) -> Duration {
    seeded_time(setup, design, collective, size, 1)
}

fn seeded_time(setup: &Setup, design: &str, collective: Collective, size: u64, seed: u64) -> Duration {
    let case = Case {
        design: design.parse().unwrap(),
        collective,
        reduction: Reduction { op: ReduceOp::Sum, data_type: DataType::F32 },
        size: ByteCount::new(size),
        contents: Contents::LengthOnly,
        seed,
    };
    simulate(setup, &case).unwrap().time
}

/// Holds times for 4 KB and its next multiples by four, a rank, against the published microseconds.
fn assert_row(setup: &Setup, design: &str, collective: Collective, published: &[u64]) {
    let parts = if collective == Collective::AllGather { 8 } else { 1 };
    for (index, &micros) in published.iter().enumerate() {
        let size = (4 * KIB) << (2 * index);
        let found = time(setup, design, collective, parts * size).as_micros_f64();
        let allowed = (micros as f64 / 10.0).max(1.0);
        let error = (found - micros as f64).abs();
        assert!(
            error <= allowed,
            "{design} {collective} of {size} bytes: {micros} us published, {found:.3} us found"
        );
    }
}

#[test]
fn all_reduce_in_the_network_takes_the_published_times() {
    assert_row(&preset("epic-star8"), "epic-3", Collective::AllReduce, &[3, 4, 8, 24]);
    assert_row(&preset("epic-star8"), "epic-2", Collective::AllReduce, &[5, 6, 10, 26]);
}

#[test]
fn all_reduce_around_the_ring_takes_the_published_times() {
    assert_row(&preset("ring-8"), "ring", Collective::AllReduce, &[30, 32, 40, 70]);
}

#[test]
fn reduce_and_broadcast_in_the_network_take_the_published_times() {
    for design in ["epic-2", "epic-3"] {
        for collective in [REDUCE, BROADCAST] {
            assert_row(&preset("epic-star8"), design, collective, &[3, 4, 8, 24]);
        }
    }
}

#[test]
fn broadcast_around_the_ring_takes_the_published_times() {
    assert_row(&preset("ring-8"), "ring", BROADCAST, &[11, 18, 46, 94]);
}

/// Below 256 KB the paper's simulator has each hop of a Reduce wait for the acknowledge of the one before, though its
/// receiver has the data: 17, 24 and 52 us where ours takes 9.3, 16.3 and 44.4. No rank could know when to stop waiting.
#[test]
fn reduce_around_the_ring_takes_the_published_time_where_pieces_overlap() {
    let found = time(&preset("ring-8"), "ring", REDUCE, 256 * KIB).as_micros_f64();
    assert!((found - 100.0).abs() <= 10.0, "{found}");
}

#[test]
fn all_gather_takes_the_published_times() {
    assert_row(&preset("epic-star8"), "epic-2", Collective::AllGather, &[35, 43, 75, 204]);
    assert_row(&preset("epic-star8"), "epic-3", Collective::AllGather, &[34, 42, 74, 203]);
    assert_row(&preset("ring-8"), "ring", Collective::AllGather, &[16, 23, 51, 163]);
}

#[test]
fn a_barrier_takes_the_published_time() {
    // 3.33E5 and 2E5 requests a second.
    assert_row(&preset("epic-star8"), "epic-3", Collective::Barrier, &[3]);
    assert_row(&preset("epic-star8"), "epic-2", Collective::Barrier, &[5]);
}

#[test]
fn loss_on_one_link_costs_all_reduce_the_published_times() {
    // 4 MiB, loss in per mille, microseconds; the mean of some seeds.
    let published =
        [("epic-3", 10, 354.0), ("epic-3", 50, 368.0), ("epic-2", 10, 363.0), ("epic-2", 50, 393.0)];
    for (design, per_mille, micros) in published {
        let loss = Probability::new(f64::from(per_mille) / 1e3).unwrap();
        let setup = Setup { lossy: Some(LossyLinks { links: 1, loss }), ..preset("epic-star8") };
        let seeds = 1..=4;
        let count = seeds.clone().count() as f64;
        let times = seeds.map(|seed| seeded_time(&setup, design, Collective::AllReduce, 4096 * KIB, seed));
        let found = times.sum::<Duration>().as_micros_f64() / count;
        assert!(
            (found - micros).abs() <= micros / 10.0,
            "{design} at {per_mille} per mille: {found}, not {micros}"
        );
    }
}

/// Table 35 at 4 MB, published as 95.99 and 44.60 Gbit/s: one link of eight left with half of its rate.
#[test]
fn ranks_that_run_ahead_of_a_congested_one_must_be_told_to_slow_down() {
    let gigabits = |billions: u64| BitRate::new(billions * 1_000_000_000).unwrap();
    let link = LinkProperties { rate: gigabits(200), ..preset("epic-star8").link };
    let congestion = Congestion {
        background: Some(Background { links: 1, rate: gigabits(100) }),
        control: Some(RateConfig::dcqcn(link.rate)),
        ..Congestion::default()
    };
    let congested = Setup {
        link,
        congestion,
        selective: false,
        retry: Retry { timeout: Duration::from_micros(300), count: 100 },
        ..preset("epic-star8")
    };
    let rate = |run_ahead, slots, synchronize_rates| {
        let setup = Setup { run_ahead, slots, synchronize_rates, ..congested.clone() };
        let size = 4096 * KIB;
        size as f64 * 8e-3 / time(&setup, "epic-3", Collective::AllReduce, size).as_micros_f64()
    };
    let [told, untold] = [true, false].map(|synchronize_rates| rate(true, Some(256), synchronize_rates));
    assert!((told / 95.99 - 1.0).abs() < 0.15, "{told}");
    assert!((untold / 44.60 - 1.0).abs() < 0.15, "{untold}");
    // Windows that wait for results keep the ranks together, whatever the switch says.
    assert_eq!([true, false].map(|synchronize_rates| rate(false, None, synchronize_rates)), [told, told]);
}
