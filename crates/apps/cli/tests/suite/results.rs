//! What results say of themselves, and two of them held against each other.

use serde_json::Value;
use std::path::PathBuf;

use crate::operate::ManagedFabric;
use crate::simulations::{error, json, quincunx};

/// A result in a file, gone at the end.
struct ResultFile(PathBuf);

impl ResultFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("quincunx-{name}-{}.json", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn of(name: &str, arguments: &str) -> Self {
        let output = quincunx(&arguments.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{}", error(&output));
        Self::new(name, &output.stdout)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ResultFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_result_says_what_was_run_by_which_version_on_which_machine_and_when() {
    let arguments = ["sim", "all_reduce", "--size", "4KiB", "--seed", "7", "--json"];
    let result = json(&quincunx(&arguments));
    assert_eq!(result["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(result["arguments"], Value::from(arguments.to_vec()));
    assert_eq!(result["machine"]["architecture"], std::env::consts::ARCH);
    assert!(result["machine"]["cores"].as_u64().unwrap() > 0);
    let time = result["time"].as_str().unwrap();
    assert!(time.len() == "2026-01-01T00:00:00Z".len() && time.ends_with('Z'), "{time}");
    for command in [
        &["check", "epic-3", "barrier", "--tree", "star-2", "--json"][..],
        &["reproduce", "multiwrite/sec2.3.1", "--json"],
    ] {
        assert_eq!(json(&quincunx(command))["arguments"], Value::from(command.to_vec()));
    }
}

#[test]
fn rows_are_held_against_those_of_the_same_design_and_size() {
    let run = |rate: &str| {
        format!("sim all_reduce --design epic-3,ring --size 4KiB:64KiB:16 --set link.rate={rate} --json")
    };
    let [slow, fast] =
        [("slow", "50Gbit/s"), ("fast", "100Gbit/s")].map(|(name, rate)| ResultFile::of(name, &run(rate)));
    let result = json(&quincunx(&["compare", slow.path(), fast.path(), "--json"]));
    let rows = result["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &result["alone"]), (4, &Value::from(0)));
    for (row, (design, size)) in
        rows.iter().zip([("epic-3", 4096), ("epic-3", 65_536), ("ring", 4096), ("ring", 65_536)])
    {
        let what = row["what"].as_str().unwrap();
        assert!(what.contains(design) && what.contains(&format!("size={size}")), "{what}");
        let [first, second, ratio] = ["first", "second", "ratio"].map(|key| row[key].as_f64().unwrap());
        assert!(second < first && (ratio - second / first).abs() < 1e-12, "{row}");
        assert!(row["ratio_stderr"].is_null(), "one seed has no error");
    }
}

#[test]
fn a_ratio_has_the_error_of_both_times() {
    let row = |time: f64, error: f64| {
        format!(r#"{{"rows":[{{"design":"a","size":4,"time_us":{time},"time_stderr_us":{error}}}]}}"#)
    };
    let [first, second] = [("first", row(10.0, 0.3)), ("second", row(20.0, 0.8))]
        .map(|(name, text)| ResultFile::new(name, text.as_bytes()));
    let result = json(&quincunx(&["compare", first.path(), second.path(), "--json"]));
    // 3 and 4 per cent are 5 per cent together, of 2.
    assert!((result["rows"][0]["ratio_stderr"].as_f64().unwrap() - 0.1).abs() < 1e-12, "{result}");
    let output = quincunx(&["compare", first.path(), second.path(), "--csv"]);
    let csv = String::from_utf8_lossy(&output.stdout);
    assert_eq!(csv.lines().next(), Some("what,measure,first,ratio,ratio_stderr,second"));
    assert!(csv.contains("\na size=4,time_us,10.0,2.0,0.1"), "{csv}");
}

#[test]
fn rows_that_say_the_same_of_themselves_belong_together_in_their_order() {
    let rows = |times: [f64; 2]| {
        let row = |time| format!(r#"{{"design":"a","root":-1,"verdict":"met","time_us":{time}}}"#);
        format!(r#"{{"rows":[{}]}}"#, times.map(row).join(","))
    };
    // What came of them is not what was run.
    let second = rows([2.0, 30.0]).replace("met", "missed");
    let [first, second] = [("twice", rows([1.0, 10.0])), ("again", second)]
        .map(|(name, text)| ResultFile::new(name, text.as_bytes()));
    let result = json(&quincunx(&["compare", first.path(), second.path(), "--json"]));
    let ratios: Vec<f64> =
        result["rows"].as_array().unwrap().iter().map(|row| row["ratio"].as_f64().unwrap()).collect();
    assert_eq!(ratios, [2.0, 3.0]);
    // Minus one stands for no root.
    assert_eq!(result["rows"][0]["what"], "a");
}

#[test]
fn simulated_rows_are_values_separated_by_commas_if_asked_for() {
    let output = quincunx(&[
        "sim",
        "all_reduce",
        "--fabric",
        "star-4",
        "--design",
        "epic-3,ring",
        "--size",
        "4K:8K:2",
        "--csv",
    ]);
    let csv = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("design,collective,size,count,type,redop,root,time_us,"), "{csv}");
    assert!(lines.len() == 5 && lines[1].starts_with("epic-3,all_reduce,4096,"), "{csv}");
    assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()), "{csv}");
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn words_with_commas_are_one_field_of_csv() {
    let text = r#"{"rows":[{"design":"a, or \"b\"","time_us":2}]}"#;
    let file = ResultFile::new("commas", text.as_bytes());
    let output = quincunx(&["compare", file.path(), file.path(), "--csv"]);
    let csv = String::from_utf8_lossy(&output.stdout);
    assert!(csv.contains("\n\"a, or \"\"b\"\"\",time_us,2.0,1.0,,2.0"), "{csv}");
}

#[test]
fn rows_without_another_are_counted_and_none_at_all_is_an_error() {
    let [both, one, none] = [
        ("both", r#"{"rows":[{"design":"a","time_us":1},{"design":"b","time_us":1}]}"#),
        ("one", r#"{"rows":[{"design":"b","time_us":3}]}"#),
        ("none", r#"{"rows":[]}"#),
    ]
    .map(|(name, text)| ResultFile::new(name, text.as_bytes()));
    let result = json(&quincunx(&["compare", both.path(), one.path(), "--json"]));
    assert_eq!(
        (&result["rows"][0]["what"], &result["rows"][0]["ratio"], &result["alone"]),
        (&"b".into(), &3.0.into(), &1.into())
    );
    let text = ResultFile::new("text", b"time 3 us");
    for (second, part) in [
        (none.path(), "found none in both"),
        (text.path(), "a command's --json output"),
        ("/nowhere", "/nowhere"),
    ] {
        let output = quincunx(&["compare", both.path(), second]);
        assert_eq!(output.status.code(), Some(2), "{second}");
        assert!(error(&output).contains(part), "{second}: {}", error(&output));
    }
}

#[test]
fn shells_complete_commands_and_man_has_a_page_of_each() {
    for shell in ["bash", "zsh", "fish"] {
        let output = quincunx(&["completions", shell]);
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && script.contains("reproduce") && script.contains("fabric"),
            "{shell}"
        );
    }
    let bash = std::process::Command::new("bash")
        .args([
            "-c",
            "source <(\"$0\" completions bash) && complete -p quincunx",
            env!("CARGO_BIN_EXE_quincunx"),
        ])
        .output()
        .unwrap();
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stderr));
    let folder = std::env::temp_dir().join(format!("quincunx-man-{}", std::process::id()));
    let output = quincunx(&["man", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", error(&output));
    let page = std::fs::read_to_string(folder.join("quincunx-sim.1")).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(page.contains("\\-\\-fabric") && page.contains("quincunx sim all_reduce"), "{page}");
}

#[test]
fn a_group_that_has_fallen_back_says_so_and_why_in_table_and_json() {
    let fabric = ManagedFabric::start("4KiB");
    let perf = "perf all_reduce --ranks 2 --design epic-3 --sizes 4KiB --iterations 2";
    let result = json(&fabric.ask(&format!("{perf} --json")));
    let row = &result["rows"][0];
    assert_eq!((&row["design"], &row["fell_back"]["asked"]), (&"ring".into(), &"epic-3".into()));
    let reason = row["fell_back"]["reason"].as_str().unwrap();
    assert!(reason.contains("leaf") && reason.contains("memory"), "{reason}");
    let table = String::from_utf8(fabric.ask(perf).stdout).unwrap();
    assert!(table.contains(&format!("# epic-3 fell back to ring: {reason}")), "{table}");
}
