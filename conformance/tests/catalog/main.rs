//! Every design of the catalog, with every collective that it offers, in several settings, on every driver. What is not run is in the table
//! of `gaps.rs`.
//!
//! The walk is over all designs, fabrics, collectives and settings. Each of these runs in virtual time, without and with one frame lost. On
//! sockets and in the checker one of the two runs, in turn, so that every driver runs every pair of a collective and a setting, of a
//! collective and a loss, and of a setting and a loss.

#[path = "../common/mod.rs"]
mod common;
mod gaps;
mod settings;
mod walk;

use quincunx_conformance::{Run, Scenario, explore_every_run};

use gaps::gap;
use walk::{Case, Driver, cases};

/// More states than that are a gap.
const STATES: u64 = 1 << 18;

fn drive(driver: &str, scenario: &Scenario) -> Result<Run, String> {
    let (_, drive) = quincunx_conformance::DRIVERS.iter().find(|(name, _)| *name == driver).unwrap();
    let run = drive(scenario).map_err(|error| error.to_string())?;
    if run.outputs == scenario.expected() { Ok(run) } else { Err("a result is wrong".to_owned()) }
}

/// A frame of a run, from one node to another: its names and its number.
fn some_frame(run: &Run, number: usize) -> (&str, &str, u64) {
    let flows: Vec<_> = run.everything().iter().collect();
    let ((from, to), frames) = flows[number % flows.len()];
    (from, to, (number / flows.len() % frames.len()) as u64)
}

/// Runs a case on all drivers that do, and holds them against each other.
fn conform(case: &Case) -> Result<(), String> {
    let scenario = case.scenario();
    let is_run = |driver, is_lossy| {
        case.runs(driver).contains(&is_lossy) && gap(&case.cell(driver, is_lossy)).is_none()
    };
    if let Some(gap) = gap(&case.cell(Driver::Des, false)).filter(|gap| gap.is_refused) {
        return match scenario.cluster() {
            Err(_) => Ok(()),
            Ok(_) => Err(format!("it is not refused: {}", gap.reason)),
        };
    }
    let first = drive("driver-des", &scenario)?;
    let (from, to, frame) = some_frame(&first, case.number * 5 + case.setting.name.len());
    let lossy = scenario.clone().losing(from, to, &[frame]);
    for (is_lossy, scenario) in [(false, scenario), (true, lossy)] {
        let first = drive("driver-des", &scenario).map_err(|error| format!("{error}, des lossy {is_lossy} {from} {to} {frame}"))?;
        if is_run(Driver::Net, is_lossy) {
            let found = drive("driver-net", &scenario).map_err(|error| format!("{error}, net lossy {is_lossy} {from} {to} {frame}"))?;
            common::same(&scenario, &first, &found).map_err(|fault| format!("driver-net {fault}, lossy {is_lossy}"))?;
        }
        if is_run(Driver::Check, is_lossy) {
            let start = std::time::Instant::now();
            let explored = explore_every_run(&scenario, STATES).map_err(|error| format!("driver-check, lossy {is_lossy}: {error}"))?;
            if start.elapsed().as_millis() > 1000 { println!("SLOW {case:?} {is_lossy} {:?} {}", start.elapsed(), explored.statistics.distinct); }
            let contributions = scenario.contributions().map_err(|error| error.to_string())?;
            for (all, found) in explored.outcomes.iter().zip(&contributions) {
                assert!(all == std::slice::from_ref(found), "{case:?}: {found} is not what comes of all runs");
            }
            let unknown = explored.unknown_requests(&first);
            if !unknown.is_empty() {
                return Err(format!("lossy {is_lossy}, {} requests are in none of all runs: {:?}", unknown.len(), unknown[0]));
            }
        }
    }
    Ok(())
}

fn all_conform_on(fabric: &'static str) {
    let faults: Vec<String> = cases(fabric).iter()
        .filter_map(|case| conform(case).err().map(|fault| format!("{case:?}: {fault}"))).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test] fn star_2() { all_conform_on("star-2"); }
#[test] fn star_3() { all_conform_on("star-3"); }
#[test] fn tree() { all_conform_on("tree-2x2"); }
#[test] fn ring() { all_conform_on("ring-3"); }
#[test] fn mesh() { all_conform_on("mesh-2x2"); }
#[test] fn servers() { all_conform_on("servers-2x2"); }
