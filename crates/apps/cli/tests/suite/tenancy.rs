//! `sim cluster` as scripts see it, and what a report draws of it.

use crate::simulations::{json, quincunx};
use std::path::Path;

const ALONE: [&str; 7] = ["sim", "cluster", "epic-128", "--policy", "spatial", "--memory-units", "4"];

#[test]
fn of_few_runs_it_is_told_and_drawn_which_switches_and_links_are_used_when_and_by_whom() {
    let printed = json(&quincunx(&[&ALONE[..], &["--json"]].concat()));
    let runs = printed["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4, "each job has the cluster by itself");
    let run = &runs[0];
    assert_eq!(run["job"], "gpt-3-175b");
    let parts = run["links"][0]["shares"].as_array().expect("shares").len();
    let part = run["part_s"].as_f64().expect("seconds");
    assert!((32..=64).contains(&parts) && part * parts as f64 >= 178.9, "{parts} parts of {part} s");
    let held = run["held"].as_array().expect("who holds what");
    assert!(held.iter().all(|held| held["job"] == "gpt-3-175b" && held["spans_s"][0][0] == 0.0), "{held:?}");

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tenancy");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("run.json"), printed.to_string()).expect("a file");
    let report = quincunx(&["report", folder.to_str().expect("a plain path")]);
    assert_eq!(report.status.code(), Some(0), "{report:?}");
    let page = std::fs::read_to_string(folder.join("report.html")).expect("a page");
    std::fs::remove_dir_all(&folder).expect("it was ours");
    for title in ["memory of switches that groups hold", "who holds which switch", "bits that links carry"] {
        assert!(page.contains(&format!("{title}: gpt-3-175b, spatial, 4 units, seed 1")), "{title}");
    }
}

#[test]
fn of_many_runs_it_is_not_told() {
    let printed = json(&quincunx(&[
        "sim",
        "cluster",
        "epic-128",
        "--policy",
        "ring,edt,spatial",
        "--memory-units",
        "4",
        "--json",
    ]));
    let runs = printed["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 12);
    assert!(
        runs.iter().all(|run| run["part_s"].is_null() && run["busiest_links"][0]["utilisation"].is_f64())
    );
}

#[test]
fn where_things_fail_it_is_told_what_and_what_came_of_it() {
    let alone = ["sim", "cluster", "epic-2048", "--policy", "spatial", "--memory-units", "8"];
    let some = ["--set", "trace.jobs=40", "--set", "failures.server=5h", "--set", "failures.repair=1m"];
    let run = json(&quincunx(&[&alone[..], &some, &["--json"]].concat()));
    let [failed, rows] = [&run["runs"][0]["failed"], &run["rows"]];
    assert!(
        failed["servers"].as_u64() > Some(0) && failed["links"] == 0 && failed["switches"] == 0,
        "{failed}"
    );
    let rows = rows.as_array().expect("jobs");
    let restarts: u64 = rows.iter().filter_map(|job| job["restarts"].as_u64()).sum();
    let lost: f64 = rows.iter().filter_map(|job| job["lost_s"].as_f64()).sum();
    assert!(restarts > 0 && lost > 0.0, "{restarts} restarts, {lost} s");
    let printed = String::from_utf8(quincunx(&[&alone[..], &some].concat()).stdout).expect("text");
    let line = printed.lines().last().expect("a table");
    let cells: Vec<&str> = line.split_whitespace().collect();
    let expected = ["spatial", "8", "0", "0", &failed["servers"].to_string(), &restarts.to_string()];
    assert_eq!(cells[..6], expected, "{printed}");
    assert_eq!(cells[6], format!("{lost:.1}"));
    let calm = quincunx(&["sim", "cluster", "epic-128", "--policy", "ring", "--memory-units", "4"]);
    assert!(!String::from_utf8(calm.stdout).expect("text").contains("what failed"));
}
