//! What a sub-layer looks like over time: series that agree with what it came to, and a trace that says the same.

use crate::layers::{LAYER, RANKS, scenario, with_run};
use quincunx_collective::LengthOnly;
use quincunx_schedules::find;
use quincunx_sim::layer::{
    LayerError, LayerMeasurement, LayerOutcome, OverTime, PartMeasurement, SeriesOf, run_layer, run_sampled,
    write_trace,
};
use quincunx_sim::{Progress, ignore_progress};
use quincunx_trace::{TrackContents, read};
use quincunx_units::Duration;
use quincunx_workload::SubLayer;
use std::ops::ControlFlow;

const SET: [&str; 2] = ["merge.entries=0", "machine.skew=0s"];
const SMS: f64 = 4.0;

fn run(name: &str, intervals: Option<usize>) -> LayerOutcome<LengthOnly> {
    with_run(find(name).unwrap(), &scenario(&SET), LAYER, 1, |run| {
        run_sampled(run, intervals, &mut ignore_progress).unwrap()
    })
}

fn sampled(name: &str, intervals: usize) -> (LayerOutcome<LengthOnly>, OverTime) {
    let mut outcome = run(name, Some(intervals));
    let over_time = outcome.over_time.take().expect("it was asked for");
    (outcome, over_time)
}

#[test]
fn to_look_at_a_run_changes_nothing_in_it() {
    for name in ["cais", "cais-base", "t3"] {
        let unseen = with_run(find(name).unwrap(), &scenario(&SET), LAYER, 1, |run| {
            run_layer(run, &mut ignore_progress).unwrap()
        });
        assert!(unseen.over_time.is_none());
        assert_eq!(sampled(name, 64).0, unseen, "{name}");
    }
}

#[test]
fn a_run_has_as_many_intervals_as_asked_for_or_at_least_half() {
    for most in [16, 64, 1024] {
        let (outcome, over_time) = sampled("cais", most);
        let intervals = over_time.series[0].means.len();
        assert!((most / 2..=most).contains(&intervals), "{intervals} of {most}");
        let covered = over_time.interval.as_picos() * intervals as u64;
        let rest = covered.checked_sub(outcome.time.as_picos()).expect("intervals reach to the end");
        assert!(rest < over_time.interval.as_picos(), "and no further");
    }
}

#[test]
fn means_over_time_are_what_the_run_came_to() {
    for name in ["cais", "sp-nvls"] {
        let (outcome, over_time) = sampled(name, 256);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{name}: {a} and {b}");
        for way in [true, false] {
            let links = over_time.mean(|of| matches!(of, SeriesOf::Link { up, .. } if up == way));
            near(over_time.over_all(&links), outcome.directions[usize::from(!way)]);
        }
        let sms = over_time.sum(|of| matches!(of, SeriesOf::Sms { .. }));
        near(over_time.over_all(&sms) / (SMS * f64::from(RANKS)), outcome.sm_utilisation);
    }
}

#[test]
fn a_kernel_computes_between_its_launch_and_its_end() {
    let (outcome, over_time) = sampled("sp-nvls", 256);
    for series in &over_time.series {
        let SeriesOf::Sms { rank, kernel } = series.of else { continue };
        let name = &over_time.kernels[usize::from(rank)][usize::from(kernel)];
        let span = outcome.kernels.iter().find(|span| (span.rank, &span.name) == (rank, name)).unwrap();
        let interval = over_time.interval.as_picos();
        for at in (0..).zip(&series.means).filter(|(_, mean)| **mean > 0.0).map(|(at, _)| at) {
            let [from, to] = [at * interval, (at + 1) * interval].map(Duration::from_picos);
            assert!(to > span.from && from < span.to, "{name} computes at {from}, and ran {span:?}");
        }
    }
}

#[test]
fn tables_fill_no_further_than_their_peak_and_are_empty_in_the_end() {
    let (outcome, over_time) = sampled("cais", 1024);
    let is_table = |of| matches!(of, SeriesOf::Table { .. });
    let fullest = over_time.peak(is_table).into_iter().fold(0.0, f64::max);
    let peak = outcome.counted["peak entries"].1 as f64;
    assert!(fullest > 0.0 && fullest <= peak, "{fullest} seen of {peak}");
    let waits = over_time.series.iter().filter(|series| matches!(series.of, SeriesOf::Waiting { .. }));
    assert_eq!(waits.clone().count(), 2 * RANKS as usize, "a table for each port of each switch");
    assert!(waits.flat_map(|series| series.means.last()).all(|&last| last == 0.0));
}

#[test]
fn waits_over_time_add_up_to_the_mean_wait() {
    let (outcome, over_time) = sampled("cais", 256);
    let total = |wanted: SeriesOf| {
        over_time.over_all(&over_time.sum(|of| of == wanted)) * outcome.time.as_picos() as f64
    };
    assert_eq!(total(SeriesOf::Ended).round() as u64, outcome.counted["ended"].0);
    assert_eq!(total(SeriesOf::Waited).round() as u64, outcome.counted["waited"].0);
    assert!(over_time.waits().iter().any(Option::is_some));
}

#[test]
fn switches_that_only_forward_have_no_tables() {
    let (_, over_time) = sampled("t3", 64);
    assert!(over_time.mean(|of| matches!(of, SeriesOf::Table { .. } | SeriesOf::Waiting { .. })).is_empty());
    assert!(over_time.waits().iter().all(Option::is_none));
}

#[test]
fn a_trace_has_kernels_links_and_tables_as_they_were() {
    let outcome = run("cais", Some(512));
    let kernels = outcome.kernels.clone();
    let peak = outcome.counted["peak entries"].1 as f64;
    let end = outcome.time.as_nanos();
    let layer = LayerMeasurement {
        model: "small".into(),
        ranks: RANKS as u16,
        parts: vec![PartMeasurement { sub_layer: SubLayer::ALL[1], outcome }],
        outside: Duration::ZERO,
        time: Duration::ZERO,
        operations: 0,
        entry: 128,
        planes: 1,
    };
    let tracks = read(&write_trace(&layer, Vec::new()).unwrap()).unwrap();
    for span in &kernels {
        let parent = format!("accelerator{}", span.rank);
        let is_it = |track: &&TrackContents| {
            track.name == format!("kernel {}", span.name) && track.parent.as_ref() == Some(&parent)
        };
        let track = tracks.iter().find(is_it).expect("a track for the kernel");
        assert_eq!(track.slices, [(span.from.as_nanos(), span.to.as_nanos(), span.name.clone())]);
    }
    let values = |prefix: &str| -> Vec<&TrackContents> {
        tracks.iter().filter(|track| track.name.contains(prefix)).collect()
    };
    let links = values(" > ");
    assert_eq!(links.len(), 2 * 2 * RANKS as usize, "both directions of each link");
    for link in links {
        assert!(link.values.iter().all(|&(at, busy)| at <= end && (0.0..=100.0).contains(&busy)));
        assert_eq!(link.values.last().unwrap().1, 0.0, "nothing is sent after the end");
    }
    let tables = values("table ");
    assert_eq!(tables.len(), 2 * RANKS as usize);
    assert!(tables.iter().flat_map(|table| &table.values).all(|&(_, entries)| entries <= peak));
    assert!(tables.iter().flat_map(|table| &table.values).any(|&(_, entries)| entries > 0.0));
}

#[test]
fn progress_is_the_share_of_blocks_that_have_ended() {
    let mut shares = Vec::new();
    with_run(find("cais").unwrap(), &scenario(&SET), LAYER, 1, |run| {
        run_layer(run, &mut |at: Progress| {
            shares.push(at.share.expect("blocks are counted"));
            ControlFlow::Continue(())
        })
        .unwrap();
    });
    // It is told whenever a kernel ends: three on each accelerator.
    assert!(shares.len() >= 3 * RANKS as usize, "{shares:?}");
    assert!(shares[0] > 0.0 && shares[0] < 1.0 && shares.is_sorted(), "{shares:?}");
    assert_eq!(shares.last(), Some(&1.0));
}

#[test]
fn a_run_stops_where_its_owner_says_so() {
    let stopped = with_run(find("cais").unwrap(), &scenario(&SET), LAYER, 1, |run| {
        run_layer(run, &mut |_: Progress| ControlFlow::Break(())).unwrap_err()
    });
    assert!(matches!(stopped, LayerError::Stopped(_)), "{stopped}");
}
