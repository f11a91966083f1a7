//! `predict` and `model`, as scripts see them.

use crate::simulations::{error, json, quincunx};
use serde_json::Value;

const SMALL: [&str; 8] = ["predict", "scin-llama2", "--model", "llama2-7b", "--batch", "1", "--prompt", "16"];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = quincunx(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    json(&output)["rows"].as_array().expect("rows").clone()
}

fn refused(arguments: &[&str], part: &str) {
    let output = quincunx(arguments);
    let line = error(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(line.contains(part) && line.trim_end().lines().count() == 1, "{arguments:?}: {line}");
}

#[test]
fn speedups_are_over_the_design_that_is_named_first() {
    let found = rows(&[&SMALL[..], &["--fresh", "--design", "ring,scin"]].concat());
    let [ring, scin] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&ring["ttft_speedup"], &scin["baseline"]), (&Value::from(1.0), &Value::from("ring")));
    let of = |row: &Value, key: &str| row[key].as_f64().expect("a number");
    assert!((of(ring, "tpot_ms") / of(scin, "tpot_ms") / of(scin, "tpot_speedup") - 1.0).abs() < 1e-9);
    assert!(of(scin, "tpot_speedup") > 1.1);
    // Two sums a layer, and no others.
    assert_eq!(scin["exchanges"][0]["times"], 64);
    assert_eq!(scin["prefill_computation"], "between measured");
}

#[test]
fn a_sweep_has_a_row_for_each_combination_of_values_and_each_design() {
    let sweep =
        ["--fresh", "--design", "scin", "--sweep", "inference.batch=1,2", "--sweep", "products=fp16,fp8"];
    let found = rows(&[&SMALL[..], &sweep].concat());
    let of = |row: &Value| (row["inference.batch"].clone(), row["products"].clone());
    let keys: Vec<_> = found.iter().map(of).collect();
    let expected = [("1", "fp16"), ("1", "fp8"), ("2", "fp16"), ("2", "fp8")];
    assert_eq!(keys, expected.map(|(batch, products)| (Value::from(batch), Value::from(products))));
    assert!(found[0]["tpot_ms"].as_f64() > found[1]["tpot_ms"].as_f64(), "half the bytes");
}

#[test]
fn a_design_that_is_not_for_the_network_is_refused() {
    refused(&[&SMALL[..], &["--design", "epic-2"]].concat(), "epic-2");
    refused(&[&SMALL[..], &["--set", "network.set.link.colour=red"]].concat(), "colour");
    refused(&[&SMALL[..], &["--sweep", "products"]].concat(), "expected KEY=A,B,C in --sweep");
    refused(&[&SMALL[..], &["--tp", "4"]].concat(), "expected a network of 4 ranks");
    refused(&["predict", "nowhere"], "expected a deployment: epic-gpt3-13b,");
    refused(&["predict", "scin-llama2", "--model", "gpt-9"], "expected a language model (");
}

#[test]
fn a_model_is_shown_with_every_collective_of_a_step() {
    let output =
        quincunx(&["model", "show", "llama2-70b", "--tp", "8", "--batch", "8", "--length", "1024", "--json"]);
    let found = json(&output);
    assert_eq!(found["model"]["parameters"], 68_976_648_192_u64);
    let [prefill, decode] = [0, 1].map(|row| found["rows"][row]["bytes"].as_u64());
    assert_eq!((prefill, decode), (Some(128 << 20), Some(128 << 10)));
    refused(
        &["model", "show", "llama2-70b", "--tp", "7"],
        "expected a `tp` that divides the attention heads",
    );
    refused(&["model", "show", "llama2-70b", "--batch", "0"], "found 0 and 2048");
    refused(&["model", "show", "gpt2", "--train", "--dp", "3", "--batch", "4"], "in multiples of 3 replicas");
}

#[test]
fn what_one_call_has_simulated_the_next_one_knows() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept-times");
    drop(std::fs::remove_dir_all(&folder));
    let ask = || {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_quincunx"))
            .args(SMALL)
            .args(["--design", "scin", "--csv"])
            .env("XDG_CACHE_HOME", &folder)
            .output()
            .expect("the command runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let first = ask();
    let kept: Vec<_> = std::fs::read_dir(folder.join("quincunx")).expect("a folder").flatten().collect();
    let [file] = &kept[..] else { panic!("{kept:?}") };
    let lines = std::fs::read_to_string(file.path()).expect("text");
    assert_eq!(lines.lines().count(), 2, "a prompt's length and a token's");
    // As if they had taken a second each: whoever believes it does not simulate.
    let slow: String = lines
        .lines()
        .map(|line| format!("{}\t1000000000000\n", line.rsplit_once('\t').expect("a time").0))
        .collect();
    std::fs::write(file.path(), slow).expect("written");
    assert_ne!(ask(), first);
}

#[test]
fn requests_that_come_faster_wait_longer_and_gain_more_by_a_faster_network() {
    // A request each 100 ms, of 64 tokens and 16.
    let file = std::env::temp_dir().join(format!("quincunx-requests-{}.csv", std::process::id()));
    let lines: String = (0..40).map(|number| format!("{:.2},64,16\n", f64::from(number) / 10.0)).collect();
    std::fs::write(&file, format!("arrival_s,prompt,answer\n{lines}")).expect("a file");
    let path = file.display().to_string();
    let arguments = ["--model", "llama2-7b", "--requests", &path, "--set", "serving.tokens=64", "--fresh"];
    let sweep = ["--design", "ring,scin", "--sweep", "serving.load=0.5,16"];
    let found = rows(&[&["predict", "serving-llama2"][..], &arguments, &sweep].concat());
    std::fs::remove_file(file).expect("removed");
    let of = |row: usize, key: &str| found[row][key].as_f64().expect("a number");
    assert_eq!(found.iter().map(|row| &row["serving.load"]).collect::<Vec<_>>(), ["0.5", "0.5", "16", "16"]);
    assert!((of(2, "requests_per_second") / of(0, "requests_per_second") - 32.0).abs() < 1e-6);
    assert!(of(2, "tpot_p99_ms") > of(0, "tpot_p99_ms") && of(2, "busy") > of(0, "busy"));
    assert!(of(3, "tpot_p50_speedup") > of(1, "tpot_p50_speedup"));
    assert!(of(1, "tpot_p50_speedup") > 1.05, "{found:?}");
    // Nobody asks for a batch of its own.
    assert_eq!(found[0].get("ttft_ms"), None);
}

#[test]
fn requests_that_cannot_be_served_are_refused() {
    refused(
        &["predict", "serving-llama2", "--requests", "nowhere.csv"],
        "expected requests (conversations) or a file",
    );
    refused(&["predict", "serving-llama2", "--load", "NaN"], "serving.load");
    refused(&["predict", "serving-llama2", "--load", "0"], "expected a `load` of 0.001 to 1000");
    refused(&["predict", "serving-llama2", "--set", "split.dp=2"], "expected one stage and one replica");
}

#[test]
fn the_fastest_design_is_found_for_prompts_and_for_answers() {
    let found = rows(&[&SMALL[..], &["--fresh", "--design", "ring,auto"]].concat());
    let [ring, auto] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&ring["design"], &auto["baseline"]), (&Value::from("ring"), &Value::from("ring")));
    let all = rows(&[&SMALL[..], &["--fresh", "--design", "ring,nvls,scin"]].concat());
    for key in ["ttft_ms", "tpot_ms"] {
        let least = all.iter().filter_map(|row| row[key].as_f64()).fold(f64::INFINITY, f64::min);
        assert!(auto[key].as_f64() <= Some(least), "{key}: {auto} is slower than {least}");
    }
    let said = quincunx(&[&SMALL[..], &["--fresh", "--design", "auto"]].concat());
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("auto is ") && said.contains("\n  ring: TTFT +"), "{said}");
}

fn plan(arguments: &[&str]) -> Value {
    let output = quincunx(&[&["plan"], arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    json(&output)
}

const SERVER: [&str; 9] =
    ["scin-llama2", "--model", "llama2-7b", "--batch", "1", "--prompt", "16", "--design", "ring,nvls,scin"];

#[test]
fn a_plan_names_the_best_design_with_switches_and_the_best_without_and_what_the_first_needs() {
    let found = plan(&SERVER);
    let advice = &found["advice"];
    assert_eq!((&advice["design"], &advice["baseline"]), (&Value::from("scin"), &Value::from("ring")));
    // SCIN's server has four switches of eight ports (SCIN 4.1).
    assert_eq!((advice["ports"].as_u64(), advice["switches"].as_array().map(Vec::len)), (Some(32), Some(4)));
    assert_eq!(advice["answer"], "worth it");
    let of = |row: usize, key: &str| found["rows"][row][key].as_f64().expect("a number");
    let tpot = &advice["saved"][1];
    assert_eq!(tpot["figure"], "TPOT");
    let [least, expected, most] =
        ["least", "expected", "most"].map(|key| tpot[key].as_f64().expect("a share"));
    assert!((expected - (1.0 - of(2, "tpot_ms") / of(0, "tpot_ms"))).abs() < 1e-9);
    assert!(0.0 < least && least < expected && expected < most && most < 1.0);
    assert_eq!(found["rows"][0].get("ports"), None, "a ring is among accelerators");
}

#[test]
fn of_pairs_of_designs_the_one_for_prompts_and_the_one_for_answers_are_chosen() {
    let found = plan(&[&SERVER[..8], &["ring,scin,scin-inq/scin"]].concat());
    let design = found["advice"]["design"].as_str().expect("a name");
    assert_eq!(design, "scin-inq/scin");
}

#[test]
fn what_does_not_save_enough_is_not_worth_it() {
    let found = plan(&[&SERVER[..], &["--worth", "90%"]].concat());
    assert_eq!(found["advice"]["answer"], "not worth it");
    let words = found["advice"]["words"].as_str().expect("words");
    assert!(words.starts_with("not worth it: scin saves ") && words.contains("90.0 % would do"), "{words}");
}

#[test]
fn a_plan_for_a_cluster_and_a_model_says_what_would_change_it() {
    let found = plan(&["--cluster", "epic-star8", "--model", "llama3.2-1b", "--design", "ring,epic-3"]);
    let advice = &found["advice"];
    assert_eq!((&advice["baseline"], &advice["ports"]), (&Value::from("ring"), &Value::from(8)));
    let saved = |key: &str, value: &str| {
        let changes = advice["changes"].as_array().expect("changes");
        let change = changes.iter().find(|one| one["key"] == key && one["value"] == value);
        change.unwrap_or_else(|| panic!("{key}={value} in {changes:?}"))["saved"][0]["expected"].as_f64()
    };
    let now = advice["saved"][0]["expected"].as_f64();
    // Of slow links there is more to be saved; of optimizers that share gradients out, nothing: each rank's link has as much.
    assert!(
        saved("network.set.link.rate", "50Gbit/s") > now && now > saved("network.set.link.rate", "200Gbit/s")
    );
    assert!(saved("split.zero", "1") < Some(0.0), "{advice}");
}

#[test]
fn what_cannot_be_planned_is_refused() {
    refused(&["plan"], "expected a file, a preset (");
    let alone = [&["plan"], &SERVER[..8], &["ring"]].concat();
    refused(&alone, "expected a design with a part in switches, found none");
    refused(&["plan", "--cluster", "nowhere"], "nowhere");
    refused(&["plan", "--cluster", "epic-star8", "--model", "llama2-70b"], "GB of an accelerator");
}
