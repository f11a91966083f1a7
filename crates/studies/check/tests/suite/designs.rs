//! All designs among hosts and switches, explored as the manager would set them up: right in every run, and wrong in some run if a rule
//! is broken; and by name, as people ask for them.

use std::ops::ControlFlow;

use crate::common::{assert_right, assert_same_on_other_drivers, full, group_setup, lossy, run};
use quincunx_check::{Arguments, Exploration, Finding, GroupSetup, Network, STUDIES, Subject};
use quincunx_collective::{Collective, Rank};
use quincunx_designs::CATALOG;

const ALL_REDUCE: [Collective; 1] = [Collective::AllReduce];
const ALL_GATHER: [Collective; 1] = [Collective::AllGather];

fn group(setup: &GroupSetup) -> Network {
    Network::of_group(setup).unwrap()
}

fn plain(name: &str, collectives: &[Collective], network: &str, packets: u32) -> GroupSetup {
    group_setup::<u32>(name, collectives, network, packets, &[])
}

#[test]
fn designs_among_hosts_are_right_on_every_fabric_that_they_run_on() {
    for (name, network) in [
        ("ring", "ring-2"),
        ("ring", "ring-3"),
        ("ring", "star-3"),
        ("tree", "star-2"),
        ("tree", "star-3"),
        ("direct", "star-3"),
    ] {
        assert_right(&group(&plain(name, &ALL_REDUCE, network, 1)), lossy());
    }
    for (name, network) in [
        ("multiwrite", "mesh-2x2"),
        ("multiwrite", "star-2"),
        ("unicast-multipath", "mesh-2x2"),
        ("direct", "mesh-1x2"),
    ] {
        assert_right(&group(&plain(name, &ALL_GATHER, network, 1)), lossy());
    }
}

#[test]
fn a_ring_does_every_primitive_with_a_loss_and_keeps_collectives_of_several_kinds_apart() {
    for collective in Collective::PRIMITIVES {
        assert_right(&group(&plain("ring", &[collective], "ring-2", 1)), lossy());
    }
    let broadcast = Collective::Broadcast { root: Rank(1) };
    let kinds = [Collective::AllReduce, broadcast, Collective::AllGather];
    for name in ["ring", "epic-2", "epic-3"] {
        assert_right(&group(&plain(name, &kinds, "star-2", 1)), lossy());
    }
}

#[test]
fn parameters_of_a_design_are_explored() {
    for (name, key, value) in [
        ("epic-1", "group.message", 2.into()),
        ("epic-2", "group.message", 2.into()),
        ("epic-3", "group.message", 2.into()),
        ("epic-3", "group.acknowledge_every", 2.into()),
        ("epic-3", "group.selective", true.into()),
        ("epic-3", "group.run_ahead", true.into()),
        ("epic-3", "group.slots", 3.into()),
        ("epic-3", "group.synchronize_rates", false.into()),
        ("epic-1", "group.reproducible", true.into()),
        ("ring", "hosts.chunk", "8B".into()),
        ("ring", "group.selective", true.into()),
    ] {
        let value: quincunx_design::Value = value;
        let mut setup = plain(name, &ALL_REDUCE, "star-2", 3);
        setup.scenario.set(key, value);
        assert_right(&group(&setup), lossy());
    }
}

/// The first domain gathers, the other one relays.
fn gathering(times: usize, packets: u32) -> GroupSetup {
    let collectives = vec![Collective::AllGather; times];
    GroupSetup { senders: Some(2), ..plain("multiwrite", &collectives, "mesh-2x2", packets) }
}

#[test]
fn an_all_gather_over_relays_gathers_whatever_is_lost_or_late() {
    assert_right(&group(&gathering(1, 2)), Exploration { delays: 1, ..lossy() });
    assert_right(&group(&GroupSetup { senders: None, ..gathering(1, 1) }), lossy());
    assert_right(&group(&gathering(2, 2)), lossy());
    let mut setup = gathering(1, 2);
    setup.scenario.set("relay.message", "1us".into());
    assert_right(&group(&setup), Exploration { early_timeouts: 1, ..lossy() });
}

#[test]
fn how_many_states_there_are_is_known() {
    // Whoever changes what hosts do, or what is explored, sees it here.
    assert_eq!(assert_right(&group(&gathering(1, 1)), full(lossy())).distinct, 184);
}

#[test]
fn broken_rules_of_an_all_gather_are_noticed_whole_or_reduced_and_are_the_same_run_on_other_drivers() {
    for (mutation, setup, rules) in [
        ("no-barrier", gathering(2, 2), Exploration { losses: 0, ..lossy() }),
        // A lost acknowledge costs a question; what is asked for late is read when it is no longer there.
        ("ends-unacknowledged", gathering(1, 2), Exploration { delays: 1, ..lossy() }),
    ] {
        assert_right(&group(&setup), rules);
        let broken = group(&GroupSetup { mutation: Some(mutation.to_owned()), ..setup });
        let (fault, path) = run(&broken, rules).1.expect("it is noticed");
        assert_same_on_other_drivers(&broken, fault, &path);
        assert!(run(&broken, full(rules)).1.is_some(), "{mutation} does no harm when all is explored");
    }
}

fn refused(name: &str, collective: &str, arguments: &Arguments) -> String {
    match Subject::find(CATALOG, name, collective, arguments) {
        Ok(_) => panic!("{name} {collective} is explored"),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn a_name_is_a_design_or_else_a_study() {
    let arguments = Arguments { packets: Some(1), ..Arguments::default() };
    let on = |tree: &str| Arguments { tree: Some(tree.to_owned()), ..arguments.clone() };
    for (name, collective, arguments) in [
        ("epic-3", "all_reduce", on("star-2")),
        ("ring", "all_reduce", on("ring-2")),
        ("multiwrite", "all_gather", arguments.clone()),
        ("multiwrite", "all_gather", on("ring-4")),
        ("multiwrite", "write", on("loop-2")),
        ("roce", "send", arguments.clone()),
        (
            "switchml-rules",
            "all_reduce",
            Arguments { rule: Some("chunk-numbers".to_owned()), ..arguments.clone() },
        ),
    ] {
        let senders = if arguments.tree.as_deref() == Some("loop-2") { Some(1) } else { None };
        let subject = Subject::find(CATALOG, name, collective, &Arguments { senders, ..arguments });
        let (_, finding) = subject
            .unwrap_or_else(|refusal| panic!("{refusal}"))
            .network
            .explore(lossy(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(finding, Finding::Correct, "{name} {collective}");
    }
}

#[test]
fn different_collectives_run_in_sequence_each_with_its_root() {
    let star = Arguments {
        tree: Some("star-2".to_owned()),
        packets: Some(1),
        roots: vec![1, 0],
        ..Arguments::default()
    };
    let explored = |collectives: &str| {
        let subject = Subject::find(CATALOG, "epic-2", collectives, &star).unwrap();
        let (effort, finding) = subject.network.explore(lossy(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(finding, Finding::Correct, "{collectives}");
        effort.states
    };
    let [both, one, other] = ["reduce,broadcast", "reduce", "broadcast"].map(explored);
    assert!(both > one.max(other), "{both} states, {one} and {other} of each alone");
    let refused = Subject::find(CATALOG, "epic-2", "reduce,dispatch", &star).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("found reduce,dispatch"), "{refused}");
}

#[test]
fn what_is_not_explored_is_refused_in_a_line_that_says_why() {
    let plain = Arguments::default();
    let mutate = Arguments { mutate: Some("nothing".to_owned()), ..plain.clone() };
    let root = Arguments { roots: vec![4], ..plain.clone() };
    let star = Arguments { tree: Some("star-3".to_owned()), ..plain.clone() };
    let mesh = Arguments { tree: Some("mesh-2x2".to_owned()), ..plain.clone() };
    let set = |change: &str| Arguments { set: vec![change.parse().unwrap()], ..plain.clone() };
    let [slots, loss, latency, moments] =
        ["group.slots=3", "loss.probability=1%", "link.latency=2us", "measure.stepwise=true"].map(set);
    let two = Arguments { times: 2, in_flight: 2, ..plain.clone() };
    let [memory, file] = ["scin-dgx8", "nothing.toml"]
        .map(|fabric| Arguments { tree: Some(fabric.to_owned()), ..plain.clone() });
    for (name, collective, arguments, expected) in [
        (
            "nothing",
            "all_reduce",
            &plain,
            "roce, roce-selective, control, locks, switchml-rules, atp-rules as the design",
        ),
        ("multiwrite", "dispatch", &star, "expected all_gather, barrier of multiwrite, found dispatch"),
        (
            "multiwrite",
            "all_reduce",
            &plain,
            "expected all_gather, barrier, dispatch, combine or write of multiwrite",
        ),
        ("writes", "all_gather", &plain, "expected write of writes, found all_gather"),
        ("epic-3", "all_reduce", &mesh, "expected a design for this kind of fabric"),
        ("epic-3", "reduce", &root, "expected a root below 4, found 4"),
        ("epic-3", "all_reduce", &mutate, "expected one of mode-ii-recycling, "),
        ("ring", "all_reduce", &mutate, "expected one of ignores-disagreement, found \"nothing\""),
        ("epic-2", "all_reduce", &slots, "`group.slots`"),
        ("ring", "all_reduce", &slots, "expected one of the keys of ring"),
        ("epic-3", "all_reduce", &loss, "expected only what explorations can honour, found `loss`"),
        ("epic-3", "all_reduce", &latency, "found `link.latency`"),
        ("epic-3", "all_reduce", &moments, "found `measure.stepwise`"),
        (
            "epic-3",
            "all_reduce",
            &memory,
            "expected a design for a memory fabric (scin, nvls, cais, ring, direct, ",
        ),
        ("epic-3", "all_reduce", &file, "expected to read nothing.toml"),
        ("roce", "send", &slots, "expected no --set with roce, found group.slots"),
        (
            "ring",
            "all_reduce",
            &two,
            "expected as many collectives under way at once as the group may have, 1, found 2",
        ),
    ] {
        let refusal = refused(name, collective, arguments);
        assert!(refusal.contains(expected) && !refusal.contains('\n'), "{refusal}");
    }
}

#[test]
fn a_file_says_what_is_explored_as_it_says_what_is_simulated() {
    let file = std::env::temp_dir().join(format!("quincunx-check-{}.toml", std::process::id()));
    let text = "kind = \"packet\"\ntopology = \"star-2\"\nlink = { rate = \"1Gbit/s\", latency = \"1us\" }\n\
                group = { window = 1, message = 2 }\n";
    std::fs::write(&file, text).unwrap();
    let tree = Some(file.to_str().unwrap().to_owned());
    let counts = |arguments: Arguments| {
        let subject = Subject::find(CATALOG, "epic-3", "all_reduce", &arguments);
        let subject = subject.unwrap_or_else(|refusal| panic!("{refusal}"));
        let (statistics, finding) = subject.network.explore(lossy(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(finding, Finding::Correct);
        statistics.distinct
    };
    let of_file = counts(Arguments { tree, ..Arguments::default() });
    std::fs::remove_file(&file).unwrap();
    let set = ["group.window=1", "group.message=2"].map(|change| change.parse().unwrap()).into();
    let shape = Arguments { tree: Some("star-2".to_owned()), ..Arguments::default() };
    assert_eq!(of_file, counts(Arguments { set, ..shape.clone() }));
    assert_ne!(of_file, counts(shape));
}

#[test]
fn no_study_hides_behind_a_design() {
    for study in STUDIES {
        let design = CATALOG.named(study.name());
        let hidden = |collective: &&str| {
            design.as_ref().is_ok_and(|design| {
                let mut all = design.about().offers.iter().flat_map(|(_, offered)| *offered);
                all.any(|offered| offered.name() == *collective)
            })
        };
        assert!(!study.collectives().iter().all(hidden), "{} is never found", study.name());
    }
}
