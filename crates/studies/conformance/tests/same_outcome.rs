//! One trial, every driver, same outcome: what `lib.rs` says must be the same, is.

mod common;

use core::mem::discriminant;

use common::{fabric, same};
use quincunx_collective::{Collective, Rank};
use quincunx_conformance::{DRIVERS, Run, RunError, Trial, explore_every_run, run_everywhere};
use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;
use quincunx_scenario::Scenario;

const FABRICS: [&str; 3] = ["star-4", "tree-2x2", "ring-4"];
const REDUCE: Collective = Collective::Reduce { root: Rank(1) };
const BROADCAST: Collective = Collective::Broadcast { root: Rank(1) };
const COLLECTIVES: [Collective; 3] = [Collective::AllReduce, REDUCE, BROADCAST];

fn design_on(name: &str, fabric: FabricKind) -> &'static dyn AnyDesign {
    CATALOG.find(name, fabric).unwrap()
}

/// Whether a design offers a collective, whatever the root.
fn offers(design: &dyn AnyDesign, fabric: FabricKind, collective: Collective) -> bool {
    design.collectives(fabric).iter().any(|offered| discriminant(offered) == discriminant(&collective))
}

/// Every fabric with the designs that run there, and every collective that they offer; a design may refuse the tree.
fn all() -> impl Iterator<Item = (&'static dyn AnyDesign, Scenario, Collective)> {
    let cases = FABRICS
        .into_iter()
        .map(fabric)
        .flat_map(|fabric| CATALOG.on(fabric.kind()).map(move |design| (design, fabric.clone())));
    cases.flat_map(|(design, fabric)| {
        let kind = fabric.kind();
        let offered = COLLECTIVES.into_iter().filter(move |collective| offers(design, kind, *collective));
        let runs = |collective| Trial::new(design, fabric.clone(), collective).cluster().is_ok();
        let offered = offered.filter(|collective| runs(*collective));
        offered.map(|collective| (design, fabric.clone(), collective)).collect::<Vec<_>>()
    })
}

fn stop_and_wait(design: &str, on: &str, collective: Collective) -> Trial {
    let fabric = fabric(on);
    Trial::new(design_on(design, fabric.kind()), fabric, collective)
}

/// The same without confirmations, which cross the data, and without selective reliability, whose time-outs follow the round-trip
/// time: when either comes is a matter of timing.
fn unconfirmed(trial: Trial) -> Trial {
    let trial = trial.with_if_known("group.confirm", false).with_if_known("hosts.confirm", false);
    trial.with_if_known("group.selective", false)
}

/// Runs a trial everywhere, and holds the runs against each other in the way that always holds.
fn run(trial: &Trial) -> [Run; DRIVERS.len()] {
    let runs = run_everywhere(trial);
    let (first, others) = runs.split_first().expect("there are drivers");
    for (run, (name, _)) in others.iter().zip(&DRIVERS[1..]) {
        same(trial, first, run).unwrap_or_else(|fault| panic!("{name} {fault}: {trial:?}"));
    }
    runs
}

#[test]
fn every_driver_sends_the_same_and_gives_the_same_real_numbers() {
    for (design, fabric, collective) in all() {
        run(&Trial::new(design, fabric, collective).windowed(2, 4));
    }
}

#[test]
fn what_they_agree_on_is_right() {
    for (design, fabric, collective) in all() {
        let trial = Trial::new(design, fabric, collective).windowed(2, 4).of_integers();
        let trial = trial.with_if_known("aggregation.floating", false);
        assert!(run(&trial)[0].outputs == trial.expected(), "it is wrong: {trial:?}");
    }
}

#[test]
fn where_results_pace_the_senders_every_frame_is_the_same() {
    const PACED: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
    for (design, fabric, collective) in all().filter(|(design, ..)| PACED.contains(&design.name())) {
        if collective == Collective::AllReduce || design.name() == "epic-2" {
            let trial = unconfirmed(Trial::new(design, fabric, collective));
            let [expected, found] = run(&trial);
            assert!(found.everything() == expected.everything(), "frames differ: {trial:?}");
        }
    }
}

#[test]
fn on_a_ring_requests_and_answers_are_the_same_each_for_itself() {
    for collective in COLLECTIVES {
        let trial = unconfirmed(stop_and_wait("ring", "ring-4", collective));
        let [expected, found] = run(&trial);
        assert!(found.apart() == expected.apart(), "frames differ: {trial:?}");
    }
}

#[test]
fn what_a_negative_acknowledge_repairs_is_sent_again_in_the_same_way() {
    // Not in Mode-I: what its senders have credits for depends on when acknowledges come, and of one message that they may send nothing comes
    // behind a lost packet that would show the gap. What it loses time-outs repair, below.
    let lossy: [(_, _, _, _, &[u64]); 4] = [
        ("epic-2", "star-4", Collective::AllReduce, ["switch-0", "host-1"], &[2]),
        ("epic-3", "star-4", BROADCAST, ["switch-0", "host-0"], &[1, 5]),
        ("ring", "ring-4", BROADCAST, ["host-1", "host-2"], &[0, 4]),
        ("ring", "ring-4", REDUCE, ["host-0", "host-1"], &[2, 6]),
    ];
    for (design, fabric, collective, [from, to], frames) in lossy {
        let trial =
            unconfirmed(stop_and_wait(design, fabric, collective)).windowed(2, 1).losing(from, to, frames);
        let [expected, found] = run(&trial);
        assert_eq!(found.lost(&trial), expected.lost(&trial), "other frames are lost: {trial:?}");
        assert_eq!(expected.lost(&trial).len(), frames.len(), "all are lost: {trial:?}");
        assert!(found.apart() == expected.apart(), "frames differ: {trial:?}");
    }
}

#[test]
fn losses_anywhere_leave_results_and_first_transmissions_as_they_are() {
    for (design, fabric, collective) in all() {
        let trial = Trial::new(design, fabric, collective).windowed(2, 2).with_time_outs();
        let between_hosts =
            |trial: Trial| trial.losing("host-0", "host-1", &[0, 3, 4]).losing("host-2", "host-1", &[0, 1]);
        let in_switches = |trial: Trial| {
            trial
                .losing("host-0", "switch-1", &[0, 3, 4, 9])
                .losing("switch-1", "switch-0", &[0, 2, 7])
                .losing("switch-0", "switch-2", &[1, 4])
                .losing("switch-2", "host-3", &[0, 5, 6])
        };
        let lossy = [in_switches(trial.clone()), between_hosts(trial)];
        for trial in lossy.into_iter().filter(|trial| trial.cluster().is_ok()) {
            run(&trial);
        }
    }
}

#[test]
fn the_first_frame_of_a_direction_is_the_same_frame_wherever_it_is_lost() {
    let trial = stop_and_wait("epic-3", "star-4", Collective::AllReduce);
    let trial = trial.losing("host-2", "switch-0", &[0]).with_time_outs();
    let [expected, found] = run(&trial);
    let lost = expected.lost(&trial);
    assert_eq!(lost.len(), 1);
    assert_eq!(found.lost(&trial), lost);
}

#[test]
fn a_frame_that_comes_twice_counts_once_in_every_run() {
    for design in ["epic-1", "epic-2", "epic-3"] {
        let trial = stop_and_wait(design, "star-2", Collective::AllReduce).windowed(1, 2).of_length(64);
        let trial = trial.with_time_outs().doubling("host-0", "switch-0", 1);
        run(&trial);
        let explored = explore_every_run(&trial, 1 << 18).unwrap();
        let counted = trial.contributions().unwrap();
        assert!(explored.outcomes.iter().flatten().eq(&counted), "{design} counts otherwise: {explored:?}");
    }
}

#[test]
fn the_checker_says_when_there_is_more_than_it_may_look_at() {
    let trial = stop_and_wait("epic-3", "star-4", Collective::AllReduce).losing("host-0", "switch-0", &[0]);
    assert!(matches!(explore_every_run(&trial, 10), Err(RunError::TooLarge { most: 10 })));
}

/// AllGathers in two domains of two that relay for each other; of numbers in messages of two packets, four of which are on their way.
fn on_a_mesh() -> impl Iterator<Item = Trial> {
    let trial = |design| stop_and_wait(design, "mesh-2x2", Collective::AllGather).windowed(2, 4);
    let paired = ["multiwrite", "unicast-multipath"].into_iter().map(trial);
    paired.flat_map(|trial| [trial.clone(), trial.with("relay.relays", "full")])
}

#[test]
fn what_is_gathered_over_relays_is_the_same_to_the_bit_and_right() {
    for trial in on_a_mesh() {
        let [expected, _] = run(&trial);
        assert!(expected.outputs == trial.expected(), "they are wrong: {trial:?}");
    }
}

#[test]
fn what_is_lost_on_the_way_to_and_from_a_relay_is_gathered_all_the_same() {
    for trial in on_a_mesh() {
        let trial =
            trial.losing("host-0", "host-2", &[0, 3]).losing("host-2", "host-1", &[1, 2, 5]).with_time_outs();
        for run in run_everywhere(&trial) {
            assert!(run.outputs == trial.expected(), "{trial:?}");
        }
    }
}

#[test]
fn a_loss_between_strangers_is_refused_by_every_driver() {
    let trial = stop_and_wait("epic-3", "star-4", Collective::AllReduce);
    let strangers = trial.clone().losing("host-0", "host-1", &[0]);
    let nobody = trial.losing("host-9", "switch-0", &[0]);
    for (name, drive) in DRIVERS {
        assert!(matches!(drive(&strangers), Err(RunError::NoConnection { .. })), "{name}");
        assert!(matches!(drive(&nobody), Err(RunError::NoNode { .. })), "{name}");
    }
    assert!(matches!(explore_every_run(&strangers, 1), Err(RunError::NoConnection { .. })));
    assert!(matches!(explore_every_run(&nobody, 1), Err(RunError::NoNode { .. })));
}
