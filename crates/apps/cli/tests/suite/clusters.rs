//! `check cluster`, as scripts see it.

use crate::simulations::{error, json, quincunx};
use serde_json::Value;
use std::path::{Path, PathBuf};

const SHORT: [&str; 4] = ["check", "cluster", "--for", "1s"];

fn rows(arguments: &[&str], status: i32) -> Vec<Value> {
    let output = quincunx(&[&SHORT[..], arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    json(&output)["rows"].as_array().expect("rows").clone()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clusters-{name}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn many_seeds_are_what_each_of_them_is_and_the_same_again() {
    let all = &rows(&["--seeds", "0..4"], 0)[0];
    let one_by_one = (0..4).map(|seed| rows(&["--seed", &seed.to_string()], 0)[0].clone());
    let steps: u64 = one_by_one.map(|row| row["steps"].as_u64().expect("steps")).sum();
    assert_eq!((&all["kept"], all["steps"].as_u64()), (&Value::from(true), Some(steps)));
    assert_eq!(all["digest"], rows(&["--seeds", "0..4"], 0)[0]["digest"]);
    assert_ne!(all["digest"], rows(&["--seeds", "1..5"], 0)[0]["digest"]);
}

#[test]
fn a_run_is_written_for_perfetto_and_for_wireshark() {
    let [trace, capture] = ["run.pftrace", "run.pcapng"].map(|name| folder("written").join(name));
    rows(&["--seed", "3", "--trace", text(&trace), "--pcap", text(&capture)], 0);
    let tracks = quincunx_trace::read(&std::fs::read(trace).expect("a trace")).expect("tracks");
    assert!(tracks.iter().any(|track| track.name == "m0" && !track.instants.is_empty()));
    assert_eq!(std::fs::read(capture).expect("a capture")[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
}

#[test]
fn a_folder_that_is_not_there_is_one_line() {
    let output = quincunx(&[&SHORT[..], &["--seed", "3", "--pcap", "/nowhere/run.pcapng"]].concat());
    let line = error(&output);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(line.contains("/nowhere/run.pcapng") && line.trim_end().lines().count() == 1, "{line}");
}

#[test]
fn the_smallest_plan_of_a_planted_bug_is_written_and_fails_again() {
    let file = folder("smallest").join("fault.json");
    let broken = ["--seeds", "0..20", "--mutate", "confirms-without-forgetting", "--write", text(&file)];
    let found = rows(&broken, 1)[0].clone();
    assert_eq!(found["broken"]["promise"], "nothing left");
    let output = quincunx(&["check", "cluster", "--replay", text(&file), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let again = json(&output)["rows"][0].clone();
    assert_eq!((&again["digest"], &again["broken"]), (&found["digest"], &found["broken"]));
}
