//! How far a run is, told in lines to whoever asks for them.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Starts a simulation of a row that takes no time and one that takes an hour.
fn start(progress: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_quincunx"))
        .args(["sim", "all_reduce", "--size", "1KiB:8GiB:8388608", "--json"])
        .env("QUINCUNX_PROGRESS", progress)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

#[test]
fn a_long_run_says_in_lines_how_far_it_is_and_ends_when_nobody_reads_them() {
    let mut child = start("1");
    let mut lines = BufReader::new(child.stderr.take().expect("its errors")).lines();
    // The first may come before the run has got anywhere.
    let far = |line: &str| line.starts_with("progress: 1 of 2, ") && line.contains(" s  epic-3 8GiB: at ");
    assert!(lines.any(|line| far(&line.expect("text"))), "it ended before it said how far it was");
    drop(lines);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn without_a_terminal_nobody_is_told_at_once_unless_they_ask() {
    let mut child = start("");
    std::thread::sleep(std::time::Duration::from_millis(2500));
    child.kill().expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
