//! One rank asks for something else than the others: in no run is anybody told of a result, and where a comparison is left out somebody is.

use crate::common::{assert_right, assert_same_on_other_drivers, group_setup, lossy, run};
use Disagreement::{Length, Operation, Root, Type};
use quincunx_check::{Disagreement, Exploration, Fault, GroupSetup, Network};
use quincunx_collective::{Collective, Rank};

const BROADCAST: Collective = Collective::Broadcast { root: Rank(0) };
const REDUCE: Collective = Collective::Reduce { root: Rank(0) };

fn reliable() -> Exploration {
    Exploration { losses: 0, ..lossy() }
}

fn setup(name: &str, collective: Collective, network: &str, disagreement: Disagreement) -> GroupSetup {
    let setup = group_setup::<u32>(name, &[collective], network, 1, &[]);
    GroupSetup { disagreement: Some(disagreement), ..setup }
}

/// What there is to differ in.
fn differences(collective: Collective) -> impl Iterator<Item = Disagreement> {
    Disagreement::ALL.into_iter().filter(move |one| match one {
        Disagreement::Collective | Disagreement::Absence => true,
        Type | Length => collective != Collective::Barrier,
        Operation => collective.reduces(),
        Root => collective.root().is_some(),
    })
}

fn assert_nobody_is_done(name: &str, network: &str, collectives: &[Collective]) {
    for &collective in collectives {
        for difference in differences(collective) {
            let network = Network::of_group(&setup(name, collective, network, difference)).unwrap();
            assert_right(&network, reliable());
        }
    }
}

#[test]
fn epic_tells_nobody_of_a_result() {
    for mode in ["epic-1", "epic-2", "epic-3"] {
        assert_nobody_is_done(mode, "star-3", &Collective::PRIMITIVES);
    }
}

#[test]
fn hosts_alone_tell_nobody_of_a_result() {
    for algorithm in ["ring", "tree", "direct"] {
        let network = if algorithm == "ring" { "ring-3" } else { "star-3" };
        assert_nobody_is_done(algorithm, network, &Collective::PRIMITIVES);
    }
}

#[test]
fn writes_tell_nobody_of_a_result() {
    assert_nobody_is_done("direct", "mesh-1x3", &[Collective::AllGather, Collective::Barrier]);
}

#[test]
fn a_lost_frame_changes_nothing() {
    for mode in ["epic-2", "epic-3"] {
        let network = Network::of_group(&setup(mode, BROADCAST, "star-2", Type)).unwrap();
        assert_right(&network, lossy());
    }
}

#[test]
fn where_a_comparison_is_left_out_somebody_is_told_of_a_wrong_result() {
    let rules = [
        ("epic-1", "star-3", Collective::AllReduce, Operation, "adds-whatever-comes"),
        ("epic-2", "star-3", Collective::AllReduce, Operation, "adds-whatever-comes"),
        ("epic-3", "star-3", Collective::AllReduce, Operation, "adds-whatever-comes"),
        ("ring", "ring-3", Collective::AllReduce, Type, "ignores-disagreement"),
        ("tree", "star-3", Collective::AllReduce, Operation, "ignores-disagreement"),
        ("direct", "star-3", Collective::AllGather, Type, "ignores-disagreement"),
        ("direct", "mesh-1x3", Collective::AllGather, Type, "ignores-disagreement"),
    ];
    for (name, network, collective, difference, mutation) in rules {
        let setup = setup(name, collective, network, difference);
        let broken = GroupSetup { mutation: Some(mutation.to_owned()), ..setup };
        let network = Network::of_group(&broken).unwrap();
        let (_, found) = run(&network, reliable());
        let (fault, path) = found.unwrap_or_else(|| panic!("{name} with {mutation}: nothing is found"));
        let Fault::Wrong { message, .. } = &fault else { panic!("{name} with {mutation}: {fault}") };
        assert!(message.contains("asks for something else"), "{name} with {mutation}: {message}");
        assert_same_on_other_drivers(&network, fault, &path);
    }
}

#[test]
fn without_a_confirmation_somebody_is_told_of_a_wrong_result() {
    for (name, network, collective, key) in [
        ("epic-1", "star-3", BROADCAST, "group.confirm"),
        ("epic-2", "star-3", BROADCAST, "group.confirm"),
        ("epic-3", "star-3", REDUCE, "group.confirm"),
        ("ring", "ring-3", BROADCAST, "hosts.confirm"),
        ("tree", "star-3", BROADCAST, "hosts.confirm"),
        ("direct", "star-3", BROADCAST, "hosts.confirm"),
    ] {
        let setup = group_setup(name, &[collective], network, 1, &[(key, false)]);
        for disagreement in [Type, Disagreement::Absence] {
            let setup = GroupSetup { disagreement: Some(disagreement), ..setup.clone() };
            let (_, found) = run(&Network::of_group(&setup).unwrap(), reliable());
            assert!(
                found.is_some_and(|(fault, _)| matches!(fault, Fault::Wrong { .. })),
                "{name}: {disagreement}"
            );
        }
    }
}

#[test]
fn what_ranks_cannot_differ_in_is_refused() {
    let refused = |collective, difference| {
        Network::of_group(&setup("epic-2", collective, "star-2", difference)).unwrap_err().to_string()
    };
    assert_eq!(
        refused(Collective::AllReduce, Root),
        "expected a collective with a root, found all_reduce; name another difference"
    );
    assert_eq!(
        refused(Collective::AllGather, Operation),
        "expected a collective that combines, found all_gather; name another difference"
    );
    let unknown = "size".parse::<Disagreement>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "expected one of collective, type, operation, root, length, absence, found \"size\"; name one of them"
    );
}
