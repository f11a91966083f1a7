//! The design in the commands: the program of this crate is the `quincunx` command, which knows it like any other.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn quincunx(arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-design"));
    command.args(arguments.split_whitespace()).output().expect("the program starts")
}

/// What a command prints that ends well.
fn text(arguments: &str) -> String {
    let output = quincunx(arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn rows(output: &[u8]) -> Vec<Value> {
    let printed: Value = serde_json::from_slice(output).expect("one JSON object");
    printed["rows"].as_array().expect("rows").clone()
}

/// The line that a command ends with for bad input.
fn refusal(arguments: &str) -> String {
    let output = quincunx(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    error
}

#[test]
fn help_says_what_it_is() {
    let summary = "a parameter server in the switch: it adds up messages, and sends each sum to all";
    assert!(text("--help").contains(summary));
    let rules = text("check --help");
    assert!(rules.lines().any(|line| line.trim() == "parameter-server: one-short"), "{rules}");
}

#[test]
fn sim_simulates_it_beside_another_design() {
    let printed = text(
        "sim all_reduce --fabric star-4 --design parameter-server,ring,epic-3 --size 4KiB:64KiB:16 --json",
    );
    let rows = rows(printed.as_bytes());
    let designs: Vec<&str> = rows.iter().filter_map(|row| row["design"].as_str()).collect();
    assert_eq!(designs, ["parameter-server", "parameter-server", "ring", "ring", "epic-3", "epic-3"]);
    for row in &rows {
        assert_eq!(row["wrong"], 0, "{row}");
    }
    let time = |row: usize| rows[row]["time_us"].as_f64().unwrap();
    assert!(time(0) < time(2), "of a small vector one round to the switch beats a ring's six steps");
}

#[test]
fn sim_carries_it_through_losses() {
    let printed = text(
        "sim all_reduce --fabric star-4 --design parameter-server --size 64KiB --loss 5%@2 --set group.mtu=1KiB --json",
    );
    assert_eq!(rows(printed.as_bytes())[0]["wrong"], 0);
}

#[test]
fn auto_has_it_among_its_candidates() {
    let printed = text("sim all_reduce --fabric star-4 --design auto --size 4KiB --json");
    let row = &rows(printed.as_bytes())[0];
    let mut candidates = row["candidates"].as_array().expect("candidates").iter();
    let own = candidates.find(|candidate| candidate["design"] == "parameter-server");
    assert!(own.is_some_and(|own| own["time_us"].as_f64() > Some(0.0)), "{row}");
}

#[test]
fn show_lists_its_parameters_and_set_changes_one() {
    let shown = text("sim --show parameter-server");
    let keys: Vec<&str> = shown.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(keys.contains(&"group.mtu") && keys.contains(&"server.slots"), "{shown}");
    let time = |change: &str| {
        let printed = text(&format!(
            "sim all_reduce --fabric star-4 --design parameter-server --size 256KiB --set group.message=1 --set {change} --json"
        ));
        rows(printed.as_bytes())[0]["time_us"].as_f64().unwrap()
    };
    let usual = time("group.window=32");
    for narrow in ["group.window=1", "server.slots=1"] {
        assert!(time(narrow) > 2.0 * usual, "{narrow}: a packet at a time leaves the links idle");
    }
}

#[test]
fn bad_values_are_refused_in_one_line() {
    const SIM: &str = "sim all_reduce --fabric star-4 --size 4KiB --design parameter-server";
    for (arguments, says) in [
        (format!("{SIM} --set group.window=0"), "`group.window`"),
        (format!("{SIM} --set group.window=many"), "`group.window`"),
        (format!("{SIM} --set server.slots=0"), "`server.slots` of 1 to the 32 messages"),
        (SIM.replace("parameter-server", "ring --set server.slots=1"), "server.slots"),
        (
            "perf all_reduce --ranks 2 --design parameter-server --set server.slots=5".to_owned(),
            "`server.slots` of 1 to the 4",
        ),
        (format!("{SIM} --set group.colour=1"), "group.colour"),
        (format!("{SIM} --fabric tree-2x2").replace("--fabric star-4 ", ""), "choose a star such as star-8"),
        ("sim broadcast --fabric star-4 --design parameter-server".to_owned(), "broadcast"),
        ("perf broadcast --ranks 2 --design parameter-server".to_owned(), "(all_reduce, barrier)"),
        ("perf all_reduce --ranks 4 --tree tree-2x2 --design parameter-server".to_owned(), "choose a star"),
        ("check parameter-server all_reduce --tree star-2 --mutate two-short".to_owned(), "one-short"),
        ("check parameter-server all_reduce --tree tree-3-2".to_owned(), "choose a star such as star-8"),
    ] {
        let error = refusal(&arguments);
        assert!(error.contains(says), "{arguments}: {error}");
    }
}

#[test]
fn perf_runs_it_over_real_processes_and_report_draws_it() {
    let output = quincunx(
        "perf all_reduce --ranks 3 --design parameter-server,ring --sizes 4KiB:64KiB:16 --iterations 2 \
         --message 2 --set server.slots=2 --json",
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = rows(&output.stdout);
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row["wrong"], 0, "{row}");
    }
    assert_eq!(rows[0]["design"], "parameter-server");
    // Messages of two packets of 4096 bytes: four of each rank, which is perf's window, and two slots.
    assert_eq!(rows[0]["switch_buffer_bytes"], 2 * 4096 * (3 * 4 + 2));

    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).expect("a folder of ours");
    std::fs::write(folder.join("perf.json"), &output.stdout).expect("a file of ours");
    let page = text(&format!("report {}", folder.display()));
    let html = std::fs::read_to_string(page.trim_end()).expect("the page is there");
    assert!(html.contains("parameter-server") && html.contains("<svg"));
}

#[test]
fn demo_shows_it_among_the_others_and_draws_it() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo");
    // What another run has drawn is not this one's.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder of ours");
    let mut command = Command::new(env!("CARGO_BIN_EXE_own-design"));
    let output =
        command.args("demo --size 16KiB --iterations 1".split_whitespace()).current_dir(&folder).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    // The tree of the real processes has three switches, and a parameter server is one.
    assert!(printed.contains("Left out here, parameter-server: "), "{printed}");
    let simulated = |line: &&str| line.starts_with("epic-star8") && line.contains("parameter-server");
    assert_eq!(printed.lines().filter(simulated).count(), 1, "{printed}");
    let page = printed.lines().find_map(|line| line.strip_prefix("Plots: ")).expect("the page's path");
    let html = std::fs::read_to_string(folder.join(page)).expect("the page is there");
    assert!(html.contains("parameter-server") && html.contains("<svg"));
}

#[test]
fn perf_is_right_where_frames_are_lost_doubled_and_late() {
    let printed = text(
        "perf all_reduce --ranks 3 --design parameter-server --sizes 16KiB --payload 1024 --iterations 2 --loss 5% \
         --reorder 5% --duplicate 2% --seed 3 --retry-timeout 2ms --json",
    );
    assert_eq!(rows(printed.as_bytes())[0]["wrong"], 0);
}

#[test]
fn check_says_that_every_run_is_correct() {
    for arguments in [
        "check parameter-server all_reduce --tree star-2 --packets 2",
        "check parameter-server all_reduce --tree star-2 --packets 1 --times 2 --reorder --duplicate",
        "check parameter-server all_reduce --tree star-2 --packets 3 --window 2 --set server.slots=1",
        "check parameter-server barrier --tree star-3",
    ] {
        let printed = text(&format!("{arguments} --json"));
        assert_eq!(rows(printed.as_bytes())[0]["verdict"], "correct", "{arguments}");
    }
}

#[test]
fn check_finds_what_is_wrong_where_a_sum_is_complete_one_rank_short() {
    let output =
        quincunx("check parameter-server all_reduce --tree star-2 --packets 1 --mutate one-short --json");
    assert_eq!(output.status.code(), Some(1));
    let row = &rows(&output.stdout)[0];
    assert_eq!((&row["verdict"], &row["mutation"]), (&"wrong".into(), &"one-short".into()));
    assert!(!row["counterexample"].as_array().expect("a way to the fault").is_empty());
}
