//! Dispatch and Combine over MultiWrite on two servers, through RoCE queue pairs in virtual time.

use quincunx_collective::{Collective, GateKind};
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_scenario::{Fabric, GateSource};
use quincunx_sim::packet_fabric::{
    Contents, ExpertsCase, LossyLinks, MeshRow, Servers, SimulationError, simulate_experts,
};
use quincunx_sim::{Outputs, unwatched};
use quincunx_units::{ByteCount, Duration, Probability};

const BOTH: [Collective; 2] = [Collective::Dispatch, Collective::Combine];

/// The preset with a few small tokens, each of two packets.
fn servers() -> Servers {
    let Ok(Fabric::Servers(fabric)) = Fabric::find("two-servers", &[]) else { panic!("servers") };
    let mut servers = Servers { tokens: 6, token: ByteCount::new(400), ..Servers::from(&fabric) };
    servers.accelerators.mtu = ByteCount::new(256);
    servers
}

fn case(relays: bool, collective: Collective) -> ExpertsCase {
    ExpertsCase { relays, collective, contents: Contents::Numbers, seed: 1 }
}

fn run(servers: &Servers, case: &ExpertsCase) -> Result<MeshRow, SimulationError> {
    simulate_experts(servers, case, Outputs::default(), &mut unwatched)
}

/// Bytes on all links to the network.
fn crossed(row: &MeshRow) -> u64 {
    let up = row.links.iter().filter(|link| link.to == "network");
    up.map(|link| link.statistics.bytes.bytes()).sum()
}

#[test]
fn every_token_goes_where_its_experts_are_and_comes_back_whatever_the_gate() {
    for (relays, collective) in [false, true].into_iter().flat_map(|relays| BOTH.map(|both| (relays, both))) {
        for kind in [GateKind::Uniform, GateKind::Skewed, GateKind::Balanced] {
            for top_k in [1, 8, 64] {
                let servers = Servers { top_k, gate: GateSource::Drawn(kind), ..servers() };
                let row = run(&servers, &case(relays, collective)).unwrap();
                assert_eq!(row.wrong, Some(0), "{collective}, {kind}, top {top_k}, relays: {relays}");
            }
        }
    }
}

#[test]
fn every_token_goes_where_its_experts_are_and_comes_back_whatever_is_lost() {
    let loss = Probability::new(0.03).unwrap();
    for (relays, collective) in [false, true].into_iter().flat_map(|relays| BOTH.map(|both| (relays, both))) {
        for selective in [false, true] {
            let mut servers = servers();
            servers.accelerators.lossy = Some(LossyLinks { links: 16, loss });
            servers.accelerators.selective = selective;
            servers.accelerators.retry.timeout = Duration::from_micros(50);
            for seed in 0..5 {
                let row = run(&servers, &ExpertsCase { seed, ..case(relays, collective) }).unwrap();
                let what = format!("{collective}, relays: {relays}, selective: {selective}, seed {seed}");
                assert_eq!(row.wrong, Some(0), "{what}");
            }
        }
    }
}

#[test]
fn a_token_crosses_once_with_relays_and_else_once_for_each_rank() {
    // Every token goes to all ranks: eight of the other server.
    let servers = Servers { top_k: 64, tokens: 40, ..servers() };
    let [direct, relayed] =
        [false, true].map(|relays| crossed(&run(&servers, &case(relays, Collective::Dispatch)).unwrap()));
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
    let set = |key: &str, value: &str| format!("{key}={value}").parse().unwrap();
    let changes = [set("top_k", "2"), set("gate", path.to_str().unwrap()), set("token", "400B")];
    let found = Fabric::find("two-servers", &changes);
    std::fs::remove_file(&path).unwrap();
    let Ok(Fabric::Servers(fabric)) = found else { panic!("{found:?}") };
    let servers = Servers::from(&fabric);
    assert_eq!(servers.tokens, 2);
    for collective in BOTH {
        let row = run(&servers, &case(false, collective)).unwrap();
        assert_eq!(row.wrong, Some(0), "{collective}");
        assert_eq!(row.size, ByteCount::new(800));
    }
}

/// What one port of a host sends must not decide whose turn it is at another: all ranks would send to the same ones first.
#[test]
fn every_rank_sends_over_the_network_to_another_one_first() {
    let Ok(Fabric::Servers(fabric)) = Fabric::find("two-servers", &[]) else { panic!("servers") };
    let servers = Servers { tokens: 64, ..Servers::from(&fabric) };
    for collective in BOTH {
        let case = ExpertsCase { contents: Contents::LengthOnly, ..case(false, collective) };
        let row = run(&servers, &case).unwrap();
        let busiest = row.links.iter().map(|link| link.utilisation).fold(0.0, f64::max);
        assert!(busiest > 0.8, "{collective}: the busiest link has work for {busiest:.2} of the time");
    }
}

#[test]
fn a_combine_crosses_as_often_and_takes_as_long_whether_tokens_were_relayed_or_not() {
    let [direct, relayed] =
        [false, true].map(|relays| run(&servers(), &case(relays, Collective::Combine)).unwrap());
    assert_eq!(crossed(&direct), crossed(&relayed));
    assert_eq!(direct.time, relayed.time);
}

#[test]
fn a_seed_replays_a_run() {
    for collective in BOTH {
        let run = |seed| run(&servers(), &ExpertsCase { seed, ..case(true, collective) }).unwrap();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1).time, run(2).time);
    }
}

#[test]
fn more_ranks_than_an_immediate_names_take_tokens_with_contents() {
    let mut servers = Servers { tokens: 2, ..servers() };
    (servers.accelerators.members, servers.experts) = (20, 40);
    for collective in BOTH {
        assert_eq!(run(&servers, &case(true, collective)).unwrap().wrong, Some(0), "{collective}");
    }
    let lengths = ExpertsCase { contents: Contents::LengthOnly, ..case(true, Collective::Dispatch) };
    let refused = run(&servers, &lengths).unwrap_err().to_string();
    assert!(
        refused.starts_with("expected at most 32 ranks where memory has no contents, found 40"),
        "{refused}"
    );
}

#[test]
fn a_relay_that_cannot_be_reached_fails_the_dispatch_in_time() {
    let mut servers = servers();
    servers.accelerators.lossy = Some(LossyLinks { links: 1, loss: Probability::new(1.0).unwrap() });
    let failed = run(&servers, &case(true, Collective::Dispatch)).unwrap_err();
    let SimulationError::Failed { outcome, .. } = &failed else { panic!("{failed}") };
    assert!(matches!(outcome, Outcome::Failed { failure: Failure::RetryExceeded, .. }), "{failed}");
    assert!(!failed.to_string().contains('\n'));
}

#[test]
fn what_servers_do_not_offer_is_refused() {
    let refused = run(&servers(), &case(true, Collective::AllReduce)).unwrap_err().to_string();
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}
