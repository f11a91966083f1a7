//! `sim`, `reproduce` and `report` as scripts see them: exit statuses, JSON, one-line errors.

use serde_json::Value;
use std::process::{Command, Output};

fn quincunx(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quincunx")).args(arguments).output().expect("the command starts")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

fn error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

#[test]
fn sim_checks_results_and_prints_the_columns_as_json() {
    let output = quincunx(&["sim", "all_reduce", "--design", "epic-3,ring", "--size", "64KiB", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = json(&output);
    assert_eq!((printed["schema"].as_u64(), printed["command"].as_str()), (Some(1), Some("sim")));
    let rows = printed["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["wrong"].as_u64(), Some(0));
        assert!(row["time_us"].as_f64() > Some(0.0) && !row["links"].as_array().unwrap().is_empty());
    }
    assert!(rows[0]["time_us"].as_f64() < rows[1]["time_us"].as_f64(), "a switch that adds beats a ring");
}

#[test]
fn one_seed_is_one_run() {
    let run = |seed| {
        let arguments = ["sim", "all_reduce", "--size", "256KiB", "--loss", "5%@3", "--seed", seed, "--json"];
        json(&quincunx(&arguments))["rows"][0]["time_us"].clone()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn sim_runs_designs_of_the_memory_fabric() {
    let output = quincunx(&[
        "sim",
        "all_reduce",
        "--fabric",
        "scin-dgx8",
        "--design",
        "scin",
        "--size",
        "64KiB",
        "--json",
    ]);
    assert_eq!(json(&output)["rows"][0]["wrong"].as_u64(), Some(0));
}

#[test]
fn bad_input_is_refused_before_the_run_with_the_key() {
    for (arguments, named) in [
        (&["sim", "all_reduce", "--set", "link.speed=1"][..], "speed"),
        (&["sim", "all_reduce", "--set", "link.rate=-1Gbit/s"], "link.rate"),
        (&["sim", "all_reduce", "--fabric", "nowhere"], "nowhere"),
        (&["sim", "all_reduce", "--design", "magic"], "magic"),
        (&["sim", "all_reduce", "--fabric", "ring-8", "--design", "epic-3"], "star-8"),
        (&["sim", "reduce", "--root", "8"], "--root"),
        (&["reproduce", "nobody"], "nobody"),
        (&["report", "no/such/folder"], "no/such/folder"),
    ] {
        let output = quincunx(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = error(&output);
        assert!(message.contains(named), "{arguments:?}: {message}");
    }
}

#[test]
fn a_trace_is_written_for_one_run_and_refused_for_several() {
    let file = std::env::temp_dir().join(format!("quincunx-{}.pftrace", std::process::id()));
    let path = file.to_str().expect("a plain path");
    let output = quincunx(&["sim", "broadcast", "--size", "64KiB", "--trace", path]);
    let length = std::fs::metadata(&file).map(|metadata| metadata.len());
    let _ = std::fs::remove_file(&file);
    assert_eq!(output.status.code(), Some(0));
    assert!(length.expect("the trace") > 1000);
    let output = quincunx(&["sim", "broadcast", "--size", "4KiB:64KiB:4", "--trace", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(error(&output).contains("--trace"));
}

#[test]
fn a_capture_of_a_simulation_holds_every_frame() {
    let file = std::env::temp_dir().join(format!("quincunx-{}.pcapng", std::process::id()));
    let path = file.to_str().expect("a plain path");
    let output = quincunx(&["sim", "all_reduce", "--size", "64KiB", "--pcap", path, "--json"]);
    let bytes = std::fs::read(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let frames = json(&output)["rows"][0]["frames"].as_u64().expect("frames");
    assert!(bytes.starts_with(&0x0a0d_0d0a_u32.to_le_bytes()), "a section header");
    // Blocks of type 6 are packets: type, length, and so on to the next.
    let (mut at, mut packets) = (0, 0);
    while at + 8 <= bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        packets += u64::from(word(at) == 6);
        at += word(at + 4) as usize;
    }
    assert!(packets >= frames, "{packets} packets of {frames} frames");
}

#[test]
fn reproduce_says_what_is_published_and_what_is_ours() {
    let output = quincunx(&["reproduce", "epic/table30", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    for row in json(&output)["rows"].as_array().expect("rows") {
        assert_eq!(row["verdict"].as_str(), Some("met"));
        assert!(row["published"].is_number() && row["ours"].is_number() && row["error"].is_number());
    }
}

#[test]
fn report_draws_what_sim_printed() {
    let folder = std::env::temp_dir().join(format!("quincunx-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let printed = quincunx(&["sim", "all_reduce", "--size", "4KiB:64KiB:4", "--json"]).stdout;
    std::fs::write(folder.join("sim.json"), printed).expect("a file");
    let output = quincunx(&["report", folder.to_str().expect("a plain path")]);
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    assert_eq!(output.status.code(), Some(0));
    assert!(page.contains("<svg") && page.contains("epic-3"));
}
