//! `sim`, `reproduce` and `report` as scripts see them: exit statuses, JSON, one-line errors.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

pub(crate) fn quincunx(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quincunx")).args(arguments).output().expect("the command starts")
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

/// What takes long, on a busy machine too, says how far it is; that is not what it has to say.
fn without_progress(text: &str) -> Vec<&str> {
    text.trim_end().lines().filter(|line| !line.starts_with("progress: ")).collect()
}

/// The one line of an error.
pub(crate) fn error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let [line] = without_progress(&text)[..] else { panic!("one line: {text}") };
    line.to_owned()
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

/// The chosen design and the verdicts on all candidates of each row.
fn choices(arguments: &[&str]) -> Vec<(String, Vec<String>)> {
    let output = quincunx(&[&["sim"], arguments, &["--design", "auto", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let row = |row: &Value| {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let verdict = |candidate: &Value| {
            assert_eq!(
                candidate["time_us"].is_null(),
                text(&candidate["verdict"]).starts_with("not possible")
            );
            format!("{}: {}", text(&candidate["design"]), text(&candidate["verdict"]))
        };
        (
            text(&row["design"]),
            row["candidates"].as_array().expect("candidates").iter().map(verdict).collect(),
        )
    };
    json(&output)["rows"].as_array().expect("rows").iter().map(row).collect()
}

#[test]
fn a_design_that_does_not_run_there_is_said_beside_the_rows_of_those_that_do() {
    let run = |design: &str, more: &[&str]| {
        let arguments =
            ["sim", "all_reduce", "--fabric", "ring-4", "--size", "4KiB:8KiB:2", "--design", design];
        quincunx(&[&arguments[..], more].concat())
    };
    let output = run("epic-3,ring", &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = json(&output);
    let rows = printed["rows"].as_array().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["design"] == "ring"), "{rows:?}");
    let refused = printed["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 2);
    assert!(
        refused[1]["verdict"]
            .as_str()
            .unwrap()
            .starts_with("not possible here: expected a fabric with switches")
    );
    let table = String::from_utf8(run("epic-3,ring", &[]).stdout).unwrap();
    assert_eq!(table.matches("not possible here").count(), 1, "once for all sizes: {table}");
    for designs in ["epic-3", "epic-3,epic-2"] {
        assert_eq!(run(designs, &[]).status.code(), Some(2), "none runs: {designs}");
    }
}

#[test]
fn the_settings_in_force_are_keys_of_a_file_that_says_the_same() {
    let arguments = ["sim", "all_reduce", "--fabric", "star-4", "--design", "epic-3,ring", "--size", "64KiB"];
    let changes = ["--set", "link.rate=400Gbit/s", "--set", "hosts.window=8"];
    let printed = json(&quincunx(&[&arguments[..], &changes, &["--json"]].concat()));
    let settings = &printed["settings"];
    assert_eq!(settings["fabric"]["link.rate"], "400Gbit/s", "what was said");
    assert_eq!(settings["fabric"]["measure.stepwise"], false, "a default");
    assert_eq!(settings["designs"]["ring"]["hosts.window"], 8);
    assert!(settings["designs"]["epic-3"].get("hosts.window").is_none(), "not its own");
    let text =
        String::from_utf8(quincunx(&[&arguments[..], &changes, &["--settings"]].concat()).stdout).unwrap();
    let keys: String =
        text.lines().filter(|line| line.contains(" = ")).map(|line| format!("{line}\n")).collect();
    let part = text.split("# ring").nth(1).unwrap();
    assert!(part.contains("\nhosts.window = 8\n") && keys.starts_with("kind = \"packet\"\n"), "{text}");
}

#[test]
fn a_shape_is_shown_as_a_file_that_says_the_same() {
    for (shape, collective, design) in [
        ("leaf-spine-2x2x2", "all_reduce", "ring"),
        ("memory-4x2", "all_reduce", "ring"),
        ("mesh-2x2", "all_gather", "multiwrite"),
        ("servers-2x2", "dispatch", "multiwrite"),
    ] {
        let file = std::env::temp_dir().join(format!("quincunx-{shape}-{}.toml", std::process::id()));
        std::fs::write(&file, quincunx(&["sim", "--show", shape]).stdout).unwrap();
        let rows = |fabric: &str| {
            json(&quincunx(&["sim", collective, "--fabric", fabric, "--design", design, "--json"]))["rows"]
                .clone()
        };
        assert_eq!(rows(shape), rows(file.to_str().unwrap()), "{shape}");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn the_example_of_nodes_and_links_runs() {
    let fabric = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/fabrics/two-leaves.toml");
    let output = quincunx(&[
        "sim",
        "all_reduce",
        "--fabric",
        fabric,
        "--design",
        "epic-3,ring",
        "--size",
        "64KiB",
        "--json",
    ]);
    let printed = json(&output);
    assert!(printed["rows"].as_array().unwrap().iter().all(|row| row["wrong"] == 0), "{printed}");
    assert_eq!(printed["settings"]["fabric"]["node"].as_array().unwrap().len(), 12);
}

#[test]
fn auto_picks_the_fastest_design_for_each_size_and_says_why_not_the_others() {
    let chosen = choices(&["all_gather", "--fabric", "mesh8", "--size", "1MiB:64MiB:64"]);
    let designs: Vec<&str> = chosen.iter().map(|(design, _)| design.as_str()).collect();
    assert_eq!(designs, ["direct", "multiwrite"], "small messages gain nothing from relays");
    let (_, verdicts) = &chosen[1];
    assert_eq!((verdicts.len(), verdicts[0].as_str()), (3, "multiwrite: chosen"));
    assert!(verdicts[1..].iter().all(|verdict| verdict.contains("slower by")), "{verdicts:?}");

    let (design, verdicts) = &choices(&["all_reduce", "--fabric", "ring-8", "--size", "64KiB"])[0];
    assert_eq!(design, "ring");
    let switches = "epic-3: not possible here: expected a fabric with switches";
    assert!(verdicts.iter().any(|verdict| verdict.starts_with(switches)), "{verdicts:?}");
}

#[test]
fn auto_takes_no_design_that_changes_the_result() {
    let (_, verdicts) = &choices(&["all_reduce", "--fabric", "scin-dgx8", "--size", "64KiB"])[0];
    assert!(verdicts.iter().any(|verdict| verdict.starts_with("scin:")), "{verdicts:?}");
    assert!(
        !verdicts.iter().any(|verdict| verdict.starts_with("scin-inq:") || verdict.starts_with("ring-rq:"))
    );
}

#[test]
fn sim_traffic_says_what_is_accepted_and_how_long_packets_take_on_either_fabric() {
    for fabric in ["star-4", "scin-dgx8"] {
        let output = quincunx(&[
            "sim",
            "traffic",
            "--fabric",
            fabric,
            "--pattern",
            "uniform,hotspot",
            "--load",
            "0.05,0.1",
            "--packets",
            "2000",
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(0));
        let printed = json(&output);
        assert_eq!(printed["command"].as_str(), Some("sim traffic"));
        let rows = printed["rows"].as_array().expect("rows");
        let order: Vec<_> = rows.iter().map(|row| (row["pattern"].as_str(), row["load"].as_f64())).collect();
        let expected =
            ["uniform", "hotspot"].map(|pattern| [0.05, 0.1].map(|load| (Some(pattern), Some(load))));
        assert_eq!(order, expected.concat());
        for row in rows {
            let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("a number for {key}: {row}"));
            assert!((of("accepted") / of("load") - 1.0).abs() < 0.1, "{row}");
            let latencies = ["p50", "p99", "max"].map(|rank| of(&format!("latency_{rank}_us")));
            assert!(
                latencies.is_sorted() && latencies[0] > 0.0 && of("latency_mean_us") < latencies[2],
                "{row}"
            );
        }
    }
}

#[test]
fn traffic_of_several_seeds_is_a_mean_and_of_one_can_be_written() {
    let run = |options: &[&str]| {
        let traffic = ["sim", "traffic", "--fabric", "star-4", "--load", "0.5", "--packets", "500", "--json"];
        json(&quincunx(&[&traffic[..], options].concat()))["rows"][0].clone()
    };
    let mean = |row: &Value| row["latency_mean_us"].as_f64().unwrap();
    let ([first, second], both) = (["1", "2"].map(|seed| run(&["--seed", seed])), run(&["--seeds", "2"]));
    assert!((mean(&both) - (mean(&first) + mean(&second)) / 2.0).abs() < 1e-3, "{first} {second} {both}");
    let error_of_mean = both["latency_mean_stderr_us"].as_f64().unwrap();
    assert!((error_of_mean - (mean(&first) - mean(&second)).abs() / 2.0).abs() < 1e-3, "{both}");
    for fabric in ["star-4", "memory-8"] {
        let file = std::env::temp_dir().join(format!("quincunx-{fabric}-{}.pftrace", std::process::id()));
        let path = file.to_str().expect("a temporary path");
        let traffic = ["sim", "traffic", "--fabric", fabric, "--load", "0.5", "--packets", "500"];
        let output = quincunx(&[&traffic[..], &["--trace", path]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", error(&output));
        let length = std::fs::metadata(&file).unwrap().len();
        std::fs::remove_file(&file).unwrap();
        // Each packet crosses two links, with a slice on each.
        assert!(length > 2 * 500 * 20, "{fabric}: {length} B");
        let refused = quincunx(&[&traffic[..], &["--seeds", "2", "--trace", path]].concat());
        assert!(error(&refused).contains("one pattern, one load and one seed"), "{}", error(&refused));
    }
}

#[test]
fn a_collective_can_run_beside_traffic() {
    let time = |background: &[&str]| {
        let arguments = [&["sim", "all_reduce", "--size", "64KiB", "--json"], background].concat();
        let output = quincunx(&arguments);
        assert_eq!(output.status.code(), Some(0));
        json(&output)["rows"][0]["time_us"].as_f64().expect("a time")
    };
    assert!(time(&["--background", "uniform:0.5"]) > time(&[]));
}

#[test]
fn several_seeds_make_one_row_of_means_with_their_error() {
    let rows = |more: &[&str]| {
        let arguments =
            [&["sim", "all_reduce", "--size", "256KiB", "--loss", "5%@3", "--json"], more].concat();
        json(&quincunx(&arguments))["rows"].as_array().expect("rows").clone()
    };
    let time = |row: &Value| row["time_us"].as_f64().expect("a time");
    let singles: Vec<f64> = ["7", "8", "9"].map(|seed| time(&rows(&["--seed", seed])[0])).into();
    let means = rows(&["--seed", "7", "--seeds", "3"]);
    assert_eq!((means.len(), means[0]["seeds"].as_u64(), means[0]["wrong"].as_u64()), (1, Some(3), Some(0)));
    let mean = singles.iter().sum::<f64>() / 3.0;
    assert!((time(&means[0]) - mean).abs() < 1e-3, "{singles:?}, {}", means[0]);
    let squares: f64 = singles.iter().map(|single| (single - mean).powi(2)).sum();
    let error = means[0]["time_stderr_us"].as_f64().expect("an error");
    assert!((error - (squares / 2.0 / 3.0).sqrt()).abs() < 1e-3, "{singles:?}, {}", means[0]);
}

/// Waits until a process takes interrupts, as its signals' masks say (proc(5), `SigCgt`).
fn wait_for_handler(process: u32) {
    let takes = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let mask =
            status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask").trim().to_owned();
        u64::from_str_radix(&mask, 16).expect("hexadecimal") & 1 << (2 - 1) != 0
    };
    while !takes() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a command that takes long, lets it come to `lines` lines of output, and interrupts it.
fn interrupt(arguments: &[&str], lines: usize) -> (Option<i32>, Vec<String>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quincunx"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut output = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut printed: Vec<String> = output.by_ref().take(lines).map(|line| line.expect("a line")).collect();
    wait_for_handler(child.id());
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    printed.extend(output.map(|line| line.expect("a line")));
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), printed, String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn an_interrupted_simulation_keeps_its_rows_and_says_where_it_stopped() {
    // A row that takes no time, and one that takes an hour.
    let sizes = "1KiB:8GiB:8388608";
    for design in [&["--design", "epic-3"][..], &["--fabric", "scin-dgx8", "--design", "scin"]] {
        let arguments = [&["sim", "all_reduce", "--size", sizes], design].concat();
        let (status, printed, error) = interrupt(&arguments, 3);
        assert_eq!(status, Some(130), "{error}");
        assert_eq!(printed.len(), 3, "two lines of header and a row: {printed:?}");
        // "In" a run, or "between two runs": the interrupt may come before the second row begins.
        let said = without_progress(&error);
        assert!(said.len() == 1 && said[0].contains("found an interrupt after 1; stopped "), "{error}");
    }
}

#[test]
fn interrupted_traffic_says_where_it_stopped() {
    let (status, printed, error) = interrupt(&["sim", "traffic", "--packets", "1000000000000"], 2);
    assert_eq!((status, printed.len()), (Some(130), 2), "{error}");
    assert!(error.contains("found an interrupt after 0; stopped"), "{error}");
}

#[test]
fn an_interrupted_reproduction_says_where_it_stopped() {
    let (status, _, error) = interrupt(&["reproduce", "epic"], 0);
    assert_eq!(status, Some(130), "{error}");
    assert!(error.contains("stopped in epic/") && error.trim_end().lines().count() == 1, "{error}");
}

#[test]
fn bad_input_is_refused_before_the_run_with_the_key() {
    for (arguments, named) in [
        (&["sim", "all_reduce", "--set", "link.speed=1"][..], "speed"),
        (&["sim", "all_reduce", "--set", "link.rate=-1Gbit/s"], "link.rate"),
        (&["sim", "all_reduce", "--set", "loss.probability=-5%"], "loss.probability"),
        (&["sim", "all_reduce", "--loss=-1%"], "loss.probability"),
        (&["sim", "all_reduce", "--fabric", "nowhere"], "nowhere"),
        // No path from one accelerator to another.
        (
            &["sim", "all_reduce", "--fabric", "scin-dgx8", "--design", "scin", "--set", "switches=0"],
            "`switches`",
        ),
        // A tree of one level: ranks under a switch that is not there.
        (&["sim", "all_reduce", "--set", "topology=tree-1-8"], "topology"),
        (&["sim", "all_reduce", "--set", "topology=tree-0x4"], "topology"),
        // A table smaller than a wave, a wave smaller than a packet.
        (
            &["sim", "all_reduce", "--fabric", "scin-dgx8", "--design", "scin", "--set", "isa.waves=0"],
            "isa.waves",
        ),
        (
            &["sim", "all_reduce", "--fabric", "scin-dgx8", "--design", "scin", "--set", "isa.wave=64"],
            "isa.wave",
        ),
        (&["sim", "all_reduce", "--design", "magic"], "magic"),
        (&["sim", "all_reduce", "--design", "auto,ring"], "auto alone"),
        (&["sim", "all_reduce", "--design", "auto", "--fabric", "mesh8"], "found none: multiwrite"),
        (&["sim", "all_reduce", "--fabric", "ring-8", "--design", "epic-3"], "star-8"),
        (&["sim", "reduce", "--root", "8"], "--root"),
        (&["sim", "all_reduce", "--fabric", "scin-dgx8", "--design", "scin", "--size", "1TiB"], "size"),
        (&["sim", "traffic", "--fabric", "star-1"], "topology"),
        (&["sim", "traffic", "--fabric", "ring-8"], "star-8"),
        (
            &["sim", "all_reduce", "--fabric", "ring-8", "--design", "ring", "--background", "uniform:0.1"],
            "star-8",
        ),
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
fn a_design_that_does_not_offer_a_collective_says_so() {
    let designs = [
        ("epic-star8", &["epic-1", "epic-2", "epic-3", "ring", "tree", "direct"][..]),
        ("scin-dgx8", &["scin", "scin-inq", "nvls", "cais", "ring", "ring-rq", "direct"]),
        ("mesh8", &["multiwrite", "unicast-multipath", "direct"]),
    ];
    let routed = designs.map(|(fabric, designs)| (fabric, designs, ["dispatch", "combine"]));
    let servers = ("two-servers", &["multiwrite", "direct"][..], ["all_reduce", "all_gather"]);
    for (fabric, designs, collectives) in routed.into_iter().chain([servers]) {
        for (design, collective) in designs.iter().zip(collectives.iter().cycle()) {
            let output =
                quincunx(&["sim", collective, "--fabric", fabric, "--design", design, "--size", "4KiB"]);
            assert_eq!(output.status.code(), Some(2), "{collective} by {design}");
            let message = error(&output);
            assert!(message.contains(collective), "{collective} by {design}: {message}");
        }
    }
}

#[test]
fn an_argument_that_cannot_be_read_is_refused_with_its_name() {
    for (arguments, named) in [
        (&["sim", "traffic", "--load", "1.5"][..], "--load"),
        (&["sim", "traffic", "--load", "0"], "--load"),
        (&["sim", "traffic", "--pattern", "random"], "--pattern"),
        (&["sim", "all_reduce", "--background", "uniform"], "--background"),
    ] {
        let output = quincunx(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(named) && message.contains("expected"), "{arguments:?}: {message}");
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
fn reproduce_holds_a_formula_against_each_value() {
    let output = quincunx(&["reproduce", "epic/F3", "--json"]);
    let rows = json(&output)["rows"].as_array().expect("rows").clone();
    // The window of the path, of 64 packets of 4 KiB, twice.
    let mode_ii =
        rows.iter().find(|row| row["figure"] == "epic-2, H = 2, 64KiB").expect("a figure of Mode-II");
    assert_eq!(mode_ii["published"].as_f64(), Some(2.0 * 64.0 * 4096.0));
    let missed = rows.iter().filter(|row| row["verdict"] == "missed").count();
    assert_eq!((rows.len(), missed), (11, 4));
}

#[test]
fn what_is_not_counted_is_in_no_total_and_no_fault() {
    // Four of F3's are not as the formulas have them; all are of the kind that is not counted.
    let output = quincunx(&["reproduce", "epic/F3", "--json"]);
    let printed = json(&output);
    let rows = printed["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["kind"] == "identity"));
    let nothing = serde_json::json!({ "met": 0, "missed": 0, "independent": 0 });
    let expected =
        serde_json::json!({ "predicted": nothing, "formula": nothing, "calibrated": nothing, "papers": {} });
    assert_eq!(printed["totals"], expected);
    assert_eq!(output.status.code(), Some(0));
    let table = String::from_utf8_lossy(&quincunx(&["reproduce", "epic/F3"]).stdout).into_owned();
    assert!(table.trim_end().ends_with("epic       identity     11 figures, not counted"), "{table}");
}

#[test]
fn a_counted_figure_out_of_its_tolerance_is_a_fault_and_in_its_kinds_total() {
    let output = quincunx(&["reproduce", "epic/F1"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.trim_end().ends_with("epic       formula      17 of 24 met, 7 missed, 24 independent"),
        "{table}"
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("expected all 24 figures that are counted"), "{table}");
}

#[test]
fn a_formulas_figures_are_in_no_total_of_predictions() {
    let totals = json(&quincunx(&["reproduce", "epic/F1", "--json"]))["totals"].clone();
    let predicted = serde_json::json!({ "met": 0, "missed": 0, "independent": 0 });
    assert_eq!(totals["predicted"], predicted);
    assert_eq!(totals["papers"]["epic"]["formula"]["met"], 17);
}

#[test]
fn a_number_under_two_names_is_one_independent_figure() {
    let totals = json(&quincunx(&["reproduce", "scin/fig11a", "--json"]))["totals"].clone();
    assert_eq!(totals["calibrated"], serde_json::json!({ "met": 1, "missed": 1, "independent": 1 }));
}

#[test]
fn reproduce_says_what_is_published_and_what_is_ours() {
    let output = quincunx(&["reproduce", "epic/table30", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = json(&output);
    let total = serde_json::json!({ "met": 2, "missed": 0, "independent": 2 });
    assert_eq!(printed["totals"]["calibrated"], total);
    assert_eq!(printed["totals"]["papers"]["epic"]["calibrated"], total);
    for row in printed["rows"].as_array().expect("rows") {
        assert_eq!(row["verdict"].as_str(), Some("met"));
        assert_eq!(row["kind"].as_str(), Some("calibrated"));
        assert!(row["published"].is_number() && row["ours"].is_number() && row["error"].is_number());
    }
    let curves = printed["curves"].as_array().expect("curves");
    let points: Vec<&Value> = curves.iter().flat_map(|curve| curve["points"].as_array().unwrap()).collect();
    assert_eq!(points.len(), 2, "every figure is a point of a line");
    assert!(points.iter().all(|point| point["ours"].is_number() && point["published"].is_number()));
    assert!(curves.iter().all(|curve| curve["title"].is_string() && curve["axis"] == "size"), "{curves:?}");
}

#[test]
fn report_draws_what_sim_printed_and_how_busy_links_were_over_time_on_either_fabric() {
    let folder = std::env::temp_dir().join(format!("quincunx-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, arguments: &[&str]| {
        let printed = quincunx(arguments).stdout;
        std::fs::write(folder.join(name), printed).expect("a file");
    };
    let common = ["sim", "all_reduce", "--size", "4KiB:64KiB:16", "--json", "--utilisation"];
    write("packet.json", &common);
    write("memory.json", &[&common[..], &["--fabric", "scin-dgx8", "--design", "scin"]].concat());
    write("traffic.json", &["sim", "traffic", "--load", "0.1,0.5", "--packets", "1000", "--json"]);
    let output = quincunx(&["report", folder.to_str().expect("a plain path")]);
    let page = std::fs::read_to_string(folder.join("report.html")).expect("the page");
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    assert_eq!(output.status.code(), Some(0));
    // Each sweep over size and its two rows over time; traffic over load.
    assert_eq!(page.matches("<svg").count(), 2 * 3 + 1);
    for shown in ["epic-3", "host-0 &gt; switch-0", "accelerator0 &gt; switch0", "uniform, p99"] {
        assert!(page.contains(shown), "{shown}");
    }
}

#[test]
fn bins_of_time_hold_what_the_whole_run_says() {
    for design in [&["--design", "epic-3"][..], &["--fabric", "scin-dgx8", "--design", "scin"]] {
        let arguments =
            [&["sim", "all_reduce", "--size", "1MiB", "--json", "--utilisation"], design].concat();
        let row = &json(&quincunx(&arguments))["rows"][0];
        let (bin, time) =
            (row["bin_us"].as_f64().expect("a width"), row["time_us"].as_f64().expect("a time"));
        for link in row["links"].as_array().expect("links") {
            let bins: Vec<f64> = link["over_time"]
                .as_array()
                .expect("bins")
                .iter()
                .map(|bin| bin.as_f64().expect("a share"))
                .collect();
            assert!((32..=64).contains(&bins.len()), "{link}");
            let busy = bins.iter().sum::<f64>() * bin;
            let expected = link["utilisation"].as_f64().expect("a share") * time;
            // Shares are rounded, and the last bin is not whole.
            assert!((busy - expected).abs() < 0.02 * time + bin, "{busy} us of {expected}: {link}");
        }
    }
}

#[test]
fn sim_train_says_what_of_the_communication_computation_hides() {
    let arguments = [
        "sim",
        "train",
        "--model",
        "googlenet",
        "--fabric",
        "star-2",
        "--design",
        "epic-3,ring",
        "--batch",
        "1",
    ];
    let output = quincunx(&[&arguments[..], &["--set", "train.overlap=false", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = json(&output);
    assert_eq!(printed["command"], "sim train");
    let rows = printed["rows"].as_array().expect("rows");
    let number = |row: &Value, key: &str| row[key].as_f64().expect("a number");
    for row in rows {
        assert_eq!((number(row, "hidden_us"), number(row, "batch")), (0.0, 1.0));
        let sum = number(row, "compute_us") + number(row, "communication_us");
        // Gradients are looked for every five milliseconds.
        assert!((0.0..5e3).contains(&(number(row, "time_us") - sum)));
        assert!((number(row, "samples_per_second") * number(row, "time_us") / 2e6 - 1.0).abs() < 1e-6);
        assert_eq!(row["baseline"], "ring");
        assert_eq!(row["buckets"].as_array().unwrap().len(), 1);
    }
    let [switch, ring] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(number(ring, "speedup"), 1.0, "the last is what the others are compared with");
    assert!((number(switch, "speedup") - number(ring, "time_us") / number(switch, "time_us")).abs() < 1e-9);
    let table = String::from_utf8(quincunx(&arguments).stdout).unwrap();
    assert_eq!(table.lines().count(), 4, "{table}");
}

#[test]
fn sim_train_refuses_in_a_line_what_it_does_not_know() {
    for (arguments, expected) in [
        (&["train", "--model", "lenet"][..], "resnet-50"),
        (&["train", "--model", "vgg-11", "--set", "train.gpus=2"], "gpus"),
        (&["train", "--model", "vgg-11", "--fabric", "mesh8", "--design", "direct"], "domains"),
        (&["train", "--model", "vgg-11", "--batch", "0"], "train.batch"),
        (&["all_reduce", "--set", "train.fusion=1MiB"], "train.fusion"),
        (&["traffic", "--set", "train.fusion=1MiB"], "train.fusion"),
    ] {
        let output = quincunx(&[&["sim"][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error(&output).contains(expected), "{arguments:?}");
    }
}
