//! The TLA+ twins in `spec/` and the engines agree: each case there is explored by TLC and by us, and both find it right, or
//! both find it wrong.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::group_setup;
use quincunx_check::{Exploration, GroupSetup, Network, Verdict, explore};
use quincunx_needs::{Missing, need, program};
use quincunx_units::ByteCount;

fn spec() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../spec")
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
    let mut setup = group_setup(mode, &[collective], constants["Tree"], number("Packets"), &window);
    // A collective of the twin ends when its ranks have sent and received all.
    setup.scenario.set("group.confirm", false.into());
    let setup = GroupSetup { mutation: mutation.map(str::to_owned), ..setup };
    let rules = Exploration {
        losses: budget("Losses"),
        duplicates: budget("Copies"),
        delays: budget("Delays"),
        early_timeouts: 0,
        jumps: 0,
        marks: 0,
        // TLC reduces nothing but the order of a node's own steps.
        at_once: true,
        symmetry: false,
        persistent_sets: false,
        threads: 1,
        memory: ByteCount::new(2 << 30),
    };
    (setup, rules)
}

/// What TLC finds.
fn tlc(case: &Path) -> Result<bool, Missing> {
    program("python3", "python3")?;
    program("java", "default-jre-headless")?;
    let mut command = Command::new("python3");
    command.arg(spec().join("tlc.py")).arg(case).arg("--json");
    // Cases are so small that Java compiling TLC well takes longer than TLC.
    command.env("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1");
    let run = command.output().expect("it is there");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    match text.trim() {
        // TLC itself is not here yet. Where there is a program to fetch it with, the network is out of reach.
        why if why.starts_with("missing:") => {
            program("mvn", "maven").and_then(|()| Err(Missing::nothing(why)))
        }
        line if line.contains(r#""verdict": "right""#) => Ok(true),
        line if line.contains(r#""verdict": "wrong""#) => Ok(false),
        line => panic!("expected a verdict from spec/tlc.py, found {line}"),
    }
}

fn ours(setup: &GroupSetup, rules: Exploration) -> bool {
    let group = Network::of_group(setup).unwrap();
    match explore(&group, rules, &mut |_| ControlFlow::Continue(())).1 {
        Verdict::Correct => true,
        Verdict::Wrong { .. } => false,
        Verdict::Unfinished(why) => panic!("{setup:?} is not explored whole: {why:?}"),
    }
}

/// The cases.
fn cases() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(spec()).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "cfg")).collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn of_the_engines_those_with_a_broken_rule_are_wrong_in_each_case_of_the_twins() {
    for case in cases() {
        let (setup, rules) = read(&case);
        assert_eq!(ours(&setup, rules), setup.mutation.is_none(), "{}: {setup:?}", case.display());
    }
}

#[test]
fn of_the_twins_those_with_a_broken_rule_are_wrong() {
    for case in cases() {
        let (setup, _) = read(&case);
        assert_eq!(need!(tlc(&case)), setup.mutation.is_none(), "{}: {setup:?}", case.display());
    }
}
