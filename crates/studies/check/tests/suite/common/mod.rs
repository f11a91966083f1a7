//! What the tests of all protocols share.

use std::ops::ControlFlow;

use quincunx_check::{
    Describe, Exploration, Explorer, Fault, GroupSetup, Network, Path, Sequence, Statistics, Verdict, Wired,
    explore, replay, replay_as_bytes,
};
use quincunx_collective::Collective;
use quincunx_design::{AnyDesign, FabricKind, Value};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;
use quincunx_trace::{TrackContents, read};
use quincunx_units::ByteCount;

/// One loss, everything reduced.
pub(crate) fn lossy() -> Exploration {
    Exploration {
        losses: 1,
        duplicates: 0,
        delays: 0,
        early_timeouts: 0,
        jumps: 0,
        marks: 0,
        persistent_sets: true,
        at_once: true,
        symmetry: true,
        threads: 2,
        memory: ByteCount::new(4 << 30),
    }
}

/// Nothing reduced.
pub(crate) fn full(rules: Exploration) -> Exploration {
    Exploration { at_once: false, symmetry: false, persistent_sets: false, ..rules }
}

/// The first design of that name.
#[track_caller]
pub(crate) fn design(name: &str) -> &'static dyn AnyDesign {
    CATALOG.named(name).unwrap()
}

/// A group of a design as it is explored if nothing else is said, and keys of its parameters with other values.
#[track_caller]
pub(crate) fn group_setup<V: Into<Value> + Copy>(
    name: &str,
    collectives: &[Collective],
    network: &str,
    packets: u32,
    overrides: &[(&str, V)],
) -> GroupSetup {
    let mut scenario = Scenario::find_for(&Explorer, network, &[], CATALOG).unwrap();
    for &(key, value) in overrides {
        scenario.set(key, value.into());
    }
    let design = CATALOG.find(name, scenario.kind()).unwrap();
    let collectives = collectives.to_vec();
    GroupSetup {
        design,
        scenario,
        collectives,
        writes: false,
        packets,
        senders: None,
        groups: 1,
        in_flight: 1,
        late: false,
        mutation: None,
        disagreement: None,
    }
}

/// A fault, and the way there.
pub(crate) type Found<S> = Option<(Fault, Path<S>)>;

/// Explores a network whole.
#[track_caller]
pub(crate) fn run<S: Describe>(network: &S, rules: Exploration) -> (Statistics, Found<S>) {
    let (statistics, verdict) = explore(network, rules, &mut |_| ControlFlow::Continue(()));
    match verdict {
        Verdict::Correct => (statistics, None),
        Verdict::Wrong { fault, path, .. } => (statistics, Some((fault, path))),
        Verdict::Unfinished(why) => panic!("the network is not explored whole: {why:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_right<S: Describe>(network: &S, rules: Exploration) -> Statistics {
    let (statistics, fault) = run(network, rules);
    if let Some((fault, path)) = fault {
        panic!("{fault}\n{}", Sequence { network, path: &path });
    }
    statistics
}

/// That a way to a fault is the same run in virtual time and on nodes of the network driver, with the same fault if that is one that is
/// seen as it happens.
#[track_caller]
pub(crate) fn assert_same_on_other_drivers<S: Wired>(network: &S, fault: Fault, path: &Path<S>) {
    let seen = match fault {
        // That nothing can end any more is not seen as it happens.
        Fault::Stuck | Fault::Livelock => None,
        fault => Some(fault),
    };
    assert_eq!(replay(network, path), Ok(seen.clone()), "{}", Sequence { network, path });
    assert_eq!(replay_as_bytes(network, path), Ok(seen), "{}", Sequence { network, path });
}

/// What may go wrong.
pub(crate) type Environment = fn() -> Exploration;

/// That each broken rule of a group does harm in its environment, and the same on other drivers.
#[track_caller]
pub(crate) fn assert_noticed(cases: &[(&str, Environment)], broken: impl Fn(&str) -> GroupSetup) {
    for &(mutation, rules) in cases {
        let network = Network::of_group(&broken(mutation)).unwrap();
        let (fault, path) = run(&network, rules()).1.unwrap_or_else(|| panic!("{mutation} does no harm"));
        if !matches!(fault, Fault::Livelock | Fault::Stuck) {
            assert_same_on_other_drivers(&network, fault, &path);
        }
    }
}

/// That each rule of a design that can be broken is among these.
#[track_caller]
pub(crate) fn assert_each_has_a_case(name: &str, cases: &[(&str, Environment)]) {
    for mutation in (design(name).about().model.mutations)(FabricKind::Tree) {
        assert!(cases.iter().any(|(case, _)| *case == mutation), "{mutation} has none");
    }
}

/// The tracks of the trace of a way to a fault.
pub(crate) fn traced<S: Describe>(network: &S, fault: &Fault, path: &Path<S>) -> Vec<TrackContents> {
    let bytes = Sequence { network, path }.write_trace(fault, Vec::new()).unwrap();
    read(&bytes).unwrap()
}
