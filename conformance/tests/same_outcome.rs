//! One scenario, every driver, same outcome: what `lib.rs` says must be the same, is.

mod common;

use core::mem::discriminant;

use common::{fabric, same};
use quincunx_collective::{Collective, Rank};
use quincunx_conformance::{DRIVERS, Fabric, Run, RunError, Scenario, explore_every_run, run_everywhere};
use quincunx_design::{AnyDesign, FabricKind};
use quincunx_designs::CATALOG;

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

/// Every fabric with the designs that run there, and every collective that they offer.
fn all() -> impl Iterator<Item = (&'static dyn AnyDesign, Fabric, Collective)> {
    let cases = FABRICS
        .into_iter()
        .map(fabric)
        .flat_map(|fabric| CATALOG.on(fabric.kind()).map(move |design| (design, fabric.clone())));
    cases.flat_map(|(design, fabric)| {
        let kind = fabric.kind();
        let offered = COLLECTIVES.into_iter().filter(move |collective| offers(design, kind, *collective));
        offered.map(move |collective| (design, fabric.clone(), collective)).collect::<Vec<_>>()
    })
}

fn stop_and_wait(design: &str, on: &str, collective: Collective) -> Scenario {
    let fabric = fabric(on);
    Scenario::stop_and_wait(design_on(design, fabric.kind()), fabric, collective)
}

/// Runs a scenario everywhere, and holds the runs against each other in the way that always holds.
fn run(scenario: &Scenario) -> [Run; DRIVERS.len()] {
    let runs = run_everywhere(scenario);
    let (first, others) = runs.split_first().expect("there are drivers");
    for (run, (name, _)) in others.iter().zip(&DRIVERS[1..]) {
        same(scenario, first, run).unwrap_or_else(|fault| panic!("{name} {fault}: {scenario:?}"));
    }
    runs
}

#[test]
fn every_driver_sends_the_same_and_gives_the_same_real_numbers() {
    for (design, fabric, collective) in all() {
        run(&Scenario::stop_and_wait(design, fabric, collective).windowed(2, 4));
    }
}

#[test]
fn what_they_agree_on_is_right() {
    for (design, fabric, collective) in all() {
        let scenario = Scenario::stop_and_wait(design, fabric, collective).windowed(2, 4).of_integers();
        assert!(run(&scenario)[0].outputs == scenario.expected(), "it is wrong: {scenario:?}");
    }
}

#[test]
fn where_results_pace_the_senders_every_frame_is_the_same() {
    const PACED: [&str; 3] = ["epic-1", "epic-2", "epic-3"];
    for (design, fabric, collective) in all().filter(|(design, ..)| PACED.contains(&design.name())) {
        if collective == Collective::AllReduce || design.name() == "epic-2" {
            let scenario = Scenario::stop_and_wait(design, fabric, collective);
            let [expected, found] = run(&scenario);
            assert!(found.everything() == expected.everything(), "frames differ: {scenario:?}");
        }
    }
}

#[test]
fn on_a_ring_requests_and_answers_are_the_same_each_for_itself() {
    for collective in COLLECTIVES {
        let scenario = stop_and_wait("ring", "ring-4", collective);
        let [expected, found] = run(&scenario);
        assert!(found.apart() == expected.apart(), "frames differ: {scenario:?}");
    }
}

#[test]
fn what_a_negative_acknowledge_repairs_is_sent_again_in_the_same_way() {
    let lossy: [(_, _, _, _, &[u64]); 6] = [
        ("epic-1", "star-4", Collective::AllReduce, ["host-0", "switch-0"], &[2]),
        ("epic-1", "star-4", Collective::AllReduce, ["switch-0", "host-1"], &[3]),
        ("epic-2", "star-4", Collective::AllReduce, ["switch-0", "host-1"], &[2]),
        ("epic-3", "star-4", BROADCAST, ["switch-0", "host-0"], &[1, 5]),
        ("ring", "ring-4", BROADCAST, ["host-1", "host-2"], &[0, 4]),
        ("ring", "ring-4", REDUCE, ["host-0", "host-1"], &[2, 6]),
    ];
    for (design, fabric, collective, [from, to], frames) in lossy {
        let scenario = stop_and_wait(design, fabric, collective).windowed(2, 1).losing(from, to, frames);
        let [expected, found] = run(&scenario);
        assert_eq!(found.lost(&scenario), expected.lost(&scenario), "other frames are lost: {scenario:?}");
        assert_eq!(expected.lost(&scenario).len(), frames.len(), "all are lost: {scenario:?}");
        assert!(found.apart() == expected.apart(), "frames differ: {scenario:?}");
    }
}

#[test]
fn losses_anywhere_leave_results_and_first_transmissions_as_they_are() {
    for (design, fabric, collective) in all() {
        let scenario = Scenario::stop_and_wait(design, fabric, collective).windowed(2, 2).with_time_outs();
        let between_hosts = |scenario: Scenario| {
            scenario.losing("host-0", "host-1", &[0, 3, 4]).losing("host-2", "host-1", &[0, 1])
        };
        let in_switches = |scenario: Scenario| {
            scenario
                .losing("host-0", "switch-1", &[0, 3, 4, 9])
                .losing("switch-1", "switch-0", &[0, 2, 7])
                .losing("switch-0", "switch-2", &[1, 4])
                .losing("switch-2", "host-3", &[0, 5, 6])
        };
        let lossy = [in_switches(scenario.clone()), between_hosts(scenario)];
        for scenario in lossy.into_iter().filter(|scenario| scenario.cluster().is_ok()) {
            run(&scenario);
        }
    }
}

#[test]
fn the_first_frame_of_a_direction_is_the_same_frame_wherever_it_is_lost() {
    let scenario = stop_and_wait("epic-3", "star-4", Collective::AllReduce);
    let scenario = scenario.losing("host-2", "switch-0", &[0]).with_time_outs();
    let [expected, found] = run(&scenario);
    let lost = expected.lost(&scenario);
    assert_eq!(lost.len(), 1);
    assert_eq!(found.lost(&scenario), lost);
}

#[test]
fn a_frame_that_comes_twice_counts_once_in_every_run() {
    for design in ["epic-1", "epic-2", "epic-3"] {
        let scenario = stop_and_wait(design, "star-2", Collective::AllReduce).windowed(1, 2).of_length(64);
        let scenario = scenario.with_time_outs().doubling("host-0", "switch-0", 1);
        run(&scenario);
        let explored = explore_every_run(&scenario, 1 << 18).unwrap();
        let counted = scenario.contributions().unwrap();
        assert!(explored.outcomes.iter().flatten().eq(&counted), "{design} counts otherwise: {explored:?}");
    }
}

#[test]
fn the_checker_says_when_there_is_more_than_it_may_look_at() {
    let scenario =
        stop_and_wait("epic-3", "star-4", Collective::AllReduce).losing("host-0", "switch-0", &[0]);
    assert!(matches!(explore_every_run(&scenario, 10), Err(RunError::TooLarge { most: 10 })));
}

/// AllGathers in two domains of two that relay for each other; of numbers in messages of two packets, four of which are on their way.
fn on_a_mesh() -> impl Iterator<Item = Scenario> {
    let scenario = |design| stop_and_wait(design, "mesh-2x2", Collective::AllGather).windowed(2, 4);
    let paired = ["multiwrite", "unicast-multipath"].into_iter().map(scenario);
    paired.flat_map(|scenario| [scenario.clone(), scenario.with("relay.relays", "full")])
}

#[test]
fn what_is_gathered_over_relays_is_the_same_to_the_bit_and_right() {
    for scenario in on_a_mesh() {
        let [expected, _] = run(&scenario);
        assert!(expected.outputs == scenario.expected(), "they are wrong: {scenario:?}");
    }
}

#[test]
fn what_is_lost_on_the_way_to_and_from_a_relay_is_gathered_all_the_same() {
    for scenario in on_a_mesh() {
        let scenario = scenario
            .losing("host-0", "host-2", &[0, 3])
            .losing("host-2", "host-1", &[1, 2, 5])
            .with_time_outs();
        for run in run_everywhere(&scenario) {
            assert!(run.outputs == scenario.expected(), "{scenario:?}");
        }
    }
}

#[test]
fn a_loss_between_strangers_is_refused_by_every_driver() {
    let scenario = stop_and_wait("epic-3", "star-4", Collective::AllReduce);
    let strangers = scenario.clone().losing("host-0", "host-1", &[0]);
    let nobody = scenario.losing("host-9", "switch-0", &[0]);
    for (name, drive) in DRIVERS {
        assert!(matches!(drive(&strangers), Err(RunError::NoConnection { .. })), "{name}");
        assert!(matches!(drive(&nobody), Err(RunError::NoNode { .. })), "{name}");
    }
    assert!(matches!(explore_every_run(&strangers, 1), Err(RunError::NoConnection { .. })));
    assert!(matches!(explore_every_run(&nobody, 1), Err(RunError::NoNode { .. })));
}
