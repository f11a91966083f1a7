//! One scenario, every driver, same outcome: what `lib.rs` says must be the same, is.

use quincunx_collective::{Collective, Rank};
use quincunx_conformance::{DRIVERS, Losses, Run, RunError, Scenario, run_everywhere};
use quincunx_control::Design;
use quincunx_fabric::Mode;

const DESIGNS: [&str; 4] = ["epic-1", "epic-2", "epic-3", "ring"];
const SHAPES: [&str; 2] = ["star-4", "tree-2x2"];
const REDUCE: Collective = Collective::Reduce { root: Rank(1) };
const BROADCAST: Collective = Collective::Broadcast { root: Rank(1) };
const COLLECTIVES: [Collective; 3] = [Collective::AllReduce, REDUCE, BROADCAST];

/// Every design, shape and collective.
fn all() -> impl Iterator<Item = (&'static str, &'static str, Collective)> {
    let shapes = DESIGNS.into_iter().flat_map(|design| SHAPES.map(|shape| (design, shape)));
    shapes.flat_map(|(design, shape)| COLLECTIVES.map(|collective| (design, shape, collective)))
}

/// Runs a scenario everywhere, and holds the runs against each other in the way that always holds.
fn run(scenario: &Scenario) -> [Run; DRIVERS.len()] {
    let runs = run_everywhere(scenario);
    let (first, others) = runs.split_first().expect("there are drivers");
    for (run, (name, _)) in others.iter().zip(&DRIVERS[1..]) {
        assert!(run.outputs == first.outputs, "{name} gives another result: {scenario:?}");
        let keeps_order = scenario.losses.is_empty() || scenario.design != Design::Epic(Mode::II);
        let view = if keeps_order { Run::first_transmissions } else { Run::requests };
        let (expected, found) = (view(first), view(run));
        assert!(expected.keys().eq(found.keys()), "{name} sends elsewhere: {scenario:?}");
        for (flow, frames) in &expected {
            let at = frames.iter().zip(&found[flow]).position(|(expected, found)| expected != found);
            assert!(*frames == found[flow], "{name} differs on {flow:?} from frame {at:?} on: {scenario:?}");
        }
    }
    runs
}

fn lose(from: &'static str, to: &'static str, frames: &'static [u64]) -> Losses {
    Losses { from, to, frames }
}

#[test]
fn every_driver_sends_the_same_and_gives_the_same_real_numbers() {
    for (design, shape, collective) in all() {
        run(&Scenario::stop_and_wait(design, shape, collective).windowed(2, 4));
    }
}

#[test]
fn what_they_agree_on_is_right() {
    for (design, shape, collective) in all() {
        let scenario = Scenario::stop_and_wait(design, shape, collective).windowed(2, 4).of_integers();
        for (rank, (found, expected)) in run(&scenario)[0].outputs.iter().zip(scenario.expected()).enumerate()
        {
            let rank = Rank(rank as u16);
            assert!(!scenario.has_result(rank) || *found == expected, "rank {rank} is wrong: {scenario:?}");
        }
    }
}

#[test]
fn where_results_pace_the_senders_every_frame_is_the_same() {
    for (design, shape, collective) in all() {
        if collective == Collective::AllReduce && design != "ring" || design == "epic-2" {
            let scenario = Scenario::stop_and_wait(design, shape, collective);
            let [expected, found] = run(&scenario);
            assert!(found.everything() == expected.everything(), "frames differ: {scenario:?}");
        }
    }
}

#[test]
fn on_a_ring_requests_and_answers_are_the_same_each_for_itself() {
    for collective in COLLECTIVES {
        let scenario = Scenario::stop_and_wait("ring", "star-4", collective);
        let [expected, found] = run(&scenario);
        assert!(found.apart() == expected.apart(), "frames differ: {scenario:?}");
    }
}

#[test]
fn what_a_negative_acknowledge_repairs_is_sent_again_in_the_same_way() {
    let lossy = [
        ("epic-1", Collective::AllReduce, lose("rank-0", "switch-0", &[2])),
        ("epic-1", Collective::AllReduce, lose("switch-0", "rank-1", &[3])),
        ("epic-2", Collective::AllReduce, lose("switch-0", "rank-1", &[2])),
        ("epic-3", BROADCAST, lose("switch-0", "rank-0", &[1, 5])),
        ("ring", BROADCAST, lose("rank-1", "rank-2", &[0, 4])),
        ("ring", REDUCE, lose("rank-0", "rank-1", &[2, 6])),
    ];
    for (design, collective, losses) in lossy {
        let scenario = Scenario::stop_and_wait(design, "star-4", collective).windowed(2, 1).losing(&[losses]);
        let [expected, found] = run(&scenario);
        assert_eq!(found.lost(&scenario), expected.lost(&scenario), "other frames are lost: {scenario:?}");
        assert_eq!(expected.lost(&scenario).len(), losses.frames.len(), "all are lost: {scenario:?}");
        assert!(found.apart() == expected.apart(), "frames differ: {scenario:?}");
    }
}

#[test]
fn losses_anywhere_leave_results_and_first_transmissions_as_they_are() {
    let in_a_tree = [
        lose("rank-0", "switch-1", &[0, 3, 4, 9]),
        lose("switch-1", "switch-0", &[0, 2, 7]),
        lose("switch-0", "switch-2", &[1, 4]),
        lose("switch-2", "rank-3", &[0, 5, 6]),
    ];
    let in_a_ring = [lose("rank-0", "rank-1", &[0, 3, 4]), lose("rank-2", "rank-1", &[0, 1])];
    for (design, shape, collective) in all().filter(|(_, shape, _)| *shape == "tree-2x2") {
        let losses: &[Losses] = if design == "ring" { &in_a_ring } else { &in_a_tree };
        let scenario = Scenario::stop_and_wait(design, shape, collective).windowed(2, 2);
        run(&scenario.losing(losses).with_time_outs());
    }
}

#[test]
fn the_first_frame_of_a_direction_is_the_same_frame_wherever_it_is_lost() {
    let scenario = Scenario::stop_and_wait("epic-3", "star-4", Collective::AllReduce);
    let scenario = scenario.losing(&[lose("rank-2", "switch-0", &[0])]).with_time_outs();
    let [expected, found] = run(&scenario);
    let lost = expected.lost(&scenario);
    assert_eq!(lost.len(), 1);
    assert_eq!(found.lost(&scenario), lost);
}

/// AllGathers in two domains of two that relay for each other; of numbers in messages of two packets, four of which are on their way.
fn on_a_mesh() -> impl Iterator<Item = Scenario> {
    let scenario = |design| Scenario::stop_and_wait(design, "mesh-2x2", Collective::AllGather).windowed(2, 4);
    let paired = ["multiwrite", "unicast-multipath"].into_iter().map(scenario);
    paired.flat_map(|scenario| [scenario.clone(), scenario.relayed_by_all()])
}

#[test]
fn what_is_gathered_over_relays_is_the_same_to_the_bit_and_right() {
    for scenario in on_a_mesh() {
        let [expected, found] = run_everywhere(&scenario);
        assert!(found.outputs == expected.outputs, "results differ: {scenario:?}");
        assert!(expected.outputs == scenario.expected(), "they are wrong: {scenario:?}");
        // What a relay passes on, and when, between what it sends itself is a matter of timing; what it sends in all is not.
        assert!(found.payloads() == expected.payloads(), "other messages: {scenario:?}");
    }
}

#[test]
fn what_is_lost_on_the_way_to_and_from_a_relay_is_gathered_all_the_same() {
    let losses = [lose("rank-0", "rank-2", &[0, 3]), lose("rank-2", "rank-1", &[1, 2, 5])];
    for scenario in on_a_mesh() {
        let scenario = scenario.losing(&losses).with_time_outs();
        for run in run_everywhere(&scenario) {
            assert!(run.outputs == scenario.expected(), "{scenario:?}");
        }
    }
}

#[test]
fn a_loss_between_strangers_is_refused_by_every_driver() {
    let scenario = Scenario::stop_and_wait("epic-3", "star-4", Collective::AllReduce);
    for (name, drive) in DRIVERS {
        let strangers = scenario.clone().losing(&[lose("rank-0", "rank-1", &[0])]);
        assert!(matches!(drive(&strangers), Err(RunError::NoLink { .. })), "{name}");
        let nobody = scenario.clone().losing(&[lose("rank-9", "switch-0", &[0])]);
        assert!(matches!(drive(&nobody), Err(RunError::NoNode { .. })), "{name}");
    }
}
