//! What a run tells: a diagram, a trace and a capture say the same.

use crate::SETUP;
use quincunx_designs::CATALOG;
use quincunx_units::Duration;
use quincunx_world::{Fault, FaultKind, Outcome, Plan, Story, Telling, generate, run};

/// Two seconds of a cluster, in which a host is killed and a link is cut.
fn told() -> (Plan, Outcome) {
    let mut plan = generate(7, Duration::from_secs(2), CATALOG);
    let fault = |at, kind| Fault {
        at: Duration::from_millis(at),
        lasts: Duration::from_millis(500),
        kind,
        moment: None,
    };
    plan.faults = vec![
        fault(1200, FaultKind::Kill("h1".to_owned())),
        fault(1500, FaultKind::Cut(["h2".to_owned(), "s0".to_owned()])),
    ];
    let outcome = run(&plan, SETUP, Telling::Story).unwrap();
    assert_eq!(outcome.violation, None);
    (plan, outcome)
}

#[test]
fn a_word_is_an_arrow_between_the_lanes_of_two_machines() {
    let (_, outcome) = told();
    let diagram: Vec<String> = outcome.story.diagram().collect();
    let lane = |name: &str| diagram[0].find(name).unwrap();
    let attaches = diagram.iter().find(|line| line.contains("attaches with groups")).unwrap();
    let (from, to) = (attaches.find('*').unwrap(), attaches.find('>').unwrap());
    assert_eq!(to, lane("m0"), "{attaches}");
    assert!(from < to && attaches[from + 1..to].chars().all(|inner| inner == '-'), "{attaches}");
    let killed = diagram.iter().find(|line| line.ends_with("is killed")).unwrap();
    assert_eq!(killed.find('*'), Some(lane("h1")), "{killed}");
    // Lines and heads, and nothing else.
    let heads = diagram.iter().filter(|line| line.contains("seconds")).count();
    assert_eq!(diagram.len(), outcome.story.lines().count() + heads * 2 - 1);
}

#[test]
fn a_trace_has_faults_as_slices_lines_as_instants_and_frames_below_who_sends_them() {
    let (plan, outcome) = told();
    let trace = outcome.story.write_trace(&plan.faults, Vec::new()).unwrap();
    let tracks = quincunx_trace::read(&trace).unwrap();
    let cut = tracks.iter().find(|track| track.name == "1 cut").unwrap();
    assert_eq!(cut.parent.as_deref(), Some("faults"));
    let [(from, to, what)] = &cut.slices[..] else { panic!("{:?}", cut.slices) };
    assert_eq!((*from, *to), (1_500_000_000, 2_000_000_000), "{what}");
    let instants: usize = tracks.iter().map(|track| track.instants.len()).sum();
    assert_eq!(instants, outcome.story.lines().count());
    let frames = tracks.iter().filter(|track| track.name.starts_with("to ")).flat_map(|track| &track.slices);
    let (lost, all) = frames
        .fold((0, 0), |(lost, all), (.., name)| (lost + usize::from(name.ends_with(", lost")), all + 1));
    assert!(lost > 0 && lost < all, "{lost} of {all}: a link is cut");
    assert_eq!(all, packets(&outcome.story));
}

/// Packets of the capture: blocks of type 6.
fn packets(story: &Story) -> usize {
    let (capture, mut at, mut found) = (story.capture(), 0, 0);
    while at < capture.len() {
        let word = |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().unwrap());
        found += usize::from(word(at) == 6);
        at += word(at + 4) as usize;
    }
    found
}

#[test]
fn a_run_that_is_to_tell_nothing_tells_nothing_and_ends_alike() {
    let (plan, told) = told();
    let silent = run(&plan, SETUP, Telling::Nothing).unwrap();
    assert_eq!(silent.story.lines().count(), 0);
    assert_eq!((silent.digest, silent.steps, silent.coverage), (told.digest, told.steps, told.coverage));
}
