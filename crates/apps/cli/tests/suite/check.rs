//! `check` as scripts see it: exit statuses, JSON, one-line errors.

use crate::simulations::error;
use serde_json::Value;
use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quincunx"));
    command.arg("check").args(arguments).output().expect("the command starts")
}

fn row(output: &Output) -> Value {
    let printed: Value = serde_json::from_slice(&output.stdout).expect("one JSON object on standard output");
    assert_eq!((printed["schema"].as_u64(), printed["command"].as_str()), (Some(1), Some("check")));
    printed["rows"][0].clone()
}

#[test]
fn a_right_design_is_correct_and_the_row_says_how_much_was_seen() {
    let output = check(&["epic-3", "all_reduce", "--tree", "star-2", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let row = row(&output);
    assert_eq!(row["verdict"], "correct");
    assert!(row["counterexample"].is_null());
    let count = |key: &str| row[key].as_u64().unwrap();
    assert!(count("states") > count("distinct") && count("distinct") > 100 && count("diameter") > 10);
    assert!(row["seconds"].as_f64() > Some(0.0));
}

#[test]
fn designs_among_hosts_are_explored_and_parameters_are_set() {
    for arguments in [
        &["ring", "all_reduce", "--tree", "ring-2"][..],
        &["direct", "all_reduce", "--tree", "star-2"],
        &["epic-3", "all_reduce", "--tree", "star-2", "--set", "group.message=2"],
    ] {
        let output = check(&[arguments, &["--packets", "2", "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(row(&output)["verdict"], "correct");
    }
}

#[test]
fn help_names_every_rule_that_can_be_broken() {
    let output = check(&["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    for rule in ["mode-ii-recycling", "no-barrier", "nak-acknowledges", "chunk-numbers"] {
        assert!(help.contains(rule), "{help}");
    }
}

#[test]
fn a_broken_rule_is_wrong_and_the_row_shows_the_way_there() {
    let arguments = ["epic-2", "all_reduce", "--tree", "star-2", "--packets", "2", "--duplicate"];
    let output = check(&[&arguments[..], &["--mutate", "no-duplicate-check", "--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let row = row(&output);
    assert_eq!(row["verdict"], "wrong");
    let steps = row["counterexample"].as_array().expect("a way");
    assert!(steps.len() > 5 && steps[0].as_str().unwrap().contains("starts"));
    assert!(error(&output).contains(&format!("found one of {} steps", steps.len())));
}

#[test]
fn the_queue_pair_alone_is_explored_and_its_broken_rules_are_noticed() {
    for arguments in [["roce", "send"], ["roce-selective", "write"]] {
        let output = check(&[&arguments[..], &["--times", "2", "--reorder", "--json"]].concat());
        assert_eq!(output.status.code(), Some(0));
        let row = row(&output);
        assert_eq!((row["verdict"].as_str(), row["tree"].as_str()), (Some("correct"), None));
    }
    let output = check(&["roce", "send", "--mutate", "nak-as-ack", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(row(&output)["mutation"], "nak-as-ack");
}

#[test]
fn multiwrite_is_explored_on_a_mesh_a_ring_and_servers() {
    for arguments in [
        &["multiwrite", "all_gather"][..],
        &["multiwrite", "write", "--tree", "ring-4", "--packets", "1", "--reorder"],
        &["multiwrite", "write", "--tree", "servers-2x2", "--packets", "1"],
        &["multiwrite", "write", "--tree", "loop-3", "--packets", "1", "--senders", "1"],
    ] {
        let output = check(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(row(&output)["verdict"], "correct");
    }
    let output = check(&["multiwrite", "write", "--mutate", "bitmap-not-narrowed", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("InvalidRequest"));
}

#[test]
fn the_rules_of_earlier_systems_are_explored_and_their_repairs_are_right() {
    for (arguments, repair) in [
        (&["switchml-rules", "all_reduce", "--window", "1", "--reorder"][..], "chunk-numbers"),
        (&["atp-rules", "all_reduce", "--packets", "2", "--duplicate"], "deadlines"),
    ] {
        let output = check(&[arguments, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(row(&output)["counterexample"].as_array().is_some_and(|steps| steps.len() > 4));
        let output = check(&[arguments, &["--rule", repair, "--json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        let row = row(&output);
        assert_eq!((row["verdict"].as_str(), row["rule"].as_str()), (Some("correct"), Some(repair)));
        assert_eq!(row["tree"], "star-2");
    }
}

#[test]
fn bad_input_is_one_line_that_says_what_was_expected() {
    for (arguments, expected) in [
        (
            &["nothing", "all_reduce"][..],
            "roce, roce-selective, control, locks, switchml-rules, atp-rules as the design, found nothing",
        ),
        (&["scin", "all_reduce", "--losses", "1"], "expected no --losses on a memory fabric"),
        (
            &["scin", "all_reduce", "--tree", "tree-3-2"],
            "expected accelerators around switches, found tree-3-2",
        ),
        (
            &["ring", "all_reduce", "--set", "group.slots=3"],
            "expected one of the keys of ring: group.acknowledge_every, ",
        ),
        (&["roce", "send", "--set", "group.message=2"], "expected no --set with roce, found group.message"),
        (&["epic-3", "all_reduce", "--tree", "star-17"], "expected a tree of at most 16 ranks, found 17"),
        (&["epic-3", "reduce", "--root", "4"], "expected a root below 4, found 4"),
        (&["roce", "all_reduce"], "expected send or write of roce, found all_reduce"),
        (&["roce", "send", "--packets", "4097"], "expected 1 to 4096 packets in all messages, found 4097"),
        (&["roce", "send", "--tree", "star-2"], "expected no --tree with roce, found star-2"),
        (
            &["multiwrite", "all_reduce"],
            "expected all_gather, barrier, dispatch, combine or write of multiwrite, found all_reduce",
        ),
        (&["multiwrite", "write", "--tree", "star-4"], "expected one of mesh-2x2, ring-4, servers-2x2"),
        (&["multiwrite", "write", "--senders", "3"], "expected 1, 2 or 4 senders, found 3"),
        (&["roce", "send", "--senders", "2"], "expected no --senders with roce, found 2"),
        (&["switchml-rules", "reduce"], "expected all_reduce of switchml-rules, found reduce"),
        (&["atp-rules", "all_reduce", "--tree", "tree-3-2"], "expected a star for atp, found tree-3-2"),
        (&["atp-rules", "all_reduce", "--times", "2"], "expected --times 1 with atp, found 2"),
        (&["atp-rules", "all_reduce", "--packets", "300"], "expected at most 255 packets, found 300"),
        (&["epic-3", "all_reduce", "--rule", "deadlines"], "expected no --rule with epic-3, found deadlines"),
        (&["epic-3", "all_reduce", "--mutate", "nothing"], "expected one of mode-ii-recycling, "),
        (&["roce", "write", "--mutate", "nothing"], "expected one of no-duplicate-check, "),
    ] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(error(&output).contains(expected), "{}", error(&output));
    }
}

#[test]
fn memory_that_does_not_suffice_is_said_and_is_no_proof() {
    let output = check(&["epic-3", "all_reduce", "--memory", "1MiB"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("expected to need at most 1 MiB") || error(&output).contains("1MiB"));
}

#[test]
fn the_way_to_a_fault_is_written_as_a_trace_and_without_one_there_is_nothing_to_write() {
    let folder = std::env::temp_dir().join(format!("quincunx-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (fault, none) = (folder.join("fault.pftrace"), folder.join("none.pftrace"));
    let broken = ["epic-2", "all_reduce", "--tree", "star-2", "--packets", "2", "--duplicate"];
    let trace = ["--mutate", "no-duplicate-check", "--json", "--trace", fault.to_str().unwrap()];
    let output = check(&[&broken[..], &trace].concat());
    assert_eq!(output.status.code(), Some(1));
    let fault_told = row(&output)["fault"].as_str().expect("a fault").to_owned();
    let written = std::fs::read(&fault).unwrap();
    assert!(written.windows(fault_told.len()).any(|bytes| bytes == fault_told.as_bytes()), "{fault_told}");

    let output = check(&["epic-2", "all_reduce", "--tree", "star-2", "--trace", none.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(error(&output).contains("none.pftrace is not written: there is no way to a fault"));
    assert!(!none.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_plan_that_is_printed_is_the_seeds_and_nothing_is_run() {
    let printed = check(&["cluster", "--seed", "7", "--for", "100ms", "--plan"]);
    assert_eq!(printed.status.code(), Some(0));
    let plan: Value = serde_json::from_slice(&printed.stdout).expect("the plan alone");
    let ran: Value =
        serde_json::from_slice(&check(&["cluster", "--seed", "7", "--for", "100ms", "--json"]).stdout)
            .unwrap();
    assert_eq!(plan, ran["rows"][0]["plan"]);
    let output = check(&["cluster", "--seeds", "0..7", "--plan"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
