//! Planes: switches of which all have the same share of every tile, so that one of them stands for the others.

use crate::layers::{RANKS, scenario, with_run};
use quincunx_accelerator::SubLayer;
use quincunx_collective::LengthOnly;
use quincunx_designs::CATALOG;
use quincunx_scenario::{Override, Scenario};
use quincunx_schedules::{ALL, find};
use quincunx_sim::ignore_progress;
use quincunx_sim::layer::{LayerOutcome, LayerRequest, LayerRun, measure_layer, run_layer};
use quincunx_sim::memory_fabric::MemoryFabric;

/// Rows of tiles are lines: every tile has as many on each of two switches.
const LINES: [&str; 2] = ["machine.tile_columns=32", "machine.tile_inner=32"];
const LAYER: SubLayer = SubLayer { rows: 256, inner: 64, hidden: 128, columns: 64, backward: false };

/// The outcome with both switches, and with one that stands for both.
fn both_and_one(name: &str, set: &[&str]) -> [LayerOutcome<LengthOnly>; 2] {
    let scenario = scenario(&[&LINES[..], set].concat());
    with_run(find(name).unwrap(), &scenario, LAYER, 1, |both| {
        let fabric = MemoryFabric { switches: 1, ..*both.fabric };
        let one = LayerRun { fabric: &fabric, planes: 2, ..both.clone() };
        [both, &one].map(|run| run_layer(run, &mut ignore_progress).unwrap())
    })
}

#[test]
fn one_plane_takes_as_long_as_both_by_every_schedule_and_costs_half_of_the_packets() {
    let mut wrong = Vec::new();
    for schedule in ALL {
        let [both, one] = both_and_one(schedule.name(), &[]);
        let time = one.time.as_secs_f64() / both.time.as_secs_f64();
        // Whoever coordinates sends the syncs of both planes by the one.
        let packets = one.packets as f64 / both.packets as f64;
        if (time - 1.0).abs() > 0.05 || !(0.48..0.65).contains(&packets) {
            wrong.push(format!("{}: {time:.3} of the time, {packets:.3} of the packets", schedule.name()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn one_plane_merges_its_share_of_all_lines() {
    let [both, one] = both_and_one("cais", &["merge.entries=0", "machine.skew=0s"]);
    for name in ["reductions", "whole sums", "loads"] {
        assert_eq!(2 * one.counted[name].0, both.counted[name].0, "{name}");
    }
    let lines = u64::from(LAYER.rows * LAYER.hidden) * 4 / 128 / 2;
    assert_eq!(one.counted["reductions"].0, lines * u64::from(RANKS - 1));
}

#[test]
fn planes_that_do_not_divide_the_switches_are_refused_in_a_line() {
    let request = |planes: u16| {
        let set =
            ["layer.model=mega-gpt-4b".into(), "layer.part=L1".into(), format!("layer.planes={planes}")];
        let set = set.map(|change| change.parse::<Override>().unwrap());
        let scenario = Scenario::find("cais-dgx8", &set, CATALOG).unwrap();
        LayerRequest { scenario, schedule: find("tp-nvls").unwrap(), seed: 1 }
    };
    let error = measure_layer(&request(3), CATALOG, &mut ignore_progress).unwrap_err().to_string();
    assert!(error.contains("`layer.planes` that divides 4 switches") && !error.contains('\n'), "{error}");
}
