//! `quincunx run`: what ranks print comes by whole lines, labelled or into files.

use std::process::{Command, Output};

use crate::processes::Folder;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quincunx");

/// Runs a shell's words on two ranks.
fn run(options: &[&str], text: &str) -> Output {
    let output =
        Command::new(PROGRAM).args(["run", "-n", "2"]).args(options).args(["--", "sh", "-c", text]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn lines_that_ranks_print_piece_by_piece_come_whole() {
    let output = run(&[], "printf sum; sleep 0.2; printf ' %s\\n' $RANK; printf 'err %s\\n' $RANK >&2");
    assert_eq!(lines(&output.stdout), ["sum 0", "sum 1"]);
    assert_eq!(lines(&output.stderr), ["err 0", "err 1"]);
}

#[test]
fn each_line_has_its_ranks_number_if_asked_for() {
    let output = run(&["-l"], "echo a; printf b");
    assert_eq!(lines(&output.stdout), ["0: a", "0: b", "1: a", "1: b"]);
}

#[test]
fn what_a_rank_prints_goes_to_files_of_its_own_if_asked_for() {
    let folder = Folder::new("printed");
    let output = run(&["--output", folder.0.to_str().unwrap()], "echo out $RANK; echo err $RANK >&2");
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    let all = ["rank0.out", "rank0.err", "rank1.out", "rank1.err"].map(read);
    assert_eq!(all, ["out 0\n", "err 0\n", "out 1\n", "err 1\n"]);
}

#[test]
fn a_process_that_a_rank_leaves_behind_does_not_keep_the_command() {
    let begin = std::time::Instant::now();
    run(&[], "sleep 30 & echo $RANK");
    assert!(begin.elapsed() < std::time::Duration::from_secs(20));
}
