//! `sim layer` as scripts see it. The packets are 4 KiB and the tiles large, so that a sub-layer of a real model takes part of a second.

use crate::simulations::{error, json, quincunx};
use serde_json::Value;

const SMALL: [&str; 16] = [
    "sim",
    "layer",
    "--model",
    "mega-gpt-4b",
    "--set",
    "accelerators=2",
    "--set",
    "switches=1",
    "--set",
    "link.payload=4KiB",
    "--set",
    "machine.tile_rows=512",
    "--set",
    "machine.tile_columns=512",
    "--set",
    "machine.tile_inner=512",
];

pub(crate) fn layer(arguments: &[&str]) -> std::process::Output {
    quincunx(&[&SMALL, arguments].concat())
}

fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap_or_else(|| panic!("an array, not {value}"));
    numbers.iter().map(|value| value.as_f64().expect("a number")).collect()
}

#[test]
fn a_sub_layer_has_bins_of_links_sms_and_tables_that_its_means_agree_with() {
    let output = layer(&["--sublayer", "L2", "--design", "cais,t3", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let printed = json(&output);
    assert_eq!(printed["command"].as_str(), Some("sim layer"));
    let [cais, t3] = [0, 1].map(|row| &printed["rows"][row]["sub_layers"][0]);
    let bins = cais["uplinks_over_time"].as_array().unwrap().len();
    assert!((32..=64).contains(&bins), "{bins}");
    for key in
        ["downlinks", "loads", "table_mean", "table_fullest", "waiting"].map(|key| format!("{key}_over_time"))
    {
        assert_eq!(numbers(&cais[&key]).len(), bins, "{key}");
    }
    for (name, sms) in cais["sms_over_time"].as_object().unwrap() {
        assert_eq!(numbers(sms).len(), bins, "{name}");
    }
    let [mean, fullest] = ["mean", "fullest"].map(|which| numbers(&cais[format!("table_{which}_over_time")]));
    assert!(mean.iter().zip(&fullest).all(|(mean, fullest)| mean <= fullest));
    let peak = cais["counted"]["peak entries"]["most"].as_f64().unwrap();
    assert!(fullest.iter().all(|&fullest| fullest <= peak) && fullest.iter().any(|&fullest| fullest > 0.0));
    assert_eq!(cais["tables"].as_array().unwrap().len(), 2, "a port of the switch for each accelerator");
    assert!(t3["table_mean_over_time"].is_null(), "its switches only forward");
    assert_eq!(printed["rows"][1]["mean_table_bytes"], Value::Null);
}

#[test]
fn the_table_has_peaks_and_means_of_what_merges_and_nothing_of_what_does_not() {
    let output = layer(&["--sublayer", "L1", "--design", "cais,t3"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][8..], ["table", "mean", "waiting", "mean", "wait", "speedup"]);
    let number = |cell: &str| cell.parse::<f64>().unwrap_or_else(|_| panic!("a number, not {cell}"));
    let cells: Vec<f64> = lines[2][8..].iter().copied().map(number).collect();
    assert!(cells[0] > cells[1] && cells[1] > 0.0, "the fullest port's peak, and the mean: {cells:?}");
    assert!(cells[2] > cells[3] && cells[3] > 0.0, "requests that wait: {cells:?}");
    assert_eq!(lines[3][8..13], ["-"; 5]);
}

#[test]
fn a_trace_of_a_layer_is_written_for_one_design_and_refused_for_several() {
    let folder = std::env::temp_dir().join(format!("quincunx-layer-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("layer.pftrace");
    let trace = path.to_str().unwrap();
    let refused = layer(&["--sublayer", "L2", "--design", "cais,t3", "--trace", trace]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error(&refused).contains("expected one design and one seed with --trace, found 2 runs"));
    assert!(!path.exists(), "nothing is written of what is refused");
    let output = layer(&["--sublayer", "L2", "--design", "cais", "--trace", trace]);
    assert_eq!(output.status.code(), Some(0));
    let bytes = std::fs::read(&path).unwrap();
    for name in ["kernel product 1", "SMs of product 2", "accelerator0 > switch0", "table 1"] {
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn report_draws_a_layer_over_time_and_says_what_it_was() {
    let folder = std::env::temp_dir().join(format!("quincunx-layer-report-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let printed = layer(&["--sublayer", "L2", "--design", "cais,t3", "--json"]).stdout;
    std::fs::write(folder.join("layer.json"), printed).unwrap();
    let output = quincunx(&["report", folder.to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(page.contains("mega-gpt-4b, L2 on 2 accelerators of cais-dgx8 (layer.json)"));
    for shown in
        ["speedup over t3", "the fullest port", "requests that wait", "product 1", "links to switches"]
    {
        assert!(page.contains(shown), "{shown}");
    }
}

#[test]
fn rows_of_several_seeds_are_means_with_their_error() {
    let run = |options: &[&str]| {
        let all = [&["--sublayer", "L2", "--design", "cais", "--json"], options].concat();
        json(&layer(&all))["rows"][0].clone()
    };
    let time = |row: &Value| row["time_us"].as_f64().expect("a time");
    let ([first, second], both) = (["1", "2"].map(|seed| run(&["--seed", seed])), run(&["--seeds", "2"]));
    assert_ne!(time(&first), time(&second), "chance decides something");
    assert!((time(&both) - (time(&first) + time(&second)) / 2.0).abs() < 1e-3, "{both}");
    let of_mean = both["time_stderr_us"].as_f64().expect("an error");
    assert!((of_mean - (time(&first) - time(&second)).abs() / 2.0).abs() < 1e-3, "{both}");
    let counted = |row: &Value| row["sub_layers"][0]["counted"]["ended"]["all"].as_u64().expect("a count");
    assert_eq!(counted(&both), counted(&first) + counted(&second));
    let refused = layer(&["--sublayer", "L2", "--design", "cais", "--seeds", "2", "--trace", "/dev/null"]);
    assert!(error(&refused).contains("one design and one seed"), "{}", error(&refused));
}

#[test]
fn an_iteration_of_several_seeds_is_a_mean_with_its_error() {
    let run = |options: &[&str]| {
        let train =
            ["sim", "train", "--model", "googlenet", "--design", "ring", "--fabric", "star-4", "--json"];
        let lossy =
            ["--set", "loss.probability=0.001", "--set", "train.cycle=0s", "--set", "train.overlap=false"];
        json(&quincunx(&[&train[..], &lossy, options].concat()))["rows"][0].clone()
    };
    let time = |row: &Value| row["time_us"].as_f64().expect("a time");
    let ([first, second], both) = (["1", "2"].map(|seed| run(&["--seed", seed])), run(&["--seeds", "2"]));
    assert_ne!(time(&first), time(&second), "chance decides something");
    assert!((time(&both) - (time(&first) + time(&second)) / 2.0).abs() < 1e-3, "{both}");
    assert!(both["time_stderr_us"].as_f64().is_some_and(|error| error > 0.0) && both["seeds"] == 2);
}
