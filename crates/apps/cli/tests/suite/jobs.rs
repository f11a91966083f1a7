//! `sim jobs` as scripts see it: the table, JSON, what a report draws of it, and errors in a line.

use crate::simulations::{error, json, quincunx};
use std::path::PathBuf;

/// A file of the test's own, in a folder of its own.
fn file(name: &str, text: &str) -> (PathBuf, String) {
    let folder = std::env::temp_dir().join(format!("quincunx-jobs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("jobs.toml");
    std::fs::write(&path, text).unwrap();
    (folder, path.to_string_lossy().into_owned())
}

const TWO: &str = r#"fabric = "leaf-spine-4x2x4"
[[job]]
name = "inside"
hosts = "0-7"
collective = "all_reduce"
size = "64KiB"
design = "epic-3"
times = 2

[[job]]
hosts = "4-11"
collective = "all_reduce"
size = "64KiB"
design = "epic-3"
at = "10us"

[[traffic]]
name = "storage"
pattern = "uniform"
load = 0.1
"#;

#[test]
fn where_ranks_are_decides_how_long_a_ring_takes_and_a_tree_does_not_mind() {
    let times = |placement: &str| {
        let run = [
            "sim",
            "all_reduce",
            "--fabric",
            "leaf-spine-2x2x4",
            "--design",
            "ring,epic-3",
            "--size",
            "256KiB",
            "--json",
        ];
        let printed = json(&quincunx(&[&run[..], &["--placement", placement]].concat()));
        let rows = printed["rows"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["wrong"] == 0), "{printed}");
        [0, 1].map(|row: usize| rows[row]["time_us"].as_f64().unwrap())
    };
    let ([packed, tree], [spread, other]) = (times("packed"), times("spread"));
    assert!(spread > 1.1 * packed && other < 1.01 * tree, "{packed} {spread}, {tree} {other}");
    // Hosts of a file's jobs count in that order: the first two hosts are at two leaves then.
    let job = "[[job]]\nhosts = \"0-1\"\ncollective = \"all_reduce\"\nsize = \"64KiB\"\ndesign = \"ring\"\n";
    let (folder, path) = file("placed", &format!("fabric = \"leaf-spine-2x2x4\"\n{job}"));
    let between = |placement: &str| {
        let printed = json(&quincunx(&["sim", "jobs", &path, "--placement", placement, "--json"]));
        let links = printed["links"].as_array().unwrap().clone();
        links
            .iter()
            .filter(|link| link["access"] == false)
            .filter_map(|link| link["bytes"].as_u64())
            .sum::<u64>()
    };
    assert!(between("packed") == 0 && between("spread") > 64 << 10);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn jobs_say_when_they_ran_on_which_tree_and_why_one_had_none_in_table_and_json() {
    let (folder, path) = file("rows", TWO);
    let printed = json(&quincunx(&["sim", "jobs", &path, "--alone", "--json"]));
    assert_eq!(
        (printed["command"].as_str(), printed["fabric"].as_str()),
        (Some("sim jobs"), Some("leaf-spine-4x2x4"))
    );
    let rows = printed["rows"].as_array().unwrap();
    let [inside, fallen] = &rows[..] else { panic!("two jobs: {printed}") };
    assert_eq!((&inside["job"], &fallen["job"]), (&"inside".into(), &"job-2".into()));
    assert_eq!((inside["wrong"].as_u64(), fallen["wrong"].as_u64()), (Some(0), Some(0)));
    assert_eq!(inside["switches"].as_array().unwrap().len(), 3);
    let runs = inside["runs_us"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0][1]), (2, &runs[1][0]));
    assert_eq!((fallen["begin_us"].as_f64(), &fallen["design"]), (Some(10.0), &"ring".into()));
    assert_eq!(fallen["fell_back"]["asked"], "epic-3");
    let reason = fallen["fell_back"]["reason"].as_str().unwrap();
    assert!(reason.contains("edge-disjoint") && inside["fell_back"].is_null(), "{reason}");
    assert!(inside["slowdown"].as_f64() >= Some(1.0) && fallen["slowdown"].as_f64() > Some(1.0));
    assert!(printed["traffic"][0]["arrived"].as_u64() > Some(0));
    let links = printed["links"].as_array().unwrap();
    let of_trees = links.iter().filter(|link| link["trees"][0] == "inside" && link["access"] == false);
    assert_eq!((links.len(), of_trees.count()), (2 * (8 + 16), 4));

    let table = String::from_utf8(quincunx(&["sim", "jobs", &path]).stdout).unwrap();
    assert!(table.contains(&format!("# job-2: epic-3 fell back to ring: {reason}")), "{table}");
    assert!(table.contains("inside") && table.contains("storage") && table.contains("spine-0 +2"), "{table}");
    assert!(table.contains("links of trees between switches: 4 directions"), "{table}");

    std::fs::write(folder.join("jobs.json"), printed.to_string()).unwrap();
    let report = quincunx(&["report", &folder.to_string_lossy()]);
    assert_eq!(report.status.code(), Some(0));
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(page.contains("jobs on leaf-spine-4x2x4") && page.contains("inside: epic-3, 8 ranks"));
    assert!(page.contains("over time alone") && !page.contains("http"), "offline");
}

#[test]
fn one_seed_is_one_run_of_jobs() {
    let (folder, path) = file("seed", TWO);
    let rows = |seed| json(&quincunx(&["sim", "jobs", &path, "--seed", seed, "--json"]))["rows"].clone();
    assert_eq!(rows("3"), rows("3"));
    assert_ne!(rows("3"), rows("4"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn rows_of_several_seeds_are_means_with_their_error() {
    let (folder, path) = file("seeds", TWO);
    let run = |options: &[&str]| json(&quincunx(&[&["sim", "jobs", &path, "--json"], options].concat()));
    let time = |printed: &serde_json::Value, row: usize| printed["rows"][row]["time_us"].as_f64().unwrap();
    let [first, second] = ["3", "4"].map(|seed| run(&["--seed", seed]));
    let both = run(&["--seed", "3", "--seeds", "2", "--alone"]);
    for row in 0..2 {
        let [first, second] = [&first, &second].map(|printed| time(printed, row));
        assert!((time(&both, row) - (first + second) / 2.0).abs() < 1e-3, "{both}");
        let error = both["rows"][row]["time_stderr_us"].as_f64().unwrap();
        assert!((error - (first - second).abs() / 2.0).abs() < 1e-3, "{error}: {first} and {second}");
    }
    assert!(first["rows"][0]["time_stderr_us"].is_null() && both["seeds"] == 2);
    assert!(both["rows"][0]["slowdown"].as_f64() >= Some(1.0));
    let table = quincunx(&["sim", "jobs", &path, "--seeds", "2"]);
    assert!(String::from_utf8(table.stdout).unwrap().contains("error(us)"));
    let refused = quincunx(&["sim", "jobs", &path, "--seeds", "2", "--trace", "/dev/null"]);
    assert!(error(&refused).contains("expected one seed with --trace or --pcap, found 2 runs"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_wrong_with_jobs_is_one_line_with_the_line_of_the_file() {
    let (folder, path) = file("wrong", &TWO.replace("\"4-11\"", "\"4-16\""));
    let output = quincunx(&["sim", "jobs", &path]);
    assert_eq!(output.status.code(), Some(2));
    let message = error(&output);
    assert!(message.contains("jobs.toml:10: expected hosts below 16"), "{message}");
    let message = error(&quincunx(&["sim", "jobs", &path, "--fabric", "leaf-spine-4x2"]));
    assert!(message.contains("leaf-spine-LxSxH") && message.contains("\"leaf-spine-4x2\""), "{message}");
    std::fs::write(&path, "[[job]]\nhosts = 3\n").unwrap();
    assert!(error(&quincunx(&["sim", "jobs", &path])).contains("line 2"));
    std::fs::write(&path, TWO.replace("fabric = \"leaf-spine-4x2x4\"", "")).unwrap();
    assert!(error(&quincunx(&["sim", "jobs", &path])).contains("expected a fabric, found none"));
    std::fs::remove_dir_all(&folder).unwrap();
}
