//! `sim chakra`, and the traces that `sim train` writes, as scripts see them.

use crate::simulations::{error, json, quincunx};
use serde_json::Value;
use std::path::{Path, PathBuf};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenario/chakra/tests/fixtures");

fn fixture(name: &str) -> String {
    format!("{FIXTURES}/{name}")
}

/// An empty folder for a test's files.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chakra-{name}"));
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = quincunx(&[&["sim"], arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    json(&output)["rows"].as_array().expect("rows").clone()
}

fn refused(arguments: &[&str], part: &str) {
    let output = quincunx(&[&["sim", "chakra"], arguments].concat());
    let line = error(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(line.contains(part), "{arguments:?}: {line}");
}

#[test]
fn a_prefix_is_one_file_a_rank_and_speedups_are_over_the_last_design() {
    let trace = fixture("all_reduce-1MiB");
    let found = rows(&["chakra", &trace, "--fabric", "star-8", "--design", "epic-3,ring"]);
    let [switch, ring] = &found[..] else { panic!("{found:?}") };
    let alone = rows(&["all_reduce", "--fabric", "star-8", "--design", "epic-3,ring", "--size", "1MiB"]);
    for (row, alone) in found.iter().zip(&alone) {
        assert_eq!(row["time_us"], alone["time_us"]);
        assert_eq!((&row["communication_us"], &row["exposed_us"]), (&row["time_us"], &row["time_us"]));
        assert_eq!((row["ranks"].as_u64(), row["nodes"].as_u64()), (Some(8), Some(8)));
        assert_eq!((row["bytes"].as_u64(), row["compute_us"].as_f64()), (Some(1 << 20), Some(0.0)));
        assert_eq!(row["per_rank"].as_array().map(Vec::len), Some(8));
    }
    assert_eq!((&ring["speedup"], &switch["baseline"]), (&Value::from(1.0), &Value::from("ring")));
    assert!(switch["speedup"].as_f64() > Some(1.0));
}

#[test]
fn files_may_come_in_any_order() {
    let names: Vec<String> =
        [5, 0, 7, 2, 1, 3, 6, 4].map(|rank| fixture(&format!("all_reduce-1MiB.{rank}.et"))).into();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let found = rows(&[&["chakra"], &names[..], &["--fabric", "star-8", "--design", "ring"]].concat());
    let prefix = fixture("all_reduce-1MiB");
    let of_prefix = rows(&["chakra", &prefix, "--fabric", "star-8", "--design", "ring"]);
    assert_eq!(found, of_prefix);
}

#[test]
fn one_file_is_run_by_all_ranks_or_by_as_many_as_one_says() {
    let trace = fixture("all_reduce-1MiB.0.et");
    let ranks = |more: &[&str]| {
        let found = rows(&[&["chakra", &trace, "--fabric", "star-4", "--design", "ring"], more].concat());
        (found[0]["ranks"].as_u64(), found[0]["time_us"].as_f64())
    };
    let (all, four) = ranks(&[]);
    let (some, two) = ranks(&["--ranks", "2"]);
    assert_eq!((all, some), (Some(4), Some(2)));
    assert!(two < four);
}

#[test]
fn the_table_has_a_line_a_design() {
    let trace = fixture("all_reduce-1MiB");
    let output = quincunx(&["sim", "chakra", &trace, "--fabric", "star-8", "--design", "epic-3,ring"]);
    let table = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(lines[0].starts_with("design  ranks  time(us)") && lines[2].ends_with("1.000"), "{table}");
}

#[test]
fn what_training_writes_replays_to_the_same_time() {
    let prefix = folder("written").join("iteration");
    let prefix = prefix.to_str().expect("a path in UTF-8");
    let on = ["--fabric", "star-2", "--design", "ring"];
    let train = ["train", "--model", "googlenet", "--batch", "2", "--chakra", prefix];
    let trained = rows(&[&train[..], &on].concat());
    let replayed = rows(&[&["chakra", prefix], &on[..]].concat());
    for key in ["time_us", "compute_us", "communication_us"] {
        assert_eq!(trained[0][key], replayed[0][key], "{key}");
    }
    assert!(!Path::new(&format!("{prefix}.2.et")).exists(), "there are two ranks");
}

#[test]
fn training_writes_one_run() {
    for more in [&["--design", "epic-3,ring"][..], &["--design", "ring", "--seeds", "2"]] {
        let train = ["sim", "train", "--model", "googlenet", "--fabric", "star-2", "--chakra", "never"];
        let output = quincunx(&[&train[..], more].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(error(&output).contains("one design and one seed with --chakra, found 2"), "{output:?}");
    }
}

#[test]
fn traces_that_do_not_fit_are_refused_in_a_line() {
    let (prefix, first, second) =
        (fixture("all_reduce-1MiB"), fixture("all_reduce-1MiB.0.et"), fixture("all_reduce-1MiB.1.et"));
    refused(&[&fixture("nothing")], "nothing.0.et, found neither");
    refused(&[&prefix, "--ranks", "2"], "--ranks with one file");
    refused(&[&prefix, "--fabric", "star-4"], "at most 4 ranks");
    refused(&[&second, &fixture("all_reduce-1MiB.2.et")], "the trace of rank 0");
    refused(&[&first, &first], "the trace of rank 1");
    refused(&[&first, &fixture("README.md")], "names such as trace.0.et");
    refused(&[&fixture("README.md")], "is it a .et file of Chakra?");
    refused(&[&first, "--fabric", "mesh8", "--design", "direct"], "2 domains");
    refused(&[&first, "--set", "train.fusion=1MiB"], "train.fusion");
    refused(&[&first, "--set", "group.nothing=1"], "group.nothing");
}

#[test]
fn what_pytorch_has_recorded_of_a_step_replays_with_its_collective_on_a_fabric() {
    let (observed, kineto) = (fixture("ddp"), fixture("ddp-kineto"));
    let found = rows(&["chakra", &observed, "--kineto", &kineto, "--fabric", "star-2", "--design", "ring"]);
    let alone = rows(&["all_reduce", "--fabric", "star-2", "--design", "ring", "--size", "18720"]);
    assert_eq!(found[0]["communication_us"], alone[0]["time_us"]);
    assert_eq!((found[0]["ranks"].as_u64(), found[0]["bytes"].as_u64()), (Some(2), Some(18_720)));
    let (time, host) = (found[0]["time_us"].as_f64(), found[0]["host_us"].as_f64());
    assert!(host > Some(1_000.0) && time >= host, "{found:?}");
}

#[test]
fn execution_traces_and_timelines_belong_together() {
    let (observed, trace) = (fixture("ddp.0.json"), fixture("all_reduce-1MiB.0.et"));
    refused(&[&observed, "--fabric", "star-2"], "expected --kineto with");
    refused(&[&trace, "--kineto", &observed, "--fabric", "star-2"], "(.json) with --kineto");
    refused(&[&observed, "--kineto", &fixture("nothing"), "--fabric", "star-2"], "nothing.0.json");
    refused(&[&observed, "--kineto", &observed, "--fabric", "star-2"], "a timeline of Kineto");
}
