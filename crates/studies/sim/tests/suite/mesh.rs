//! AllGather over MultiWrite on a full mesh, through RoCE queue pairs in virtual time.

use quincunx_collective::Collective;
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_scenario::Scenario;
use quincunx_sim::Request;
use quincunx_sim::packet_fabric::{Row, SimulationError, simulate};

use crate::requests::{lengths, request, scenario};

const DESIGNS: [&str; 3] = ["direct", "unicast-multipath", "multiwrite"];
const WHO: [&str; 2] = ["relay.relays=paired", "relay.relays=full"];

/// The preset; relays take no time.
fn mesh(changes: &[&str]) -> Scenario {
    let free = ["relay.preparation=0ns", "relay.message=0ns", "relay.copy=0ns"];
    scenario("mesh8", &[&free, changes].concat())
}

fn gather(mesh: &Scenario, design: &str, size: u64) -> Request {
    request(mesh, design, Collective::AllGather, size)
}

fn run(mesh: &Scenario, design: &str, size: u64) -> Row {
    simulate(&gather(mesh, design, size)).unwrap()
}

#[test]
fn every_rank_has_its_whole_group_whoever_relays() {
    for (design, who) in DESIGNS.into_iter().flat_map(|design| WHO.map(|who| (design, who))) {
        let mesh = mesh(&[who]);
        for size in [0, 16, 4 << 10, 1_000_000] {
            assert_eq!(run(&mesh, design, size).wrong, Some(0), "{design}, {size} bytes, {who}");
        }
    }
}

#[test]
fn every_rank_has_its_whole_group_whatever_is_lost() {
    for design in DESIGNS {
        for (who, selective) in WHO.into_iter().zip(["group.selective=false", "group.selective=true"]) {
            let lossy = ["loss.links=8", "loss.probability=2%", "relay.piece=10000B", who, selective];
            let mesh = mesh(&lossy);
            for seed in 0..3 {
                let row = simulate(&Request { seed, ..gather(&mesh, design, 400_000) }).unwrap();
                assert_eq!(row.wrong, Some(0), "{design}, {who}, seed {seed}");
            }
        }
    }
}

#[test]
fn large_messages_take_what_section_3_1_says() {
    let size = 128 << 20;
    // A rank's part over a link of 56 GB/s, in microseconds.
    let alone = (size / 4) as f64 / 56e3;
    for (who, shares) in WHO.into_iter().zip([[1.0, 0.75, 0.5], [1.0, 0.6, 0.5]]) {
        for (design, share) in DESIGNS.into_iter().zip(shares) {
            let time = simulate(&lengths(gather(&mesh(&[who]), design, size))).unwrap().time.as_micros_f64();
            let error = time / (share * alone) - 1.0;
            assert!((0.0..0.03).contains(&error), "{design}, {who}: {time} us, {error:.3} off");
        }
    }
}

#[test]
fn a_seed_replays_a_run() {
    let mesh = mesh(&["loss.links=3", "loss.probability=5%"]);
    let run = |seed| simulate(&Request { seed, ..gather(&mesh, "multiwrite", 400_000) }).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).frames, run(2).frames);
}

#[test]
fn a_relay_that_cannot_be_reached_fails_the_collective_in_time() {
    let mesh = mesh(&["loss.links=1", "loss.probability=100%"]);
    let failed = simulate(&gather(&mesh, "multiwrite", 400_000)).unwrap_err();
    let SimulationError::Failed { outcome, .. } = &failed else { panic!("{failed}") };
    assert!(matches!(outcome, Outcome::Failed { failure: Failure::RetryExceeded, .. }), "{failed}");
    assert!(!failed.to_string().contains('\n'));
}

#[test]
fn what_multiwrite_does_not_offer_is_refused() {
    let all_reduce = request(&mesh(&[]), "multiwrite", Collective::AllReduce, 1024);
    let refused = simulate(&all_reduce).unwrap_err().to_string();
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}

#[test]
fn more_ranks_than_an_immediate_names_need_memory_with_contents() {
    let lengths = lengths(gather(&mesh(&["groups=9"]), "multiwrite", 4096));
    let refused = simulate(&lengths).unwrap_err().to_string();
    assert!(
        refused.starts_with("expected at most 32 ranks where memory has no contents, found 36"),
        "{refused}"
    );
}
