//! The TLA+ twins in `spec/` and the engines agree: each case there is explored by TLC and by us, and both find it right, or
//! both find it wrong.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::group_setup;
use quincunx_check::{Exploration, GroupNetwork, GroupSetup, Verdict, explore};
use quincunx_units::ByteCount;

fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec")
}

/// What both explore: the constants of a TLC configuration, in our words.
fn read(case: &Path) -> (GroupSetup, Exploration) {
    let name = case.file_stem().unwrap().to_str().unwrap();
    let text = std::fs::read_to_string(case).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let constants: BTreeMap<&str, &str> =
        pairs.map(|(name, value)| (name.trim(), value.trim().trim_matches('"'))).collect();
    let number = |name: &str| -> u32 { constants[name].parse().unwrap() };
    let budget = |name: &str| u8::try_from(number(name)).unwrap();
    let mode = match name.split_once('-').unwrap().0 {
        "ModeII" => "epic-2",
        "ModeIII" => "epic-3",
        other => panic!("expected a case of ModeII or ModeIII, found {other} in {}", case.display()),
    };
    let mutation = Some(constants["Mutation"]).filter(|name| *name != "none");
    let collective = constants["Primitive"].parse().unwrap();
    let window = [("group.window", number("Window"))];
    let setup = group_setup(mode, &[collective], constants["Tree"], number("Packets"), &window);
    let setup = GroupSetup { mutation: mutation.map(str::to_owned), ..setup };
    let rules = Exploration {
        losses: budget("Losses"),
        duplicates: budget("Copies"),
        delays: budget("Delays"),
        early_timeouts: 0,
        // TLC reduces nothing but the order of a node's own steps.
        at_once: true,
        symmetry: false,
        persistent_sets: false,
        threads: 1,
        memory: ByteCount::new(2 << 30),
    };
    (setup, rules)
}

/// What TLC finds, or why it cannot run here.
fn tlc(case: &Path) -> Result<bool, String> {
    let mut command = Command::new("python3");
    command.arg(spec().join("tlc.py")).arg(case).arg("--json");
    // Cases are so small that Java compiling TLC well takes longer than TLC.
    command.env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1");
    let run = command.output();
    let run = run.map_err(|error| format!("skipped: TLC, expected python3 on PATH, found {error}"))?;
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    match text.trim() {
        skipped if skipped.starts_with("skipped:") => Err(skipped.to_owned()),
        line if line.contains(r#""verdict": "right""#) => Ok(true),
        line if line.contains(r#""verdict": "wrong""#) => Ok(false),
        line => panic!("expected a verdict from spec/tlc.py, found {line}"),
    }
}

fn ours(setup: &GroupSetup, rules: Exploration) -> bool {
    let group = GroupNetwork::new(setup).unwrap();
    match explore(&group, rules, &mut |_| ControlFlow::Continue(())).1 {
        Verdict::Correct => true,
        Verdict::Wrong { .. } => false,
        Verdict::Unfinished(why) => panic!("{setup:?} is not explored whole: {why:?}"),
    }
}

#[test]
fn the_twins_and_the_engines_agree_on_what_is_right_and_what_is_wrong() {
    let entries = std::fs::read_dir(spec()).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "cfg")).collect();
    cases.sort();
    assert!(!cases.is_empty());
    for case in cases {
        let (setup, rules) = read(&case);
        let right = setup.mutation.is_none();
        assert_eq!(ours(&setup, rules), right, "ours on {}: {setup:?}", case.display());
        match tlc(&case) {
            Ok(found) => assert_eq!(found, right, "TLC on {}: {setup:?}", case.display()),
            Err(skipped) => return println!("{skipped}"),
        }
    }
}
