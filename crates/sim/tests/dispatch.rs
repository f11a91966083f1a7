//! Dispatch over MultiWrite on two servers, through RoCE queue pairs in virtual time.

use quincunx_collective::Collective;
use quincunx_engine::verbs::{Failure, Outcome};
use quincunx_scenario::{Fabric, GateKind};
use quincunx_sim::packet_fabric::{
    Contents, DispatchCase, LossyLinks, MeshRow, Servers, SimulationError, simulate_dispatch,
};
use quincunx_sim::{Gate, Outputs, unwatched};
use quincunx_units::{ByteCount, Duration, Probability};

/// The preset with a few small tokens, each of two packets.
fn servers() -> Servers {
    let Ok(Fabric::Servers(fabric)) = Fabric::find("two-servers", &[]) else { panic!("servers") };
    let mut servers = Servers { tokens: 6, ..Servers::from(&fabric) };
    servers.mesh.piece = ByteCount::new(400);
    servers.mesh.mtu = ByteCount::new(256);
    servers
}

fn case(relays: bool) -> DispatchCase {
    DispatchCase { relays, collective: Collective::Dispatch, contents: Contents::Numbers, seed: 1 }
}

fn run(servers: &Servers, case: &DispatchCase) -> Result<MeshRow, SimulationError> {
    simulate_dispatch(servers, case, Outputs::default(), &mut unwatched)
}

/// Bytes on all links to the network.
fn crossed(row: &MeshRow) -> u64 {
    let up = row.links.iter().filter(|link| link.to == "network");
    up.map(|link| link.statistics.bytes.bytes()).sum()
}

#[test]
fn every_token_lies_where_its_experts_are_whatever_the_gate() {
    for relays in [false, true] {
        for kind in [GateKind::Uniform, GateKind::Skewed, GateKind::Balanced] {
            for top_k in [1, 8, 64] {
                let gate = Gate { top_k, kind, ..servers().gate };
                let row = run(&Servers { gate, ..servers() }, &case(relays)).unwrap();
                assert_eq!(row.wrong, Some(0), "{kind:?}, top {top_k}, relays: {relays}");
            }
        }
    }
}

#[test]
fn every_token_lies_where_its_experts_are_whatever_is_lost() {
    let loss = Probability::new(0.03).unwrap();
    for relays in [false, true] {
        for selective in [false, true] {
            let mut servers = servers();
            servers.mesh.lossy = Some(LossyLinks { links: 16, loss });
            servers.mesh.selective = selective;
            servers.mesh.retry.timeout = Duration::from_micros(50);
            for seed in 0..5 {
                let row = run(&servers, &DispatchCase { seed, ..case(relays) }).unwrap();
                assert_eq!(row.wrong, Some(0), "relays: {relays}, selective: {selective}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_token_crosses_once_with_relays_and_else_once_for_each_rank() {
    // Every token goes to all ranks: eight of the other server.
    let gate = Gate { top_k: 64, ..servers().gate };
    let servers = Servers { gate, tokens: 40, ..servers() };
    let [direct, relayed] = [false, true].map(|relays| crossed(&run(&servers, &case(relays)).unwrap()));
    let share = direct as f64 / relayed as f64;
    assert!((6.0..8.0).contains(&share), "{direct} and {relayed} bytes: acknowledges cross, too");
}

#[test]
fn a_seed_replays_a_run() {
    let run = |seed| run(&servers(), &DispatchCase { seed, ..case(true) }).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).time, run(2).time);
}

#[test]
fn a_relay_that_cannot_be_reached_fails_the_dispatch_in_time() {
    let mut servers = servers();
    servers.mesh.lossy = Some(LossyLinks { links: 1, loss: Probability::new(1.0).unwrap() });
    let failed = run(&servers, &case(true)).unwrap_err();
    let SimulationError::Failed { outcome, .. } = &failed else { panic!("{failed}") };
    assert!(matches!(outcome, Outcome::Failed { failure: Failure::RetryExceeded, .. }), "{failed}");
    assert!(!failed.to_string().contains('\n'));
}

#[test]
fn what_servers_do_not_offer_is_refused() {
    let all_reduce = DispatchCase { collective: Collective::AllReduce, ..case(true) };
    let refused = run(&servers(), &all_reduce).unwrap_err().to_string();
    assert!(refused.contains("all_reduce") && !refused.contains('\n'), "{refused}");
}
