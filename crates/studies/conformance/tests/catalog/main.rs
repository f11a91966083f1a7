//! Every design of the catalog, with every collective that it offers, in several settings, on every driver. What is not run is in the table
//! of `gaps.rs`.
//!
//! The walk is over all designs, fabrics, collectives and settings. Each of these runs in virtual time, without and with one frame lost. On
//! sockets and in the checker one of the two runs, in turn, so that of collectives, settings and losses each two meet in a run of every
//! driver, but not each three. Time-outs are short enough to be reached: in some settings a rank that is early for the next step of an
//! AllGather is repaired by nothing else, though nothing is lost.

#[path = "../common/mod.rs"]
mod common;
mod disagreement;
mod gaps;
mod settings;
mod walk;

use quincunx_conformance::{Run, Trial, explore_beside};
use quincunx_designs::CATALOG;

use gaps::{GAPS, gap};
use settings::{FIXED, SETTINGS, Setting};
use walk::{Case, Cell, DRIVERS, Driver, FABRICS, cases, outside};

/// More states than that are a gap.
const STATES: u64 = 1 << 18;

/// A run by a driver, whose results are right.
fn drive(driver: &str, trial: &Trial) -> Result<Run, String> {
    let (_, drive) = quincunx_conformance::DRIVERS.iter().find(|(name, _)| *name == driver).unwrap();
    let run = drive(trial).map_err(|error| format!("{driver}: {error}"))?;
    if run.outputs == trial.expected() { Ok(run) } else { Err(format!("{driver}: a result is wrong")) }
}

/// A frame of a run, from one node to another: its names and its number.
fn some_frame(run: &Run, number: usize) -> (&str, &str, u64) {
    let flows: Vec<_> = run.everything().iter().collect();
    let ((from, to), frames) = flows[number % flows.len()];
    (from, to, (number / flows.len() % frames.len()) as u64)
}

/// Runs a case on all drivers that do, and holds them against each other.
fn conform(case: &Case) -> Result<(), String> {
    let trial = case.trial();
    if let Some(gap) = gap(&case.cell(Driver::Des, false)).filter(|gap| gap.is_refused) {
        return match trial.cluster() {
            Err(_) => Ok(()),
            Ok(_) => Err(format!("it is not refused: {}", gap.reason)),
        };
    }
    let first = drive("driver-des", &trial)?;
    let (from, to, frame) = some_frame(&first, case.number * 5 + case.setting.name.len());
    let lossy = trial.clone().losing(from, to, &[frame]);
    conform_in_one_way(case, false, &trial)?;
    conform_in_one_way(case, true, &lossy).map_err(|fault| format!("{fault}; {from} to {to} loses {frame}"))
}

fn conform_in_one_way(case: &Case, is_lossy: bool, trial: &Trial) -> Result<(), String> {
    let is_run =
        |driver| case.runs(driver).contains(&is_lossy) && gap(&case.cell(driver, is_lossy)).is_none();
    let first = drive("driver-des", trial)?;
    let mut runs = vec![("driver-des", first)];
    if is_run(Driver::Net) {
        let found = drive("driver-net", trial)?;
        common::same(trial, &runs[0].1, &found).map_err(|fault| format!("driver-net {fault}"))?;
        runs.push(("driver-net", found));
    }
    if is_run(Driver::Check) {
        // The checker's nodes act at once: that two messages come before the next one leaves, which then tells of both, is for sockets.
        let count = if common::tells_credits(trial) { 1 } else { runs.len() };
        let runs: Vec<_> = runs[..count].iter().map(|(name, run)| (*name, run)).collect();
        explore_beside(trial, &runs, STATES).map_err(|fault| fault.to_string())?;
    }
    Ok(())
}

fn conform_on(fabric: &'static str) {
    let fault = |case: &Case| conform(case).err().map(|fault| format!("{case:?}: {fault}"));
    let faults: Vec<String> = cases(fabric).iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn all_designs_conform_on_a_star_of_two() {
    conform_on("star-2");
}

#[test]
fn all_designs_conform_on_a_star_of_three() {
    conform_on("star-3");
}

#[test]
fn all_designs_conform_on_a_tree_of_switches() {
    conform_on("tree-2x2");
}

#[test]
fn all_designs_conform_on_a_ring() {
    conform_on("ring-3");
}

#[test]
fn all_designs_conform_on_a_mesh() {
    conform_on("mesh-2x2");
}

#[test]
fn all_designs_conform_on_servers() {
    conform_on("servers-2x2");
}

#[test]
fn every_gap_has_a_reason_and_is_one() {
    let runs = |case: Case| {
        let lossy = |driver: Driver| case.runs(driver).into_iter().map(move |is_lossy| (driver, is_lossy));
        DRIVERS
            .into_iter()
            .flat_map(lossy)
            .map(|(driver, lossy)| case.cell(driver, lossy))
            .collect::<Vec<_>>()
    };
    let walked: Vec<Cell> = FABRICS.into_iter().flat_map(cases).flat_map(runs).collect();
    let outside = outside();
    for cell in &outside {
        assert!(gap(cell).is_some(), "nothing runs {cell:?}, and no gap says why");
    }
    for cell in walked.iter().filter(|cell| cell.driver == Driver::Des) {
        assert!(
            gap(cell).is_none_or(|gap| gap.is_refused),
            "everything that is offered runs in virtual time: {cell:?}"
        );
    }
    let cells = || walked.iter().chain(&outside);
    for (number, row) in GAPS.iter().enumerate() {
        assert!(!row.reason.is_empty(), "row {number} has no reason");
        let own = cells().filter(|cell| gap(cell).is_some_and(|found| core::ptr::eq(found, row))).count();
        assert!(own > 0, "row {number} is stale: {row}");
        println!("{own:5} runs are left out: {row}");
    }
    println!("{:5} runs are made", walked.iter().filter(|cell| gap(cell).is_none()).count());
}

#[test]
fn every_parameter_of_every_design_is_varied() {
    let fixed = |key: &str| FIXED.iter().any(|(found, reason)| *found == key && !reason.is_empty());
    let varied = |key: &str| SETTINGS.iter().flat_map(Setting::keys).any(|found| found == key);
    for design in CATALOG.above_queue_pairs() {
        for (key, _) in design.defaults().flat() {
            assert!(
                fixed(&key) != varied(&key),
                "`{key}` of {} is in a setting, or has a reason",
                design.name()
            );
        }
    }
}
