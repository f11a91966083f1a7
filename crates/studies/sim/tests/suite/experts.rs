//! Dispatch and Combine over MultiWrite on two servers, through RoCE queue pairs in virtual time.

use quincunx_collective::{Collective, GateKind};
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_scenario::Scenario;
use quincunx_sim::Request;
use quincunx_sim::packet_fabric::{Row, SimulationError, simulate};
use quincunx_units::ByteCount;

use crate::requests::{lengths, request, scenario};

const DESIGNS: [&str; 2] = ["direct", "multiwrite"];
const CASES: [(&str, Collective); 4] = [
    ("direct", Collective::Dispatch),
    ("direct", Collective::Combine),
    ("multiwrite", Collective::Dispatch),
    ("multiwrite", Collective::Combine),
];

/// The preset with a few small tokens, each of two packets.
fn servers(changes: &[&str]) -> Scenario {
    scenario("two-servers", &[&["tokens=6", "token=400B", "group.mtu=256B"], changes].concat())
}

fn run(servers: &Scenario, design: &str, collective: Collective) -> Row {
    simulate(&request(servers, design, collective, 0)).unwrap()
}

/// Bytes on all links to the network.
fn crossed(row: &Row) -> u64 {
    let up = row.links.iter().filter(|link| link.to == "network");
    up.map(|link| link.statistics.bytes.bytes()).sum()
}

#[test]
fn every_token_goes_where_its_experts_are_and_comes_back_whatever_the_gate() {
    for kind in [GateKind::Uniform, GateKind::Skewed, GateKind::Balanced] {
        for top_k in [1, 8, 64] {
            let servers = servers(&[&format!("top_k={top_k}"), &format!("gate={kind}")]);
            for (design, collective) in CASES {
                let row = run(&servers, design, collective);
                assert_eq!(row.wrong, Some(0), "{design}, {collective}, {kind}, top {top_k}");
            }
        }
    }
}

#[test]
fn every_token_goes_where_its_experts_are_and_comes_back_whatever_is_lost() {
    for selective in ["group.selective=false", "group.selective=true"] {
        let lossy = ["loss.links=16", "loss.probability=3%", "group.retry_timeout=50us", selective];
        let servers = servers(&lossy);
        for (design, collective) in CASES {
            for seed in 0..5 {
                let row = simulate(&Request { seed, ..request(&servers, design, collective, 0) }).unwrap();
                assert_eq!(row.wrong, Some(0), "{design}, {collective}, {selective}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_token_crosses_once_with_relays_and_else_once_for_each_rank() {
    // Every token goes to all ranks: eight of the other server.
    let servers = servers(&["top_k=64", "tokens=40"]);
    let [direct, relayed] = DESIGNS.map(|design| crossed(&run(&servers, design, Collective::Dispatch)));
    let share = direct as f64 / relayed as f64;
    assert!((6.0..8.0).contains(&share), "{direct} and {relayed} bytes: acknowledges cross, too");
}

#[test]
fn tokens_go_where_a_file_sends_them_as_many_as_each_accelerator_has() {
    let path = std::env::temp_dir().join(format!("quincunx-gate-{}.jsonl", std::process::id()));
    let line = |rank: u16, experts: [u16; 2]| {
        format!("{{\"rank\": {rank}, \"experts\": {experts:?}, \"weights\": [0.75, 0.25]}}\n")
    };
    // Accelerators 2 and 9 have tokens: one for accelerators of both servers, the others for one each.
    std::fs::write(&path, [line(2, [0, 63]), line(9, [4, 5]), line(9, [40, 41])].concat()).unwrap();
    let gate = format!("gate={}", path.to_str().unwrap());
    let servers = scenario("two-servers", &["top_k=2", &gate, "token=400B"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(servers.workload.as_ref().unwrap().most_tokens(), 2);
    for collective in [Collective::Dispatch, Collective::Combine] {
        let row = run(&servers, "direct", collective);
        assert_eq!(row.wrong, Some(0), "{collective}");
        assert_eq!(row.size, ByteCount::new(800));
    }
}

/// What one port of a host sends must not decide whose turn it is at another: all ranks would send to the same ones first.
#[test]
fn every_rank_sends_over_the_network_to_another_one_first() {
    let servers = scenario("two-servers", &["tokens=64", "token=14KiB", "network.latency=1us"]);
    for collective in [Collective::Dispatch, Collective::Combine] {
        let row = simulate(&lengths(request(&servers, "direct", collective, 0))).unwrap();
        let busiest = row.links.iter().map(|link| link.utilisation).fold(0.0, f64::max);
        assert!(busiest > 0.8, "{collective}: the busiest link has work for {busiest:.2} of the time");
    }
}

#[test]
fn a_combine_crosses_as_often_and_takes_as_long_whether_tokens_were_relayed_or_not() {
    let [direct, relayed] = DESIGNS.map(|design| run(&servers(&[]), design, Collective::Combine));
    assert_eq!(crossed(&direct), crossed(&relayed));
    assert_eq!(direct.time, relayed.time);
}

#[test]
fn a_seed_replays_a_run() {
    for collective in [Collective::Dispatch, Collective::Combine] {
        let dispatch = request(&servers(&[]), "multiwrite", collective, 0);
        let run = |seed| simulate(&Request { seed, ..dispatch.clone() }).unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1).time, run(2).time);
    }
}

#[test]
fn more_ranks_than_an_immediate_names_take_tokens_with_contents() {
    let servers = servers(&["tokens=2", "members=20", "experts=40"]);
    for collective in [Collective::Dispatch, Collective::Combine] {
        assert_eq!(run(&servers, "multiwrite", collective).wrong, Some(0), "{collective}");
    }
    let lengths = lengths(request(&servers, "multiwrite", Collective::Dispatch, 0));
    let refused = simulate(&lengths).unwrap_err().to_string();
    assert!(
        refused.starts_with("expected at most 32 ranks where memory has no contents, found 40"),
        "{refused}"
    );
}

#[test]
fn a_relay_that_cannot_be_reached_fails_the_dispatch_in_time() {
    let servers = servers(&["loss.links=1", "loss.probability=100%"]);
    let failed = simulate(&request(&servers, "multiwrite", Collective::Dispatch, 0)).unwrap_err();
    let SimulationError::Failed { outcome, .. } = &failed else { panic!("{failed}") };
    assert!(matches!(outcome, Outcome::Failed { failure: Failure::RetryExceeded, .. }), "{failed}");
    assert!(!failed.to_string().contains('\n'));
}

#[test]
fn what_servers_do_not_offer_is_refused() {
    let all_reduce = request(&servers(&[]), "multiwrite", Collective::AllReduce, 0);
    let refused = simulate(&all_reduce).unwrap_err().to_string();
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}
