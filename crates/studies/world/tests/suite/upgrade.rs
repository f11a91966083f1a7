//! A cluster that is upgraded node by node, under jobs.

use crate::SETUP;
use crate::faults::{fault, plan};
use quincunx_world::{FaultKind, Telling, run};

/// When the node is upgraded.
const AT: u64 = 4000;

/// What a job hears of the groups that it asks for, before one of its nodes is upgraded and after it.
fn heard(node: &str) -> [Vec<String>; 2] {
    let mut plan = plan(vec![fault([AT, 200], FaultKind::Upgrade(node.to_owned()))]);
    plan.jobs[0].collectives = 3;
    let outcome = run(&plan, SETUP, Telling::Story).unwrap();
    assert_eq!(outcome.violation, None, "{node}");
    let refusals = outcome.story.lines().filter(|line| line.contains("Refused")).count();
    assert_eq!(refusals, 0, "{node}: nobody was asked for what it cannot do");
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for line in outcome.story.lines().filter(|line| line.contains(" Made {")) {
        let seconds: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
        if seconds * 1000.0 < AT as f64 { before.push(line) } else { after.push(line) }
    }
    assert!(!before.is_empty() && after.len() > 1, "{node}: it asks before and after");
    [before, after]
}

#[test]
fn groups_pass_a_switch_of_the_version_before_by_and_use_it_as_soon_as_it_is_upgraded() {
    let [before, after] = heard("s0");
    let says_so = |line: &String| line.contains("expected version") && line.contains("at \\\"s0\\\"");
    assert!(before.iter().all(says_so), "{before:#?}");
    assert!(after.last().unwrap().contains("switches: [\"s0\"]"), "{after:#?}");
}

#[test]
fn where_a_member_is_behind_they_run_what_all_have() {
    // The first one asks.
    for member in ["h0", "h1"] {
        let [before, after] = heard(member);
        let says_so = |line: &String| line.contains(&format!("at \\\"{member}\\\""));
        assert!(before.iter().all(says_so), "{before:#?}");
        assert!(after.last().unwrap().contains("switches: [\"s0\"]"), "{after:#?}");
    }
}
