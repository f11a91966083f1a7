//! Hardware as a driver: `rtl/inc_engine`, simulated, in the place of a Mode-II switch. The ranks are ours, in virtual time and on UDP sockets.
//! What they get and what everybody sends is held to a run with our switch, of the same seed and with the same faults.

mod stand_in;

use std::path::Path;

use quincunx_cluster::Ports;
use quincunx_collective::{Collective, Rank};
use quincunx_conformance::{DRIVERS, Run, Trial, run_in_virtual_time, run_on_sockets};
use quincunx_design::FabricKind;
use quincunx_designs::CATALOG;
use quincunx_needs::{hardware_simulator, need};

use stand_in::StandIn;

/// A packet a message, four on their way: the window of the hardware that is simulated.
fn trial(fabric: &str, collective: Collective, seed: u64) -> Trial {
    let scenario = quincunx_conformance::scenario(fabric, CATALOG).unwrap();
    let design = CATALOG.find("epic-2", FabricKind::Tree).unwrap();
    let trial = Trial::new(design, scenario, collective).windowed(1, 4).with("group.selective", false);
    Trial { seed, ..trial }
}

fn with_hardware(simulator: &Path, trial: &Trial) -> Run {
    run_in_virtual_time(trial, &|cluster, node| StandIn::at(simulator, cluster, node, Ports::Links, "-"))
        .unwrap_or_else(|error| panic!("hardware: {error}: {trial:?}"))
}

fn with_ours(trial: &Trial) -> Run {
    let (name, drive) = DRIVERS[0];
    drive(trial).unwrap_or_else(|error| panic!("{name}: {error}: {trial:?}"))
}

/// Answers and requests, each in order: the hardware, as the switch of ours, says nothing of how they fall between each other.
fn hold(simulator: &Path, trial: &Trial) {
    let (expected, found) = (with_ours(trial), with_hardware(simulator, trial));
    assert_eq!(found.outputs, trial.expected(), "it is wrong: {trial:?}");
    assert_eq!(found.lost(trial), expected.lost(trial), "other frames are lost: {trial:?}");
    assert!(found.apart() == expected.apart(), "frames differ: {trial:?}");
}

#[test]
fn ranks_around_hardware_send_and_get_what_they_do_around_our_switch() {
    let simulator = need!(hardware_simulator());
    let rooted = |root| [Collective::Reduce { root: Rank(root) }, Collective::Broadcast { root: Rank(root) }];
    for collective in [Collective::AllReduce, Collective::Barrier].into_iter().chain(rooted(1)) {
        hold(&simulator, &trial("star-3", collective, 1));
    }
    for collective in [Collective::ReduceScatter, Collective::AllGather] {
        hold(&simulator, &trial("star-2", collective, 2));
    }
}

#[test]
fn a_tree_of_hardware_sends_what_a_tree_of_our_switches_does() {
    let simulator = need!(hardware_simulator());
    let rooted = |root| [Collective::Reduce { root: Rank(root) }, Collective::Broadcast { root: Rank(root) }];
    for collective in [Collective::AllReduce].into_iter().chain(rooted(3)) {
        hold(&simulator, &trial("tree-3-2", collective, 7));
    }
    let lossy =
        trial("tree-3-2", Collective::AllReduce, 8).losing("host-1", "switch-1", &[1]).with_time_outs();
    hold(&simulator, &lossy);
}

/// What becomes of frames between a host and the switch.
type Fault = fn(Trial) -> Trial;

#[test]
fn what_is_lost_or_doubled_on_any_way_is_repaired_alike() {
    let simulator = need!(hardware_simulator());
    let faults: [Fault; 5] = [
        |trial| trial.losing("host-1", "switch-0", &[0]),
        |trial| trial.losing("host-1", "switch-0", &[1, 3]),
        |trial| trial.losing("switch-0", "host-1", &[2]),
        |trial| trial.losing("switch-0", "host-0", &[1]).losing("host-1", "switch-0", &[4]),
        |trial| trial.doubling("host-1", "switch-0", 2),
    ];
    for (seed, fault) in (1..).zip(faults) {
        for collective in [Collective::AllReduce, Collective::Reduce { root: Rank(0) }] {
            // What is lost at an end, nothing else shows.
            hold(&simulator, &fault(trial("star-2", collective, seed).with_time_outs()));
        }
    }
}

#[test]
fn ranks_on_sockets_get_from_hardware_what_they_get_from_our_switch() {
    let simulator = need!(hardware_simulator());
    for (fabric, length) in [("star-8", 32), ("star-3", 10 * 32 + 16)] {
        let trial = trial(fabric, Collective::AllReduce, 6).of_length(length);
        let found = run_on_sockets(&trial, &|cluster, node| {
            StandIn::at(&simulator, cluster, node, Ports::Socket, "-")
        })
        .unwrap_or_else(|error| panic!("hardware on sockets: {error}: {trial:?}"));
        assert_eq!(found.outputs, trial.expected(), "it is wrong: {trial:?}");
        let expected = with_ours(&trial);
        assert!(found.first_transmissions() == expected.first_transmissions(), "frames differ: {trial:?}");
    }
}

#[test]
fn hardware_that_breaks_a_rule_is_told_from_one_that_does_not() {
    let simulator = need!(hardware_simulator());
    let trial = trial("star-2", Collective::AllReduce, 5).doubling("host-1", "switch-0", 2);
    let broken = run_in_virtual_time(&trial, &|cluster, node| {
        StandIn::at(&simulator, cluster, node, Ports::Links, "no-duplicate-check")
    });
    assert!(broken.is_err() || broken.unwrap().apart() != with_ours(&trial).apart());
}
