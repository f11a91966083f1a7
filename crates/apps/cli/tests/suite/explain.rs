//! `cais explain` as scripts see it: the table, JSON, and one-line errors.

use serde_json::Value;
use std::process::{Command, Output};

fn explain(arguments: &[&str]) -> Output {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/kernels");
    Command::new(env!("CARGO_BIN_EXE_quincunx"))
        .current_dir(folder)
        .args(["cais", "explain"])
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn table(arguments: &[&str]) -> String {
    let output = explain(arguments);
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_kernel_that_gathers_is_shown_with_its_merged_loads_and_its_groups() {
    let text = table(&["ag-gemm.toml"]);
    for line in [
        "ag-gemm: 8 GPUs, grid 11 x 72 x 1, 128 threads",
        "yes: GPU-invariant",
        "no: each GPU has an array of its own",
        "1   ld.cais.global.v8.f16 {%h1, ",
        "2   ld.global.v8.f16 {%h1, ",
        "3   st (unchanged)",
        "72 thread-block groups, each of 8 GPUs",
        "group 0: blocks (0, 0, 0) (1, 0, 0) (2, 0, 0) (3, 0, 0), ... on each GPU",
        "1   norms: 72 regions; that of block (0, 0, 0) is in elements 0 to 524287, held by GPU 0",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn a_kernel_that_names_its_gpu_is_shown_with_the_reason() {
    assert!(table(&["layernorm.toml"]).contains("no thread-block groups: nothing merges"));
    let text = table(&["rotated.toml"]);
    assert!(text.contains("no: depends on gpuId: GPU 0 accesses 0, GPU 1 8192, through `turned`"), "{text}");
}

#[test]
fn json_holds_every_access_and_the_group_of_every_block() {
    let output = explain(&["gemm-rs.toml", "--json"]);
    let printed: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!((printed["schema"].as_u64(), printed["command"].as_str()), (Some(1), Some("cais explain")));
    let row = &printed["rows"][2];
    assert_eq!((row["access"].as_str(), row["merges"].as_bool()), (Some("reduce"), Some(true)));
    assert!(row["ptx"].as_str().is_some_and(|ptx| ptx.starts_with("red.cais.global.add.v8.f16 [%rd3]")));
    assert_eq!(row["encoding"].as_str(), Some("0x2860010300000000"));
    assert_eq!(printed["groups"]["count"].as_u64(), Some(72 * 32));
    assert_eq!(printed["groups"]["of_block"].as_array().map(Vec::len), Some(72 * 32));
}

#[test]
fn the_kernel_in_the_help_is_one() {
    let help = table(&["--help"]);
    let kernel = help.split_once("\n\n  name = ").expect("a kernel").1;
    let file = std::env::temp_dir().join(format!("quincunx-help-{}.toml", std::process::id()));
    std::fs::write(&file, format!("name = {kernel}")).expect("a file");
    let text = table(&[file.to_str().expect("a path")]);
    std::fs::remove_file(&file).expect("the same file");
    assert!(text.contains("64 thread-block groups, each of 8 GPUs"), "{text}");
}

#[test]
fn what_is_no_kernel_is_refused_in_one_line_with_status_two() {
    let other = std::env::temp_dir().join(format!("quincunx-no-kernel-{}.toml", std::process::id()));
    std::fs::write(&other, "name = \"a\"\n\n[dependencies]\n").expect("a file");
    let other = other.to_str().expect("a path");
    for (file, expected) in [
        ("nothing.toml", "expected a kernel's description, found nothing.toml"),
        (other, "toml, line 3: expected a kernel as TOML, found unknown field `dependencies`"),
    ] {
        let output = explain(&[file]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected) && error.trim_end().lines().count() == 1, "{error}");
    }
    std::fs::remove_file(other).expect("the same file");
}
